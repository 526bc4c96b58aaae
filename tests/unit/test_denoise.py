"""Denoising: three rules, nothing else, and everything accounted for."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from mnemon.contracts.errors import MalformedInput, NoUsableContent
from mnemon.contracts.turns import Attachment, InputFormat, Role, SourceRef, Turn
from mnemon.logic.adapters import normalise
from mnemon.logic.adapters.turns import position_id
from mnemon.logic.denoise import (
    TRUNCATED_MARK,
    DenoiseRules,
    Dropped,
    OutputCheck,
    denoise,
    is_stats_only,
    verbatim_length,
)


def turn(text: str, role: Role = Role.USER, turn_id: str = "t0001", **fields: Any) -> Turn:
    ref = SourceRef(input_format=InputFormat.CANONICAL_TURNS, raw_index=3, raw_path="turns[3]")
    return Turn(turn_id=turn_id, role=role, text=text, source_ref=ref, **fields)


def reason(text: str, **rules: Any) -> str | None:
    (result,) = denoise([turn(text)], DenoiseRules(**rules))
    return result.dropped.reason if result.dropped else None


@pytest.mark.parametrize("text", ["", " ", "\r\n\t", "\u3000\u00a0"])
def test_empty_text_is_dropped_and_reported_with_its_place(text: str) -> None:
    (result,) = denoise([turn(text)])
    assert result.turn is None
    assert result.dropped == Dropped("t0001", "empty", "turns[3]", 3)


@pytest.mark.parametrize(
    "text",
    [
        '{"tokenCount": 12}',
        ' {"tokenCount": 12, "finishReason": "STOP"}\n',
        '{"usage": {"prompt_tokens": 1, "completion_tokens_details": {"a": 0}}}',
        '{"usageMetadata": {"promptTokenCount": 5}, "safetyRatings": [{"category": "HARM", "probability": "LOW"}]}',
        '[{"tokenCount": 1}, {"finish_reason": null}]',
        "tokenCount: 123",
        "tokenCount：123\nfinishReason: STOP\n",
        '"tokenCount": 12,\n"finishReason": "STOP",',
        '{\n"tokenCount": 12,\n}',
        "total_tokens = 77",
    ],
)
def test_bookkeeping_alone_is_dropped(text: str) -> None:
    assert is_stats_only(text)
    assert reason(text) == "stats_only"
    assert reason(text, drop_stats_only=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "My tokenCount: 12 was too high",
        "tokenCount: 123\nWhy is that so high?",
        "tokenCount 是什么意思？",
        "usage: 5",
        "index: 3",
        '{"tokenCount": 12, "note": "call Ann"}',
        '{"usage": "please use this only at noon"}',
        '{"finishReason": "因为我累了"}',
        "{}",
        "[]",
        "[1, 2]",
        "123",
        "STOP",
        '{"password": 1}',
        "{not json",
        "tokenCount: 预算一百",
        '{"tokenCount": ' + "[" * 5000,
        "finishReason: he ran out of time",
    ],
)
def test_speech_is_never_taken_for_bookkeeping(text: str) -> None:
    assert reason(text) is None


def test_each_rule_can_be_switched_off() -> None:
    assert reason("", drop_empty=False) is None
    thought = turn("hm", meta={"thought": True})
    assert [d.dropped.reason for d in denoise([thought]) if d.dropped] == ["thought"]
    assert [d.turn for d in denoise([thought], DenoiseRules(drop_thoughts=False))] == [thought]


def test_kept_candidates_carry_the_rule_that_would_drop_them() -> None:
    rules = DenoiseRules(keep_dropped=True)
    results = list(denoise([turn(""), turn('{"tokenCount": 1}'), turn("x", meta={"thought": True}), turn("hi")], rules))
    assert [r.turn.drop_candidate for r in results if r.turn] == ["empty", "stats_only", "thought", None]
    assert all(r.dropped is None for r in results)


def test_a_long_tool_output_is_cut_and_wholly_kept_as_a_blob() -> None:
    text = "数据" * 5_000
    (result,) = denoise([turn(text, Role.TOOL, speaker="tool:web_search")])
    assert result.turn is not None
    assert result.turn.text == text[:8_000] + TRUNCATED_MARK
    assert result.blobs == (text.encode(),)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert result.turn.attachments == (
        Attachment(type="tool_result", name="web_search", truncated=True, sha256=digest, ref=f"blob://{digest}"),
    )
    assert verbatim_length(result.turn) == 8_000
    assert text.startswith(result.turn.text[: verbatim_length(result.turn)])


def test_the_limit_itself_is_not_over_the_limit() -> None:
    rules = DenoiseRules(tool_text_limit=5)
    exact, over = turn("12345", Role.TOOL), turn("123456", Role.TOOL)
    results = list(denoise([exact, over], rules))
    assert results[0].turn == exact
    assert results[0].blobs == ()
    assert results[1].turn is not None
    assert results[1].turn.text == "12345" + TRUNCATED_MARK


@pytest.mark.parametrize("role", [Role.USER, Role.ASSISTANT, Role.SYSTEM])
def test_only_a_tools_words_are_ever_cut(role: Role) -> None:
    said = turn("x" * 20_000, role)
    (result,) = denoise([said])
    assert result.turn == said
    assert result.blobs == ()


def test_cutting_twice_changes_nothing() -> None:
    (once,) = denoise([turn("x" * 9_000, Role.TOOL)])
    assert once.turn is not None
    (twice,) = denoise([once.turn])
    assert twice.turn == once.turn
    assert twice.blobs == ()


def test_words_that_merely_look_like_the_marker_are_words() -> None:
    quoted = turn("see " + TRUNCATED_MARK, Role.TOOL)
    assert verbatim_length(quoted) == len(quoted.text)


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("abce\u0301xyz", 4, "abc"),
        ("abcde\u0301\u0302xyz", 6, "abcd"),
        ("ab👩\u200d👩\u200d👧cd", 4, "ab"),
        ("ab👍\U0001f3fdcd", 3, "ab"),
        ("ab❤\ufe0fcd", 3, "ab"),
        ("ab\r\ncd", 3, "ab"),
        ("नमस्ते", 3, "नम"),
        ("你好吗", 2, "你好"),
        ("\u0301" * 300, 100, "\u0301" * 100),
    ],
)
def test_a_cut_never_parts_what_shows_as_one_character(text: str, limit: int, kept: str) -> None:
    (result,) = denoise([turn(text, Role.TOOL)], DenoiseRules(tool_text_limit=limit))
    assert result.turn is not None
    assert result.turn.text == kept + TRUNCATED_MARK
    assert result.blobs == (text.encode(),)


def test_the_attachments_name_is_the_tools() -> None:
    rules = DenoiseRules(tool_text_limit=1)
    named = turn("long", Role.TOOL, meta={"tool": {"name": "grep"}}, speaker="tool:x")
    bare = turn("long", Role.TOOL)
    assert [r.turn.attachments[0].name for r in denoise([named, bare], rules) if r.turn] == ["grep", "tool"]


def test_an_empty_export_has_no_usable_content() -> None:
    check = OutputCheck()
    for found in normalise("[]", "openai_messages_v1"):
        check.add(found)
    with pytest.raises(NoUsableContent, match="none of the 0 turns"):
        check.finish()


def test_the_share_of_turns_with_text_can_be_demanded() -> None:
    check = OutputCheck(min_text_ratio=0.5)
    for number, text in enumerate(["a", " ", ""], 1):
        check.add(turn(text, turn_id=position_id(number)))
    with pytest.raises(NoUsableContent, match="1 of 3 turns"):
        check.finish()
    check.add(turn("b", turn_id="t0004"))
    check.finish()


def checked(rows: list[dict[str, Any]]) -> None:
    check = OutputCheck()
    for found in normalise({"turns": rows}, "canonical_turns_v1"):
        check.add(found)


@pytest.mark.parametrize("turn_id", ["t0002", "ta00010001", "mine", "tb0000099999999999"])
def test_a_doubled_id_names_both_places(turn_id: str) -> None:
    rows = [{"role": "user", "text": "x", "turn_id": i} for i in ["a", turn_id, "b", turn_id]]
    with pytest.raises(MalformedInput) as caught:
        checked(rows)
    assert (caught.value.first_index, caught.value.second_index) == (1, 3)
    assert "turns[3]" in caught.value.message
    assert "element 1" in caught.value.message


def test_a_generated_id_may_collide_with_a_callers_and_is_found() -> None:
    with pytest.raises(MalformedInput, match="'t0002'"):
        checked([{"role": "user", "text": "x", "turn_id": "t0002"}, {"role": "user", "text": "y"}])


def test_a_far_id_first_seen_as_the_callers_own_is_still_unique_later() -> None:
    check = OutputCheck()
    check.add(turn("x", turn_id=position_id(150_000)))
    check.add(turn("x", turn_id=position_id(99_000)))
    with pytest.raises(MalformedInput):
        check.add(turn("x", turn_id=position_id(150_000)))
