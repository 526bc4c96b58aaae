"""The rules provider: what it takes from a conversation, in which words, and what it leaves alone."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon.contracts.drafts import Draft
from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy, Kind, Status
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.tags import WriteAction
from mnemon.contracts.turns import Attachment, Role, Turn
from mnemon.logic import drafting, rules, tagging
from mnemon.logic.evidence import Conversation
from mnemon.logic.rules import tools
from mnemon.logic.toolwork import calls, sums

sys.path.insert(0, str(Path(__file__).parent.parent / "rules"))

from scoring import Part, rows, scores, turns_of

SAID_AT = datetime(2026, 3, 10, 10, 30, tzinfo=UTC)
SHELVES = frozenset(Shelf)


def said(*lines: str, speaker: str = "") -> list[Turn]:
    """`user`, unless a line begins with a role and a bar."""
    turns = []
    for number, line in enumerate(lines):
        role, bar, text = line.partition("|")
        known = bar and role in Role.__members__.values()
        turns.append(
            Turn(
                turn_id=f"t{number}",
                role=Role(role) if known else Role.USER,
                text=text if known else line,
                speaker=speaker,
                timestamp_iso=SAID_AT.isoformat(),
            )
        )
    return turns


def drafts(turns: list[Turn], shelves: frozenset[Shelf] = SHELVES) -> tuple[Draft, ...]:
    tags = rules.tag(turns, "s").tags
    return rules.extract(shelves, turns, tags, {turn.turn_id: SAID_AT for turn in turns}).facts


def statements(*lines: str, speaker: str = "") -> list[str]:
    return [draft.statement for draft in drafts(said(*lines, speaker=speaker))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我对花生过敏。", ["用户对花生过敏"]),
        ("I'm allergic to peanuts.", ["User is allergic to peanuts"]),
        ("I don’t like cilantro", ["User doesn't like cilantro"]),
        ("我叫林晓，住在杭州，是产品经理。", ["用户叫林晓", "用户住在杭州", "用户是产品经理"]),
        ("I live in Berlin and work at Siemens.", ["User lives in Berlin", "User works at Siemens"]),
        ("我妹妹住在都江堰，喜欢画画。", ["用户的妹妹住在都江堰", "用户的妹妹喜欢画画"]),
        (
            "My sister Ann lives in Leeds and loves tea.",
            ["User's sister Ann lives in Leeds", "User's sister Ann loves tea"],
        ),
        ("我养了一只猫，叫豆包。", ["用户养了一只猫", "用户的猫叫豆包"]),
        ("提醒我周五之前把合同发给王总", ["提醒用户2026-03-13之前把合同发给王总"]),
        ("周五之前把合同发给王总", ["待办：2026-03-13之前把合同发给王总"]),
        ("Remind me to call my mom tomorrow", ["User asks to be reminded to call their mom on 2026-03-11"]),
        (
            "Could you remind me on Thursday to renew it all?",
            ["User asks to be reminded on 2026-03-12 to renew it all"],
        ),
        ("后天要转房租，到时候提醒我一下", ["提醒用户2026-03-12要转房租"]),
        ("以后都用中文回复我", ["用户请助手以后都用中文回复用户"]),
        ("Never share my email with anyone.", ["User asks the assistant never to share their email with anyone"]),
        ("Please don't use emojis anymore.", ["User asks the assistant not to use emojis anymore"]),
        ("我们最后决定用PostgreSQL", ["用户最后决定用PostgreSQL"]),
        ("Let's go with option B then.", ["User decides to go with option B"]),
        ("我现在不吃辣了", ["用户现在不吃辣了"]),
        ("I don't eat spicy food any more", ["User doesn't eat spicy food any more"]),
        ("I no longer work at Google.", ["User no longer works at Google"]),
        ("昨天我去看了牙医", ["用户2026-03-09去看了牙医"]),
        ("昨天我们的项目 Alpha 发布了 2.0 版本", ["2026-03-09用户的项目 Alpha 发布了 2.0 版本"]),
        ("Three days ago I handed in my resignation.", ["User handed in their resignation on 2026-03-07"]),
        ("最近在减肥，晚上不吃主食", ["用户晚上不吃主食"]),
        ("My brother moved to the US last year.", ["User's brother moved to the US in 2025"]),
        ("我平时用Figma。", ["用户平时用Figma"]),
    ],
)
def test_a_statement_is_in_the_third_person_and_in_the_words_of_the_user(text: str, expected: list[str]) -> None:
    assert statements(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "你喜欢吃辣吗？",
        "如果我住在北京，通勤要多久",
        "他说我喜欢加班",
        "“我喜欢旅行”怎么说",
        "我喜欢加班才怪",
        "我可能对芒果过敏",
        "帮我翻译：我住在巴黎",
        "他喜欢吃辣，不吃甜的",
        "我喜欢这个",
        "我以前住在北京",
        "自我介绍怎么写",
        "Do you like tea?",
        "If I lived in Rome I'd be happy",
        "She said I love mornings",
        'He wrote "I am allergic to cats"',
        "I guess I prefer tea",
        "Translate: I live in Munich",
        "I love it",
        "Suppose I'm vegan",
        "I used to smoke",
        "```\nI live in Rome\n```",
        "> I live in Rome",
        "<memory>\nI live in Rome\n</memory>",
    ],
)
def test_what_is_not_plainly_said_of_oneself_is_left_alone(text: str) -> None:
    output = rules.tag(said(text), "s")
    assert output.tags == ()
    assert output.dropped_turn_ids == ("t0",)


def test_a_joke_takes_back_what_was_said() -> None:
    assert statements("我是厨师。", "哈哈开玩笑的") == []
    assert statements("I'm a chef.", "assistant|Really?", "just kidding") == []


def test_a_speaker_with_a_name_is_called_by_it() -> None:
    assert statements("I live in Oslo.", speaker="Maya") == ["Maya lives in Oslo"]
    assert statements("我妹妹住在成都", speaker="林晓") == ["林晓的妹妹住在成都"]


def test_tags_carry_evidence_and_a_life_from_the_table() -> None:
    (preference, task, fact) = rules.tag(said("我不吃香菜。", "提醒我明天交房租", "记住，我的工号是8261"), "s").tags
    assert (preference.category, preference.forget_policy, preference.ttl_seconds) == (
        Kind.PREFERENCE,
        ForgetPolicy.UNTIL_CHANGED,
        0,
    )
    assert preference.write_action is WriteAction.PREFERENCE
    assert (task.category, task.ttl_seconds, task.hints.time_hint) == (Kind.TASK, 2_592_000, "2026-03-11")
    assert (fact.evidence_level, fact.ttl_seconds) == (EvidenceLevel.USER_CONFIRMED, 0)
    assert preference.evidence_level is EvidenceLevel.USER_CLAIM


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("记住：家里wifi的名字是Orange-5G。", "家里wifi的名字是Orange-5G"),
        ("Remember that the spare key is under the pot.", "the spare key is under the pot"),
        ("钥匙在花盆下面。记住这个。", "钥匙在花盆下面"),
        ("记住，如果我迟到就先开会", "如果我迟到就先开会"),
        ("记住，密码是“abc”", "密码是“abc”"),
    ],
)
def test_what_the_user_asks_to_remember_is_always_kept(text: str, quote: str) -> None:
    (tag,) = rules.tag(said(text), "s").tags
    assert tag.span.text_exact == quote
    assert tag.evidence_level is EvidenceLevel.USER_CONFIRMED


def test_what_the_assistant_says_of_the_user_counts_only_once_confirmed() -> None:
    turns = said("assistant|So you're allergic to penicillin, right?", "Yes, exactly.", speaker="Bo")
    (draft,) = drafts(turns)
    assert draft.statement == "Bo is allergic to penicillin"
    assert [span.turn_id for span in draft.spans] == ["t0", "t1"]
    assert rules.tag(turns, "s").kept_turn_ids == ("t0", "t1")
    assert statements("assistant|您对海鲜过敏，对吗？", "对") == ["用户对海鲜过敏"]
    assert statements("assistant|您对海鲜过敏，对吗？", "不是") == []
    assert statements("assistant|你喜欢川菜，住在成都。", "多少钱？") == []
    assert statements("system|The user lives in Oslo.") == []


@pytest.mark.parametrize(
    ("text", "key", "slot"),
    [
        ("我爱吃辣", "food", "like:辣"),
        ("我现在不吃辣了", "food", "like:辣"),
        ("I love spicy food", "food", "like:spicy food"),
        ("I don't eat spicy food anymore", "food", "like:spicy food"),
        ("I love black coffee", "drink", "like:black coffee"),
        ("我住在杭州", "profile", "residence"),
        ("I moved to Lisbon", "profile", "residence"),
        ("我在腾讯上班", "profile", "employer"),
        ("我妹妹住在都江堰", "妹妹", "妹妹:residence"),
        ("Our project is called Bluebird", "Bluebird", ""),
        ("以后都用中文回复", "language", "rule:language"),
        ("Always answer in English", "language", "rule:language"),
        ("周五之前把合同发给王总", "合同发给王总", "task:合同发给王总"),
        ("我喜欢爬山", "sports", "like:爬山"),
        ("I enjoy hiking", "sports", "like:hiking"),
    ],
)
def test_a_draft_knows_its_topic_and_its_slot(text: str, key: str, slot: str) -> None:
    (draft,) = drafts(said(text))
    assert (draft.routing_key, draft.dedup_key) == (key, slot)


def test_only_the_shelves_asked_for_are_filled() -> None:
    turns = said("我住在杭州，不吃香菜。")
    assert [d.category for d in drafts(turns)] == [Shelf.PROFILE, Shelf.PREFERENCES]
    assert [d.category for d in drafts(turns, frozenset({Shelf.PREFERENCES}))] == [Shelf.PREFERENCES]
    assert rules.extract(SHELVES, turns, (), {"t0": SAID_AT}).facts == ()


def test_tasks_are_open_and_happenings_begin_when_they_happen() -> None:
    (task,) = drafts(said("我周五之前得把报销单交了"))
    assert (task.status, task.valid_from) == (Status.OPEN, "")
    (event,) = drafts(said("I visited Rome last month."))
    assert (event.category, event.valid_from) == (Shelf.EVENTS, "2026-02-01")


def test_a_short_plain_result_of_a_tool_is_a_fact() -> None:
    turns = [
        Turn(turn_id="a", role=Role.TOOL, speaker="tool:orders", text='{"order_id": "A1", "status": "已发货"}'),
        Turn(turn_id="b", role=Role.TOOL, speaker="tool:orders", text="order_id: 7\nstatus: delivered"),
        Turn(turn_id="c", role=Role.TOOL, speaker="tool:orders", text="Error: no such order"),
        Turn(turn_id="d", role=Role.TOOL, speaker="tool:orders", text='{"rows": [{"id": 1}], "n": 1}'),
        Turn(turn_id="e", role=Role.TOOL, speaker="tool:orders", text="x" * 500),
    ]
    output = rules.tag(turns, "s")
    assert output.kept_turn_ids == ("a", "b")
    assert {tag.evidence_level for tag in output.tags} == {EvidenceLevel.TOOL_GROUNDED}
    facts = [d for d in drafts(turns) if d.category is Shelf.ENTITIES]
    assert [(d.routing_key, d.statement) for d in facts] == [
        ("A1", "order_id: A1, status: 已发货"),
        ("7", "order_id: 7, status: delivered"),
    ]


def test_a_tool_is_counted_over_the_turns_given() -> None:
    turns = [
        Turn(turn_id="a", role=Role.TOOL, speaker="tool:search", text="three results found"),
        Turn(turn_id="b", role=Role.TOOL, text="timeout", meta={"tool": {"name": "search"}}),
        Turn(
            turn_id="c",
            role=Role.TOOL,
            text="天气晴朗",
            attachments=(Attachment(type="tool_result", name="weather"),),
        ),
        Turn(turn_id="d", role=Role.TOOL, text="nobody knows from where"),
    ]
    shown = calls(turns)
    found = tools.skills(shown, sums(shown, ()))
    assert [(d.statement, d.tool and (d.tool.call_count, d.tool.success_count)) for d in found] == [
        ("search succeeded and failed", (2, 1)),
        ("工具 weather 调用成功", (1, 1)),
    ]
    assert [span.turn_id for span in found[0].spans] == ["a", "b"]


def test_a_summary_is_made_of_sentences_that_were_said() -> None:
    turns = said(
        "你好！帮我选个数据库。",
        "assistant|可以考虑 PostgreSQL。",
        "好，我们决定用PostgreSQL。提醒我周五之前写迁移脚本。",
        "assistant|好的，已经记下。",
        "备份怎么做？",
    )
    summary = rules.summarise(turns)
    assert summary.summary.splitlines() == ["帮我选个数据库。", "我们决定用PostgreSQL", "提醒我周五之前写迁移脚本。"]
    assert summary.key_decisions == ("我们决定用PostgreSQL",)
    assert summary.unresolved == ("提醒我周五之前写迁移脚本", "备份怎么做？")
    assert "postgresql" in summary.key_topics
    assert rules.summarise([]).summary == ""


@pytest.mark.parametrize(
    ("candidate", "existing", "decision"),
    [
        ("User lives in Oslo", "user lives in oslo", "skip"),
        ("用户住在杭州", "用户住在杭州滨江区", "skip"),
        ("用户喜欢喝咖啡", "用户不喜欢喝咖啡", "merge_existing"),
        ("User has 3 cats", "User has 2 cats", "merge_existing"),
        ("User loves black coffee in the morning", "User loves black coffee", "merge_existing"),
        ("用户喜欢爬山", "用户对花生过敏", "create"),
        ("User plays the violin", "User is allergic to nuts", "create"),
    ],
)
def test_a_new_memory_is_compared_by_its_words(candidate: str, existing: str, decision: str) -> None:
    assert rules.decide(candidate, existing).decision == decision


PARTS: list[Part] = ["development", "test", "unseen"]
# A little under what is measured, so that a change for the worse fails: (precision, recall).
FLOORS: dict[Part, tuple[float, float]] = {"development": (0.98, 0.97), "test": (0.95, 0.95), "unseen": (0.95, 0.77)}


@pytest.fixture(scope="module")
def measured() -> dict[Part, tuple[float, float]]:
    found = scores()
    return {part: (found[part, "both"].precision, found[part, "both"].recall) for part in PARTS}


@pytest.mark.parametrize("part", PARTS)
def test_the_labelled_sentences_are_read_as_well_as_before(
    part: Part, measured: dict[Part, tuple[float, float]]
) -> None:
    precision, recall = measured[part]
    assert precision >= FLOORS[part][0]
    assert recall >= FLOORS[part][1]


def test_the_labelled_set_is_half_chinese_and_nearly_half_traps() -> None:
    found = [row for part, row in rows() if part != "unseen"]
    assert sum(row["language"] == "zh" for row in found) == len(found) / 2
    assert 0.4 <= sum("trap" in row for row in found) / len(found) <= 0.5


def refused(turns: list[Turn]) -> tuple[int, list[str]]:
    """How many drafts there are, and what the gates for a model's answers say against them."""
    output = rules.tag(turns, "s")
    wrong = [str(v) for v in tagging.check(tagging.TagInput("s", tuple(turns)), output)]
    said_at = {turn.turn_id: SAID_AT for turn in turns}
    given = drafting.DraftInput(
        Conversation.of(turns), frozenset(output.kept_turn_ids), output.tags, said_at, frozenset(Shelf)
    )
    extraction = rules.extract(given.shelves, given.turns, output.tags, said_at)
    return len(extraction.facts), wrong + [str(v) for v in drafting.check(given, extraction)]


