"""`agent_trace_v1`: our own strict schema for what an agent framework did, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mnemon.contracts.turns import InputFormat, Role, Turn
from mnemon.logic.adapters import fields
from mnemon.logic.adapters.canonical import read_attachments
from mnemon.logic.adapters.fields import Data
from mnemon.logic.adapters.json_stream import Item, Layout, Source, read
from mnemon.logic.adapters.place import Place
from mnemon.logic.adapters.times import utc_time
from mnemon.logic.adapters.tool_calls import call, rendered
from mnemon.logic.adapters.turns import TurnMaker

SCHEMA = "agent_trace_v1"
LAYOUT = Layout(
    arrays=(("steps",),),
    expected=f'an object with `"schema": "{SCHEMA}"` and `steps`, or JSON Lines: that header, then one step a line',
    bare=False,
)
HEADER = ("schema", "trace_id", "source", "meta", "steps")
STEP = (
    "type",
    "step_id",
    "parent_id",
    "agent",
    "speaker",
    "timestamp",
    "text",
    "tool",
    "to",
    "usage",
    "attachments",
    "meta",
)
TOOL = ("name", "call_id", "arguments", "output", "duration_ms", "ok", "error")
USAGE = ("input_tokens", "output_tokens", "total_tokens")
MESSAGES = {
    "user_message": Role.USER,
    "assistant_message": Role.ASSISTANT,
    "system_message": Role.SYSTEM,
    "thought": Role.ASSISTANT,
}


@dataclass
class _Said:
    """What a step says and who says it."""

    role: Role
    text: str
    speaker: str
    meta: Data


def adapt(source: Source) -> Iterator[Turn]:
    """The header may stand before or behind the steps, as a serialiser sorts it; it is complete or the input fails."""
    maker = TurnMaker(InputFormat.AGENT_TRACE)
    named = False
    for item in read(source, LAYOUT):
        if item.index is None:
            named = _check_header(item.place.path, item.value, item.place) or named
        elif item.index == 0 and item.place.path == "[0]":
            named = _check_header_line(item)
        else:
            yield _turn(maker, item.value, item.index, item.place)
    if not named:
        raise Place().error("the field `schema` is missing", f'`"schema": "{SCHEMA}"`')


def _check_header(name: str, value: object, place: Place) -> bool:
    """True for the field that names the schema."""
    if name not in HEADER:
        raise Place("", place.line, place.column).unknown(name, HEADER)
    if name == "schema" and value != SCHEMA:
        raise place.wrong(value, f"the text '{SCHEMA}'")
    if name in ("trace_id", "source"):
        fields.optional_id({name: value}, name, Place("", place.line, place.column))
    if name == "meta" and not isinstance(value, dict):
        raise place.wrong(value, "an object")
    return name == "schema"


def _check_header_line(item: Item) -> bool:
    data = fields.as_object(item.value, item.place)
    if "schema" not in data:
        raise item.place.error("the field `schema` is missing", f'`"schema": "{SCHEMA}"` in the header')
    for name, value in data.items():
        _check_header(name, value, item.place.key(name))
    return True


def _turn(maker: TurnMaker, value: object, index: int, place: Place) -> Turn:
    step = fields.as_object(value, place)
    fields.only(step, STEP, place)
    kind = fields.one_of(step, "type", STEPS, place)
    if kind not in WITH_TOOL and step.get("tool") is not None:
        raise place.key("tool").error(f"a step of type {kind} has no tool", "no `tool`")
    if kind != "handoff" and step.get("to") is not None:
        raise place.key("to").error(f"a step of type {kind} has no receiver", "no `to`")
    said = STEPS[kind](kind, step, place)
    return maker.make(
        place,
        index,
        said.role,
        said.text,
        speaker=fields.optional_text(step, "speaker", place) or said.speaker,
        timestamp_iso=utc_time(step.get("timestamp"), place.key("timestamp")),
        attachments=read_attachments(step, place),
        meta={"step_type": kind, **_common(step, place), **said.meta},
    )


def _common(step: Data, place: Place) -> Data:
    meta: Data = {
        "step_id": fields.optional_id(step, "step_id", place),
        "parent_id": fields.optional_id(step, "parent_id", place),
        "agent": fields.optional_text(step, "agent", place),
        "usage": _usage(step, place),
        "extra": fields.optional_object(step, "meta", place),
    }
    return {key: value for key, value in meta.items() if value is not None}


def _usage(step: Data, place: Place) -> Data | None:
    usage = fields.optional_object(step, "usage", place)
    if usage is None:
        return None
    here = place.key("usage")
    fields.only(usage, USAGE, here)
    return {key: fields.optional_amount(usage, key, here) for key in usage if usage[key] is not None}


def _agent(step: Data, place: Place, role: Role) -> str:
    return fields.optional_text(step, "agent", place) or role.value


def _message(kind: str, step: Data, place: Place) -> _Said:
    role = MESSAGES[kind]
    speaker = role.value if role is Role.USER else _agent(step, place, role)
    return _Said(role, fields.text(step, "text", place), speaker, {"thought": True} if kind == "thought" else {})


def _tool_call(kind: str, step: Data, place: Place) -> _Said:
    tool, here = _tool(step, place), place.key("tool")
    for field in ("output", "duration_ms", "ok", "error"):
        if field in tool:
            raise here.key(field).error("a call has no result yet", "this field in a step of type tool_result")
    calls = [call(fields.optional_id(tool, "call_id", here), tool["name"], tool.get("arguments", {}))]
    text = fields.optional_text(step, "text", place) or ""
    meta: Data = {"tool_calls": calls}
    if not text.strip():
        text = rendered(calls)
        meta["rendered"] = True
    return _Said(Role.ASSISTANT, text, _agent(step, place, Role.ASSISTANT), meta)


def _tool_result(kind: str, step: Data, place: Place) -> _Said:
    tool, here = _tool(step, place), place.key("tool")
    stats = {
        "name": tool["name"],
        "call_id": fields.optional_id(tool, "call_id", here),
        "duration_ms": fields.optional_amount(tool, "duration_ms", here),
        "ok": fields.optional_bool(tool, "ok", here),
        "error": fields.optional_text(tool, "error", here),
        "arguments": tool.get("arguments"),
    }
    meta: Data = {"tool": {key: value for key, value in stats.items() if value is not None}}
    text = fields.optional_text(step, "text", place)
    output = tool.get("output")
    if text is not None and output is not None:
        raise place.error("both `text` and `tool.output` are given", "one of the two")
    if text is None:
        if output is not None and not isinstance(output, str):
            meta["rendered"] = True
        text = fields.as_written(output) if output is not None else stats["error"] or ""
    return _Said(Role.TOOL, text, f"tool:{tool['name']}", meta)


def _error(kind: str, step: Data, place: Place) -> _Said:
    """What went wrong is the tool's word when it names a tool, else the system's."""
    text = fields.text(step, "text", place)
    if step.get("tool") is None:
        return _Said(Role.SYSTEM, text, _agent(step, place, Role.SYSTEM), {})
    said = _tool_result(kind, step, place)
    said.meta["tool"].setdefault("ok", False)
    return said


def _handoff(kind: str, step: Data, place: Place) -> _Said:
    receiver = fields.text(step, "to", place)
    giver = _agent(step, place, Role.SYSTEM)
    text = fields.optional_text(step, "text", place) or ""
    meta: Data = {"to": receiver}
    if not text.strip():
        text = f"{giver} → {receiver}"
        meta["rendered"] = True
    return _Said(Role.SYSTEM, text, giver, meta)


def _tool(step: Data, place: Place) -> Data:
    if step.get("tool") is None:
        raise place.error("the field `tool` is missing", "`tool`: an object with `name`")
    tool = fields.as_object(step["tool"], place.key("tool"))
    fields.only(tool, TOOL, place.key("tool"))
    if not fields.text(tool, "name", place.key("tool")):
        raise place.key("tool").key("name").wrong("", "the tool's name")
    return tool


STEPS: dict[str, Callable[[str, Data, Place], _Said]] = {
    **dict.fromkeys(MESSAGES, _message),
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "error": _error,
    "handoff": _handoff,
}
WITH_TOOL = ("tool_call", "tool_result", "error")
