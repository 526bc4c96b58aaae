"""Stage 2's gates: every tag is a true quote, and what the program knows better it decides itself."""

from __future__ import annotations

from typing import Any

import pytest

from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy, Kind, Status
from mnemon.contracts.tags import Hints, TagSpan, ValueTag, ValueTaggingOutput, WriteAction
from mnemon.contracts.turns import Role, Turn
from mnemon.logic.evidence import Conversation
from mnemon.logic.tagging import REMEMBER, TagInput, check, kept_turns, mend, settle, task_status

TURNS = (
    Turn(turn_id="a", role=Role.USER, text="我住在成都。I live in Chengdu."),
    Turn(turn_id="b", role=Role.ASSISTANT, text="You live in Rome."),
    Turn(turn_id="c", role=Role.TOOL, text="CA123 departs 10:30"),
    Turn(turn_id="d", role=Role.USER, text="tea, tea"),
)
GIVEN = TagInput("s", TURNS)


def tag(turn_id: str, quote: str, at: int | None = None, **more: Any) -> ValueTag:
    text = next((t.text for t in TURNS if t.turn_id == turn_id), "")
    start = max(text.find(quote), 0) if at is None else at
    fields: dict[str, Any] = {
        "tag_id": f"{turn_id}:{quote}",
        "turn_id": turn_id,
        "span": TagSpan(start=start, end=start + len(quote), text_exact=quote),
        "category": Kind.FACT,
        "evidence_level": EvidenceLevel.USER_CLAIM,
        "importance": 0.5,
        "ttl_seconds": 0,
        "forget_policy": ForgetPolicy.PERMANENT,
        "write_action": WriteAction.FACT,
    }
    return ValueTag(**{**fields, **more})


def output(*tags: ValueTag, kept: str = "abcd", dropped: str = "") -> ValueTaggingOutput:
    return ValueTaggingOutput(kept_turn_ids=tuple(kept), dropped_turn_ids=tuple(dropped), tags=tags)


def broken(given: ValueTaggingOutput) -> list[str]:
    return [violation.rule for violation in check(GIVEN, mend(GIVEN, given))]


def settled(given: ValueTag) -> ValueTag:
    whole, _ = settle(Conversation.of(TURNS), "s", ["u:ann"], [output(given)])
    return whole.tags[0]


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (output(tag("a", "我住在重庆")), "the quote does not stand there"),
        (output(tag("d", "tea", at=1)), "the quote does not stand there"),
        (output(tag("a", "  ", at=0)), "the quote is empty"),
        (output(tag("x", "hello")), "turn_id is not among the turns"),
        (output(tag("a", "成都", write_action=WriteAction.DROP)), "a tag cannot drop; leave it out"),
        (output(tag("a", "成都"), kept="bcd"), "kept_turn_ids must hold every tagged turn"),
        (output(kept="abcdx"), "kept_turn_ids names a turn that is not among the turns"),
        (output(dropped="x"), "dropped_turn_ids names a turn that is not among the turns"),
        (output(dropped="a"), "a turn is both kept and dropped"),
        (output(tag("a", "成都"), tag("a", "成都")), "two tags have the same tag_id"),
    ],
)
def test_a_tagging_that_is_not_true_is_refused(given: ValueTaggingOutput, rule: str) -> None:
    assert rule in broken(given)


def test_a_violation_tells_the_tag_what_was_expected_and_what_was_found() -> None:
    (violation,) = check(GIVEN, output(tag("a", "我住在重庆")))
    assert (violation.item, violation.expected, violation.actual) == (0, repr("我住在重庆"), repr("我住在成都"))
    assert "a:我住在重庆" in violation.where


def test_a_quote_out_of_place_is_placed_if_it_stands_once_and_never_otherwise() -> None:
    once = mend(GIVEN, output(tag("a", "I live in Chengdu", at=40))).tags[0]
    assert TURNS[0].text[once.span.start : once.span.end] == once.span.text_exact == "I live in Chengdu"
    twice = tag("d", "tea", at=2)
    assert mend(GIVEN, output(twice)).tags[0] == twice


