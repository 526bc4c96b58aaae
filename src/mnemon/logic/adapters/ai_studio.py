"""`ai_studio_export_text_v1`: Google AI Studio's JSON-like text, and the plain `contents[]` form of the Gemini API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mnemon.contracts.turns import Attachment, InputFormat, Role, Turn
from mnemon.logic.adapters import attachments, fields
from mnemon.logic.adapters.fields import Data
from mnemon.logic.adapters.json_stream import Item, Layout, Source, as_chunks, read
from mnemon.logic.adapters.place import Place
from mnemon.logic.adapters.relaxed_json import relaxed
from mnemon.logic.adapters.times import first_time
from mnemon.logic.adapters.tool_calls import call, rendered
from mnemon.logic.adapters.turns import TurnMaker, make_attachment

LAYOUT = Layout(
    arrays=(("chunkedPrompt", "chunks"), ("contents",)),
    expected="an object with `chunkedPrompt.chunks` or `contents`, or an array of contents",
    lines=False,
    strict=False,
)
ROLES = {
    "user": Role.USER,
    "model": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "function": Role.TOOL,
    "tool": Role.TOOL,
}
TIMES = ("createTime", "create_time")
SYSTEM = ("systemInstruction", "system_instruction")
CODE_TOOL = "code_execution"
# Fields that hold bytes, and fields that name something stored elsewhere, with the type of their attachment.
INLINE = {"inlineData": "file", "inlineFile": "file", "inlineImage": "image_ref", "inlineAudio": "file"}
STORED = {
    "driveImage": ("image_ref", "drive://"),
    "driveDocument": ("file", "drive://"),
    "driveVideo": ("file", "drive://"),
    "driveAudio": ("file", "drive://"),
    "youtubeVideo": ("file", "https://www.youtube.com/watch?v="),
}


@dataclass
class _Draft:
    """A turn to be: words gather in it until something that is not words stands between them."""

    place: Place
    words: list[str] = field(default_factory=list)
    role: Role | None = None
    speaker: str | None = None
    attachments: list[Attachment] = field(default_factory=list)
    meta: Data = field(default_factory=dict)
    sources: int = 0


@dataclass(frozen=True)
class _Piece:
    """One thing a chunk or part holds: words, a thought, an attachment, or a turn of its own (a call, a result)."""

    place: Place
    words: str | None = None
    thought: bool = False
    attachment: Attachment | None = None
    draft: _Draft | None = None


def adapt(source: Source) -> Iterator[Turn]:
    chunks = as_chunks(source)
    maker = TurnMaker(InputFormat.AI_STUDIO_EXPORT)
    for item in read(source if chunks is None else relaxed(chunks), LAYOUT):
        if item.index is not None:
            yield from _turns(maker, item.value, item.index, item.place)
        elif item.place.path in SYSTEM:
            yield from _system(maker, item)


def _system(maker: TurnMaker, item: Item) -> Iterator[Turn]:
    value = {"text": item.value} if isinstance(item.value, str) else item.value
    if value is None:
        return
    data = fields.as_object(value, item.place)
    text = "".join(piece.words or "" for piece in _pieces(data, item.place))
    if text:
        yield maker.make(item.place, 0, Role.SYSTEM, text)


def _turns(maker: TurnMaker, value: object, index: int, place: Place) -> Iterator[Turn]:
    data = fields.as_object(value, place)
    role = ROLES[fields.one_of(data, "role", ROLES, place)] if data.get("role") is not None else _no_role(place)
    stamp = first_time(data, TIMES, place)
    drafts = _drafts(list(_pieces(data, place)), place)
    drafts[-1].meta.update(_stats(data))
    for draft in drafts:
        yield maker.make(
            draft.place,
            index,
            draft.role or role,
            "".join(draft.words),
            speaker=draft.speaker,
            timestamp_iso=stamp,
            attachments=tuple(draft.attachments),
            meta=draft.meta,
        )


def _no_role(place: Place) -> Role:
    """The API lets a single prompt leave its role out; a chunk of an export always has one."""
    if place.path.startswith("chunkedPrompt"):
        raise place.error("the field `role` is missing", "`role`: one of " + ", ".join(ROLES))
    return Role.USER


def _drafts(pieces: list[_Piece], place: Place) -> list[_Draft]:
    """Thoughts first and apart; then the words, joined without a seam, broken only by calls and their results."""
    drafts: list[_Draft] = []
    thoughts = [piece for piece in pieces if piece.thought]
    if thoughts:
        where = thoughts[0].place if len(thoughts) == 1 else place
        drafts.append(_Draft(where, [piece.words or "" for piece in thoughts], meta={"thought": True}))
    gathered = _Draft(place)
    for piece in pieces:
        if piece.thought:
            continue
        if piece.draft is not None:
            if gathered.sources:
                drafts.append(gathered)
                gathered = _Draft(place)
            drafts.append(piece.draft)
            continue
        gathered.sources += 1
        # A single part is named in the path; several are their chunk.
        gathered.place = piece.place if gathered.sources == 1 else place
        gathered.words.append(piece.words or "")
        if piece.attachment is not None:
            gathered.attachments.append(piece.attachment)
    if gathered.sources or not drafts:
        drafts.append(gathered)
    return drafts


def _pieces(data: Data, place: Place) -> Iterator[_Piece]:
    """A chunk's `text` repeats its parts; where it differs the chunk was edited, and the edit is what was meant."""
    thought = fields.optional_bool(data, "isThought", place) or False
    whole = fields.optional_text(data, "text", place)
    found = list(_things(data, place))
    for number, value in enumerate(fields.optional_list(data, "parts", place) or []):
        here = place.key("parts").item(number)
        part = fields.as_object(value, here)
        words = fields.optional_text(part, "text", here)
        if words is not None:
            found.append(_Piece(here, words, thought or bool(fields.optional_bool(part, "thought", here))))
        found.extend(_things(part, here))
    every = "".join(piece.words or "" for piece in found)
    spoken = "".join(piece.words or "" for piece in found if not piece.thought)
    if whole and whole not in (every, spoken):
        yield _Piece(place, whole, thought)
        found = [piece for piece in found if piece.words is None]
    yield from found


