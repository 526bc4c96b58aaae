"""Where a reading belongs: its topic, the slot only one claim can hold, the names in it."""

from __future__ import annotations

import re

from mnemon.contracts.governance import Kind
from mnemon.contracts.nodes import Shelf
from mnemon.logic import dates
from mnemon.logic.memo import remembered
from mnemon.logic.rules.reading import Reading
from mnemon.logic.rules.tables import TOPICS, WORDING
from mnemon.logic.text import fold

_OPENING: dict[str, re.Pattern[str]] = {name: re.compile(text) for name, text in WORDING["object_opening"].items()}
_CLOSING: dict[str, re.Pattern[str]] = {name: re.compile(text) for name, text in WORDING["object_closing"].items()}
_EDGES = " \t,，.。!！、:：'\""
_NAMES = re.compile(r"\b[A-Z][\w&'-]*(?: [A-Z][\w&'-]*)*")
_LONGEST = 60


def _compiled(topics: dict[str, list[str]]) -> list[tuple[str, re.Pattern[str]]]:
    return [
        (topic, re.compile("|".join(rf"\b{re.escape(w.lower())}" if w.isascii() else re.escape(w) for w in words)))
        for topic, words in topics.items()
    ]


_TOPICS = {name: _compiled(TOPICS[name]) for name in ("preference", "rule")}
_EXCLUSIVE = frozenset(TOPICS["exclusive"])


@remembered(8192)
def _topic(table: str, text: str) -> str:
    folded = fold(text)
    return next((topic for topic, words in _TOPICS[table] if words.search(folded)), "")


def routing_key(reading: Reading) -> str:
    """The topic in words; both languages share the names of the table."""
    pattern = reading.pattern
    if pattern.about:
        return reading.parts[pattern.about].strip(_EDGES)
    if reading.who.kin:
        return reading.who.name or reading.who.kin
    match reading.kind, pattern.shelf:
        case _, Shelf.PROFILE:
            return pattern.topic or "profile"
        case Kind.PREFERENCE, _:
            return _topic("preference", reading.said) or pattern.topic or _object(reading)
        case Kind.RULE, _:
            return _topic("rule", reading.said) or _object(reading)
        case _, Shelf.ENTITIES if pattern.entity and reading.parts.get(pattern.entity):
            return reading.parts[pattern.entity].strip(_EDGES)
        case _:
            return _object(reading)


def said_topics(reading: Reading) -> tuple[str, ...]:
    """What it is about in words that fell: names, else the thing spoken of."""
    thing = _object(reading)
    return entity_names(reading) or ((thing,) if thing != reading.pattern.name and len(thing) <= _LONGEST // 2 else ())


def dedup_key(reading: Reading) -> str:
    """The slot in which only one claim can hold; the same for liking and disliking a thing. Empty where several can."""
    if reading.kind is Kind.RULE:
        topic = _topic("rule", reading.said)
        slot = f"rule:{topic}" if topic in _EXCLUSIVE else ""
    else:
        slot = _slot(reading)
    return f"{reading.who.kin}:{slot}" if reading.who.kin and slot else slot


def _slot(reading: Reading) -> str:
    """`residence` as it is; `like:{x}` with its object, and nothing without one."""
    name, *groups = re.split(r"\{(\w+)\}", reading.pattern.slot)
    if not groups:
        return name
    thing = _bare("".join(reading.parts.get(group, "") for group in groups[::2]), reading)
    return name + thing if thing else ""


def entity_names(reading: Reading) -> tuple[str, ...]:
    """The one it is about, and what the pattern names: a part of it, or the names in its object."""
    entity = reading.pattern.entity
    named = _NAMES.findall(reading.object) if entity == "names" else [reading.parts.get(entity, "").strip(_EDGES)]
    return tuple(name for name in dict.fromkeys((reading.who.name or reading.who.kin, *named)) if name)


def _object(reading: Reading) -> str:
    return (not reading.mine and _bare(reading.object, reading)) or _bare(reading.said, reading) or reading.pattern.name


def _bare(words: str, reading: Reading) -> str:
    """A thing without what is done with it: 吃辣 and 辣, "eating spicy food" and "spicy food" are one."""
    language = reading.book.language
    folded = fold(dates.without(words)).strip(_EDGES)
    folded = _CLOSING[language].sub("", _OPENING[language].sub("", folded))
    return folded.strip(_EDGES)[:_LONGEST]
