"""Every reason `dialog_v2` has to put a turn first, as a number between 0 and 1, and their weighted sum.

A turn speaks for itself, through what stands right before and after it, and through its session; how it is worded says
whether it tells something, of whom, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mnemon.contracts.entries import Entry
from mnemon.logic import dates
from mnemon.logic.exact import row_sums
from mnemon.logic.lexical import idf
from mnemon.logic.memo import remembered
from mnemon.logic.retrieval.ranking_data import Forms, RankingData
from mnemon.logic.retrieval.understanding import Understood, is_called
from mnemon.logic.text import STOP_WORDS, grams, is_character, pair, terms

Column = NDArray[np.float64]

_CHEAP = (
    "words",
    "meaning",
    "facts",
    "words_before",
    "words_after",
    "meaning_before",
    "meaning_after",
    "around",
    "session_best",
    "session_sum",
    "speaker",
    "in_period",
    "recent",
    "by_user",
    "tagged",
)
_CLOSE = (
    "of_self",
    "speaker_of_self",
    "other_to_them",
    "asks",
    "answers",
    "dated",
    "phrase",
    "coverage",
    "session_coverage",
    "length",
)
FEATURES = (*_CHEAP, *_CLOSE)
_SESSION_TOP = 3
_FADES = 14 * 86_400_000.0
"""After two weeks (in milliseconds) being recent counts for a third."""
# Which day it is has no bearing on whether a text names one.
_ANY_DAY = datetime(2024, 1, 2)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A turn some search found: its score by words, by meaning and through claims that cite it, 0 where it was not
    found that way. `meaning` counts from the last one found."""

    entry: Entry
    words: float = 0.0
    meaning: float = 0.0
    facts: float = 0.0

    @property
    def place(self) -> tuple[str, int]:
        return str(self.entry.fields.get("uri", "")), int(self.entry.fields.get("seq", 0))


@dataclass(frozen=True, slots=True)
class Table:
    """`values` has a row for every candidate and a column for every name in FEATURES."""

    candidates: tuple[Candidate, ...]
    values: NDArray[np.float64]

    def scores(self, weights: dict[str, float]) -> Column:
        return row_sums(self.values * [weights.get(name, 0.0) for name in FEATURES])


def tabled(asked: Understood, found: Sequence[Candidate], data: RankingData, topk: int = 0) -> Table:
    """Cheap reasons for all; the wording only of those that are best so far, and the rest is left out."""
    columns = _cheap(asked, found)
    cheap = np.stack([columns[name] for name in _CHEAP], axis=1)
    so_far = row_sums(cheap * [data.weights.get(name, 0.0) for name in _CHEAP])
    order = np.argsort(-so_far, kind="stable")[: max(data.pool.second_look, 2 * topk)]
    kept = tuple(found[i] for i in order)
    close = _close(asked, kept, data.forms, cheap[order])
    return Table(kept, np.concatenate([cheap[order], np.stack([close[name] for name in _CLOSE], axis=1)], axis=1))


def _cheap(asked: Understood, found: Sequence[Candidate]) -> dict[str, Column]:
    words, meaning, facts = (_over_best(column) for column in zip(*map(_scores, found), strict=True))
    steps = _Steps(found)
    here = (words + meaning) / 2
    best, top = steps.by_session(here)
    two_away = np.mean([steps.at(column, by) for column in (words, meaning) for by in (-2, 2)], axis=0)
    when = np.array([float(c.entry.fields.get("ts", 0)) for c in found])
    return {
        "words": words,
        "meaning": meaning,
        "facts": facts,
        "words_before": steps.at(words, -1),
        "words_after": steps.at(words, 1),
        "meaning_before": steps.at(meaning, -1),
        "meaning_after": steps.at(meaning, 1),
        "around": two_away,
        "session_best": best,
        "session_sum": top,
        "speaker": _spoken_by(asked, found),
        "in_period": np.array([float(any(begin <= t < end for begin, end in asked.periods)) for t in when]),
        "recent": np.exp((when - when.max()) / _FADES) if asked.speaks_of_self else np.zeros(len(found)),
        "by_user": np.array([float(c.entry.fields.get("role") == "user") for c in found]),
        "tagged": np.array([float(c.entry.fields.get("kept") is not False) for c in found]),
    }


