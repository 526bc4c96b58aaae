"""Where in an export something stands, so that an error can say it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from mnemon.contracts.errors import MalformedInput

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Place:
    """A path such as `messages[3].content[1]`, and the line and column its element begins at when text was read."""

    path: str = ""
    line: int | None = None
    column: int | None = None

    def key(self, name: str) -> Place:
        return Place(f"{self.path}.{name}" if self.path else name, self.line, self.column)

    def item(self, index: int) -> Place:
        return Place(f"{self.path}[{index}]", self.line, self.column)

    def error(self, what: str, expected: str) -> MalformedInput:
        """`messages[3] (line 7, column 5): what; expected …`."""
        where = self.path
        if self.line is not None:
            seen = f"line {self.line}, column {self.column}"
            where = f"{where} ({seen})" if where else seen
        message = f"{where}: {what}; expected {expected}" if where else f"{what}; expected {expected}"
        return MalformedInput(message, line=self.line, column=self.column, path=self.path, expected=expected)

    def wrong(self, value: object, expected: str) -> MalformedInput:
        return self.error(f"found {shown(value)}", expected)

    def unknown(self, name: str, known: Iterable[str]) -> MalformedInput:
        """A field that the format does not have: the error names the nearest one it does have."""
        names = list(known)
        near = difflib.get_close_matches(name[:_SHOWN], names, n=1, cutoff=0.5)
        hint = f" (did you mean `{near[0]}`?)" if near else ""
        return self.key(printable(name)).error(f"unknown field `{printable(name)}`{hint}", "one of " + ", ".join(names))


def printable(text: str) -> str:
    """Short, and safe to print and to send: half of a surrogate pair becomes its escape."""
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return cut.encode("utf-8", "backslashreplace").decode()


def shown(value: object) -> str:
    """How a wrong value is named: its kind, and its content where that is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {printable(value)!r}" if value else "an empty text"
    if isinstance(value, int):
        # A number of many thousand digits cannot even be printed.
        return f"the number {value}" if value.bit_length() < 256 else "a very large number"
    if isinstance(value, float):
        return f"the number {value!r}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return f"a Python {type(value).__name__}"