@pytest.mark.parametrize("text", ["请记住我吃素", "Please remember I'm vegan"])
def test_what_the_user_asks_to_remember_must_be_tagged(text: str) -> None:
    asked = Turn(turn_id="r", role=Role.USER, text=text)
    assert [v.rule for v in check(TagInput("s", (asked,)), ValueTaggingOutput(kept_turn_ids=("r",)))] == [REMEMBER]
    block = Turn(turn_id="r", role=Role.USER, text=f"<memory>{text}</memory> 你好")
    assert check(TagInput("s", (block,)), ValueTaggingOutput(kept_turn_ids=("r",))) == []


@pytest.mark.parametrize("claimed", list(EvidenceLevel))
def test_evidence_is_what_the_words_bear(claimed: EvidenceLevel) -> None:
    user = settled(tag("a", "我住在成都", evidence_level=claimed))
    assert user.evidence_level in (EvidenceLevel.AI_INFERENCE, EvidenceLevel.USER_CLAIM)
    assistant = settled(tag("b", "You live in Rome", evidence_level=claimed))
    assert (assistant.evidence_level, assistant.write_action) == (EvidenceLevel.AI_INFERENCE, WriteAction.ARCHIVE_ONLY)
    tool = settled(tag("c", "CA123", evidence_level=claimed))
    assert tool.evidence_level in (EvidenceLevel.AI_INFERENCE, EvidenceLevel.TOOL_GROUNDED)


@pytest.mark.parametrize(
    ("kind", "subtype", "ttl"),
    [
        (Kind.PREFERENCE, "", 0),
        (Kind.RULE, "", 0),
        (Kind.TASK, "open", 30),
        (Kind.TASK, "done", 7),
        (Kind.FACT, "", 180),
    ],
)
@pytest.mark.parametrize("asked", [0, 10_000_000_000])
def test_a_tag_lives_as_long_as_the_table_says(kind: Kind, subtype: str, ttl: int, asked: int) -> None:
    ruled = settled(tag("a", "成都", category=kind, subtype=subtype, ttl_seconds=asked))
    if ttl or not asked:
        assert ruled.ttl_seconds == ttl * 86_400
    assert ruled.write_action.value == f"write_{kind.value}"


def test_what_a_tag_says_beside_its_words_must_stand_in_its_turn() -> None:
    hints = Hints(entity_names=("成都", "Marco"), time_hint="2001-01-01", dedup_key="residence")
    ruled = settled(
        tag("a", "成都", hints=hints, reason="the user told Marco 7 times", subtype="divorced", subject="u:bob")
    )
    assert ruled.hints == Hints(entity_names=("成都",), dedup_key="residence")
    assert (ruled.reason, ruled.subtype, ruled.subject) == ("", "", "u:ann")


def test_lists_numbers_and_ids_are_the_programs() -> None:
    whole, notes = settle(
        Conversation.of(TURNS),
        "s",
        ["u:ann"],
        [output(tag("a", "成都"), kept="ad"), output(tag("b", "Rome"), kept="b")],
    )
    assert (whole.kept_turn_ids, whole.dropped_turn_ids) == (("a", "b", "d"), ("c",))
    assert [t.tag_id for t in whole.tags] == ["m0001", "m0002"]
    assert (whole.stats.input_turns, whole.stats.kept_turns, whole.stats.tag_count) == (4, 3, 2)
    assert [(note.what, note.text, note.turn_ids) for note in notes] == [("tag", "Rome", ("b",))]
    assert kept_turns(whole) == {"a", "d"}


@pytest.mark.parametrize(
    ("subtype", "status"),
    [
        ("", Status.OPEN),
        ("commitment", Status.OPEN),
        ("done", Status.DONE),
        ("已完成", Status.DONE),
        ("cancelled", Status.CANCELLED),
        ("取消", Status.CANCELLED),
    ],
)
def test_a_task_is_open_unless_its_subtype_says_otherwise(subtype: str, status: Status) -> None:
    assert task_status(subtype) is status
