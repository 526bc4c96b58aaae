"""The tables of recall, read and compiled once: what people ask about, in which words, and how it is meant."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any, get_args

from mnemon.contracts.claims import Language
from mnemon.contracts.recall import Shelf, ToolName
from mnemon.logic.recall.saying import Standing


def load(name: str) -> dict[str, Any]:
    text = resources.files("mnemon.logic").joinpath(f"data/recall_{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def standings() -> dict[Language, dict[Standing, str]]:
    """Why a clause of each standing does not count, in words. A table that leaves one out is not read at all."""
    told, names = load("telling")["standing"], get_args(Standing)
    return {language: {name: str(told[language][name]) for name in names} for language in get_args(Language)}


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern or "(?!)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Area:
    """One thing people ask their memory about; see the comments in the table."""

    name: str
    shelf: Shelf
    label: dict[Language, str]
    asked: re.Pattern[str]
    says: re.Pattern[str]
    needs: re.Pattern[str] | None
    about: re.Pattern[str]
    patterns: frozenset[str]
    along: tuple[str, ...]
    words: dict[Language, str]
    first: ToolName
    then: ToolName | None
    single: bool
    wishes: bool
    habits: bool
    asks: bool
    needs_name: bool

    @property
    def of_things(self) -> bool:
        """Is it about things of one sort, which can be told by their names: films, drinks, sports?"""
        return bool(self.about.pattern != "(?!)") and not self.needs_name


_AREAS = load("areas")
STANDS = _compiled(f"{_AREAS['stand']['zh']}|{_AREAS['stand']['en']}")
HABITS = _compiled(_AREAS["stand"]["habit"])
AREAS: dict[str, Area] = {
    row["name"]: Area(
        name=row["name"],
        shelf=row["shelf"],
        label=row["label"],
        asked=_compiled(row["asked"]),
        says=_compiled(row.get("says", "")),
        needs=_compiled(row["says_needs"]) if "says_needs" in row else None,
        about=_compiled(row.get("about", "")),
        patterns=frozenset(row.get("patterns", ())),
        along=tuple(row.get("along", ())),
        words=row["words"],
        first=row["first"],
        then=row.get("then"),
        single=row.get("single", False),
        wishes=row.get("wishes", False),
        habits=row.get("habits", False),
        asks=row.get("asks", False),
        needs_name=row.get("needs_name", False),
    )
    for row in _AREAS["area"]
}

_READING = load("reading")
LAUGHS, WILD, JOKES, IRONY = (_compiled(_READING[name]) for name in ("laughs", "wild", "jokes", "irony"))
DISOWNS = _compiled(_READING["disowns"])
ASKS, HEARER, IF, STATES = (_compiled(_READING[name]) for name in ("asks", "hearer", "if", "states"))
TASK, LASTING, BIDS = (_compiled(_READING[name]) for name in ("task", "lasting", "bids"))
CORRECTS, DENIES, VAGUE = (_compiled(_READING[name]) for name in ("corrects", "denies", "vague"))
TURNS, AVERSE, ORDERS = (_compiled(_READING[name]) for name in ("turns", "averse", "orders"))
DONE, NOT_DONE, BEHIND = (_compiled(_READING[name]) for name in ("done", "not_done", "behind"))
SINCE, NOBODY = _compiled(_READING["since"]), _compiled(_READING["nobody"])
TO_ME, IF_I = _compiled(_READING["to_me"]), _compiled(_READING["if_i"])
THING_OPENS: dict[Language, re.Pattern[str]] = {
    "zh": _compiled(_READING["things_zh"]),
    "en": _compiled(_READING["things_en"]),
}
ELLIPTIC = _compiled(_READING["elliptic"])
QUOTED_SPEECH = _compiled(_READING["quoted_speech"])
# Names begin with a capital: the case counts.
OTHERS: dict[Language, re.Pattern[str]] = {
    "zh": re.compile(_READING["others_zh"]),
    "en": re.compile(_READING["others_en"]),
}
OBJECT_ME = re.compile(_READING["object_me"])
OTHERS_KIN = _READING["others_kin_en"]
LONGEST_CORRECTION = int(_READING["corrects_only_short"])
SHORT_ANSWER: dict[Language, int] = _READING["shortest_answer"]
TAKEN_BACK: tuple[str, ...] = tuple(_READING["taken_back"])
THREAD = _compiled(_READING["thread"])