def _close(asked: Understood, kept: Sequence[Candidate], forms: Forms, cheap: NDArray[np.float64]) -> dict[str, Column]:
    wordings = [_wording(c.entry.text) for c in kept]
    of_self, to_other, asks = (
        np.array([form.search(c.entry.text) is not None for c in kept], dtype=np.float64)
        for form in (forms.speaks_of_self, forms.speaks_to_other, forms.asks)
    )
    speaker = cheap[:, FEATURES.index("speaker")]
    steps = _Steps(kept)
    covered = _Coverage(asked, wordings)
    here = (cheap[:, 0] + cheap[:, 1]) / 2
    somebody_else = (1 - speaker) * float(len(asked.names) == 1)
    dated = [float(asked.wants_date and _names_a_day(c.entry.text)) for c in kept]
    return {
        "of_self": of_self,
        "speaker_of_self": speaker * of_self,
        "other_to_them": somebody_else * to_other,
        "asks": asks,
        "answers": steps.at(asks * here, -1),
        "dated": np.array(dated),
        "phrase": _phrase(asked, wordings),
        "coverage": covered(lambda column: np.maximum.reduce([column, steps.at(column, -1), steps.at(column, 1)])),
        "session_coverage": covered(steps.best_of_session),
        "length": np.array([min(1.0, w.length / forms.length) for w in wordings]),
    }


class _Steps:
    """From a turn to those around it in its session, among some turns; 0 where there is none."""

    def __init__(self, found: Sequence[Candidate]) -> None:
        self._places = [c.place for c in found]
        self._at = {place: i for i, place in enumerate(self._places)}
        self._found: dict[int, NDArray[np.int64]] = {}
        numbers: dict[str, int] = {}
        self._session = np.array([numbers.setdefault(uri, len(numbers)) for uri, _ in self._places], dtype=np.int64)

    def at(self, column: Column, by: int) -> Column:
        if by not in self._found:
            self._found[by] = np.array([self._at.get((uri, seq + by), -1) for uri, seq in self._places])
        return np.append(column, 0.0)[self._found[by]]

    def best_of_session(self, column: Column) -> Column:
        best = np.zeros(len(column))
        np.maximum.at(best, self._session, column)
        return best[self._session]

    def by_session(self, column: Column) -> tuple[Column, Column]:
        """Its session's best, and the sum of its session's best few, each over the greatest there is."""
        order = np.lexsort((-column, self._session))
        sessions = self._session[order]
        first = np.flatnonzero(np.append(True, sessions[1:] != sessions[:-1]))
        rank = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
        best, top = np.zeros(len(first)), np.zeros(len(first))
        np.maximum.at(best, sessions, column[order])
        np.add.at(top, sessions[rank < _SESSION_TOP], column[order][rank < _SESSION_TOP])
        return _over_best(best)[self._session], _over_best(top)[self._session]


@dataclass(frozen=True, slots=True)
class _Wording:
    length: int
    grams: set[int]
    pairs: frozenset[tuple[int, int]]


@remembered(20_000)
def _wording(text: str) -> _Wording:
    numbers = terms(text)
    pairs = frozenset(pairwise(numbers))
    characters = {pair(one, two) for one, two in pairs if is_character(one) and is_character(two)}
    return _Wording(sum(map(bool, numbers)), characters.union(numbers), pairs)


def _phrase(asked: Understood, wordings: Sequence[_Wording]) -> Column:
    """How many of the question's neighbouring words stand side by side here too."""
    numbers = asked.terms
    told = [two for two in pairwise(numbers) if not STOP_WORDS.issuperset(two)]
    return _over_best(np.array([float(sum(two in w.pairs for two in told)) for w in wordings]))


class _Coverage:
    """How much of the question stands in some turns, rare words counting more."""

    def __init__(self, asked: Understood, wordings: Sequence[_Wording]) -> None:
        wanted = [gram for gram in dict.fromkeys(grams(asked.terms)) if gram not in STOP_WORDS]
        self._held = np.array([[gram in w.grams for gram in wanted] for w in wordings], dtype=np.float64)
        self._weights = np.array([idf(len(wordings), int(column.sum())) for column in self._held.T])

    def __call__(self, widened: Callable[[Column], Column]) -> Column:
        """`widened` says for one word where it counts as standing."""
        if not len(self._weights):
            return np.zeros(len(self._held))
        where = np.stack([widened(column) for column in self._held.T], axis=1)
        covered: Column = row_sums(where * self._weights) / self._weights.sum()
        return covered


def _scores(candidate: Candidate) -> tuple[float, float, float]:
    return candidate.words, candidate.meaning, candidate.facts


def _spoken_by(asked: Understood, found: Sequence[Candidate]) -> Column:
    """Said by the one person the question is about; of two, neither is."""
    speakers = [str(c.entry.fields.get("speaker", "")) for c in found]
    meant = {name for name in set(speakers) if len(asked.names) == 1 and is_called(name, asked.names)}
    return np.array([float(name in meant) for name in speakers])


@remembered(20_000)
def _names_a_day(text: str) -> bool:
    return bool(dates.find(text, _ANY_DAY))


def _over_best(column: Sequence[float] | Column) -> Column:
    """The best is 1."""
    values = np.asarray(column, dtype=np.float64)
    best = values.max(initial=0.0)
    return values / best if best > 0 else np.zeros(len(values))
