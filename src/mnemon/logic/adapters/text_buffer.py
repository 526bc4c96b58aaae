"""A sliding window over a stream of text that decodes one JSON value at a time and knows its line and column."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from mnemon.contracts.errors import MalformedInput
from mnemon.logic.adapters.place import Place, printable
from mnemon.logic.adapters.strict_json import MAX_DEPTH, RefusedJson, check_tree, decoder, too_deep

BLOCK = 1 << 18
MAX_VALUE = 64 << 20
MAX_SCALAR = 5_000
BOM = "\ufeff"

_SPACE = re.compile(r"[ \t\n\r]*")
_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')
_AFTER_SCALAR = re.compile(r'[,:\[\]{}"\s]')
# A token cut by the border of the window is never longer than `-Infinity` or `\ud83d\ude00`.
_LONGEST_CUT = 16


class TextBuffer:
    """Holds what is unread and at most one value. Each character is looked at a fixed number of times."""

    def __init__(self, chunks: Iterable[str], strict: bool = True) -> None:
        self._chunks = iter(chunks)
        self._decode = decoder(strict).raw_decode
        self.text = ""
        self.pos = 0
        self._line = 1
        self._column = 1
        self._begun = False
        self._ended = False

    def place(self, path: str = "", at: int | None = None) -> Place:
        """The stream's line and column at `at`, by default at the reading position."""
        line, column = self._line, self._column
        if at is not None and at > self.pos:
            line, column = self._counted(at)
        return Place(path, line, column)

    def peek(self) -> str:
        """Skip white space; the next character, or "" at the end of the stream."""
        while True:
            if self.pos < len(self.text):
                char = self.text[self.pos]
                if char not in " \t\n\r":
                    return char
                match = _SPACE.match(self.text, self.pos)
                self.move(match.end() if match else self.pos)
                continue
            if not self._more():
                return ""

    def move(self, to: int) -> None:
        if to > self.pos:
            self._line, self._column = self._counted(to)
            self.pos = to

    def value(self, path: str) -> Any:
        """Decode the value that begins here, wholly checked, and step behind it."""
        first = self.peek()
        if not first:
            raise self.ends(path)
        here = self.place(path)
        if first not in '{["':
            return self._scalar(here)
        try:
            value, end = self._decode(self.text, self.pos)
        except RecursionError:
            raise too_deep(here) from None
        except ValueError as error:
            if self._is_final(error):
                raise self._explained(error, path) from None
            value, end = self._whole(here)
        if end - self.pos > MAX_VALUE:
            raise _too_long(here)
        if self._is_suspect(end):
            check_tree(value, here)
        self.move(end)
        return value

    def ends(self, path: str, expected: str | None = None) -> MalformedInput:
        """The stream stopped in the middle of `path`, or behind it when `expected` says what should follow."""
        place = self.place(path, len(self.text))
        where = f"{'behind' if expected else 'inside'} {path or 'the object'}"
        expected = expected or f"the rest of {path or 'the object'}"
        message = f"the input ends {where}, line {place.line}, column {place.column}; expected {expected}"
        return MalformedInput(message, line=place.line, column=place.column, path=path, expected=expected)

    def _counted(self, to: int) -> tuple[int, int]:
        lines = self.text.count("\n", self.pos, to)
        if lines:
            return self._line + lines, to - self.text.rfind("\n", self.pos, to)
        return self._line, self._column + to - self.pos

    def _more(self) -> bool:
        """Read a block, or as much again as is unread: doubling keeps the copying linear. False at the end."""
        if self._ended:
            return False
        parts = [self.text[self.pos :]]
        kept = len(parts[0])
        wanted, got = max(BLOCK, kept), 0
        while got < wanted:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
                break
            if not isinstance(chunk, str):
                raise self.place("").wrong(chunk, "decoded text; decode bytes as UTF-8 first")
            if not self._begun and chunk:
                self._begun = True
                chunk = chunk.removeprefix(BOM)
            parts.append(chunk)
            got += len(chunk)
        self.text = "".join(parts)
        self.pos = 0
        self._refuse_halves(kept)
        return len(self.text) > kept

    def _refuse_halves(self, begin: int) -> None:
        """Text decoded with `surrogateescape`, or by hand, may hold what no UTF-8 file can."""
        if self.text.isascii():
            return
        for start in range(begin, len(self.text), BLOCK):
            try:
                self.text[start : start + BLOCK].encode()
            except UnicodeEncodeError as error:
                place = self.place("", start + error.start)
                raise place.error("bytes that are not UTF-8, or half of a surrogate pair", "valid UTF-8") from None

    def _scalar(self, here: Place) -> Any:
        """A number, true, false or null: its end is only known by what follows it."""
        while True:
            match = _AFTER_SCALAR.search(self.text, self.pos + 1)
            if match or len(self.text) - self.pos > MAX_SCALAR or not self._more():
                break
        word = self.text[self.pos : match.start() if match else len(self.text)]
        try:
            value, end = self._decode(word, 0)
        except RefusedJson as error:
            raise here.error(error.what, error.expected) from None
        except ValueError:
            raise here.error(f"found {printable(word)!r}", "a JSON value") from None
        if end != len(word):
            raise here.error(f"found {printable(word)!r}", "a JSON value")
        self.move(self.pos + end)
        return value

    def _whole(self, here: Place) -> tuple[Any, int]:
        """The window's border cut the value: read on to its end, then decode; what fails now is really wrong."""
        self._read_to_end(here)
        try:
            value, end = self._decode(self.text, self.pos)
        except RecursionError:
            raise too_deep(here) from None
        except ValueError as error:
            raise self._explained(error, here.path) from None
        return value, int(end)

    def _read_to_end(self, here: Place) -> None:
        """Bring the whole value into the window; the state is kept over borders, so nothing is scanned twice."""
        at, depth, quoted = self.pos, 0, False
        while True:
            match = (_INSIDE if quoted else _OUTSIDE).search(self.text, at)
            # A backslash needs the character behind it.
            if match is None or (match.group() == "\\" and match.end() >= len(self.text)):
                at = (match.start() if match else len(self.text)) - self.pos
                if at > MAX_VALUE:
                    raise _too_long(here)
                if not self._more():
                    return
                at += self.pos
                continue
            at = match.end()
            mark = match.group()
            if mark == "\\":
                at += 1
            elif mark == '"':
                quoted = not quoted
            elif mark in "{[":
                depth += 1
                if depth > MAX_DEPTH:
                    raise too_deep(here)
            else:
                depth -= 1
            if depth == 0 and not quoted:
                return

    def _is_final(self, error: ValueError) -> bool:
        """Whether more text could not mend the error."""
        if self._ended or not isinstance(error, json.JSONDecodeError):
            return True
        return not error.msg.startswith("Unterminated") and error.pos + _LONGEST_CUT < len(self.text)

    def _explained(self, error: ValueError, path: str) -> MalformedInput:
        if isinstance(error, RefusedJson):
            return self.place(path).error(error.what, error.expected)
        if not isinstance(error, json.JSONDecodeError):
            return self.place(path).error("a number with too many digits", "a number of at most 4,300 digits")
        at_end = not self.text[error.pos : error.pos + 1] or not self.text[error.pos :].strip()
        if error.msg.startswith("Unterminated") or at_end:
            return self.ends(path)
        found = printable(self.text[error.pos : error.pos + 20])
        expected = error.msg.removeprefix("Expecting ").lower() if error.msg.startswith("Expecting") else "valid JSON"
        what = f"found {found!r}" if error.msg.startswith("Expecting") else f"{error.msg.rstrip(': ')} ({found!r})"
        return self.place(path, error.pos).error(what, expected)

    def _is_suspect(self, end: int) -> bool:
        """Cheap tests over the raw text decide whether the decoded value has to be walked."""
        text, pos = self.text, self.pos
        if text.count("{", pos, end) + text.count("[", pos, end) > MAX_DEPTH:
            return True
        return text.find("\\ud", pos, end) >= 0 or text.find("\\uD", pos, end) >= 0


def _too_long(here: Place) -> MalformedInput:
    return here.error("one value is too long", f"values of at most {MAX_VALUE:,} characters")
