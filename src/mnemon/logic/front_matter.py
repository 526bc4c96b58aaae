"""The head of a Markdown file: a few YAML lines between two rules, written so that every reader agrees on them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from textwrap import dedent, indent
from typing import Any

_HEAD = re.compile(r"\A---\r?\n(.*?)^---[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"([A-Za-z_][\w-]*):[ \t]*(.*?)[ \t]*")
_PLAIN = re.compile(r"[a-z_]+")
# Some readers of YAML take these for something else than text.
_NOT_BARE = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_ITEM = "- "
# What follows is text, line by line or folded into one.
_TEXT = re.compile(r"[|>][-+]?")


def with_head(values: Mapping[str, Any], body: str) -> str:
    """Strings in double quotes and lists in brackets: JSON, which is YAML. A bare word stays bare."""
    return f"---\n{_lines(values)}---\n{body}"


def _lines(values: Mapping[str, Any]) -> str:
    return "".join(f"{name}:{_written(value)}\n" for name, value in values.items())


def _written(value: Any) -> str:
    if isinstance(value, Mapping) and value:
        return "\n" + indent(_lines(value), "  ").rstrip("\n")
    bare = isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _NOT_BARE
    return f" {value}" if bare else f" {json.dumps(value, ensure_ascii=False)}"


def split(text: str) -> tuple[dict[str, Any], str]:
    """The values of the head and the body below it. A value somebody wrote without quotes is taken as text; what is
    indented below a name belongs to it: further names, a list, or more of its text."""
    found = _HEAD.match(text)
    if found is None:
        return {}, text
    return _values(found[1].splitlines()), text[found.end() :]


def _values(lines: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for n, line in enumerate(lines):
        if named := _LINE.fullmatch(line):
            below = list(takewhile(_is_below, lines[n + 1 :]))
            values[named[1]] = _with_below(named[2], dedent("\n".join(below)).strip("\n").splitlines())
    return values


def _is_below(line: str) -> bool:
    return not line.strip() or line.startswith((" ", "\t", _ITEM))


def _with_below(value: str, below: Sequence[str]) -> Any:
    if _TEXT.fullmatch(value):
        return "\n".join(below) if value[0] == "|" else " ".join(line.strip() for line in below)
    if not below or value:
        return _read(" ".join([value, *(line.strip() for line in below)]).rstrip())
    if all(line.startswith(_ITEM) for line in below if line.strip()):
        return [_read(line.removeprefix(_ITEM).strip()) for line in below if line.strip()]
    return _values(below)


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        pass
    if value.startswith("[") and value.endswith("]"):
        return [part.strip().strip("\"'") for part in value[1:-1].split(",") if part.strip()]
    return value.strip("\"'")
