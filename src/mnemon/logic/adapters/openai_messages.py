"""`openai_messages_v1`: the messages of a chat completion, with parts, tool calls and tool results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mnemon.contracts.turns import Attachment, InputFormat, Role, Turn
from mnemon.logic.adapters import attachments, fields
from mnemon.logic.adapters.fields import Data
from mnemon.logic.adapters.json_stream import Layout, Source, read
from mnemon.logic.adapters.place import Place
from mnemon.logic.adapters.times import first_time
from mnemon.logic.adapters.tool_calls import CallNames, call, rendered
from mnemon.logic.adapters.turns import TurnMaker, make_attachment

LAYOUT = Layout(
    arrays=(("messages",),),
    expected="an array of messages, an object with `messages`, or JSON Lines with one message a line",
)
ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
TIMES = ("created_at", "timestamp", "create_time")
TEXT_PARTS = ("text", "input_text", "output_text")
PARTS = (*TEXT_PARTS, "refusal", "image_url", "input_image", "video_url", "file", "input_file", "input_audio")


@dataclass
class _Content:
    """What the parts of one message add up to."""

    texts: list[str] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    refusal: bool = False


def adapt(source: Source) -> Iterator[Turn]:
    maker = TurnMaker(InputFormat.OPENAI_MESSAGES)
    names = CallNames()
    for item in read(source, LAYOUT):
        if item.index is not None:  # the fields beside `messages` are settings of the request, not words
            yield from _turns(maker, names, item.value, item.index, item.place)


def _turns(maker: TurnMaker, names: CallNames, value: object, index: int, place: Place) -> Iterator[Turn]:
    message = fields.as_object(value, place)
    said = fields.one_of(message, "role", ROLES, place)
    role = ROLES[said]
    stamp = first_time(message, TIMES, place)
    meta: Data = {}
    content = _content(message, role, place)
    if len(content.texts) > 1:
        meta["text_parts"] = [len(text) for text in content.texts]
    text = "\n".join(content.texts)
    message_id = fields.optional_id(message, "id", place)
    if message_id is not None:
        meta["message_id"] = message_id
    speaker = fields.optional_text(message, "name", place) or None
    if role is Role.TOOL:
        speaker = _tool_speaker(message, names, meta, place)
    elif said == "developer" and speaker is None:
        speaker = "developer"
    if content.refusal:
        meta["refusal"] = True
    calls = _calls(message, place)
    if calls:
        names.note(calls)
        meta["tool_calls"] = calls
        if not text.strip():
            text = rendered(calls)
            meta["rendered"] = True
    thought = fields.optional_text(message, "reasoning_content", place)
    if thought:
        yield maker.make(
            place.key("reasoning_content"),
            index,
            role,
            thought,
            speaker=speaker,
            timestamp_iso=stamp,
            meta={"thought": True},
        )
    yield maker.make(
        place,
        index,
        role,
        text,
        speaker=speaker,
        timestamp_iso=stamp,
        attachments=tuple(content.attachments),
        meta=meta,
    )


def _tool_speaker(message: Data, names: CallNames, meta: Data, place: Place) -> str:
    call_id = fields.optional_id(message, "tool_call_id", place)
    name = fields.optional_text(message, "name", place) or names.get(call_id)
    tool = {"name": name, "call_id": call_id}
    meta["tool"] = {key: value for key, value in tool.items() if value is not None}
    return f"tool:{name}" if name else "tool"


def _content(message: Data, role: Role, place: Place) -> _Content:
    content = _Content()
    if "content" not in message and role is not Role.ASSISTANT:
        raise place.error("the field `content` is missing", "`content`: text, null or an array of parts")
    body = message.get("content")
    if isinstance(body, str):
        content.texts.append(body)
    elif isinstance(body, list):
        for number, part in enumerate(body):
            _add_part(content, part, place.key("content").item(number))
    elif body is not None:
        raise place.key("content").wrong(body, "text, null or an array of parts")
    refusal = fields.optional_text(message, "refusal", place)
    if refusal:
        content.texts.append(refusal)
        content.refusal = True
    return content


def _add_part(content: _Content, value: object, place: Place) -> None:
    part = fields.as_object(value, place)
    kind = fields.one_of(part, "type", PARTS, place)
    if kind in TEXT_PARTS:
        content.texts.append(fields.text(part, "text", place))
    elif kind == "refusal":
        content.texts.append(fields.text(part, "refusal", place))
        content.refusal = True
    elif kind == "input_audio":
        audio = fields.as_object(part.get("input_audio"), place.key("input_audio"))
        here = place.key("input_audio")
        mime = f"audio/{fields.optional_text(audio, 'format', here) or 'wav'}"
        data = fields.text(audio, "data", here)
        content.attachments.append(attachments.from_base64(data, here.key("data"), "file", "audio", mime))
    elif kind in ("file", "input_file"):
        content.attachments.append(_file(part, kind, place))
    else:
        content.attachments.append(_picture(part, kind, place))


def _picture(part: Data, kind: str, place: Place) -> Attachment:
    """Chat completions nest the URL in an object, the responses form gives it bare or names an uploaded file."""
    key = "video_url" if kind == "video_url" else "image_url"
    holds, name = ("file", "video") if kind == "video_url" else ("image_ref", "image")
    target = part.get(key)
    if target is None and kind == "input_image":
        file_id = fields.text(part, "file_id", place)
        return make_attachment(place, type=holds, name=name, ref=f"file:{file_id}")
    if isinstance(target, dict):
        url = fields.text(target, "url", place.key(key))
        return attachments.from_url(url, place.key(key).key("url"), holds, name)
    return attachments.from_url(fields.as_text(target, place.key(key)), place.key(key), holds, name)


def _file(part: Data, kind: str, place: Place) -> Attachment:
    body, here = part, place
    if kind == "file":
        here = place.key("file")
        body = fields.as_object(part.get("file"), here)
    name = fields.optional_text(body, "filename", here) or ""
    data = fields.optional_text(body, "file_data", here)
    url = fields.optional_text(body, "file_url", here)
    if data is not None:
        data_place = here.key("file_data")
        if data[:5].lower() == "data:":
            return attachments.from_url(data, data_place, "file", name)
        return attachments.from_base64(data, data_place, "file", name, "")
    if url is not None:
        return attachments.from_url(url, here.key("file_url"), "file", name)
    return make_attachment(here, type="file", name=name, ref=f"file:{fields.text(body, 'file_id', here)}")


def _calls(message: Data, place: Place) -> list[Data]:
    calls = []
    for number, entry in enumerate(fields.optional_list(message, "tool_calls", place) or []):
        here = place.key("tool_calls").item(number)
        data = fields.as_object(entry, here)
        call_id = fields.optional_id(data, "id", here)
        if data.get("type") == "custom":
            custom = fields.as_object(data.get("custom"), here.key("custom"))
            name = fields.text(custom, "name", here.key("custom"))
            calls.append(call(call_id, name, custom.get("input", "")))
        else:
            calls.append(_function(data.get("function"), call_id, here.key("function")))
    legacy = message.get("function_call")
    if legacy is not None:
        calls.append(_function(legacy, None, place.key("function_call")))
    return calls


def _function(value: object, call_id: str | None, place: Place) -> Data:
    function = fields.as_object(value, place)
    return call(call_id, fields.text(function, "name", place), function.get("arguments", ""))
