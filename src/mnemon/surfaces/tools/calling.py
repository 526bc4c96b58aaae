"""A model's tool call, carried out: what the model may say comes from the model, who and where from the host."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pydantic_core import to_jsonable_python

from mnemon.contracts.chats import EndResult, EventHit, Profile, ProfileHit, Said
from mnemon.contracts.errors import InvalidArgument
from mnemon.engine.ending import Moment
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.sync import Memory
from mnemon.logic.hints import hint
from mnemon.surfaces.tools.definitions import Tool, tool_named

_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """What the host knows of the turn it hands to its model, and the model has no say in. The fields are those of
    `end`; `message_sent` is whether the bot has said something yet."""

    tenant_id: str
    user_id: str
    request_id: str
    end_seq: int = 1
    group_id: str | None = None
    sender_id: str | None = None
    sender_name: str = ""
    group_name: str = ""
    bot_name: str = ""
    message_ids: Sequence[str] = ()
    messages: Sequence[Said | Mapping[str, Any]] = ()
    message_sent: bool | None = None
    timestamp: Moment | None = None
    timezone: str | None = None
    location: str = ""
    include_private: bool = False

    def for_end(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "include_private"}

    def for_asking(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("tenant_id", "user_id", "group_id", "include_private")}


def call_tool(
    memory: Memory, turn: ChatTurn, name: str, arguments: Mapping[str, Any] | str | None = None
) -> dict[str, Any]:
    """Carry out a model's call and say what came of it, as plain JSON for the model to read. `arguments` are taken as
    the provider hands them over: an object, or its JSON text.

    A call that makes no sense, or names a person or a tenant, is an `InvalidArgument`; `error.envelope()` is an
    answer a model understands."""
    tool, given = _read(turn, name, arguments)
    return _SHOWN[tool.method](getattr(memory, tool.method)(**given))


async def call_tool_async(
    memory: AsyncMemory, turn: ChatTurn, name: str, arguments: Mapping[str, Any] | str | None = None
) -> dict[str, Any]:
    """The same for a program with an event loop."""
    tool, given = _read(turn, name, arguments)
    return _SHOWN[tool.method](await getattr(memory, tool.method)(**given))


def _read(turn: ChatTurn, name: str, arguments: Mapping[str, Any] | str | None) -> tuple[Tool, dict[str, Any]]:
    tool = tool_named(name)
    given = {key: value for key, value in _object(arguments).items() if value is not None}
    hosts = turn.for_end() if tool.method == "end" else turn.for_asking()
    for key, value in given.items():
        if key not in tool.parameters:
            raise _unknown(tool, key)
        kind = tool.parameters[key]["type"]
        if not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
            raise InvalidArgument(f"{key} must be of type {kind}, not {type(value).__name__}", field=key)
    for key in tool.required:
        if key not in given:
            raise InvalidArgument(f"{tool.wire_name} needs {key}", field=key)
    return tool, hosts | given


def _unknown(tool: Tool, key: str) -> InvalidArgument:
    if key in ChatTurn.__dataclass_fields__:
        return InvalidArgument(
            f"{key} is not the model's to say: the host names the person and the chat", field=key, reason="smuggled"
        )
    return InvalidArgument(f"{tool.wire_name} takes no {key!r}{hint(key, tool.parameters)}", field=key)


def _object(arguments: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else None
        except ValueError as error:
            raise InvalidArgument(f"arguments: not JSON ({error})", field="arguments") from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise InvalidArgument(f"arguments must be an object, not {type(arguments).__name__}", field="arguments")
    return arguments


def _ended(result: EndResult) -> dict[str, Any]:
    return {"status": result.status, "event_id": result.event_id}


def _events(found: Sequence[EventHit]) -> dict[str, Any]:
    return {"items": [_event(hit) for hit in found]}


def _event(hit: EventHit) -> dict[str, Any]:
    quotes = [quote.text for quote in hit.evidence]
    return {**_picked(hit, "id", "text", "ts", "score", "evidence_level"), "quotes": quotes}


def _profile(found: Profile) -> dict[str, Any]:
    return _picked(found, "entity_type", "entity_id", "name", "tags", "updated_at", "text")


def _profiles(found: Sequence[ProfileHit]) -> dict[str, Any]:
    shown = ("entity_type", "entity_id", "score", "text", "tags", "updated_at")
    return {"items": [_picked(hit, *shown) for hit in found]}


def _picked(result: object, *names: str) -> dict[str, Any]:
    return {name: to_jsonable_python(getattr(result, name)) for name in names}


# A model reads what it was told; ids of rows and versions of nodes would only cost it room.
_SHOWN: dict[str, Callable[[Any], dict[str, Any]]] = {
    "end": _ended,
    "search_events": _events,
    "get_profile": _profile,
    "search_profiles": _profiles,
}