def _things(data: Data, place: Place) -> Iterator[_Piece]:
    """Whatever a chunk or a part holds that is not its own words."""
    for key, kind in INLINE.items():
        blob = fields.optional_object(data, key, place)
        if blob is not None:
            yield _Piece(place, attachment=_inline(blob, kind, place.key(key)))
    for key, (kind, prefix) in STORED.items():
        stored = fields.optional_object(data, key, place)
        if stored is not None:
            ref = prefix + fields.text(stored, "id", place.key(key))
            yield _Piece(place, attachment=make_attachment(place.key(key), type=kind, name=key, ref=ref))
    file_data = fields.optional_object(data, "fileData", place)
    if file_data is not None:
        here = place.key("fileData")
        kind = "image_ref" if str(file_data.get("mimeType", "")).startswith("image/") else "file"
        name = fields.optional_text(file_data, "displayName", here) or ""
        yield _Piece(place, attachment=attachments.from_url(fields.text(file_data, "fileUri", here), here, kind, name))
    yield from _actions(data, place)


def _inline(blob: Data, kind: str, place: Place) -> Attachment:
    mime = fields.optional_text(blob, "mimeType", place) or ""
    if mime.startswith("image/"):
        kind = "image_ref"
    name = fields.optional_text(blob, "displayName", place) or fields.optional_text(blob, "fileName", place) or ""
    return attachments.from_base64(fields.text(blob, "data", place), place.key("data"), kind, name, mime)


def _actions(data: Data, place: Place) -> Iterator[_Piece]:
    code = fields.optional_object(data, "executableCode", place)
    if code is not None:
        written = fields.text(code, "code", place.key("executableCode"))
        meta: Data = {"tool_calls": [call(None, CODE_TOOL, written)]}
        language = fields.optional_text(code, "language", place.key("executableCode"))
        if language:
            meta["code_language"] = language
        yield _Piece(place, draft=_Draft(place, [written], Role.ASSISTANT, meta=meta))
    result = fields.optional_object(data, "codeExecutionResult", place)
    if result is not None:
        here = place.key("codeExecutionResult")
        outcome = fields.optional_text(result, "outcome", here)
        output = fields.optional_text(result, "output", here) or ""
        tool: Data = {"name": CODE_TOOL}
        if outcome is not None:
            tool["ok"] = outcome == "OUTCOME_OK"
        yield _Piece(place, draft=_Draft(place, [output], Role.TOOL, f"tool:{CODE_TOOL}", meta={"tool": tool}))
    function = fields.optional_object(data, "functionCall", place)
    if function is not None:
        here = place.key("functionCall")
        name = fields.text(function, "name", here)
        calls = [call(fields.optional_id(function, "id", here), name, function.get("args", {}))]
        meta = {"tool_calls": calls, "rendered": True}
        yield _Piece(place, draft=_Draft(place, [rendered(calls)], Role.ASSISTANT, meta=meta))
    response = fields.optional_object(data, "functionResponse", place)
    if response is not None:
        yield _Piece(place, draft=_response(response, place))


def _response(response: Data, place: Place) -> _Draft:
    here = place.key("functionResponse")
    name = fields.text(response, "name", here)
    tool: Data = {"name": name}
    call_id = fields.optional_id(response, "id", here)
    if call_id is not None:
        tool["call_id"] = call_id
    answer = response.get("response", "")
    meta: Data = {"tool": tool} if isinstance(answer, str) else {"tool": tool, "rendered": True}
    return _Draft(place, [fields.as_written(answer)], Role.TOOL, f"tool:{name}", meta=meta)


def _stats(data: Data) -> Data:
    """What AI Studio counted; kept beside the words, never among them."""
    names = {"tokenCount": "token_count", "finishReason": "finish_reason", "errorMessage": "error"}
    return {ours: data[theirs] for theirs, ours in names.items() if isinstance(data.get(theirs), str | int | float)}
