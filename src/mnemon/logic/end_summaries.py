"""The summaries an older bot kept of its turns, read from its `end_summaries.json`: a list of texts, or of objects
`{summary, timestamp, location: {type, id?, name}}`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mnemon.contracts.chats import RequestType
from mnemon.contracts.errors import InvalidArgument, MalformedInput
from mnemon.logic.ids import stable_id

_KINDS: dict[str, RequestType] = {"group": "group", "private": "private"}


@dataclass(frozen=True, slots=True)
class Chat:
    """Where a turn took place. An older bot wrote down what a chat is called, and not always which one it is."""

    kind: RequestType
    id: str = ""
    name: str = ""

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name or self.id!r}"


@dataclass(frozen=True, slots=True)
class Summary:
    """`number` counts from 1. `chat` is None where the record says nothing of one."""

    number: int
    text: str
    timestamp: str | float | None = None
    chat: Chat | None = None


@dataclass(frozen=True, slots=True)
class Unreadable:
    number: int
    why: str
    text: str = ""


def records(text: str) -> list[Any]:
    """The rows of the file, whatever they are."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise MalformedInput(f"not JSON ({error})", field="source") from None
    if not isinstance(data, list):
        raise MalformedInput(f"expected a list of summaries, found {type(data).__name__}", field="source")
    return data


def summaries(rows: Sequence[Any]) -> Iterator[Summary | Unreadable]:
    for number, row in enumerate(rows, 1):
        try:
            yield _summary(number, row)
        except InvalidArgument as wrong:
            yield Unreadable(number, wrong.message, _start(row))


def _summary(number: int, row: object) -> Summary:
    if isinstance(row, str):
        return Summary(number, _text(row))
    if not isinstance(row, Mapping):
        raise InvalidArgument(f"it should be a text or an object, not {type(row).__name__}")
    if "summary" not in row:
        raise InvalidArgument("it has no summary")
    timestamp = row.get("timestamp")
    if timestamp is not None and (isinstance(timestamp, bool) or not isinstance(timestamp, str | int | float)):
        raise InvalidArgument(f"its timestamp should be a text or a number, not {type(timestamp).__name__}")
    return Summary(number, _text(row["summary"]), timestamp or None, _chat(row.get("location")))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"its summary should be a text, not {type(value).__name__}")
    if not value.strip():
        raise InvalidArgument("its summary is empty")
    return _sound("summary", value.strip())


def _sound(field: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"its {field} holds half of a surrogate pair at {error.start}") from None
    return text


def _chat(location: object) -> Chat | None:
    if location is None:
        return None
    if not isinstance(location, Mapping):
        raise InvalidArgument(f"its location should be an object, not {type(location).__name__}")
    kind = _KINDS.get(str(location.get("type")))
    if kind is None:
        raise InvalidArgument(f"its location.type should be group or private, not {location.get('type')!r}")
    id_, name = location.get("id"), location.get("name")
    for field, value in (("id", id_), ("name", name)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
            raise InvalidArgument(f"its location.{field} should be a text, not {type(value).__name__}")
    chat = Chat(kind, _sound("location.id", str(id_ or "").strip()), _sound("location.name", str(name or "").strip()))
    if not chat.id and not chat.name:
        raise InvalidArgument("its location names no chat")
    return chat


def _start(row: object) -> str:
    said = row.get("summary") if isinstance(row, Mapping) else row
    return said[:80] if isinstance(said, str) else ""


@dataclass(frozen=True, slots=True)
class Places:
    """Which chat a record belongs to. `default` is for records that name none, and for the only chat of its kind a
    file names without an id; `ids` are the ids of chats by their names. What is none of these belongs nowhere: two
    chats are never thrown together."""

    default: Chat | None
    ids: Mapping[str, str]

    def of(self, summary: Summary, named: Mapping[RequestType, set[str]]) -> Chat:
        chat = summary.chat
        if chat is None:
            if self.default is None:
                raise InvalidArgument("it names no chat, and no user or group was given for those")
            return self.default
        if chat.id:
            return chat
        if chat.name in self.ids:
            return Chat(chat.kind, self.ids[chat.name], chat.name)
        if self.default is not None and self.default.kind == chat.kind and len(named[chat.kind] - self.ids.keys()) == 1:
            return Chat(chat.kind, self.default.id, chat.name)
        raise InvalidArgument(f"which {chat.label} is, is not said: give its id")


def names_without_ids(found: Sequence[Summary | Unreadable]) -> dict[RequestType, set[str]]:
    named: dict[RequestType, set[str]] = {kind: set() for kind in _KINDS.values()}
    for summary in found:
        if isinstance(summary, Summary) and summary.chat is not None and not summary.chat.id:
            named[summary.chat.kind].add(summary.chat.name)
    return named


class RequestIds:
    """The same record of the same chat has the same id in every copy of the file, wherever in it it stands; of several
    that are all the same, each has its own."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, ...]] = Counter()

    def of(self, summary: Summary, chat: Chat) -> str:
        said = (chat.kind, chat.id, str(summary.timestamp or ""), summary.text)
        self._seen[said] += 1
        return f"end-summary-{stable_id('end-summary', *said, str(self._seen[said]))}"
