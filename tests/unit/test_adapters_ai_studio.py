"""ai_studio_export_text_v1: JSON-like text, chunks and parts."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from mnemon.contracts.errors import MalformedInput
from mnemon.contracts.turns import Role, Turn
from mnemon.logic.adapters import normalise
from mnemon.logic.adapters.relaxed_json import relaxed
from mnemon.logic.denoise import denoise

FORM = "ai_studio_export_text_v1"
EXPORT = """\ufeff```json
{ // settings first
  "runSettings": {"model": "models/gemini", "topP": 0.95, "safety": [{"a": 1},],},
  /* what it is
     told */
  "systemInstruction": {"parts": [{"text": "Be "}, {"text": "kind."}]},
  "chunkedPrompt": {
    "chunks": [
      {"text": "看 https://x.org/a,b // not a comment, ,] /* nor this */", "role": "user", "tokenCount": 12,},
      {"role": "model", "finishReason": "STOP", // end
       "parts": [{"text": "第一段\\n"}, {"text": " second",}, {"text": ""}]},
    ],
    "pendingInputs": [{"text": "", "role": "user"}],
  },
}
```
"""


def turns(data: Any) -> list[Turn]:
    return list(normalise(data, FORM))


def chunk(**data: Any) -> list[Turn]:
    return turns({"chunkedPrompt": {"chunks": [{"role": "model", **data}]}})


def paths(found: list[Turn]) -> list[str]:
    return [turn.source_ref.raw_path for turn in found if turn.source_ref]


@pytest.mark.parametrize("size", [1, 2, 3, 17, 10_000])
def test_a_relaxed_export_in_chunks_of_any_size(size: int) -> None:
    found = turns([EXPORT[i : i + size] for i in range(0, len(EXPORT), size)])
    assert [(turn.role, turn.text) for turn in found] == [
        (Role.SYSTEM, "Be kind."),
        (Role.USER, "看 https://x.org/a,b // not a comment, ,] /* nor this */"),
        (Role.ASSISTANT, "第一段\n second"),
    ]
    assert paths(found) == ["systemInstruction", "chunkedPrompt.chunks[0]", "chunkedPrompt.chunks[1]"]
    assert [turn.meta for turn in found] == [{}, {"token_count": 12}, {"finish_reason": "STOP"}]
    assert [turn.turn_id for turn in found] == ["t0001", "t0002", "t0003"]


@pytest.mark.parametrize(
    ("loose", "strict"),
    [
        ("[1,]", "[1 ]"),
        ("[1, /* , */ ]", "[1          ]"),
        ("[1,//x\n2//y\n,\n]", "[1,   \n2   \n \n]"),
        ('["a,]", "//", "/*", "\\"", "\\\\",]', '["a,]", "//", "/*", "\\"", "\\\\" ]'),
        ("{/**/}", "{    }"),
        ("{/***/}", "{     }"),
        ("```\n{}\n```", "   \n{}\n   "),
        ("1 / 2", "1 / 2"),
        ("[1,,]", "[1, ]"),
        ("``", "``"),
    ],
)
def test_relaxing_keeps_every_position(loose: str, strict: str) -> None:
    assert "".join(relaxed([loose])) == strict
    assert "".join(relaxed(loose)) == strict


def test_a_raw_line_break_inside_a_string_is_content() -> None:
    assert turns('{"contents": [{"role": "user", "parts": [{"text": "a\n\tb"}]}]}')[0].text == "a\n\tb"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('{"chunkedPrompt": {"chunks": []}}\nThanks!', 2, "found 'Thanks!' behind the end"),
        ('{"chunkedPrompt": {"chunks": [\n{"role": "user", "text": "x"', 2, "ends inside chunkedPrompt.chunks[0]"),
        ('{"chunkedPrompt": {"chunks": [\n/* never closed', 2, "ends inside chunkedPrompt.chunks[0]"),
        ('// only\n{"chunkedPrompt": {"chunks": [\n{role: "user"}]}}', 3, "property name"),
        ('{"chunkedPrompt": []}', 1, "expected an object"),
        ('{"chunkedPrompt": {"chunks": {}}}', 1, "expected an array"),
        ('{"runSettings": {}}', 1, "holds no turns"),
        ("Dear diary", 1, "found 'Dear diary'"),
        ("```", 1, "expected an object"),
    ],
)
def test_what_cannot_be_read_says_where(text: str, line: int, says: str) -> None:
    with pytest.raises(MalformedInput) as caught:
        turns(text)
    assert says in caught.value.message
    assert caught.value.line == line


def test_a_single_part_is_named_in_the_path() -> None:
    assert paths(chunk(parts=[{"text": "x"}])) == ["chunkedPrompt.chunks[0].parts[0]"]


def test_thoughts_are_turns_of_their_own_that_denoising_drops() -> None:
    found = chunk(text="AB", parts=[{"text": "hm", "thought": True}, {"text": "m", "thought": True}, {"text": "AB"}])
    assert [(turn.text, turn.meta) for turn in found] == [("hmm", {"thought": True}), ("AB", {})]
    assert paths(found) == ["chunkedPrompt.chunks[0]", "chunkedPrompt.chunks[0].parts[2]"]
    whole = chunk(text="thinking", isThought=True, parts=[{"text": "think"}, {"text": "ing"}])
    assert [(turn.text, turn.meta) for turn in whole] == [("thinking", {"thought": True})]
    reasons = [d.dropped.reason for d in denoise([*found, *whole]) if d.dropped]
    assert reasons == ["thought", "thought"]


@pytest.mark.parametrize("whole", [None, "", "ab", "tab"])
def test_a_chunks_text_that_repeats_its_parts_is_not_said_twice(whole: str | None) -> None:
    found = chunk(text=whole, parts=[{"text": "t", "thought": True}, {"text": "a"}, {"text": "b"}])
    assert [turn.text for turn in found] == ["t", "ab"]


def test_an_edited_chunk_counts_as_edited() -> None:
    found = chunk(text="corrected", parts=[{"text": "a"}, {"text": "b"}])
    assert [turn.text for turn in found] == ["corrected"]


def test_code_calls_and_results_stand_in_their_order() -> None:
    found = chunk(
        parts=[
            {"text": "Let me "},
            {"text": "compute."},
            {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}},
            {"functionCall": {"name": "f", "args": {"城": "巴黎"}, "id": "c1"}},
            {"functionResponse": {"name": "f", "response": {"t": 5}, "id": "c1"}},
            {"text": "Done."},
        ],
        finishReason="STOP",
    )
    assert [(turn.role.value, turn.speaker, turn.text) for turn in found] == [
        ("assistant", "assistant", "Let me compute."),
        ("assistant", "assistant", "print(1)"),
        ("tool", "tool:code_execution", "no"),
        ("assistant", "assistant", 'f({"城": "巴黎"})'),
        ("tool", "tool:f", '{"t": 5}'),
        ("assistant", "assistant", "Done."),
    ]
    assert found[2].meta["tool"] == {"name": "code_execution", "ok": False}
    assert found[3].meta == {
        "tool_calls": [{"id": "c1", "name": "f", "arguments": {"城": "巴黎"}}],
        "rendered": True,
    }
    assert found[4].meta == {"tool": {"name": "f", "call_id": "c1"}, "rendered": True}
    assert found[5].meta == {"finish_reason": "STOP"}


def test_attachments() -> None:
    payload = base64.b64encode(b"bytes").decode()
    digest = hashlib.sha256(b"bytes").hexdigest()
    (turn,) = chunk(
        parts=[
            {"text": "see"},
            {"inlineData": {"mimeType": "image/png", "data": payload}},
            {"inlineFile": {"mimeType": "application/pdf", "data": payload}},
            {"driveImage": {"id": "D1"}},
            {"driveDocument": {"id": "D2"}},
            {"youtubeVideo": {"id": "Y"}},
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "gs://b/o"}},
        ]
    )
    assert turn.text == "see"
    assert [(a.type, a.ref, a.sha256) for a in turn.attachments] == [
        ("image_ref", "data:image/png", digest),
        ("file", "data:application/pdf", digest),
        ("image_ref", "drive://D1", None),
        ("file", "drive://D2", None),
        ("file", "https://www.youtube.com/watch?v=Y", None),
        ("image_ref", "gs://b/o", None),
    ]


def test_a_chunk_of_nothing_but_counts_is_an_empty_turn_and_reported() -> None:
    (turn,) = chunk(tokenCount=5, finishReason="STOP")
    assert (turn.text, turn.meta) == ("", {"token_count": 5, "finish_reason": "STOP"})
    assert [d.dropped.reason for d in denoise([turn]) if d.dropped] == ["empty"]


def test_the_plain_contents_form() -> None:
    contents = [{"parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"text": "yo"}]}]
    wrapped = turns({"system_instruction": "Be brief.", "contents": contents})
    assert [(t.role.value, t.text) for t in wrapped] == [("system", "Be brief."), ("user", "hi"), ("assistant", "yo")]
    assert [t.text for t in turns(json.dumps(contents))] == ["hi", "yo"]


@pytest.mark.parametrize("empty", [{}, None, "", {"parts": []}])
def test_an_empty_instruction_is_no_turn(empty: Any) -> None:
    assert turns({"systemInstruction": empty, "contents": []}) == []


def test_create_time() -> None:
    assert chunk(text="x", createTime="2025-06-01T12:00:00+08:00")[0].timestamp_iso == "2025-06-01T04:00:00Z"


@pytest.mark.parametrize(
    ("data", "path", "says"),
    [
        ({"role": "assistant"}, ".role", "one of user, model"),
        ({"role": None}, "", "`role` is missing"),
        ({"text": 5}, ".text", "text, or null"),
        ({"parts": {}}, ".parts", "an array"),
        ({"parts": ["x"]}, ".parts[0]", "an object"),
        ({"parts": [{"text": "a"}, {"text": []}]}, ".parts[1].text", "text, or null"),
        ({"isThought": "yes"}, ".isThought", "true or false"),
        ({"inlineData": {"data": "@"}}, ".inlineData.data", "not base64"),
        ({"driveImage": {}}, ".driveImage", "`id` is missing"),
        ({"parts": [{"functionCall": {}}]}, ".parts[0].functionCall", "`name` is missing"),
        ({"createTime": "x"}, ".createTime", "ISO 8601"),
        ({"text": "\ud800"}, ".text", "surrogate"),
    ],
)
def test_a_wrong_field_says_where_and_what(data: dict[str, Any], path: str, says: str) -> None:
    with pytest.raises(MalformedInput) as caught:
        chunk(**data)
    assert caught.value.path == "chunkedPrompt.chunks[0]" + path
    assert says in caught.value.message
