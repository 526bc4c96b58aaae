"""Seed 003: the four message tools bound to a person (§3), and the recall agent clause by clause, without a model."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count, groupby
from math import ceil
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from mnemon import Memory
from mnemon.contracts.errors import BadCursor, BadQuery, InvalidArgument, NotFound
from mnemon.contracts.recall import Evidence, Item, RecallResult, Round, ToolName
from mnemon.engine.sync import BoundMemory
from mnemon.testing.clock import FixedClock

SAID = [
    ("2026-01-01T08:00:00Z", "user", "我不吃辣，也不吃海鲜。"),
    ("2026-01-01T08:00:10Z", "assistant", "好的，记住了：不吃辣。"),
    ("2026-01-10T09:00:00Z", "user", "I moved to Hangzhou for the new job."),
    ("2026-01-10T09:01:00Z", "assistant", "Congratulations on the new job!"),
    ("2026-02-01T10:00:00Z", "user", "Summaries as bullet points, please."),
]


@pytest.fixture
def lin(memory: Memory) -> BoundMemory:
    turns = [{"role": r, "text": text, "timestamp_iso": when} for when, r, text in SAID]
    memory.session_write("acme", "lin", "s1", turns=turns, extract=False)
    memory.session_write("acme", "wang", "s1", turns=[{"role": "user", "text": "我不吃辣 secret"}], extract=False)
    return memory.bind("acme", "lin")


@pytest.mark.parametrize("tool", ["messages_list", "lexical_search", "semantic_search", "neighbors", "attachment"])
def test_no_tool_takes_a_user(tool: str) -> None:
    names = set(inspect.signature(getattr(BoundMemory, tool)).parameters)
    assert not names & {"user_id", "user", "tenant_id", "tenant", "scope", "principals"}


def test_messages_list_newest_first(lin: BoundMemory) -> None:
    assert [m.content for m in lin.messages_list().items] == [text for _, _, text in reversed(SAID)]


def test_messages_list_since_counts_until_does_not(lin: BoundMemory) -> None:
    page = lin.messages_list(since="2026-01-01T08:00:10Z", until="2026-01-10T09:01:00Z")
    assert [m.content for m in page.items] == [SAID[2][2], SAID[1][2]]
    same = lin.messages_list(since="2026-01-01T16:00:10+08:00", until="2026-01-10T09:01:00")
    assert same == page


def test_messages_list_by_role_and_by_pages(lin: BoundMemory) -> None:
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(3):
        page = lin.messages_list(role="user", page_size=1, cursor=cursor)
        seen += [m.content for m in page.items]
        cursor = page.next_cursor
    assert seen == [SAID[4][2], SAID[2][2], SAID[0][2]]
    assert cursor is None


def test_a_message_tells_its_place(lin: BoundMemory) -> None:
    message = lin.lexical_search("Hangzhou").items[0].message
    assert (message.role, message.session_id, message.ts) == ("user", "s1", "2026-01-10T09:00:00.000Z")
    assert (message.meta["turn_id"], message.meta["seq"]) == ("t0003", 3)
    assert message.meta["uri"] == "ctx://acme/users/lin/sessions/s1"


@pytest.mark.parametrize(
    ("query", "turns"),
    [
        ("辣", {1, 2}),
        ("海鲜", {1}),
        ('"不吃辣"', {1, 2}),
        ('"不吃辣" AND 海鲜', {1}),
        ("不吃辣 -好的", {1}),
        ("job", {3, 4}),
        ("jobs", {3, 4}),
        ("job AND moving", {3}),
        ('"new job" -congratulations', {3}),
        ("Hangzhou OR bullet", {3, 5}),
        ("(海鲜 OR Hangzhou) AND 不吃辣", {1}),
        ("上海", set()),
    ],
)
def test_lexical_search_finds_words(lin: BoundMemory, query: str, turns: set[int]) -> None:
    hits = lin.lexical_search(query).items
    assert {h.message.meta["seq"] for h in hits} == turns
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_lexical_search_highlights_are_exact(lin: BoundMemory) -> None:
    hit = lin.lexical_search("海鲜 OR 辣").items[0]
    assert [hit.message.content[a:b] for a, b in hit.highlights] == ["辣", "海鲜"]
    hit = lin.lexical_search("congratulate").items[0]
    assert [hit.message.content[a:b] for a, b in hit.highlights] == ["Congratulations"]


def test_lexical_search_filters_and_pages(lin: BoundMemory) -> None:
    where: dict[str, Any] = {"role": "user", "time_range": {"since": "2026-01-02T00:00:00Z"}}
    assert {h.message.meta["seq"] for h in lin.lexical_search("job 不吃辣 please", where).items} == {3, 5}
    first = lin.lexical_search("辣 job", page_size=3)
    rest = lin.lexical_search("辣 job", page_size=3, cursor=first.next_cursor)
    ids = [h.message.message_id for h in (*first.items, *rest.items)]
    assert len(ids) == len(set(ids)) == 4
    assert rest.next_cursor is None
    assert lin.lexical_search("辣", {"session_id": "other"}).items == ()


def test_semantic_search_by_text_and_by_vector(lin: BoundMemory, memory: Memory) -> None:
    hits = lin.semantic_search("the new job in Hangzhou", top_k=2)
    assert hits[0].message.meta["seq"] in (3, 4)
    vector = [1.0] + [0.0] * (memory.parts.embedder.dimension - 1)
    assert len(lin.semantic_search(query_embedding=vector)) == 5
    assert lin.semantic_search("Hangzhou", min_score=2.0) == ()
    assert {h.message.role for h in lin.semantic_search("job", filter={"role": "assistant"})} == {"assistant"}


def test_neighbors_in_the_order_they_were_said(lin: BoundMemory) -> None:
    anchor = lin.lexical_search("Hangzhou").items[0].message
    assert [m.meta["seq"] for m in lin.neighbors(anchor.message_id)] == [1, 2, 3]
    assert [m.meta["seq"] for m in lin.neighbors(anchor.message_id, before=1, after=1)] == [2, 3, 4]
    assert [m.meta["seq"] for m in lin.neighbors(anchor.message_id, before=0, after=9)] == [3, 4, 5]


def test_another_persons_message_is_not_there(lin: BoundMemory, memory: Memory) -> None:
    theirs = memory.bind("acme", "wang").messages_list().items[0]
    with pytest.raises(NotFound):
        lin.neighbors(theirs.message_id)
    with pytest.raises(NotFound):
        lin.attachment(theirs.message_id, "0" * 64)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda b: b.messages_list(page_size=0), "page_size"),
        (lambda b: b.messages_list(page_size=201), "page_size"),
        (lambda b: b.messages_list(role="boss"), "role"),
        (lambda b: b.messages_list(since="last week"), "since"),
        (lambda b: b.lexical_search("x", {"rolle": "user"}), "filter.rolle"),
        (lambda b: b.lexical_search("x", {"time_range": {"from": "x"}}), "filter.time_range.from"),
        (lambda b: b.semantic_search(), "query_text"),
        (lambda b: b.semantic_search("x", query_embedding=[1.0]), "query_text"),
        (lambda b: b.semantic_search(query_embedding=[1.0]), "query_embedding"),
        (lambda b: b.semantic_search("x", top_k=0), "top_k"),
        (lambda b: b.neighbors("x", before=-1), "before"),
        (lambda b: b.neighbors(""), "message_id"),
    ],
)
def test_bad_arguments_name_the_field(lin: BoundMemory, call: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call(lin)
    assert caught.value.field == field


def test_bad_queries_and_cursors(lin: BoundMemory) -> None:
    for query in ('"open', "(open", "-only", "AND", "…"):
        with pytest.raises(BadQuery):
            lin.lexical_search(query)
    page = lin.lexical_search("辣 job", page_size=1)
    with pytest.raises(BadCursor):
        lin.lexical_search("other", page_size=1, cursor=page.next_cursor)
    for cursor in ("x", "", "e30=", page.next_cursor):
        with pytest.raises(BadCursor):
            lin.messages_list(cursor=cursor)
    for parts in ([[], "id", "辣 job"], [1.0, None, "辣 job"], [float("nan"), "\ud800", "辣 job"], {"a": 1}, 5):
        foreign = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()
        with pytest.raises(BadCursor):
            lin.lexical_search("辣 job", cursor=foreign)


# --- the recall agent

# Days ago, who, what: somebody's history is told in lines like these.
Line = tuple[float, str, str]
Tell = Callable[..., None]
Ask = Callable[..., RecallResult]

SMALL_TALK: list[Line] = [
    line
    for day in reversed(range(1, 300, 3))
    for line in (
        (day + 0.5, "user", f"{day} 英里等于多少公里？ How many kilometres are {day} miles?"),
        (day + 0.499, "assistant", f"大约 {day * 1.6:.1f} 公里"),
    )
]
SPICY: Line = (12, "user", "我不吃辣，一点辣都受不了")
DIET = "你记得我有什么饮食偏好吗？"
SAID_SPICY = "我是不是说过我不吃辣？"


@pytest.fixture
def told(memory: Memory, clock: FixedClock) -> Tell:
    """Writes a history: small talk in one long session, what matters in a session a day, in the order it was said."""
    numbers = count()

    def write(user: str, lines: Sequence[Line]) -> None:
        turns = [
            {"role": role, "text": text, "timestamp_iso": (clock.now() - timedelta(days=ago)).isoformat()}
            for ago, role, text in lines
        ]
        memory.session_write("acme", user, f"s{next(numbers)}", turns=turns, extract=False, stages="off")

    def tell(*lines: Line, user: str = "lin", noise: bool = True) -> None:
        if noise:
            write(user, SMALL_TALK)
        for _, day in groupby(sorted(lines, key=lambda line: -line[0]), key=lambda line: ceil(line[0])):
            write(user, list(day))

    return tell


@pytest.fixture
def ask(memory: Memory) -> Ask:
    def recall(question: str, user: str = "lin", **options: Any) -> RecallResult:
        return memory.recall(question, "acme", user, **options)

    return recall


def tools(result: RecallResult) -> list[ToolName]:
    return [round_.tool for round_ in result.trace]


def span(round_: Round) -> dict[str, Any]:
    """Where in time a round looked."""
    where = (round_.arguments.get("filter") or {}).get("time_range") or round_.arguments
    return {name: where[name] for name in ("since", "until") if where.get(name)}


def days_back(round_: Round, clock: FixedClock) -> float:
    since = span(round_).get("since")
    return (clock.now() - datetime.fromisoformat(since)) / timedelta(days=1) if since else float("inf")


def role(round_: Round) -> str | None:
    given = (round_.arguments.get("filter") or {}).get("role") or round_.arguments.get("role")
    return str(given) if given else None


def searches(result: RecallResult) -> Iterator[Round]:
    return (round_ for round_ in result.trace if round_.tool != "neighbors")


def quoted(result: RecallResult, ids: tuple[str, ...]) -> list[str]:
    """What the messages say that a point cites."""
    texts = {evidence.message_id: evidence.content for evidence in result.evidence}
    return [texts[id_] for id_ in ids]


def only(result: RecallResult) -> Item:
    (item,) = result.memory_view.items()
    return item


# --- §1, §2


def test_1_every_point_carries_words_somebody_said(told: Tell, ask: Ask, memory: Memory) -> None:
    told(SPICY, (40, "user", "我对花生过敏"))
    result = ask(DIET)
    said = {m.message_id: m for m in memory.bind("acme", "lin").messages_list(page_size=200).items}
    assert result.memory_view.items()
    for evidence in result.evidence:
        assert said[evidence.message_id].content[evidence.start : evidence.end] == evidence.content
        assert said[evidence.message_id].ts == evidence.ts
    shown = {evidence.message_id for evidence in result.evidence}
    assert all({*item.evidence, *item.against} <= shown for item in result.memory_view.items())


def test_1_each_round_is_reflected_on_and_leads_to_the_next(told: Tell, ask: Ask) -> None:
    told(SPICY)
    trace = ask(DIET).trace
    assert [round_.number for round_ in trace] == list(range(1, len(trace) + 1))
    assert all(round_.why and round_.reflection and round_.decision for round_ in trace)


def test_1_it_looks_at_the_users_own_words_and_at_a_stretch_of_time_first(
    told: Tell, ask: Ask, clock: FixedClock
) -> None:
    told(SPICY)
    first = ask(DIET).trace[0]
    assert (role(first), days_back(first, clock)) == ("user", 30)


def test_2_1_the_context_sets_the_time_range(told: Tell, ask: Ask, clock: FixedClock) -> None:
    told(SPICY, (100, "user", "我对花生过敏"))
    since, until = ((clock.now() - timedelta(days=days)).isoformat() for days in (110, 90))
    result = ask(DIET, context={"time_range": {"since": since, "until": until}})
    assert quoted(result, only(result).evidence) == ["我对花生过敏"]
    assert [datetime.fromisoformat(m) for m in (result.limits.time_range.since, result.limits.time_range.until)] == [
        datetime.fromisoformat(m) for m in (since, until)
    ]


def test_2_1_the_context_sets_whose_words_count(told: Tell, ask: Ask) -> None:
    told(SPICY)
    assert ask(DIET).limits.role == "user"
    assert {role(round_) for round_ in searches(ask(DIET, context={"role_pref": "assistant"}))} == {"assistant"}
    assert role(ask(DIET, context={"role_pref": "any"}).trace[0]) is None


def test_2_1_nobodys_id_is_in_the_agents_hands(told: Tell, ask: Ask) -> None:
    told(SPICY, user="lin")
    told((11, "user", "我不吃辣，这是别人的秘密"), user="wang")
    result = ask(DIET)
    assert "秘密" not in result.model_dump_json()
    named = {name for round_ in result.trace for name in (*round_.arguments, *round_.arguments.get("filter", {}))}
    assert not named & {"user_id", "user", "tenant_id", "tenant", "scope", "principals"}


def test_2_2_the_output_has_the_seeds_form(told: Tell, ask: Ask) -> None:
    told(SPICY)
    output = ask(DIET).model_dump(mode="json")
    assert {"memory_view", "evidence", "limits"} <= set(output)
    assert set(output["memory_view"]) == {"preferences", "profile", "constraints"}
    assert {"time_range", "role", "messages_considered"} <= set(output["limits"])
    assert set(output["limits"]["time_range"]) == {"since", "until"}
    assert {"role", "content"} <= set(output["evidence"][0])


def test_2_2_a_long_message_is_cut_where_it_can_still_be_checked(told: Tell, ask: Ask) -> None:
    told((3, "user", "今天开了一整天的会。" * 60 + "对了，我不吃辣。" + "然后又改了一晚上的文档。" * 60))
    (evidence,) = ask(SAID_SPICY).evidence
    assert "不吃辣" in evidence.content
    assert len(evidence.content) <= 280
    assert evidence.end - evidence.start == len(evidence.content)


def test_2_2_the_limits_say_what_was_covered(told: Tell, ask: Ask) -> None:
    told(SPICY)
    result = ask(SAID_SPICY)
    limits = result.limits
    assert all(limits.time_range.since <= evidence.ts for evidence in result.evidence)
    assert limits.role == "user"
    assert limits.messages_considered > 0
    assert 0 < limits.rounds <= limits.calls <= 8
    assert set(limits.routes) <= set(get_args(ToolName))


def test_2_2_no_point_without_evidence_can_be_made() -> None:
    with pytest.raises(ValidationError):
        Item(statement="不吃辣", status="settled", confidence=1.0, evidence=())
    with pytest.raises(ValidationError):
        Evidence(message_id="m", session_id="s", ts="", role="user", content="", start=0, end=1)


def test_3_there_are_four_tools() -> None:
    assert get_args(ToolName) == ("messages_list", "lexical_search", "semantic_search", "neighbors")


# --- §4.1


@pytest.mark.parametrize(
    ("question", "shelf"),
    [
        (DIET, "preferences"),
        ("What languages and formats do I prefer?", "preferences"),
        ("我在哪个城市生活？", "profile"),
        ("What are my long-term goals?", "profile"),
        ("有什么是你绝对不能替我做的？", "constraints"),
        ("What must you always do before you send something?", "constraints"),
    ],
)
def test_4_1_a_question_becomes_one_to_three_hypotheses_with_proof(
    told: Tell, ask: Ask, question: str, shelf: str
) -> None:
    told()
    hypotheses = ask(question).trace[0].hypotheses
    assert 1 <= len(hypotheses) <= 3
    assert hypotheses[0].shelf == shelf
    assert all(hypothesis.statement and hypothesis.proof for hypothesis in hypotheses)


def test_4_1_row_1_what_i_like_to_eat_by_meaning_then_by_words(told: Tell, ask: Ask) -> None:
    told(SPICY, (20, "user", "我对芒果过敏，吃了嘴会肿"))
    result = ask(DIET)
    assert tools(result)[0] == "semantic_search"
    assert {text for item in result.memory_view.items() for text in quoted(result, item.evidence)} == {
        SPICY[2],
        "我对芒果过敏，吃了嘴会肿",
    }


def test_4_1_row_2_did_i_say_so_by_words_then_what_stands_around(told: Tell, ask: Ask) -> None:
    told((12, "user", "晚上聚餐吃什么？"), (11.999, "assistant", "川菜？"), (11.998, "user", "不要，我不吃辣"))
    result = ask(SAID_SPICY)
    assert tools(result)[0] == "lexical_search"
    assert "neighbors" in tools(result)
    assert "不吃辣" in result.trace[0].arguments["query_text"]
    assert quoted(result, only(result).evidence) == ["不要，我不吃辣"]
    assert result.evidence[0].neighbors


def test_4_1_row_3_my_format_by_meaning_then_further_back(told: Tell, ask: Ask, clock: FixedClock) -> None:
    told((100, "user", "以后总结都用要点，先结论后细节"))
    result = ask("按我喜欢的格式总结一下上面的内容")
    assert tools(result)[0] == "semantic_search"
    assert "messages_list" in tools(result)
    assert max(days_back(round_, clock) for round_ in searches(result)) > 100
    assert quoted(result, only(result).evidence) == ["以后总结都用要点，先结论后细节"]


def test_4_1_row_4_my_job_by_meaning_then_the_whole_sentence(told: Tell, ask: Ask) -> None:
    told((9, "user", "自我介绍一下：我在一家出版社做编辑，主要看科幻稿"))
    result = ask("你还记得我在哪里工作/做什么职业吗？")
    assert tools(result)[0] == "semantic_search"
    assert "neighbors" in tools(result)
    assert [item.evidence for item in result.memory_view.profile] == [(result.evidence[0].message_id,)]
    assert "编辑" in result.evidence[0].content


def test_4_1_row_5_that_project_the_last_time_it_was_spoken_of(told: Tell, ask: Ask) -> None:
    told(
        (25, "user", "我们的项目海棠开始写需求了"),
        (10, "user", "项目海棠的需求写完了，下周开始开发"),
        (9.999, "assistant", "进展不错"),
    )
    result = ask("我们上次聊到的那个项目进展怎样了？")
    assert tools(result)[0] == "semantic_search"
    assert "neighbors" in tools(result)
    assert any("写完了" in text for item in result.memory_view.items() for text in quoted(result, item.evidence))


def test_4_1_row_6_my_dates_by_reading_what_was_said_lately(told: Tell, ask: Ask, clock: FixedClock) -> None:
    told((3, "user", "周五下午三点要和房东签合同"), (2, "user", "论文初稿的截止日期是二十号"), noise=False)
    result = ask("我最近有什么重要日程/要办的事？")
    assert tools(result)[:2] == ["messages_list", "lexical_search"]
    assert days_back(result.trace[0], clock) in (7, 30)
    assert {text for item in result.memory_view.items() for text in quoted(result, item.evidence)} == {
        "周五下午三点要和房东签合同",
        "论文初稿的截止日期是二十号",
    }


# --- §4.2


@pytest.mark.parametrize(
    ("question", "least", "most"),
    [
        ("我最近喝什么茶？", 2, 7),
        ("这周我说了要喝什么茶？", 2, 7),
        ("这两天我喝什么茶？", 2, 7),
        ("What tea did I drink these last few days?", 2, 7),
        ("我上次说的茶是哪一种？", 14, 30),
        ("之前提到过的那种茶是什么？", 14, 30),
        ("Which tea did we talk about last time?", 14, 30),
        ("我一直喝什么茶？", 180, 180),
        ("我多年的喝茶习惯是什么？", 180, 180),
        ("Which tea have I always liked?", 180, 180),
    ],
)
def test_4_2_1_words_of_time_become_a_window(
    told: Tell, ask: Ask, clock: FixedClock, question: str, least: int, most: int
) -> None:
    told()
    assert least <= days_back(ask(question).trace[0], clock) <= most


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("我2025年11月说要去哪里？", "2025-11-01", "2025-12-01"),
        ("去年11月我说要去哪里？", "2025-11-01", "2025-12-01"),
        ("Where did I say I was going in November 2025?", "2025-11-01", "2025-12-01"),
        ("2025-11-05 我说要去哪里？", "2025-11-05", "2025-11-06"),
    ],
)
def test_4_2_1_a_date_or_a_month_is_its_own_window(told: Tell, ask: Ask, question: str, since: str, until: str) -> None:
    told((57, "user", "我要去敦煌看壁画"), (30, "user", "我要去大理住一阵"))
    result = ask(question)
    assert [span(result.trace[0])[name][:10] for name in ("since", "until")] == [since, until]
    assert quoted(result, only(result).evidence) == ["我要去敦煌看壁画"]


def test_4_2_2_what_a_person_is_like_is_asked_of_the_person(told: Tell, ask: Ask) -> None:
    told((8, "assistant", "您不吃辣，也不吃海鲜"), SPICY)
    result = ask(DIET)
    assert role(result.trace[0]) == "user"
    assert {evidence.role for evidence in result.evidence} == {"user"}


def test_4_2_2_what_the_assistant_promised_is_asked_of_both(told: Tell, ask: Ask) -> None:
    told((6, "user", "行程单能发我吗？"), (5.999, "assistant", "我答应周五之前把行程单发给您"))
    result = ask("你答应过周五之前给我什么？")
    assert all(role(round_) != "user" for round_ in searches(result))
    assert "我答应周五之前把行程单发给您" in quoted(result, only(result).evidence)


def test_4_2_3_an_anchor_then_what_stands_around_it(told: Tell, ask: Ask) -> None:
    told((12, "user", "我不吃辣"), (11.999, "user", "刚才那句是我室友说的，不是我"))
    result = ask(SAID_SPICY)
    anchors = [round_.arguments["message_id"] for round_ in result.trace if round_.tool == "neighbors"]
    assert 1 <= len(anchors) <= 3
    assert result.memory_view.items() == ()


def test_4_2_4_too_many_hits_are_narrowed(told: Tell, ask: Ask, clock: FixedClock) -> None:
    told(*((day / 10, "user", f"第 {day} 天：不吃辣的火锅店有几家？") for day in range(1, 290)), SPICY)
    result = ask(SAID_SPICY)
    looked = [(days_back(round_, clock), round_.arguments.get("query_text")) for round_ in searches(result)]
    assert len(set(looked)) > 1
    assert quoted(result, only(result).evidence) == [SPICY[2]]


def test_4_2_4_too_few_hits_widen_the_time_and_change_the_tool(told: Tell, ask: Ask, clock: FixedClock) -> None:
    told((150, "user", "我怕辣，微辣都不行"))
    result = ask(SAID_SPICY)
    assert tools(result)[0] == "lexical_search"
    assert "semantic_search" in tools(result)
    assert max(days_back(round_, clock) for round_ in searches(result)) >= 180
    assert quoted(result, only(result).evidence) == ["我怕辣，微辣都不行"]


def test_4_2_4_too_few_hits_let_go_of_the_role(told: Tell, ask: Ask) -> None:
    told((8, "assistant", "上次您让我总结过：您住在三里屯"))
    result = ask("我住在哪里？")
    assert role(result.trace[0]) == "user"
    assert None in {role(round_) for round_ in searches(result)}


# --- §4.3


@pytest.mark.parametrize("question", ["我是不是提过“鱼香肉丝”？", 'Did I ever mention "Casa Lucia"?', SAID_SPICY])
def test_4_3_clear_words_are_looked_for_as_words(told: Tell, ask: Ask, question: str) -> None:
    told()
    assert tools(ask(question))[0] == "lexical_search"


@pytest.mark.parametrize("question", [DIET, "What kind of person am I at work?", "我的生活习惯是怎样的？"])
def test_4_3_what_can_be_said_in_many_ways_is_looked_for_by_meaning(told: Tell, ask: Ask, question: str) -> None:
    told()
    assert tools(ask(question))[0] == "semantic_search"


# --- §4.4


def test_4_4_relevance_what_does_not_fit_changes_the_query(told: Tell, ask: Ask) -> None:
    told()
    asked = [(round_.tool, round_.arguments.get("query_text")) for round_ in searches(ask(DIET))]
    assert len(asked) > 1
    assert len(set(asked)) > 1


def test_4_4_context_a_sentence_is_not_taken_out_of_it(told: Tell, ask: Ask) -> None:
    told((12, "user", "剧本里这句台词怎么翻译？"), (11.999, "user", "“我不吃辣，也不吃葱。”"))
    assert ask(SAID_SPICY).memory_view.items() == ()


def test_4_4_coverage_what_is_missing_widens_the_time(told: Tell, ask: Ask, clock: FixedClock) -> None:
    told((200, "user", "我对花生过敏"))
    result = ask("我对什么过敏？")
    back = [days_back(round_, clock) for round_ in searches(result)]
    assert back == sorted(back)
    assert quoted(result, only(result).evidence) == ["我对花生过敏"]


def test_4_4_repetition_the_same_hits_again_end_it(told: Tell, ask: Ask) -> None:
    told(SPICY, noise=False)
    result = ask(DIET)
    calls = [(round_.tool, json.dumps(round_.arguments, sort_keys=True)) for round_ in result.trace]
    assert len(calls) == len(set(calls))
    assert result.limits.calls < 8


def test_4_4_conflict_leads_to_more_looking(told: Tell, ask: Ask) -> None:
    told((20, "user", "我喜欢吃辣"))
    calm = ask("我吃不吃辣？")
    told((10, "user", "我现在不吃辣了"), noise=False)
    torn = ask("我吃不吃辣？")
    assert torn.limits.calls > calm.limits.calls
    assert only(torn).status == "changed"


# --- §4.5


def test_4_5_enough_evidence_ends_it(told: Tell, ask: Ask) -> None:
    told(SPICY)
    assert ask(SAID_SPICY).limits.calls <= 4


def test_4_5_little_to_gain_ends_it(told: Tell, ask: Ask) -> None:
    told()
    result = ask("我的护照号码是多少？")
    assert result.memory_view.items() == ()
    assert result.limits.calls <= 8


def test_4_5_noise_is_not_brought_in(told: Tell, ask: Ask) -> None:
    told(SPICY, (7, "user", "麻辣烫的底料怎么炒？"), (6, "user", "世界上最辣的辣椒是哪种？"))
    result = ask(DIET)
    assert [evidence.content for evidence in result.evidence] == [SPICY[2]]


# --- §4.6


def test_4_6_1_both_sides_are_read_in_their_context(told: Tell, ask: Ask) -> None:
    told((20, "user", "我喜欢吃辣"), (10, "user", "我不吃辣"))
    result = ask("我吃不吃辣？")
    read = {round_.arguments["message_id"] for round_ in result.trace if round_.tool == "neighbors"}
    assert read >= {evidence.message_id for evidence in result.evidence}


def test_4_6_1_a_later_and_clearer_sentence_is_looked_for(told: Tell, ask: Ask) -> None:
    told((60, "user", "我喜欢吃辣"), (50, "user", "今天有点不太想吃辣"), (5, "user", "从现在开始我不吃辣了"))
    item = only(result := ask("我吃不吃辣？"))
    assert (item.status, quoted(result, item.evidence)[0]) == ("changed", "从现在开始我不吃辣了")


def test_4_6_1_by_words_and_by_meaning(told: Tell, ask: Ask) -> None:
    told((20, "user", "我喜欢吃辣"), (10, "user", "我现在怕辣，只能吃清淡的"))
    assert {"lexical_search", "semantic_search"} <= set(tools(ask("我是不是喜欢吃辣？")))


@pytest.mark.parametrize(
    "misread",
    [
        "如果我不吃辣，那还能去成都玩吗？",
        "我同事说他不吃辣",
        "“我不吃辣”用粤语怎么说？",
        "我不吃辣？哈哈哈开玩笑的，我无辣不欢",
    ],
    ids=["hypothetical", "somebody else", "quoted", "joke"],
)
def test_4_6_2_a_sentence_misread_is_no_contradiction(told: Tell, ask: Ask, misread: str) -> None:
    told((20, "user", "我特别喜欢吃辣，每顿都要有辣椒"), (10, "user", misread))
    item = only(result := ask("我喜欢吃辣吗？"))
    assert item.status == "settled"
    assert quoted(result, item.evidence)[0] == "我特别喜欢吃辣，每顿都要有辣椒"
    assert item.reason in ("", "context")


def test_4_6_2_what_changed_with_time_is_the_later_one(told: Tell, ask: Ask) -> None:
    told((120, "user", "I drink coffee every day"), (9, "user", "I don't drink coffee any more, only tea"))
    item = only(result := ask("Do I drink coffee?"))
    assert (item.status, item.reason) == ("changed", "changed")
    assert quoted(result, item.evidence) == ["I don't drink coffee any more, only tea"]
    assert quoted(result, item.against) == ["I drink coffee every day"]
    assert item.since[:10] == result.evidence[0].ts[:10]


def test_4_6_2_the_users_own_words_count_more_than_the_assistants(told: Tell, ask: Ask) -> None:
    told(SPICY, (5, "assistant", "记得您喜欢吃辣，推荐这家火锅"))
    item = only(result := ask("我吃不吃辣？"))
    assert (item.status, quoted(result, item.evidence)) == ("settled", [SPICY[2]])


def test_4_6_2_two_vague_sentences_are_not_enough(told: Tell, ask: Ask) -> None:
    told((20, "user", "我好像还算喜欢吃辣吧"), (10, "user", "我可能不太喜欢吃辣"))
    items = ask("我喜欢吃辣吗？").memory_view.items()
    assert {item.status for item in items} == {"uncertain"}
    assert {item.reason for item in items} == {"unclear"}


def test_4_6_3_what_can_be_settled_says_why_the_other_does_not_count(told: Tell, ask: Ask) -> None:
    told((120, "user", "我住在广州"), (9, "user", "我搬家了，现在住在珠海"))
    item = only(result := ask("我住在哪里？"))
    assert "珠海" in item.statement
    assert quoted(result, item.against) == ["我住在广州"]
    assert item.note


def test_4_6_3_what_needs_more_is_looked_for_within_the_budget(told: Tell, ask: Ask) -> None:
    told(*((20 + n, "user", ("我喜欢吃辣", "我不吃辣")[n % 2]) for n in range(40)))
    assert ask("我吃不吃辣？").limits.calls <= 8


def test_4_6_3_what_cannot_be_settled_is_shown_from_both_sides(told: Tell, ask: Ask) -> None:
    told((20, "user", "I guess I kind of like jazz"), (10, "user", "Not sure, maybe jazz is not for me"))
    result = ask("Do I like jazz?")
    items = result.memory_view.items()
    cited = {text for item in items for text in quoted(result, (*item.evidence, *item.against))}
    assert cited == {"I guess I kind of like jazz", "Not sure, maybe jazz is not for me"}
    assert all(item.status == "uncertain" and item.note for item in items)


# --- §5, §6


def test_5_only_what_the_question_needs(told: Tell, ask: Ask) -> None:
    told(SPICY, (11, "user", "我在一家出版社做编辑"), (10, "user", "总结请用要点"))
    result = ask(DIET)
    assert quoted(result, only(result).evidence) == [SPICY[2]]


def test_5_every_point_has_its_evidence_and_the_answer_speaks_the_questions_language(told: Tell, ask: Ask) -> None:
    told(SPICY, (20, "user", "I'm allergic to peanuts"))
    chinese, english = ask(DIET), ask("What do you remember about my diet?")
    assert "不吃辣" in chinese.answer
    assert "peanuts" in english.answer
    assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese.answer)
    assert chinese.answer != english.answer


def test_5_nothing_found_is_said_in_the_questions_language(told: Tell, ask: Ask) -> None:
    told()
    for question, chinese in (("我的血型是什么？", True), ("What is my blood type?", False)):
        result = ask(question)
        assert (result.memory_view.items(), result.evidence) == ((), ())
        assert result.answer
        assert any("\u4e00" <= letter <= "\u9fff" for letter in result.answer) == chinese


def test_6_the_example(told: Tell, ask: Ask, clock: FixedClock) -> None:
    told((12, "user", "不吃辣"), (11.999, "assistant", "好的，记住了"))
    result = ask("你记得我有什么饮食偏好？")
    first = result.trace[0]
    assert any("过敏" in hypothesis.statement + hypothesis.proof for hypothesis in first.hypotheses)
    assert (first.tool, role(first), days_back(first, clock)) == ("semantic_search", "user", 30)
    assert {"不吃辣", "忌口", "过敏"} <= set(first.arguments["query_text"].split())
    assert "neighbors" in tools(result)
    assert [item.statement for item in result.memory_view.preferences] == ["不吃辣"]
    assert [(evidence.role, evidence.content) for evidence in result.evidence] == [("user", "不吃辣")]
    assert result.limits.role == "user"