def test_what_the_rules_say_passes_the_gates_of_a_model() -> None:
    found = [refused(turns_of(row)) for _, row in rows()]
    assert sum(len(wrong) for _, wrong in found) <= 0.02 * sum(count for count, _ in found)


LINES = st.sampled_from([text for _, row in rows() for _, text in row["turns"]])
PIECES = st.one_of(
    LINES, st.text(max_size=12), st.sampled_from(["“", "”", "`", "记住", "remember", "，", ". ", "👩‍👩‍👧", "é"])
)
CONVERSATIONS = st.lists(st.tuples(st.sampled_from(list(Role)), st.lists(PIECES, max_size=4)), max_size=5)


@given(CONVERSATIONS)
def test_of_any_conversation_every_turn_is_kept_or_dropped_and_every_quote_is_verbatim(
    conversation: list[tuple[Role, list[str]]],
) -> None:
    turns = [
        Turn(turn_id=f"t{n}", role=role, text="".join(pieces).encode(errors="ignore").decode())
        for n, (role, pieces) in enumerate(conversation)
    ]
    output = rules.tag(turns, "s")
    by_id = {turn.turn_id: turn for turn in turns}
    assert sorted((*output.kept_turn_ids, *output.dropped_turn_ids)) == sorted(by_id)
    assert {tag.turn_id for tag in output.tags} <= set(output.kept_turn_ids)
    for tag in output.tags:
        tag.as_span().check(by_id[tag.turn_id])
        assert by_id[tag.turn_id].role is not Role.SYSTEM
    for draft in rules.extract(SHELVES, turns, output.tags, dict.fromkeys(by_id, SAID_AT)).facts:
        assert draft.statement.strip()
        for span in draft.spans:
            span.check(by_id[span.turn_id])
    assert rules.tag(turns, "s") == output
