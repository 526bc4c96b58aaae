"""Scores over segments, best first: the same arithmetic whichever way the rows are cut into segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mnemon.drivers.index.sqlite.segment import Segment
from mnemon.logic import lexical
from mnemon.logic.exact import Direction
from mnemon.logic.lexical import Query

_STEPS = 1e6  # scores are told apart to six decimals

Column = NDArray[np.float32 | np.float64]
Found = tuple[float, str, Segment, int]


@dataclass(frozen=True, slots=True)
class Scores:
    """A column for each segment: what every row is worth, -inf where it is no hit. What is worth the same is so
    wherever it stands: by words the columns say it, by vector they say it roughly and `question` is asked again."""

    columns: list[Column]
    question: Direction | None = None

    def doubt(self, segment: Segment) -> float:
        """How far a column may be from what a row is told to be worth."""
        return 1 / _STEPS + (segment.doubt if self.question else 0.0)

    def settled(self, segment: Segment, column: Column, at: NDArray[np.int64]) -> list[float]:
        exact = column[at] if self.question is None or segment.is_exact else segment.exact_cosines(self.question, at)
        told: list[float] = (np.rint(np.multiply(exact, _STEPS, dtype=np.float64)) / _STEPS).tolist()
        return told


def by_vector(segments: Sequence[Segment], question: Direction) -> Scores:
    return Scores([s.cosines(question) for s in segments], question)


def by_words(segments: Sequence[Segment], query: Query) -> Scores:
    """BM25 with the statistics of exactly these segments; -inf where a row does not match."""
    rows = sum(s.count for s in segments)
    scores = [np.zeros(s.count, dtype=np.float32) for s in segments]
    for gram in lexical.scoring_grams(query):
        postings = [s.posting(gram) for s in segments]
        share = lexical.idf(rows, sum(len(p) for p, _ in postings))
        for score, (posted, weights) in zip(scores, postings, strict=True):
            if len(posted):
                score[posted] += np.float32(share) * weights
    ranked = lexical.is_ranked(query)
    for score, segment in zip(scores, segments, strict=True):
        score[(score <= 0) if ranked else ~segment.matching(query)] = -np.inf
    return Scores([*scores])


def best(
    segments: Sequence[Segment], scores: Scores, limit: int, after: tuple[float, str] | None, least: float | None
) -> list[Found]:
    """The best `limit` rows behind `after`, ties by id."""
    found: list[Found] = []
    for segment, column in zip(segments, scores.columns, strict=True):
        at = _candidates(column, limit, after, scores.doubt(segment))
        ids, worth = segment.ids, scores.settled(segment, column, at)
        found += [(v, ids[i], segment, i) for i, v in zip(at.tolist(), worth, strict=True)]
    found.sort(key=lambda f: (-f[0], f[1]))
    if after is not None:
        found = [f for f in found if (-f[0], f[1]) > (-after[0], after[1])]
    if least is not None:
        found = [f for f in found if f[0] >= least]
    return found[:limit]


def _candidates(column: Column, limit: int, after: tuple[float, str] | None, doubt: float) -> NDArray[np.int64]:
    """Where the best `limit` of one segment are, and everything that may be worth as much as the last of them; with
    `after`, from there on. A row is worth what its column says, `doubt` more or less."""
    if after is not None:
        # Rows tied with the last hit of the page before may sort before or behind it: they are all candidates.
        tied = np.abs(column - after[0]) <= doubt
        column = np.where(column <= after[0] + doubt, column, -np.inf)
        limit += int(np.count_nonzero(tied))
    floor = -np.inf
    if limit < len(column):
        floor = float(np.partition(column, len(column) - limit)[len(column) - limit]) - 2 * doubt
    return (column >= floor).nonzero()[0] if floor > -np.inf else (column > -np.inf).nonzero()[0]
