"""English around a name that stands where a pronoun stood: the verb agrees, and case is read from the neighbours."""

from __future__ import annotations

import re
from importlib import resources
from typing import NamedTuple

from mnemon.logic.absolute.setting import WORDS
from mnemon.logic.rules.wording import third

_EN = WORDS["reading"]["en"]
_VERBS: dict[str, str] = _EN["verbs"]
_IRREGULAR = resources.files("mnemon.logic").joinpath("data/irregular_en.txt").read_text(encoding="utf-8")
# Of an irregular verb only the first form changes.
_UNCHANGED = frozenset(_EN["unchanged"].split()).union(*(line.split()[1:] for line in _IRREGULAR.splitlines()))
_VERB = re.compile(rf"(?:\s+{_EN['adverbs']}(?=\s))*\s+(?P<verb>[A-Za-z]+(?:['’]t)?)(?![A-Za-z0-9_'’-])")
_SHORT = re.compile(r"['’](?P<verb>m|re|ve|ll|d)(?![A-Za-z])", re.IGNORECASE)
_HAD = re.compile(rf"\s+{_EN['had_before']}(?![A-Za-z])", re.IGNORECASE)
_QUESTION = re.compile(rf"{_EN['asks']}(?P<verb>{_EN['questions']})\s+$", re.IGNORECASE)
_AFTER_MODAL = re.compile(rf"(?<![A-Za-z'’])(?:{_EN['modals']})\s+$", re.IGNORECASE)
_OPENS = re.compile(_EN["opens"], re.IGNORECASE)
_HAS_VERB = re.compile(_EN["subject_verbs"], re.IGNORECASE)
_OBJECT_AFTER = re.compile(_EN["object_after"])
_TOGETHER, _AND_ANOTHER = re.compile(_EN["together"]), re.compile(_EN["and_another"])
_SENTENCE_START = re.compile(r"(?:^|[.!?。！？\n]\s*)[\"“(]*$")
_NEAR = 30  # no word that matters stands farther off


class Edit(NamedTuple):
    """What is written in place of a stretch of the text."""

    start: int
    end: int
    text: str


def is_subject(text: str, start: int, end: int) -> bool:
    """Of `you`: does it open a clause, is it asked something, or has it a verb of its own?"""
    tests = (_OPENS, _QUESTION, _AFTER_MODAL)
    return any(behind(test, text, start) for test in tests) or _HAS_VERB.match(text, end) is not None


def is_object(text: str, end: int) -> bool:
    """Of `her`: nothing follows that could be hers."""
    return _OBJECT_AFTER.match(text, end) is not None


def behind(pattern: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    """What stands right before a place, by a pattern that ends there."""
    return pattern.search(text, max(0, start - _NEAR), start)


def agreement(text: str, start: int, end: int, plural: bool, third_already: bool) -> tuple[Edit, ...]:
    """How the verb of a subject changes when a name takes its place; after "he" only what is short is spelt out."""
    if (short := _SHORT.match(text, end)) is not None:
        word = _EN["plural_contractions" if plural else "contractions"][short["verb"].lower()]
        return (Edit(end, short.end(), " had" if word == "would" and _HAD.match(text, short.end()) else f" {word}"),)
    if third_already or plural or behind(_AFTER_MODAL, text, start):
        return ()
    if behind(_TOGETHER, text, start) or _AND_ANOTHER.match(text, end):
        return ()
    verb = behind(_QUESTION, text, start) or _VERB.match(text, end)
    if verb is None or (changed := agreeing(verb["verb"])) == verb["verb"]:
        return ()
    return (Edit(*verb.span("verb"), changed),)


def agreeing(verb: str) -> str:
    """`like` → `likes`; what is over, what has no third person and what is no verb stays."""
    if (known := _VERBS.get(verb.lower())) is not None:
        return known.capitalize() if verb[0].isupper() else known
    if verb != verb.lower() or verb in _UNCHANGED or verb.endswith(("ed", "ing", "n't", "n’t")):
        return verb
    return third(verb)


def begun(written: str, text: str, start: int) -> str:
    """With a capital where a sentence begins."""
    return written[:1].upper() + written[1:] if behind(_SENTENCE_START, text, start) else written
