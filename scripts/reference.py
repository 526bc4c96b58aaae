"""Writes docs/reference.md from the code: `python scripts/reference.py`. A test keeps it current."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from mnemon.contracts import claims, commits, drafts, errors, governance, results, tags
from mnemon.contracts.errors import MnemonError
from mnemon.contracts.filters import FIELDS
from mnemon.contracts.reports import VerifyReport
from mnemon.engine.bound import AsyncBoundMemory
from mnemon.engine.config import _ENVIRONMENT, Config
from mnemon.engine.memory import AsyncMemory
from mnemon.logic.governance import table_text
from mnemon.logic.shelves import SHELVES

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
    every = {name: function for base in reversed(cls.__mro__) for name, function in vars(base).items()}
    for name, function in every.items():
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
    committed = [commits.CommitOptions, commits.CommitResult, commits.CommitStats, commits.SessionArchive]
    for cls in [*shapes, VerifyReport, *committed, commits.WritePlan, commits.WriteResult, commits.Rejected]:
        out += shape(cls)
    out += ["", "## Tags and claims", ""]
    for model in (tags.ValueTaggingOutput, tags.ValueTag, governance.Governance, claims.Claim, drafts.Draft):
        listed = ", ".join(f"`{name}`" for name in model.model_fields)
        out.append(f"* **`{model.__name__}`**: {listed}")
    out += ["", "How long what is kept may live (`logic/data/governance.toml`):", "", table_text("en")]
    out += ["", "Which kinds stand on which shelf, and how they merge (`logic/data/shelves.toml`):", ""]
    out += ["| shelf | kinds | extractor | policy |", "|---|---|---|---|"]
    for shelf, rule in SHELVES.items():
        out.append(f"| {shelf} | {', '.join(sorted(rule.kinds))} | `{rule.extractor}` | {rule.policy} |")
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
