"""Writes docs/reference.md from the code: `python scripts/reference.py`. A test keeps it current."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from mnemon.contracts import errors, results
from mnemon.contracts.errors import MnemonError
from mnemon.contracts.filters import FIELDS
from mnemon.contracts.reports import VerifyReport
from mnemon.engine.bound import AsyncBoundMemory
from mnemon.engine.config import _ENVIRONMENT, Config
from mnemon.engine.memory import AsyncMemory

TARGET = Path(__file__).parents[1] / "docs" / "reference.md"


def signature(function: Any) -> str:
    shown = []
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    star = False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        shown.append(p.name if p.default is p.empty else f"{p.name}={p.default!r}")
    return f"{function.__name__}({', '.join(shown)})"


def methods(cls: type) -> list[str]:
    out = []
    for name, function in vars(cls).items():
        if not name.startswith("_") and inspect.isfunction(function):
            text = re.sub(r"\n {8}", "\n", inspect.getdoc(function) or "")
            out += [f"**`{signature(function)}`**", "", text, ""]
    return out


def tree(cls: type[MnemonError]) -> list[type[MnemonError]]:
    return [cls, *(c for sub in cls.__subclasses__() for c in tree(sub) if c.__module__ == errors.__name__)]


def settings(config: Any, prefix: str = "") -> list[str]:
    rows = []
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            rows += settings(value, f"{prefix}{field.name}.")
        else:
            variable = next((v for v, (place, _) in _ENVIRONMENT.items() if place == prefix + field.name), "")
            rows.append(f"| `{prefix}{field.name}` | `{value!r}` | {f'`{variable}`' if variable else ''} |")
    return rows


def shape(cls: type) -> list[str]:
    listed = ", ".join(f"`{f.name}`" for f in fields(cls))
    return [f"* **`{cls.__name__}`**: {listed}"]


def render() -> str:
    out = ["# Reference", "", "Made from the code by `python scripts/reference.py`.", ""]
    out += ["## Memory and AsyncMemory", "", "The same methods; those of `AsyncMemory` are awaited.", ""]
    out += [f"**`{signature(AsyncMemory.__init__).replace('__init__', 'Memory')}`**", "", *methods(AsyncMemory)]
    out += ["## What `bind` gives", "", *methods(AsyncBoundMemory)]
    out += ["## Results", ""]
    shapes = [
        c
        for c in vars(results).values()
        if is_dataclass(c) and isinstance(c, type) and c.__module__ == results.__name__
    ]
    for cls in [*shapes, VerifyReport]:
        out += shape(cls)
    out += ["", "## Configuration", "", "| key | default | variable |", "|---|---|---|", *settings(Config())]
    out += ["", "## Filter fields", "", "| field | type |", "|---|---|"]
    out += [f"| `{name}` | {kind.__name__} |" for name, kind in FIELDS.items()]
    out += ["", "## Errors", "", "| error | code | HTTP | exit | meaning |", "|---|---|---|---|---|"]
    for cls in tree(MnemonError):
        meaning = (cls.__doc__ or "").strip()
        out.append(f"| `{cls.__name__}` | {cls.code} | {cls.status} | {cls.exit_code} | {meaning} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
