"""Sentences and clauses: which words belong to one saying."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

from mnemon.logic.memo import remembered
from mnemon.logic.polarity import signs
from mnemon.logic.senses import senses

_DATA = tomllib.loads(resources.files("mnemon.logic").joinpath("data/clauses.toml").read_text(encoding="utf-8"))
_SENTENCE_END = re.compile(_DATA["sentence_end"])
_POINTS_BACK = re.compile(_DATA["points_back"])
_BREAKS = re.compile(f"(?P<join>{_DATA['joins']})|{_DATA['breaks']}", re.IGNORECASE)
_SAYS = re.compile(_DATA["says"], re.IGNORECASE)


class Clause(NamedTuple):
    """A clause in its sentence; `last` is the one a question mark at the end belongs to."""

    text: str
    sentence: str
    last: bool


def sentences(text: str) -> list[tuple[int, int]]:
    """Where each sentence begins and ends, its mark included."""
    found: list[tuple[int, int]] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if text[start : match.start()].strip():
            found.append((start, match.end()))
        start = match.end()
    if text[start:].strip():
        found.append((start, len(text)))
    return found


def around(text: str, start: int, end: int) -> str:
    """The sentences these places touch; one that points back takes the one before it along."""
    places = sentences(text)
    touched = [n for n, (a, b) in enumerate(places) if a < end and start < b]
    if not touched:
        return text[start:end]
    first, last = touched[0], touched[-1]
    while first > 0 and _POINTS_BACK.match(text, places[first][0]):
        first -= 1
    return text[places[first][0] : places[last][1]]


def segments(text: str) -> Iterator[str]:
    """The smallest pieces of a text: what stands in one of them belongs together."""
    for start, end in sentences(text):
        yield from (part.strip() for part, _ in _parts(text[start:end]) if part.strip())


@remembered(8192)
def clauses(text: str) -> tuple[Clause, ...]:
    return tuple(clause for start, end in sentences(text) for clause in _of_sentence(text[start:end]))


def _of_sentence(sentence: str) -> list[Clause]:
    joined: list[str] = []
    waiting = ""
    for part, speaks in _parts(sentence):
        if speaks or _speaks(part):
            joined.append(waiting + part)
            waiting = ""
        elif joined:
            joined[-1] += f" {part}"
        else:
            waiting += f"{part} "
    if waiting.strip():
        joined.append(waiting)
    return [Clause(text.strip(), sentence, n == len(joined) - 1) for n, text in enumerate(joined)]


def _parts(sentence: str) -> Iterator[tuple[str, bool]]:
    """Pieces, and whether each is known to have a verb of its own."""
    start, speaks = 0, False
    for match in _BREAKS.finditer(sentence):
        # A word that breaks belongs to what it opens: "instead of coffee", 但不喝酒.
        cut = match.start() if match.group().strip(" ，,：:—()（）-") else match.end()
        yield sentence[start:cut], speaks
        start, speaks = cut, match["join"] is not None
    yield sentence[start:], speaks


def _speaks(part: str) -> bool:
    return bool(_SAYS.search(part) or senses(part) or signs(part))
