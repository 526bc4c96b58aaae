"""openai_messages_v1: parts, attachments, tool calls and their results."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from mnemon.contracts.errors import MalformedInput
from mnemon.contracts.turns import Role, Turn
from mnemon.logic.adapters import normalise
from mnemon.logic.adapters.tool_calls import CallNames
from mnemon.logic.denoise import denoise

FORM = "openai_messages_v1"
PIXEL = b"\x89PNG not really"
DATA_URL = "data:image/png;base64," + base64.b64encode(PIXEL).decode()


def turns(*messages: Any) -> list[Turn]:
    return list(normalise({"messages": list(messages)}, FORM))


def one(**message: Any) -> Turn:
    (turn,) = turns({"role": "user", "content": "x", **message})
    return turn


def fails(**message: Any) -> MalformedInput:
    with pytest.raises(MalformedInput) as caught:
        one(**message)
    return caught.value


def called(name: str = "search", arguments: Any = '{"q": 1}', call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("said", "role", "speaker"),
    [
        ("system", Role.SYSTEM, "system"),
        ("developer", Role.SYSTEM, "developer"),
        ("user", Role.USER, "user"),
        ("assistant", Role.ASSISTANT, "assistant"),
        ("tool", Role.TOOL, "tool"),
        ("function", Role.TOOL, "tool"),
    ],
)
def test_roles_and_speakers(said: str, role: Role, speaker: str) -> None:
    turn = one(role=said)
    assert (turn.role, turn.speaker) == (role, speaker)


def test_a_name_is_the_speaker() -> None:
    assert one(name="Alice").speaker == "Alice"
    assert one(role="function", name="get_time").speaker == "tool:get_time"


def test_text_is_verbatim() -> None:
    text = "  \r\n你好\u3000e\u0301 👩‍👩‍👧 \x00\t\n"
    assert one(content=text).text == text


def test_text_parts_are_joined_by_a_line_and_can_be_told_apart_again() -> None:
    turn = one(content=[{"type": "text", "text": "一二"}, {"type": "input_text", "text": "three"}])
    assert turn.text == "一二\nthree"
    assert turn.meta["text_parts"] == [2, 5]
    assert "text_parts" not in one(content=[{"type": "output_text", "text": "x"}]).meta


def test_a_refusal_is_what_was_said() -> None:
    part = one(role="assistant", content=[{"type": "refusal", "refusal": "No."}])
    field = one(role="assistant", content=None, refusal="No.")
    assert [(t.text, t.meta["refusal"]) for t in (part, field)] == [("No.", True)] * 2


def test_an_image_url_is_a_reference_and_a_data_url_only_its_hash() -> None:
    linked = one(content=[{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]).attachments[0]
    assert (linked.type, linked.ref, linked.sha256) == ("image_ref", "https://x/y.png", None)
    for part in (
        {"type": "image_url", "image_url": {"url": DATA_URL}},
        {"type": "input_image", "image_url": DATA_URL},
    ):
        inline = one(content=[part]).attachments[0]
        assert inline.ref == "data:image/png"
        assert inline.sha256 == hashlib.sha256(PIXEL).hexdigest()


def test_files_and_audio_are_file_attachments() -> None:
    payload = base64.b64encode(PIXEL).decode()
    turn = one(
        content=[
            {"type": "file", "file": {"file_id": "f-1", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_data": DATA_URL, "filename": "b.png"}},
            {"type": "input_file", "file_data": payload, "filename": "c.bin"},
            {"type": "input_audio", "input_audio": {"data": payload, "format": "mp3"}},
            {"type": "input_image", "file_id": "f-2"},
            {"type": "image_url", "image_url": {"url": "data:text/plain,a%20b"}},
        ]
    )
    digest = hashlib.sha256(PIXEL).hexdigest()
    assert [(a.type, a.name, a.ref, a.sha256) for a in turn.attachments] == [
        ("file", "a.pdf", "file:f-1", None),
        ("file", "b.png", "data:image/png", digest),
        ("file", "c.bin", "data:application/octet-stream", digest),
        ("file", "audio", "data:audio/mp3", digest),
        ("image_ref", "image", "file:f-2", None),
        ("image_ref", "image", "data:text/plain", hashlib.sha256(b"a b").hexdigest()),
    ]
    assert turn.text == ""


def test_calls_stand_in_meta_verbatim_beside_the_words() -> None:
    arguments = '{"q":  "天气",\n"n":1}'
    (turn,) = turns({"role": "assistant", "content": "Let me look.", "tool_calls": [called(arguments=arguments)]})
    assert turn.text == "Let me look."
    assert turn.meta == {"tool_calls": [{"id": "c1", "name": "search", "arguments": arguments}]}


@pytest.mark.parametrize("content", [None, "", "  \n", []])
def test_a_call_without_words_is_rendered_and_survives_denoising(content: Any) -> None:
    message = {"role": "assistant", "content": content, "tool_calls": [called(), called("f", {"城": 1}, "c2")]}
    (turn,) = turns(message)
    assert turn.text == 'search({"q": 1})\nf({"城": 1})'
    assert turn.meta["rendered"] is True
    assert [d.turn for d in denoise([turn])] == [turn]


def test_the_older_function_call_and_custom_tools() -> None:
    legacy, custom = turns(
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "g", "input": "raw"}}]},
    )
    assert (legacy.text, custom.text) == ("f({})", "g(raw)")


def test_a_result_finds_the_name_of_its_call() -> None:
    _, known, unknown, own = turns(
        {"role": "assistant", "tool_calls": [called()]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "tool", "tool_call_id": "zz", "content": "43"},
        {"role": "tool", "tool_call_id": "c1", "name": "mine", "content": "44"},
    )
    assert (known.speaker, known.meta["tool"]) == ("tool:search", {"name": "search", "call_id": "c1"})
    assert (unknown.speaker, unknown.meta["tool"]) == ("tool", {"call_id": "zz"})
    assert own.speaker == "tool:mine"


def test_the_memory_for_call_names_is_bounded() -> None:
    names = CallNames()
    for n in range(10_001):
        names.note([{"id": f"c{n}", "name": "f", "arguments": ""}])
    assert names.get("c0") is None
    assert names.get("c1") == "f"
    assert names.get("c10000") == "f"


def test_reasoning_is_a_thought_of_its_own_and_dropped() -> None:
    thought, answer = turns({"role": "assistant", "content": "4", "reasoning_content": "2+2"})
    assert (thought.text, thought.meta) == ("2+2", {"thought": True})
    assert thought.source_ref is not None
    assert thought.source_ref.raw_path == "messages[0].reasoning_content"
    assert [d.turn.text if d.turn else d.dropped.reason for d in denoise([thought, answer]) if d.turn or d.dropped] == [
        "thought",
        "4",
    ]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("created_at", 1735689600, "2025-01-01T00:00:00Z"),
        ("created_at", 1735689600.5, "2025-01-01T00:00:00.500000Z"),
        ("timestamp", 1735689600123, "2025-01-01T00:00:00.123000Z"),
        ("timestamp", 1735689600123456789, "2025-01-01T00:00:00.123456Z"),
        ("create_time", "2025-01-01T08:00:00+08:00", "2025-01-01T00:00:00Z"),
        ("create_time", "2025-01-01T00:00:00", "2025-01-01T00:00:00Z"),
        ("timestamp", "1735689600", "2025-01-01T00:00:00Z"),
        ("timestamp", None, None),
    ],
)
def test_times_become_utc(field: str, value: Any, expected: str | None) -> None:
    assert one(**{field: value}).timestamp_iso == expected


@pytest.mark.parametrize("value", ["soon", True, [], 10**40, -(10**10) * 9, "0001-01-01T00:00:00+14:00"])
def test_a_time_that_is_none(value: Any) -> None:
    error = fails(timestamp=value)
    assert error.path == "messages[0].timestamp"
    assert "ISO 8601" in error.message


@pytest.mark.parametrize(
    ("change", "path", "says"),
    [
        ({"role": "model"}, "messages[0].role", "one of system, developer, user, assistant, tool, function"),
        ({"role": None}, "messages[0].role", "null"),
        ({"content": 5}, "messages[0].content", "text, null or an array of parts"),
        ({"content": {"a": 1}}, "messages[0].content", "an object"),
        ({"content": ["x"]}, "messages[0].content[0]", "an object"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text"}]}, "messages[0].content[1]", "`text` is missing"),
        ({"content": [{"type": "text", "text": 5}]}, "messages[0].content[0].text", "expected text"),
        ({"content": [{"type": "hologram"}]}, "messages[0].content[0].type", "input_audio"),
        ({"content": [{"text": "x"}]}, "messages[0].content[0]", "`type` is missing"),
        ({"content": [{"type": "image_url"}]}, "messages[0].content[0].image_url", "null"),
        (
            {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@"}}]},
            "messages[0].content[0].image_url.url",
            "not base64",
        ),
        (
            {"content": [{"type": "image_url", "image_url": "data:nothing"}]},
            "messages[0].content[0].image_url",
            "comma",
        ),
        ({"content": [{"type": "input_audio", "input_audio": {}}]}, "messages[0].content[0].input_audio", "`data`"),
        ({"content": [{"type": "file", "file": {}}]}, "messages[0].content[0].file", "`file_id`"),
        ({"name": 5}, "messages[0].name", "text, or null"),
        ({"tool_calls": {}}, "messages[0].tool_calls", "an array"),
        ({"tool_calls": [5]}, "messages[0].tool_calls[0]", "an object"),
        ({"tool_calls": [{"function": {}}]}, "messages[0].tool_calls[0].function", "`name` is missing"),
        ({"function_call": "f"}, "messages[0].function_call", "an object"),
        ({"refusal": 5}, "messages[0].refusal", "text, or null"),
        ({"content": "\ud800"}, "messages[0].content", "surrogate"),
    ],
)
def test_a_wrong_field_says_where_and_what(change: dict[str, Any], path: str, says: str) -> None:
    error = fails(**change)
    assert error.path == path
    assert says in error.message


def test_only_an_assistant_may_leave_its_content_out() -> None:
    with pytest.raises(MalformedInput, match="`content` is missing"):
        turns({"role": "user"})
    assert turns({"role": "assistant"})[0].text == ""
    assert turns({"role": "user", "content": None})[0].text == ""


def test_the_settings_around_the_messages_are_not_turns() -> None:
    text = '{"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [{"x": 1}], "stream": false}'
    assert [turn.text for turn in normalise(text, FORM)] == ["hi"]
