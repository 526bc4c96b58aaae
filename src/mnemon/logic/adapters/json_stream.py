"""The elements of an export, one at a time, from text of any size or from data already parsed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mnemon.logic.adapters.place import Place, printable
from mnemon.logic.adapters.strict_json import check_tree
from mnemon.logic.adapters.text_buffer import TextBuffer

Source = Iterable[str] | list[Any] | dict[str, Any]
Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a format keeps its elements: under one of `arrays`, in a bare array, or one object a line."""

    arrays: tuple[Keys, ...]
    expected: str
    bare: bool = True
    lines: bool = True
    strict: bool = True

    def opens(self, keys: Keys) -> bool:
        return keys in self.arrays

    def leads(self, keys: Keys) -> bool:
        return any(len(keys) < len(array) and array[: len(keys)] == keys for array in self.arrays)


@dataclass(frozen=True, slots=True)
class Item:
    """An element of the array (`index` counts from 0) or a field beside it (`index` is None)."""

    place: Place
    value: Any
    index: int | None = None


def read(source: Source, layout: Layout) -> Iterator[Item]:
    """Text is read as a stream in bounded memory; a list or dict is walked in the same order."""
    chunks = as_chunks(source)
    if chunks is not None:
        return _Streamed(chunks, layout).read()
    if isinstance(source, dict | list):
        return _Parsed(layout).read(source)
    raise Place().wrong(source, "chunks of decoded text, a list or a dict")


def as_chunks(source: Source) -> Iterable[str] | None:
    """The source as text, or None when it is parsed data. An export's array never holds bare strings."""
    if isinstance(source, str):
        return [source]
    if isinstance(source, list):
        return source if source and all(isinstance(chunk, str) for chunk in source) else None
    if isinstance(source, dict | bytes | bytearray) or not isinstance(source, Iterable):
        return None
    return source


def _dotted(keys: Keys) -> str:
    return ".".join(keys)


