"""Dates in Chinese and English text: where they stand, which days they mean, and how to write them for ever.

What a word means depends on the day it was said, the reference:

* A week begins on Monday. 上周五, 这周五 and 下周五 are the Fridays of the last, this and the next week, and so is
  "next Friday". "Last Friday" is the latest Friday before the reference, "this Friday" the first from it on.
* A bare weekday (周五, "on Friday") is the next such day after the reference, or the latest before it where the words
  around it speak of the past; so is a day or month without a year. Habits (每周五, "on Fridays") are no dates.
* "Two weeks ago", 三个月前: as exact as their unit, not more: a week, a month.
* 3/25/2026 and 25/3/2026 can only mean one thing; 3/9/2026 can mean two, and is left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time

from mnemon.logic.dates.chinese import CHINESE
from mnemon.logic.dates.english import ENGLISH, with_preposition
from mnemon.logic.dates.grammar import WORDS
from mnemon.logic.dates.periods import Precision
from mnemon.logic.memo import remembered

__all__ = ["QUOTED", "Dated", "Precision", "absolutise", "find", "gap", "relative", "unsettled", "without"]

QUOTED = re.compile("|".join(WORDS["quoted"]))
# Which day it is has no bearing on whether words are relative.
_ANY_DAY = datetime(2024, 1, 2)


@dataclass(frozen=True, slots=True)
class Dated:
    """One expression. `ends` is the first day after it; `absolute` is how it is written without the reference, and
    equals `text` where it does not need one. `at` is the time of day, for precision `time` alone."""

    start: int
    end: int
    text: str
    begins: date
    ends: date
    precision: Precision
    relative: bool
    absolute: str
    at: time | None = None


def find(text: str, reference: datetime, context: str = "") -> list[Dated]:
    """Every date in the text, in order and not overlapping; a time of day belongs to the date right before it.
    `context`: the words the text was made from, which say better whether they speak of the past."""
    return [dated for dated, _ in _found(text, reference, context)]


def absolutise(text: str, reference: datetime, context: str = "") -> str:
    """Relative dates as absolute ones, in the way of their language; quotes, titles and code stay as they are."""
    found = [(dated, english) for dated, english in _outside_quotes(text, reference, context) if dated.relative]
    for dated, english in reversed(found):
        before, after = text[: dated.start], text[dated.end :]
        written = with_preposition(dated.absolute, before, after) if english else dated.absolute
        text = f"{before}{gap(before, written)}{written}{gap(written, after)}{after}"
    return text


def relative(text: str) -> list[str]:
    """The relative dates outside quotes, titles and code, as they stand there."""
    return [dated.text for dated in unsettled(text)]


def unsettled(text: str) -> list[Dated]:
    """The relative dates outside quotes, titles and code, with their places; which days they mean is left open."""
    return [dated for dated, _ in _outside_quotes(text, _ANY_DAY) if dated.relative]


def gap(left: str, right: str) -> str:
    """Between two words in letters or digits: 明天3点 must not become one number."""
    edge = left[-1:] + right[:1]
    return " " if len(edge) == 2 and edge.isascii() and edge.isalnum() else ""


def without(text: str) -> str:
    """The text without its dates: what a thing is called whenever it happens."""
    for dated, _ in reversed(_found(text, _ANY_DAY)):
        text = text[: dated.start] + text[dated.end :]
    return text


def _outside_quotes(text: str, reference: datetime, context: str = "") -> list[tuple[Dated, bool]]:
    found = _found(text, reference, context)
    if not found:
        return []
    quoted = [match.span() for match in QUOTED.finditer(text)]
    return [pair for pair in found if all(pair[0].end <= start or end <= pair[0].start for start, end in quoted)]


@remembered(4096)
def _found(text: str, reference: datetime, context: str = "") -> tuple[tuple[Dated, bool], ...]:
    """Dates, and whether each was read as English."""
    read = [(*found, False) for found in CHINESE.read(text, reference, context)]
    read += [(*found, True) for found in ENGLISH.read(text, reference, context)]
    read.sort(key=lambda found: (found[0], -found[1]))
    out: list[tuple[Dated, bool]] = []
    for start, end, when, english in read:
        before = out[-1][0] if out else None
        if before is not None and start < before.end:
            continue
        begins, ends = when.begins, when.ends
        if when.at is not None and before is not None and before.precision == "day" and start - before.end <= 4:
            begins, ends = before.begins, before.ends
        words = text[start:end]
        dated = Dated(start, end, words, begins, ends, when.precision, when.relative, when.written or words, when.at)
        out.append((dated, english))
    return tuple(out)
