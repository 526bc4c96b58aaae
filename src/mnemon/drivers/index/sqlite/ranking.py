"""Scores over segments, best first: the same arithmetic whichever way the rows are cut into segments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mnemon.contracts.entries import Vector
from mnemon.drivers.index.sqlite.segment import Segment
from mnemon.logic import lexical
from mnemon.logic.lexical import Query

DIGITS = 6  # scores are told apart to this many decimals; rounding in the hardware must not change an order
_SLACK = 10.0**-DIGITS

Scores = list[NDArray[np.float32]]
Found = tuple[float, str, Segment, int]


def by_vector(segments: Sequence[Segment], vector: Vector) -> Scores:
    return [s.similarities(vector) for s in segments]


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
    return scores


def best(
    segments: Sequence[Segment], scores: Scores, limit: int, after: tuple[float, str] | None, least: float | None
) -> list[Found]:
    """The best `limit` rows behind `after`, ties by id."""
    found: list[Found] = []
    for segment, score in zip(segments, scores, strict=True):
        found += _candidates(segment, score, limit, after)
    found.sort(key=lambda f: (-f[0], f[1]))
    if after is not None:
        found = [f for f in found if (-f[0], f[1]) > (-after[0], after[1])]
    if least is not None:
        found = [f for f in found if f[0] >= least]
    return found[:limit]


def _candidates(
    segment: Segment, score: NDArray[np.float32], limit: int, after: tuple[float, str] | None
) -> list[Found]:
    """The best `limit` of one segment and everything tied with the last of them; with `after`, from there on."""
    if after is not None:
        # Rows tied with the last hit of the page before may sort before or behind it: they are all candidates.
        tied = np.abs(score - np.float32(after[0])) <= 2 * _SLACK
        score = np.where(score <= after[0] + 2 * _SLACK, score, -np.inf)
        limit += int(np.count_nonzero(tied))
    floor = -np.inf
    if limit < len(score):
        edge = float(score[score.argpartition(len(score) - limit)[len(score) - limit]])
        floor = edge - 2 * _SLACK
    at = (score >= floor).nonzero()[0] if floor > -np.inf else (score > -np.inf).nonzero()[0]
    ids = segment.ids
    return [(round(v, DIGITS), ids[i], segment, i) for i, v in zip(at.tolist(), score[at].tolist(), strict=True)]
