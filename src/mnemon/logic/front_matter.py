"""The head of a Markdown file: a few YAML lines between two rules, written so that every reader agrees on them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_HEAD = re.compile(r"\A---\r?\n(.*?)^---[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"^([A-Za-z_]\w*):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_PLAIN = re.compile(r"[a-z_]+")


def with_head(values: Mapping[str, Any], body: str) -> str:
    """Strings in double quotes and lists in brackets: JSON, which is YAML. A bare word stays bare."""
    lines = "".join(f"{name}: {_written(value)}\n" for name, value in values.items())
    return f"---\n{lines}---\n{body}"


def _written(value: Any) -> str:
    bare = isinstance(value, str) and _PLAIN.fullmatch(value) and value not in ("true", "false", "null", "yes", "no")
    return str(value) if bare else json.dumps(value, ensure_ascii=False)


def split(text: str) -> tuple[dict[str, Any], str]:
    """The values of the head and the body below it. A value somebody wrote without quotes is taken as text."""
    found = _HEAD.match(text)
    if found is None:
        return {}, text
    return {name: _read(value) for name, value in _LINE.findall(found[1])}, text[found.end() :]


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        pass
    if value.startswith("[") and value.endswith("]"):
        return [part.strip().strip("\"'") for part in value[1:-1].split(",") if part.strip()]
    return value.strip("\"'")
