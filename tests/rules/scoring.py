"""Scoring the rules provider against sentences labelled by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from mnemon.contracts.drafts import Draft
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.turns import Role, Turn
from mnemon.logic import rules
from mnemon.logic.polarity import negative
from mnemon.logic.text import fold

Part = Literal["development", "test", "unseen"]
Row = dict[str, Any]

FOLDER = Path(__file__).parent
SAID_AT = datetime(2026, 3, 10, 10, 30, tzinfo=UTC)
# What a tool was good for is counted, not labelled.
SHELVES = frozenset(Shelf) - {Shelf.SKILLS}


@dataclass
class Score:
    """Right, wrong (or unwanted) and missed; an optional label counts on neither side."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.right + other.right,
            self.wrong + other.wrong,
            self.missed + other.missed,
            self.errors + other.errors,
        )


def rows() -> Iterator[tuple[Part, Row]]:
    """Odd lines of the labelled set and all of `practice` are for development, even lines for the test."""
    for number, row in enumerate(_read("labelled"), 1):
        yield ("development" if number % 2 else "test"), row
    yield from (("development", row) for row in _read("practice"))
    yield from (("unseen", row) for row in _read("unseen"))


def _read(name: str) -> list[Row]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def turns_of(row: Row) -> list[Turn]:
    return [
        Turn(turn_id=f"t{n}", role=Role(role), speaker="tool:lookup" if role == "tool" else "", text=text)
        for n, (role, text) in enumerate(row["turns"])
    ]


def drafts_of(turns: list[Turn]) -> tuple[Draft, ...]:
    tags = rules.tag(turns, "s").tags
    return rules.extract(SHELVES, turns, tags, {turn.turn_id: SAID_AT for turn in turns}).facts


def score(row: Row) -> Score:
    drafts, out = list(drafts_of(turns_of(row))), Score()
    said = " / ".join(text for _, text in row["turns"])
    for label in sorted(row["expected"], key=lambda label: bool(label.get("optional"))):
        found = next((draft for draft in drafts if _matches(draft, label)), None)
        if found is not None:
            drafts.remove(found)
            out.right += not label.get("optional")
        elif not label.get("optional"):
            out.missed += 1
            out.errors.append(f"missed  {said!r}: {label['shelf']} {' '.join(label['words'])}")
    out.wrong = len(drafts)
    out.errors += [f"wrong   {said!r}: {draft.category.value} {draft.statement!r}" for draft in drafts]
    return out


def _matches(draft: Draft, label: dict[str, Any]) -> bool:
    """The right kind on the right shelf, with the words that count and the right sign."""
    said = fold(draft.statement)
    if (draft.type.value, draft.category.value) != (label["category"], label["shelf"]):
        return False
    if not all(fold(word) in said for word in label["words"]):
        return False
    return "polarity" not in label or negative(draft.statement) == (label["polarity"] == "-")


def scores() -> dict[tuple[Part, str], Score]:
    """By part and language, and for both languages together."""
    parts: tuple[Part, ...] = ("development", "test", "unseen")
    out: dict[tuple[Part, str], Score] = {(part, language): Score() for part in parts for language in ("zh", "en")}
    for part, row in rows():
        out[part, row["language"]] += score(row)
    return {**out, **{(part, "both"): out[part, "zh"] + out[part, "en"] for part in parts}}
