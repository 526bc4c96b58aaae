"""Stage 3's gates: a claim cites true words of those who can know, and says no more than they do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mnemon.contracts.claims import ToolStats
from mnemon.contracts.drafts import Draft, Extraction
from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy, Kind, Status
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.tags import TagSpan, ValueTag, WriteAction
from mnemon.contracts.turns import Role, Span, Turn
from mnemon.logic.drafting import DraftInput, began, check, ended, governance_of, mend
from mnemon.logic.evidence import Conversation

SAID_AT = datetime(2026, 3, 10, 10, 30, tzinfo=UTC)
TURNS = (
    Turn(turn_id="a", role=Role.USER, text="我住在成都。My sister Anna lives in Rome. I moved here in 2019."),
    Turn(turn_id="b", role=Role.ASSISTANT, text="You have three kids."),
    Turn(turn_id="c", role=Role.TOOL, speaker="tool:flights", text="CA123 departs 10:30", meta={"duration_ms": 40}),
    Turn(turn_id="d", role=Role.TOOL, speaker="tool:flights", text="Error: timeout"),
    Turn(turn_id="e", role=Role.USER, text="请记住这个。Yes."),
    Turn(turn_id="x", role=Role.USER, text="I live in Oslo."),
)


def given(tags: tuple[ValueTag, ...] = (), turns: tuple[Turn, ...] = TURNS) -> DraftInput:
    kept = frozenset(t.turn_id for t in turns) - {"x"}
    said_at = {t.turn_id: SAID_AT for t in turns}
    return DraftInput(Conversation.of(turns), kept, tags, said_at, frozenset(Shelf), subjects=("u:ann",))


def span(turn_id: str, quote: str, turns: tuple[Turn, ...] = TURNS) -> Span:
    text = next((t.text for t in turns if t.turn_id == turn_id), "")
    start = max(text.find(quote), 0)
    return Span(turn_id=turn_id, start=start, end=start + len(quote), text_exact=quote)


def draft(statement: str, *spans: Span, **more: Any) -> Draft:
    fields: dict[str, Any] = {"type": "fact", "category": "profile", "routing_key": "home", "confidence": 0.9}
    return Draft(**{**fields, "statement": statement, "spans": spans, **more})


def mended(it: Draft, turns: tuple[Turn, ...] = TURNS) -> Draft:
    return mend(given(turns=turns), Extraction(facts=(it,))).facts[0]


def broken(it: Draft, turns: tuple[Turn, ...] = TURNS) -> list[str]:
    return [v.rule for v in check(given(turns=turns), mend(given(turns=turns), Extraction(facts=(it,))))]


@pytest.mark.parametrize(
    ("statement", "quotes"),
    [
        ("用户住在成都。", [("a", "我住在成都")]),
        ("The user's sister Anna lives in Rome.", [("a", "My sister Anna lives in Rome")]),
        ("CA123 departs 10:30.", [("c", "CA123 departs 10:30")]),
        ("The user moved in 2019.", [("a", "I moved here in 2019")]),
    ],
)
def test_what_was_said_is_believed(statement: str, quotes: list[tuple[str, str]]) -> None:
    assert broken(draft(statement, *(span(*quote) for quote in quotes))) == []


@pytest.mark.parametrize(
    ("it", "rule"),
    [
        (draft("用户住在成都。"), "cites no words"),
        (draft("用户住在成都。", span("a", "我住在重庆")), "the quote does not stand there"),
        (draft("用户住在成都。", span("a", " ")), "the quote is empty"),
        (draft("The user lives in Oslo.", span("x", "I live in Oslo.")), "cites a turn that was not kept"),
        (draft("The user lives in Oslo.", span("nowhere", "I live in Oslo.")), "cites a turn that was not kept"),
        (draft("The user has three kids.", span("b", "You have three kids.")), "rests on the assistant's words alone"),
        (draft("用户住在重庆。", span("a", "我住在成都")), "says what the quoted words do not"),
        (draft("用户不住在成都。", span("a", "我住在成都")), "turns the quoted words round"),
        (draft("用户今天住在成都。", span("a", "我住在成都")), "holds a relative date"),
        (draft("The user lives in 成都.", span("a", "我住在成都")), "is not in the language of the words"),
        (draft("The user lives in Rome.", span("a", "Anna lives in Rome")), "leaves out that it was said of sister"),
        (draft("用户说了。", span("a", "我住在成都")), "says nothing"),
        (draft("用户住在成都。", span("a", "我住在成都"), subject="u:bob"), "is about somebody the words do not name"),
        (draft("用户住在成都。", span("a", "我住在成都"), category="rules"), "not a category of this task"),
        (draft("用户住在成都。", span("a", "我住在成都"), type="rule"), "not a category of this task"),
    ],
)
def test_what_the_words_do_not_carry_is_refused(it: Draft, rule: str) -> None:
    assert rule in broken(it)


def test_a_quote_out_of_place_is_placed_if_it_stands_once() -> None:
    lost = Span(turn_id="a", start=3, end=8, text_exact="Anna lives in Rome")
    (placed,) = mended(draft("The user's sister Anna lives in Rome.", lost)).spans
    assert TURNS[0].text[placed.start : placed.end] == "Anna lives in Rome"


def test_what_stands_beside_the_statement_goes_where_the_words_do_not_carry_it() -> None:
    it = draft(
        "用户住在成都。",
        span("a", "我住在成都"),
        title="大熊猫",
        overview="用户不住在成都。",
        content="用户住在成都。",
        rationale="因为 Marco 说的",
        routing_key="嫁给马可",
        dedup_key="嫁给马可",
        entity_names=("成都", "马可"),
        valid_from="2001-01-01",
        valid_to="2026-03-10",
        status="done",
        subject="用户",
    )
    left = mended(it)
    assert (left.title, left.overview, left.content, left.rationale) == ("", "", "用户住在成都。", "")
    assert (left.routing_key, left.dedup_key, left.entity_names) == ("general", "", ("成都",))
    assert (left.valid_from, left.valid_to, left.status, left.subject) == ("", "", Status.NONE, "user")
    kept = mended(draft("用户住在成都。", span("a", "我住在成都"), routing_key="住处", dedup_key="residence"))
    assert (kept.routing_key, kept.dedup_key) == ("住处", "residence")


def test_a_task_is_over_only_if_the_words_say_so() -> None:
    turns = (
        Turn(turn_id="p", role=Role.USER, text="I need to pay rent."),
        Turn(turn_id="q", role=Role.USER, text="房租交了。"),
        Turn(turn_id="r", role=Role.USER, text="算了，机票退了。"),
    )
    for turn_id, quote, asked, status in (
        ("p", "I need to pay rent.", "done", "open"),
        ("q", "房租交了。", "done", "done"),
        ("q", "房租交了。", "cancelled", "open"),
        ("r", "机票退了", "cancelled", "cancelled"),
    ):
        it = draft(quote, span(turn_id, quote, turns), type="task", category="tasks", status=asked)
        assert mended(it, turns).status.value == status


def test_what_a_tool_did_is_counted_and_not_believed() -> None:
    made_up = ToolStats(
        tool_name="warp", skill_name="飞行", call_count=99, success_count=98, total_tokens=7, best_for="旅行"
    )
    it = draft("flights: calls succeeded and failed", span("c", "CA123"), span("d", "Error: timeout"), tool=made_up)
    counted = {"tool_name": "flights", "call_count": 2, "success_count": 1, "total_duration_ms": 40}
    assert mended(it).tool == ToolStats(**counted, best_for="旅行"), "what it is good for is a judgement, no count"


def test_dates_come_from_the_words_or_the_day_they_were_said() -> None:
    it = mended(draft("The user moved in 2019.", span("a", "I moved here in 2019"), valid_from="2019-01-01"))
    assert began(given(), it) == datetime(2019, 1, 1, tzinfo=UTC)
    assert ended(it) is None
    assert began(given(), mended(draft("用户住在成都。", span("a", "我住在成都")))) == SAID_AT


def test_of_several_speakers_the_one_who_said_it_is_named() -> None:
    turns = (
        Turn(turn_id="p", role=Role.USER, speaker="Bob", text="I live in Rome."),
        Turn(turn_id="q", role=Role.USER, speaker="小梅", text="我住在成都。"),
    )
    assert broken(draft("The user lives in Rome.", span("p", "I live in Rome.", turns)), turns) == [
        "does not say which of the speakers"
    ]
    assert broken(draft("Bob lives in Rome.", span("p", "I live in Rome.", turns)), turns) == []
    assert broken(draft("小梅住在成都。", span("q", "我住在成都。", turns)), turns) == []
    assert broken(draft("小梅住在成都。", span("p", "I live in Rome.", turns)), turns) != []


def tag(turn_id: str, quote: str, **more: Any) -> ValueTag:
    at = span(turn_id, quote)
    fields: dict[str, Any] = {
        "tag_id": "m1",
        "turn_id": turn_id,
        "span": TagSpan(start=at.start, end=at.end, text_exact=quote),
        "category": Kind.FACT,
        "evidence_level": EvidenceLevel.USER_CLAIM,
        "importance": 0.3,
        "ttl_seconds": 0,
        "forget_policy": ForgetPolicy.TEMPORARY,
        "write_action": WriteAction.FACT,
    }
    return ValueTag(**{**fields, **more})


def test_a_claim_inherits_the_lives_of_the_tags_behind_it() -> None:
    it = draft("用户住在成都。", span("a", "我住在成都"))
    plain = governance_of(given(), it)
    assert plain is not None
    assert (plain.ttl_seconds, plain.evidence_level) == (180 * 86_400, EvidenceLevel.USER_CLAIM)
    short = governance_of(given((tag("a", "成都", ttl_seconds=60, requires_confirmation=True),)), it)
    assert short is not None
    assert (short.ttl_seconds, short.importance, short.requires_confirmation) == (60, 0.3, True)
    assert governance_of(given((tag("a", "成都", write_action=WriteAction.ARCHIVE_ONLY),)), it) is None


def test_a_yes_elsewhere_confirms_nothing_here() -> None:
    it = draft("用户住在成都。", span("a", "我住在成都"), span("e", "请记住这个"))
    for tags in ((), (tag("e", "请记住这个", evidence_level=EvidenceLevel.USER_CONFIRMED),)):
        life = governance_of(given(tags), it)
        assert life is not None
        assert (life.evidence_level, life.forget_policy) == (EvidenceLevel.USER_CLAIM, ForgetPolicy.TEMPORARY)
