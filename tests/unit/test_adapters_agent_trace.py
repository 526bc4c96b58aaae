"""agent_trace_v1: the official schema, and the converter from OpenTelemetry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mnemon.contracts.errors import MalformedInput
from mnemon.contracts.turns import Role, Turn
from mnemon.logic.adapters import normalise
from mnemon.logic.adapters.otel import convert

FORM = "agent_trace_v1"


def turns(*steps: Any) -> list[Turn]:
    return list(normalise({"schema": FORM, "trace_id": "T", "steps": list(steps)}, FORM))


def fails(*steps: Any) -> MalformedInput:
    with pytest.raises(MalformedInput) as caught:
        turns(*steps)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "role", "speaker"),
    [
        ("user_message", Role.USER, "user"),
        ("assistant_message", Role.ASSISTANT, "planner"),
        ("system_message", Role.SYSTEM, "planner"),
        ("thought", Role.ASSISTANT, "planner"),
        ("error", Role.SYSTEM, "planner"),
    ],
)
def test_messages(kind: str, role: Role, speaker: str) -> None:
    (turn,) = turns({"type": kind, "text": " 好 ", "agent": "planner"})
    assert (turn.role, turn.speaker, turn.text) == (role, speaker, " 好 ")
    assert turn.meta["step_type"] == kind
    assert turn.meta.get("thought", False) is (kind == "thought")


def test_a_tool_call_and_its_result_keep_their_figures() -> None:
    call, result, structured, failed = turns(
        {"type": "tool_call", "agent": "a", "tool": {"name": "f", "call_id": 7, "arguments": {"q": "天"}}},
        {
            "type": "tool_result",
            "tool": {"name": "f", "call_id": 7, "output": "晴", "duration_ms": 12.5, "ok": True},
            "usage": {"input_tokens": 3, "output_tokens": 4},
        },
        {"type": "tool_result", "tool": {"name": "f", "output": {"b": 1, "a": "天"}}},
        {"type": "tool_result", "tool": {"name": "f", "ok": False, "error": "timeout"}},
    )
    assert (call.role, call.speaker, call.text) == (Role.ASSISTANT, "a", 'f({"q": "天"})')
    assert call.meta["tool_calls"] == [{"id": "7", "name": "f", "arguments": {"q": "天"}}]
    assert call.meta["rendered"] is True
    assert (result.role, result.speaker, result.text) == (Role.TOOL, "tool:f", "晴")
    assert result.meta["tool"] == {"name": "f", "call_id": "7", "duration_ms": 12.5, "ok": True}
    assert result.meta["usage"] == {"input_tokens": 3, "output_tokens": 4}
    assert "rendered" not in result.meta
    assert structured.text == '{"b": 1, "a": "天"}'
    assert structured.meta["rendered"] is True
    assert (failed.text, failed.meta["tool"]["ok"]) == ("timeout", False)


def test_a_tools_error_counts_as_a_failed_call() -> None:
    (turn,) = turns({"type": "error", "text": "boom", "tool": {"name": "f", "duration_ms": 3}})
    assert (turn.role, turn.speaker, turn.text) == (Role.TOOL, "tool:f", "boom")
    assert turn.meta["tool"] == {"name": "f", "duration_ms": 3, "ok": False}


def test_a_handoff() -> None:
    silent, said = turns(
        {"type": "handoff", "agent": "triage", "to": "billing"},
        {"type": "handoff", "agent": "triage", "to": "billing", "text": "Please help."},
    )
    assert (silent.text, silent.meta["to"], silent.meta["rendered"]) == ("triage → billing", "billing", True)
    assert said.text == "Please help."


def test_everything_around_the_words_is_kept() -> None:
    (turn,) = turns(
        {
            "type": "user_message",
            "text": "x",
            "step_id": 4,
            "parent_id": "3",
            "speaker": "Alice",
            "timestamp": "2025-01-01T08:00:00+08:00",
            "attachments": [{"type": "file", "name": "a", "ref": "s3://a"}],
            "meta": {"tool": "mine"},
        }
    )
    assert turn.meta == {"step_type": "user_message", "step_id": "4", "parent_id": "3", "extra": {"tool": "mine"}}
    assert (turn.speaker, turn.timestamp_iso) == ("Alice", "2025-01-01T00:00:00Z")
    assert turn.attachments[0].ref == "s3://a"
    assert turn.source_ref is not None
    assert (turn.source_ref.raw_index, turn.source_ref.raw_path) == (0, "steps[0]")


def test_the_header_may_follow_the_steps_and_may_be_a_line() -> None:
    step = {"type": "user_message", "text": "x"}
    sorted_keys = json.dumps({"steps": [step], "trace_id": "T", "schema": FORM})
    assert [turn.text for turn in normalise(sorted_keys, FORM)] == ["x"]
    lines = "\n".join(map(json.dumps, [{"schema": FORM, "trace_id": "T"}, step, step]))
    assert [turn.turn_id for turn in normalise(lines, FORM)] == ["t0001", "t0002"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"steps": [{"type": "user_message", "text": "x"}]}, "`schema` is missing"),
        ({"schema": "agent_trace_v2", "steps": []}, "agent_trace_v1"),
        ({"schema": FORM, "steps": [], "step": 1}, "did you mean `steps`"),
        ({"schema": FORM, "step": []}, "did you mean `steps`"),
        ({"schema": FORM, "trace_id": [], "steps": []}, "trace_id"),
        ({"schema": FORM, "meta": 5, "steps": []}, "an object"),
        ({"type": "user_message", "text": "x"}, "`schema` is missing"),
        ([], "expected an object with"),
        ({"schema": FORM, "steps": 5}, "an array"),
    ],
)
def test_the_header_is_strict(data: Any, says: str) -> None:
    for source in (data, json.dumps(data)):
        with pytest.raises(MalformedInput) as caught:
            list(normalise(source, FORM))
        assert says in caught.value.message


@pytest.mark.parametrize(
    ("step", "path", "says"),
    [
        (5, "steps[0]", "an object"),
        ({"text": "x"}, "steps[0]", "`type` is missing"),
        ({"type": "message", "text": "x"}, "steps[0].type", "user_message"),
        ({"type": "user_message"}, "steps[0]", "`text` is missing"),
        ({"type": "user_message", "content": "x"}, "steps[0].content", "unknown field"),
        ({"type": "user_message", "text": "x", "time": 1}, "steps[0].time", "did you mean `timestamp`"),
        ({"type": "user_message", "text": "x", "tool": {"name": "f"}}, "steps[0].tool", "has no tool"),
        ({"type": "user_message", "text": "x", "to": "b"}, "steps[0].to", "has no receiver"),
        ({"type": "tool_call"}, "steps[0]", "`tool` is missing"),
        ({"type": "tool_call", "tool": {}}, "steps[0].tool", "`name` is missing"),
        ({"type": "tool_call", "tool": {"name": ""}}, "steps[0].tool.name", "empty"),
        ({"type": "tool_call", "tool": {"name": "f", "args": 1}}, "steps[0].tool.args", "did you mean `arguments`"),
        ({"type": "tool_call", "tool": {"name": "f", "ok": True}}, "steps[0].tool.ok", "tool_result"),
        ({"type": "tool_result", "tool": {"name": "f", "ok": "yes"}}, "steps[0].tool.ok", "true or false"),
        ({"type": "tool_result", "tool": {"name": "f", "duration_ms": -1}}, "steps[0].tool.duration_ms", "negative"),
        ({"type": "tool_result", "text": "a", "tool": {"name": "f", "output": "b"}}, "steps[0]", "one of the two"),
        ({"type": "handoff"}, "steps[0]", "`to` is missing"),
        ({"type": "user_message", "text": "x", "usage": {"tokens": 1}}, "steps[0].usage.tokens", "_tokens"),
        (
            {"type": "user_message", "text": "x", "usage": {"input_tokens": "1"}},
            "steps[0].usage.input_tokens",
            "number",
        ),
        ({"type": "user_message", "text": "x", "timestamp": {}}, "steps[0].timestamp", "ISO 8601"),
    ],
)
def test_a_wrong_step_says_where_and_what(step: Any, path: str, says: str) -> None:
    error = fails(step)
    assert error.path == path
    assert says in error.message


# OpenTelemetry


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


CALL = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"城": "巴黎"}}],
}
RESPONSE = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "rain, 14°"}]}


def span(number: int, operation: str, start: int, end: int, trace: str = "T", **attributes: Any) -> dict[str, Any]:
    named = {f"gen_ai.{key.replace('__', '.')}": value for key, value in attributes.items()}
    return {
        "traceId": trace,
        "spanId": f"s{number}",
        "name": operation,
        "startTimeUnixNano": str(start * 10**9),
        "endTimeUnixNano": str(end * 10**9),
        "attributes": {"gen_ai.operation.name": operation, **named},
    }


def conversation() -> list[dict[str, Any]]:
    """Two questions, one tool; every chat repeats everything before it, and the spans come out of order."""
    first = [said("user", "天气?")]
    second = [*first, CALL, RESPONSE]
    third = [*second, said("assistant", "Rain."), said("user", "天气?")]
    system = json.dumps([{"type": "text", "content": "Be kind."}])
    return [
        span(4, "chat", 40, 41, input__messages=third, output__messages=[said("assistant", "Still rain.")]),
        span(1, "chat", 10, 11, input__messages=json.dumps(first), output__messages=[CALL], system_instructions=system),
        span(
            2,
            "execute_tool",
            12,
            14,
            tool__name="weather",
            tool__call__id="c1",
            tool__call__arguments={"城": "巴黎"},
            tool__call__result="rain, 14°",
        ),
        span(3, "chat", 20, 21, input__messages=second, output__messages=[said("assistant", "Rain.")]),
    ]


EXPECTED = [
    ("system", "Be kind."),
    ("user", "天气?"),
    ("assistant", 'weather({"城": "巴黎"})'),
    ("tool", "rain, 14°"),
    ("assistant", "Rain."),
    ("user", "天气?"),
    ("assistant", "Still rain."),
]


def otlp(value: Any) -> dict[str, Any]:
    """A value as OTLP JSON writes it."""
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [otlp(item) for item in value]}}
    return {"kvlistValue": {"values": [{"key": k, "value": otlp(v)} for k, v in value.items()]}}


def spoken(data: Any) -> list[tuple[str, str]]:
    return [(turn.role.value, turn.text) for turn in normalise(convert(data), FORM)]


def test_a_repeated_history_is_told_once_and_in_time_order() -> None:
    assert spoken(conversation()) == EXPECTED


def test_otlp_json_says_the_same_as_a_plain_list() -> None:
    spans = conversation()
    for entry in spans:
        entry["attributes"] = [{"key": k, "value": otlp(v)} for k, v in entry["attributes"].items()]
    data = {"resourceSpans": [{"scopeSpans": [{"spans": spans[:2]}, {"spans": spans[2:]}]}]}
    assert spoken(data) == EXPECTED
    assert spoken([data]) == EXPECTED


def test_the_tools_span_gives_duration_success_and_time() -> None:
    result = next(step for step in convert(conversation())["steps"] if step["type"] == "tool_result")
    assert result["tool"] == {
        "name": "weather",
        "call_id": "c1",
        "output": "rain, 14°",
        "ok": True,
        "duration_ms": 2000.0,
    }
    turn = next(turn for turn in normalise(convert(conversation()), FORM) if turn.role is Role.TOOL)
    assert turn.timestamp_iso == "1970-01-01T00:00:14Z"


def test_a_failed_tool_and_a_failed_chat() -> None:
    failed = span(1, "execute_tool", 1, 2, tool__name="f") | {"status": {"code": 2, "message": "timeout"}}
    broken = span(2, "chat", 3, 4, input__messages=[said("user", "q")]) | {"status": {"code": "STATUS_CODE_ERROR"}}
    found = list(normalise(convert([failed, broken]), FORM))
    assert [(turn.role.value, turn.text) for turn in found] == [
        ("assistant", "f({})"),
        ("tool", "timeout"),
        ("user", "q"),
        ("system", "error"),
    ]
    assert found[1].meta["tool"]["ok"] is False


def test_a_tool_span_without_the_calls_id_is_matched_by_name() -> None:
    spans = conversation()
    del spans[2]["attributes"]["gen_ai.tool.call.id"]
    assert spoken(spans) == EXPECTED


def test_an_agents_span_around_the_chats_adds_nothing() -> None:
    around = span(
        9,
        "invoke_agent",
        9,
        41,
        input__messages=[said("user", "天气?")],
        output__messages=[said("assistant", "Still rain.")],
    )
    assert sorted(spoken([*conversation(), around])) == sorted(EXPECTED)


def test_the_same_greeting_in_a_second_trace_is_said_again_but_a_retry_is_not() -> None:
    hello = {"input__messages": [said("user", "hi")], "output__messages": [said("assistant", "Hello!")]}
    apart = [span(1, "chat", 1, 2, "A", **hello), span(2, "chat", 3, 4, "B", **hello)]
    assert spoken(apart) == [("user", "hi"), ("assistant", "Hello!")] * 2
    retried = [span(1, "chat", 1, 2, input__messages=[said("user", "hi")]), span(2, "chat", 3, 4, **hello)]
    assert spoken(retried) == [("user", "hi"), ("assistant", "Hello!")]


def test_the_older_span_events() -> None:
    calls = json.dumps([{"id": "c1", "function": {"name": "f", "arguments": "{}"}}])
    events = [
        ("gen_ai.system.message", {"content": "Be kind."}),
        ("gen_ai.user.message", {"content": "你好"}),
        ("gen_ai.assistant.message", {"tool_calls": calls}),
        ("gen_ai.tool.message", {"id": "c1", "content": "42"}),
        ("gen_ai.choice", {"index": 0, "message": json.dumps({"role": "assistant", "content": "是 42"})}),
        ("log", {"content": "noise"}),
    ]
    dump = {
        "name": "chat m",
        "context": {"trace_id": "0x1", "span_id": "0x2"},
        "start_time": "2025-01-01T00:00:00.000000Z",
        "end_time": "2025-01-01T00:00:01.000000Z",
        "attributes": {"gen_ai.system": "openai", "gen_ai.usage.input_tokens": 5},
        "events": [{"name": name, "attributes": attributes} for name, attributes in events],
    }
    found = list(normalise(convert([dump, {"name": "GET /", "attributes": {"http.method": "GET"}}]), FORM))
    assert [(turn.role.value, turn.speaker, turn.text) for turn in found] == [
        ("system", "system", "Be kind."),
        ("user", "user", "你好"),
        ("assistant", "assistant", "f({})"),
        ("tool", "tool:f", "42"),
        ("assistant", "assistant", "是 42"),
    ]
    assert found[-1].meta["usage"] == {"input_tokens": 5}
    assert found[-1].timestamp_iso == "2025-01-01T00:00:01Z"


def test_thoughts_and_attachments_of_a_message() -> None:
    parts = [
        {"type": "reasoning", "content": "hm"},
        {"type": "text", "content": "look"},
        {"type": "uri", "modality": "image", "uri": "https://x/y.png"},
        {"type": "blob", "mime_type": "audio/wav", "content": "aGk="},
    ]
    thought, turn = normalise(
        convert([span(1, "chat", 1, 2, output__messages=[{"role": "assistant", "parts": parts}])]), FORM
    )
    assert (thought.text, thought.meta["thought"]) == ("hm", True)
    assert [(a.type, a.ref) for a in turn.attachments] == [("image_ref", "https://x/y.png"), ("file", "data:audio/wav")]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "none of the 0 spans"),
        ([{"name": "GET", "attributes": {}}], "none of the 0 spans"),
        ([span(1, "chat", 1, 2)], "record content only when told"),
        ({}, "holds no spans"),
        ([5], "an object"),
        ({"resourceSpans": 5}, "an array"),
        ([{"attributes": 5}], "an object, or a list"),
        ([{"attributes": [{"key": "a", "value": {"intValue": "x"}}]}], "a whole number"),
        ([{"startTimeUnixNano": "x"}], "nanoseconds"),
        (5, "an object"),
    ],
)
def test_what_cannot_be_converted(data: Any, says: str) -> None:
    with pytest.raises(MalformedInput) as caught:
        convert(data)
    assert says in caught.value.message
