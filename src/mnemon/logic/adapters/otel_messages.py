"""The messages a GenAI span shows: today's attributes, and the span events of conventions up to 1.36."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mnemon.logic.adapters.attachments import from_base64
from mnemon.logic.adapters.fields import Data, as_written
from mnemon.logic.adapters.otel_spans import Span
from mnemon.logic.adapters.place import Place
from mnemon.logic.adapters.strict_json import check_tree, decoder

DETAILS = "gen_ai.client.inference.operation.details"
KINDS = {"user": "user_message", "assistant": "assistant_message", "system": "system_message"}
EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_JSON = decoder(strict=False)


@dataclass
class Message:
    """One step to be: words, or a tool's call or result."""

    kind: str
    text: str = ""
    speaker: str = ""
    name: str = ""
    call_id: str = ""
    body: Any = ""
    attachments: list[Data] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, ...]:
        """Two mentions of the same message have the same key; a call's id says more than its words."""
        if self.kind in ("tool_call", "tool_result"):
            if self.call_id:
                return (self.kind, self.call_id)
            name = self.name if self.kind == "tool_call" else ""
            return (self.kind, name, as_written(_parsed(self.body)))
        return (self.kind, self.text, json.dumps(self.attachments, sort_keys=True))


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def input_messages(span: Span) -> list[Message]:
    found: list[Message] = []
    for attributes in _shown(span):
        for part in _list(attributes.get("gen_ai.system_instructions")):
            found.extend(_from_parts("system", "", [part]))
        found.extend(_from_list(attributes.get("gen_ai.input.messages")))
    for name, attributes in span.events:
        if name in EVENTS:
            found.extend(_from_event(EVENTS[name], attributes))
    return found


def output_messages(span: Span) -> list[Message]:
    found: list[Message] = []
    for attributes in _shown(span):
        found.extend(_from_list(attributes.get("gen_ai.output.messages")))
    for name, attributes in span.events:
        if name == "gen_ai.choice":
            message = _parsed(attributes.get("message"))
            found.extend(_from_event("assistant", message if isinstance(message, dict) else attributes))
    return found


def _shown(span: Span) -> Iterator[Data]:
    yield span.attributes
    for name, attributes in span.events:
        if name == DETAILS:
            yield attributes


def _parsed(value: object) -> Any:
    """A span cannot always hold structure: then it holds the structure's JSON as text."""
    if not isinstance(value, str) or value[:1] not in "{[":
        return value
    try:
        parsed, end = _JSON.raw_decode(value)
    except (ValueError, RecursionError):
        return value
    if value[end:].strip():
        return value
    check_tree(parsed, Place())
    return parsed


def _list(value: object) -> list[Any]:
    parsed = _parsed(value)
    return parsed if isinstance(parsed, list) else []


def _from_list(value: object) -> Iterator[Message]:
    for entry in _list(value):
        if not isinstance(entry, dict):
            continue
        role, speaker = text_of(entry.get("role")), text_of(entry.get("name"))
        parts = entry.get("parts")
        if isinstance(parts, list):
            yield from _from_parts(role, speaker, parts)
        else:
            yield from _from_event(role, entry)


def _from_event(role: str, data: Data) -> Iterator[Message]:
    """The older form: `content` and `tool_calls` side by side, as in a chat completion."""
    role = text_of(data.get("role")) or role
    content = data.get("content")
    if isinstance(content, list):
        words = "\n".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
    else:
        words = as_written(content) if content is not None else ""
    if role == "tool":
        yield Message("tool_result", name=text_of(data.get("name")), call_id=text_of(data.get("id")), body=words)
        return
    if words:
        yield Message(KINDS.get(role, "assistant_message"), words, text_of(data.get("name")))
    for entry in _list(data.get("tool_calls")):
        function = entry.get("function") if isinstance(entry, dict) else None
        if isinstance(function, dict):
            name, arguments = text_of(function.get("name")), function.get("arguments", {})
            yield Message("tool_call", name=name or "tool", call_id=text_of(entry.get("id")), body=arguments)


def _from_parts(role: str, speaker: str, parts: list[Any]) -> Iterator[Message]:
    """Words and attachments of a message stay together; thoughts, calls and results are steps of their own."""
    words: list[str] = []
    attached: list[Data] = []
    others: list[Message] = []
    for part in parts:
        if not isinstance(part, dict):
            continue
        kind = text_of(part.get("type"))
        if kind == "text":
            words.append(text_of(part.get("content")))
        elif kind == "reasoning":
            yield Message("thought", text_of(part.get("content")))
        elif kind == "tool_call":
            name, call_id = text_of(part.get("name")), text_of(part.get("id"))
            others.append(Message("tool_call", name=name or "tool", call_id=call_id, body=part.get("arguments", {})))
        elif kind == "tool_call_response":
            answer = part.get("response", part.get("result", ""))
            others.append(Message("tool_result", name="", call_id=text_of(part.get("id")), body=answer))
        elif kind in ("blob", "uri", "file"):
            attached.append(_attachment(kind, part))
    if words and role == "tool":
        yield Message("tool_result", body="\n".join(words), attachments=attached)
    elif words or attached:
        yield Message(KINDS.get(role, "assistant_message"), "\n".join(words), speaker, attachments=attached)
    yield from others


def _attachment(kind: str, part: Data) -> Data:
    mime = text_of(part.get("mime_type"))
    image = text_of(part.get("modality")) == "image" or mime.startswith("image/")
    holds = "image_ref" if image else "file"
    if kind == "blob":
        stored = from_base64(text_of(part.get("content")), Place("blob"), holds, "", mime)
        return stored.model_dump(exclude={"truncated"})
    ref = text_of(part.get("uri")) if kind == "uri" else f"file:{text_of(part.get('file_id'))}"
    return {"type": holds, "name": "", "ref": ref}