class _Streamed:
    def __init__(self, chunks: Iterable[str], layout: Layout) -> None:
        self._buffer = TextBuffer(chunks, strict=layout.strict)
        self._layout = layout
        self._opened = False

    def read(self) -> Iterator[Item]:
        first = self._buffer.peek()
        if first == "[" and self._layout.bare:
            yield from self._array("")
            self._finish()
        elif first == "{":
            yield from self._first_object()
        elif not first:
            raise self._buffer.place().error("the input is empty", self._layout.expected)
        else:
            found = printable(self._buffer.text[self._buffer.pos :][:20])
            raise self._buffer.place().error(f"found {found!r}", self._layout.expected)

    def _first_object(self) -> Iterator[Item]:
        """The wrapper around the array, or, when it holds no such array, the first of the JSON Lines."""
        start = self._buffer.place("[0]")
        waiting: list[Item] = []
        for item in self._object(()):
            if not self._opened:
                waiting.append(item)
                continue
            yield from waiting
            waiting.clear()
            yield item
        if self._opened:
            yield from waiting
            self._finish()
        elif self._layout.lines and waiting:
            yield Item(start, {item.place.path: item.value for item in waiting}, 0)
            yield from self._lines()
        else:
            what = "the object holds no turns" if waiting else "the object is empty"
            raise Place("", start.line, start.column).error(what, self._layout.expected)

    def _object(self, prefix: Keys) -> Iterator[Item]:
        self._step()
        seen: set[str] = set()
        path = _dotted(prefix)
        if self._next(path, '"}') == "}":
            self._step()
            return
        while True:
            self._next(path, '"')
            here = self._buffer.place(path)
            key = self._buffer.value(path)
            if key in seen:
                raise here.error(f"the key `{printable(key)}` stands twice in one object", "each key once")
            seen.add(key)
            self._next(_dotted((*prefix, key)), ":")
            self._step()
            yield from self._field((*prefix, key))
            if self._next(path, ",}") == "}":
                self._step()
                return
            self._step()

    def _field(self, keys: Keys) -> Iterator[Item]:
        path = _dotted(keys)
        opens, leads = self._layout.opens(keys), self._layout.leads(keys)
        first = self._buffer.peek()
        here = self._buffer.place(path)
        if opens and first == "[":
            self._opened = True
            yield from self._array(path)
        elif leads and first == "{":
            yield from self._object(keys)
        else:
            value = self._buffer.value(path)
            if opens or leads:
                raise here.wrong(value, "an array" if opens else "an object")
            yield Item(here, value)

    def _array(self, path: str) -> Iterator[Item]:
        self._step()
        if self._next(f"{path}[0]", None) == "]":
            self._step()
            return
        index = 0
        while True:
            inside = f"{path}[{index}]"
            self._next(inside, None)
            here = self._buffer.place(inside)
            yield Item(here, self._buffer.value(inside), index)
            index += 1
            if self._next(inside, ",]") == "]":
                self._step()
                return
            self._step()

    def _lines(self) -> Iterator[Item]:
        index = 1
        while True:
            before = self._buffer.place().line
            if not self._buffer.peek():
                return
            here = self._buffer.place(f"[{index}]")
            if here.line == before:
                raise here.error("two values on one line", "one object a line")
            yield Item(here, self._buffer.value(here.path), index)
            index += 1

    def _next(self, path: str, allowed: str | None) -> str:
        """The next character, which must be one of `allowed`."""
        found = self._buffer.peek()
        if found and (allowed is None or found in allowed):
            return found
        wanted = " or ".join(f"`{char}`" for char in allowed) if allowed else None
        if not found:
            raise self._buffer.ends(path, wanted)
        raise self._buffer.place(path).error(f"found {printable(found)!r}", wanted or "a value")

    def _step(self) -> None:
        self._buffer.move(self._buffer.pos + 1)

    def _finish(self) -> None:
        if self._buffer.peek():
            found = printable(self._buffer.text[self._buffer.pos :][:20])
            raise self._buffer.place().error(
                f"found {found!r} behind the end of the export", "the end of the input: one conversation a call"
            )


class _Parsed:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def read(self, data: list[Any] | dict[str, Any]) -> Iterator[Item]:
        if isinstance(data, list):
            if not self._layout.bare:
                raise Place().wrong(data, self._layout.expected)
            yield from self._array("", data)
            return
        items = self._object((), data)
        if self._holds_array(data):
            yield from items
        elif self._layout.lines and data:
            yield Item(Place("[0]"), {item.place.path: item.value for item in items}, 0)
        else:
            for _ in items:  # a wrong kind of value says more than a missing array
                pass
            raise Place().error("the object holds no turns" if data else "the object is empty", self._layout.expected)

    def _holds_array(self, data: dict[str, Any]) -> bool:
        for keys in self._layout.arrays:
            node: object = data
            for key in keys:
                node = node.get(key) if isinstance(node, dict) else None
            if isinstance(node, list):
                return True
        return False

    def _object(self, prefix: Keys, data: dict[str, Any]) -> Iterator[Item]:
        for key, value in data.items():
            here = Place(_dotted(prefix))
            if not isinstance(key, str):
                raise here.error(f"found the key {key!r:.60}", "text as a key")
            keys = (*prefix, key)
            path = _dotted(keys)
            opens, leads = self._layout.opens(keys), self._layout.leads(keys)
            if opens and isinstance(value, list):
                yield from self._array(path, value)
            elif leads and isinstance(value, dict):
                yield from self._object(keys, value)
            elif opens or leads:
                raise Place(path).wrong(value, "an array" if opens else "an object")
            else:
                check_tree({key: value}, here)
                yield Item(Place(path), value)

    def _array(self, path: str, values: list[Any]) -> Iterator[Item]:
        for index, value in enumerate(values):
            here = Place(f"{path}[{index}]")
            check_tree(value, here)
            yield Item(here, value, index)
