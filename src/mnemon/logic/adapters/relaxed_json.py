"""JSON-like text to JSON, as a stream: comments, trailing commas and a code fence become blanks of the same length."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mnemon.logic.adapters.place import Place
from mnemon.logic.adapters.text_buffer import BOM

_PLAIN = re.compile(r'["/,`]')
_STRING = re.compile(r'["\\]')
_NOT_BREAK = re.compile(r"[^\n]")
_NOT_SPACE = re.compile(r"[^ \t\r\n]")
_FENCE = "```"
_FENCE_LINE = 80


def relaxed(chunks: Iterable[str]) -> Iterator[str]:
    """Every character keeps its line and column, so an error still points into the original text."""
    cleaner = _Cleaner()
    for chunk in chunks:
        if not isinstance(chunk, str):
            raise Place().wrong(chunk, "decoded text; decode bytes as UTF-8 first")
        yield cleaner.feed(chunk)
    yield cleaner.close()


def _blank(text: str) -> str:
    return _NOT_BREAK.sub(" ", text)


class _Cleaner:
    """One pass with a few states; what a chunk's border leaves undecided waits for the next chunk."""

    def __init__(self) -> None:
        self._state = self._head
        self._rest = ""
        self._out: list[str] = []
        self._comma: int | None = None
        self._fenced = False
        self._escaped = False

    def feed(self, chunk: str) -> str:
        text = self._rest + chunk
        self._rest = ""
        at = 0
        while at < len(text):
            begun = at
            at = self._state(text, at)
            if at == begun:  # undecided: needs the next characters
                self._rest = text[at:]
                break
        return self._emit()

    def close(self) -> str:
        self._out.append(self._rest)
        self._comma = None
        return self._emit()

    def _emit(self) -> str:
        """Everything up to a comma whose follower is not known yet."""
        end = len(self._out) if self._comma is None else self._comma
        ready = "".join(self._out[:end])
        self._out = self._out[end:]
        if self._comma is not None:
            self._comma = 0
        return ready

    def _head(self, text: str, at: int) -> int:
        """Before the first brace: a byte order mark and the opening line of a code fence."""
        match = _NOT_SPACE.search(text, at)
        if match is None:
            self._out.append(text[at:])
            return len(text)
        if match.group() == BOM:
            self._out.append(text[at : match.start()])
            return match.end()
        if _FENCE.startswith(text[match.start() :][:3]):
            end = text.find("\n", match.start(), match.start() + _FENCE_LINE)
            if end < 0 and len(text) - match.start() < _FENCE_LINE:
                return at
            if end < 0:
                self._state = self._plain
                return self._plain(text, at)
            self._fenced = True
            self._out.append(_blank(text[at:end]))
            self._state = self._plain
            return end
        self._state = self._plain
        return self._plain(text, at)

    def _plain(self, text: str, at: int) -> int:
        match = _PLAIN.search(text, at)
        end = match.start() if match else len(text)
        if end > at:
            self._push(text[at:end])
            return end
        mark = text[at]
        if mark == '"':
            self._push(mark)
            self._state = self._string
        elif mark == ",":
            self._comma = len(self._out)
            self._out.append(mark)
        elif mark == "/":
            if at + 1 == len(text):
                return at
            if text[at + 1] in "/*":
                self._state = self._line if text[at + 1] == "/" else self._block
                self._out.append("  ")
                return at + 2
            self._push(mark)
        else:
            self._push(" " if self._fenced else mark)
        return at + 1

    def _push(self, piece: str) -> None:
        """Text outside strings and comments: its first visible character decides about a waiting comma."""
        if self._comma is not None:
            match = _NOT_SPACE.search(piece)
            if match:
                if match.group() in "]}":
                    self._out[self._comma] = " "
                self._comma = None
        self._out.append(piece)

    def _string(self, text: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            self._out.append(text[at])
            return at + 1
        match = _STRING.search(text, at)
        end = match.end() if match else len(text)
        self._out.append(text[at:end])
        if match and match.group() == '"':
            self._state = self._plain
        elif match:
            self._escaped = True
        return end

    def _line(self, text: str, at: int) -> int:
        end = text.find("\n", at)
        if end < 0:
            end = len(text)
        else:
            end += 1
            self._state = self._plain
        self._out.append(_blank(text[at:end]))
        return end

    def _block(self, text: str, at: int) -> int:
        end = text.find("*/", at)
        if end >= 0:
            self._state = self._plain
            self._out.append(_blank(text[at : end + 2]))
            return end + 2
        # A star at the border may be the first half of the end.
        end = len(text) - (1 if text.endswith("*") else 0)
        self._out.append(_blank(text[at:end]))
        return end
