"""canonical_turns_v1: the caller's turns as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mnemon.contracts.errors import MalformedInput
from mnemon.contracts.turns import InputFormat, Role, Turn
from mnemon.logic.adapters import normalise

FORM = "canonical_turns_v1"
SEED = {
    "turn_id": "t0001",
    "role": "tool",
    "speaker": "tool:web_search",
    "timestamp_iso": "2025-12-21T10:00:00+08:00",
    "text": "  原文文本\r\n  e\u0301 🐦 \t",
    "source_ref": {"input_format": "agent_trace_v1", "raw_index": 12, "raw_path": "steps[12]"},
    "attachments": [
        {"type": "tool_result", "name": "web_search", "truncated": True, "sha256": "a" * 64, "ref": "blob://x"}
    ],
    "meta": {"k": [1, None]},
}


def turns(data: Any) -> list[Turn]:
    return list(normalise(data, FORM))


def fails(turn: dict[str, Any]) -> MalformedInput:
    with pytest.raises(MalformedInput) as caught:
        turns([turn])
    return caught.value


def test_every_field_of_the_seed_comes_through_unchanged() -> None:
    (turn,) = turns([SEED])
    again = turn.model_dump(mode="json", exclude={"drop_candidate"})
    assert again == SEED


def test_array_wrapper_and_lines_agree_but_for_the_path() -> None:
    rows = [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}]
    bare = turns(json.dumps(rows))
    lines = turns("\n".join(map(json.dumps, rows)))
    wrapped = turns(json.dumps({"turns": rows, "input_format": FORM}))
    assert bare == lines
    assert [t.text for t in wrapped] == ["a", "b"]
    assert [t.source_ref.raw_path for t in wrapped if t.source_ref] == ["turns[0]", "turns[1]"]


def test_the_minimum_is_role_and_text() -> None:
    (turn,) = turns([{"role": "user", "text": ""}])
    assert (turn.turn_id, turn.role, turn.speaker, turn.timestamp_iso) == ("t0001", Role.USER, "user", None)
    assert turn.source_ref is not None
    assert turn.source_ref.input_format is InputFormat.CANONICAL_TURNS
    assert (turn.source_ref.raw_index, turn.source_ref.raw_path) == (0, "[0]")


def test_ids_are_the_callers_text_or_number_and_else_the_position() -> None:
    rows = [{"turn_id": 7}, {"turn_id": "msg-1"}, {}, {"turn_id": None}]
    found = turns([{"role": "user", "text": "x", **row} for row in rows])
    assert [turn.turn_id for turn in found] == ["7", "msg-1", "t0003", "t0004"]


def test_a_source_ref_without_index_gets_its_place() -> None:
    (turn,) = turns([{"role": "user", "text": "x", "source_ref": {"input_format": FORM}}])
    assert turn.source_ref is not None
    assert (turn.source_ref.raw_index, turn.source_ref.raw_path) == (0, "[0]")


@pytest.mark.parametrize(
    ("change", "path", "says"),
    [
        ({"txt": "x"}, "[0].txt", "did you mean `text`"),
        ({"timestamp": "x"}, "[0].timestamp", "did you mean `timestamp_iso`"),
        ({"role": "human"}, "[0].role", "one of user, assistant, tool, system"),
        ({"role": 5}, "[0].role", "the number 5"),
        ({"role": None}, "[0].role", "null"),
        ({"text": None}, "[0].text", "expected text"),
        ({"text": ["a"]}, "[0].text", "an array"),
        ({"text": "\ud800"}, "[0].text", "surrogate"),
        ({"speaker": 1}, "[0].speaker", "text, or null"),
        ({"speaker": "\udc00"}, "[0].speaker", "surrogate"),
        ({"meta": {"a": ["\ud800"]}}, "[0].meta.a[0]", "surrogate"),
        ({"meta": []}, "[0].meta", "an object"),
        ({"turn_id": ""}, "[0].turn_id", "empty"),
        ({"turn_id": True}, "[0].turn_id", "whole number"),
        ({"turn_id": 1.5}, "[0].turn_id", "whole number"),
        ({"turn_id": "x" * 257}, "[0].turn_id", "256"),
        ({"timestamp_iso": "tomorrow"}, "[0].timestamp_iso", "ISO 8601"),
        ({"timestamp_iso": 5}, "[0].timestamp_iso", "text, or null"),
        ({"attachments": {}}, "[0].attachments", "an array"),
        ({"attachments": ["x"]}, "[0].attachments[0]", "an object"),
        ({"attachments": [{"type": "image"}]}, "[0].attachments[0].type", "image_ref"),
        ({"attachments": [{"type": "file", "sha": "x"}]}, "[0].attachments[0].sha", "did you mean `sha256`"),
        ({"attachments": [{"type": "file", "sha256": "x"}]}, "[0].attachments[0].sha256", "pattern"),
        ({"attachments": [{"type": "file", "truncated": 1}]}, "[0].attachments[0].truncated", "true or false"),
        ({"source_ref": {"input_format": "x"}}, "[0].source_ref.input_format", "agent_trace_v1"),
        ({"source_ref": {"input_format": FORM, "raw_index": -1}}, "[0].source_ref.raw_index", "not negative"),
        ({"source_ref": {"input_format": FORM, "raw_idx": 1}}, "[0].source_ref.raw_idx", "raw_index"),
    ],
)
def test_a_wrong_field_says_where_and_what(change: dict[str, Any], path: str, says: str) -> None:
    error = fails({"role": "user", "text": "x", **change})
    assert error.path == path
    assert says in error.message
    assert path in error.message


@pytest.mark.parametrize("missing", ["role", "text"])
def test_a_missing_field_is_named(missing: str) -> None:
    turn = {"role": "user", "text": "x"}
    del turn[missing]
    assert f"`{missing}` is missing" in fails(turn).message


@pytest.mark.parametrize("element", [5, "x", None, [], True])
def test_an_element_that_is_no_object(element: object) -> None:
    with pytest.raises(MalformedInput, match="expected an object") as caught:
        turns(json.dumps([element]))
    assert caught.value.path == "[0]"


def test_the_wrapper_is_strict() -> None:
    with pytest.raises(MalformedInput, match="did you mean `turns`"):
        turns({"turns": [], "turnz": 1})
    with pytest.raises(MalformedInput, match="canonical_turns_v1"):
        turns('{"turns": [], "input_format": "openai_messages_v1"}')
    with pytest.raises(MalformedInput, match="did you mean"):
        turns('{"turn": [{"role": "user", "text": "x"}]}')


def test_the_line_of_the_element_is_in_the_error() -> None:
    with pytest.raises(MalformedInput) as caught:
        turns('{"role": "user", "text": "x"}\n\n{"role": "user", "text": 5}')
    assert (caught.value.line, caught.value.path) == (3, "[1].text")
