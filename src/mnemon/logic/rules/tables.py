"""The tables of the rules provider, read and compiled once."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from itertools import pairwise
from typing import Any, Literal

from mnemon.contracts.claims import Language
from mnemon.contracts.governance import Kind
from mnemon.contracts.nodes import Shelf

MASK = "\ufffc"

# `says`: the clause without its subject. `mine`: what follows "my". `asks`: the whole clause, to the assistant.
# `any`: both `says` and `asks`.
Mode = Literal["says", "mine", "asks", "any"]

_SHELF = {Kind.FACT: Shelf.PROFILE, Kind.PREFERENCE: Shelf.PREFERENCES, Kind.TASK: Shelf.TASKS, Kind.RULE: Shelf.RULES}
_IMPORTANCE = {Kind.FACT: 0.6, Kind.PREFERENCE: 0.6, Kind.TASK: 0.7, Kind.RULE: 0.9}


@dataclass(frozen=True)
class Pattern:
    """One line of the table.

    When it counts: `when` a date stands in the clause; `needs` something else there; `bare`: without a subject too,
    `only_bare`: only so; `remembered`: where the user asked to remember; `only_me`: of nobody else; `kin`: of such
    relatives and pets alone. What its groups mean: `span` is quoted in place of the clause, `about` and `entity` name
    a thing, `introduces` is what the next clause speaks of."""

    name: str
    mode: Mode
    kind: Kind
    subtype: str
    shelf: Shelf
    regex: re.Pattern[str]
    cues: tuple[str, ...]
    template: str
    slot: str
    topic: str
    confidence: float
    importance: float
    needs: re.Pattern[str] | None
    bare: bool
    only_bare: bool
    when: bool
    remembered: bool
    only_me: bool
    kin: re.Pattern[str] | None
    span: str
    about: str
    entity: str
    introduces: str


@dataclass(frozen=True)
class Traps:
    """What makes a turn, a sentence or a clause say nothing; see the comments in the table."""

    turn: re.Pattern[str]
    joke: re.Pattern[str]
    sentence: re.Pattern[str]
    clause: re.Pattern[str]
    tag_question: re.Pattern[str]
    empty: re.Pattern[str]


class Book:
    """Everything that is known about reading one language."""

    def __init__(self, language: Language) -> None:
        data = _load(f"rules_{language}")
        self.language = language
        self.traps = Traps(**{name: re.compile(text) for name, text in _TRAPS[language].items()})
        flags = re.IGNORECASE if language == "en" else re.NOFLAG
        self.clause_end = re.compile(data["clause_end"], flags)
        self.adverbial = re.compile(data["adverbial"], flags)
        self.lead = re.compile(data["lead"], flags)
        self.remember = re.compile(data["remember"], flags)
        # In English a date stands behind what is said, where it may stay.
        self.before = re.compile(data["before"]) if language == "zh" else None
        self.request = re.compile(data["request"])
        self.bare_start = re.compile(data["bare_start"])
        self.pronoun = re.compile(data["pronoun"])
        self.others = re.compile(data["others"], flags)
        me, you = data["me"], data["you"]
        self.me = {False: _subject(data, me), True: _subject(data, you)}
        mine, yours = data.get("mine", me), data.get("yours", you)
        self.kin = {False: _subject(data, mine + data["kin"]), True: _subject(data, yours + data["kin"])}
        self.mine = {False: re.compile(mine), True: re.compile(yours)} if "mine" in data else None
        self._data = data

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        macros: dict[str, str] = self._data["macros"]
        return tuple(_pattern(entry, macros) for entry in self._data["pattern"])

    @cached_property
    def _by_key(self) -> dict[str, list[tuple[str, frozenset[int]]]]:
        """Cues under their first two characters, each with the patterns it belongs to."""
        numbers: dict[str, set[int]] = {}
        for number, pattern in enumerate(self.patterns):
            for cue in pattern.cues:
                numbers.setdefault(cue, set()).add(number)
        keys: dict[str, list[tuple[str, frozenset[int]]]] = {}
        for cue, found in numbers.items():
            keys.setdefault(cue[:2], []).append((cue, frozenset(found)))
        return keys

    @cached_property
    def _without_cues(self) -> list[int]:
        return [number for number, pattern in enumerate(self.patterns) if not pattern.cues]

    def candidates(self, clause: str) -> list[Pattern]:
        """The patterns one of whose cues stands in the clause, and those without cues, in the order of the table."""
        grams = {*clause, *map("".join, pairwise(clause))}
        found = set(self._without_cues)
        for key in self._by_key.keys() & grams:
            for cue, numbers in self._by_key[key]:
                if cue in clause:
                    found |= numbers
        return [self.patterns[number] for number in sorted(found)]

    @cached_property
    def keeping(self) -> dict[Shelf, Pattern]:
        """What fits anything the user asked to remember, about themselves or about something else."""
        kept = _pattern(self._data["keeping"], {})
        return {shelf: replace(kept, shelf=shelf) for shelf in (Shelf.PROFILE, Shelf.ENTITIES, Shelf.EVENTS)}


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("mnemon.logic").joinpath(f"data/{name}.toml").read_text(encoding="utf-8"))


def _subject(data: dict[str, Any], pattern: str) -> re.Pattern[str]:
    return re.compile(f"{data['before']}(?P<subject>{pattern})")


def _pattern(entry: dict[str, Any], macros: dict[str, str]) -> Pattern:
    kind = Kind(entry["kind"])
    return Pattern(
        name=entry["name"],
        mode=entry.get("mode", "says"),
        kind=kind,
        subtype=entry.get("subtype", kind.value),
        shelf=Shelf(entry["shelf"]) if "shelf" in entry else _SHELF[kind],
        regex=re.compile(_expanded(entry["regex"], macros)),
        cues=tuple(entry["cues"]),
        template=entry.get("template", ""),
        slot=entry.get("slot", ""),
        topic=entry.get("topic", ""),
        confidence=entry["confidence"],
        importance=entry.get("importance", _IMPORTANCE[kind]),
        needs=re.compile(entry["needs"]) if "needs" in entry else None,
        bare=entry.get("bare", False) or entry.get("only_bare", False),
        only_bare=entry.get("only_bare", False),
        when=entry.get("when", False),
        remembered=entry.get("only") == "remembered",
        only_me=entry.get("about_only") == "me",
        kin=re.compile(entry["kin"]) if "kin" in entry else None,
        span=entry.get("span", ""),
        about=entry.get("about", ""),
        entity=entry.get("entity", ""),
        introduces=entry.get("introduces", ""),
    )


def _expanded(regex: str, macros: dict[str, str]) -> str:
    while (expanded := re.sub(r"%(\w+)%", lambda match: macros[match[1]], regex)) != regex:
        regex = expanded
    return regex


_TRAPS = _load("rules_traps")
BOOKS: dict[Language, Book] = {"zh": Book("zh"), "en": Book("en")}
TOPICS = _load("rules_topics")
WORDING = _load("rules_wording")
