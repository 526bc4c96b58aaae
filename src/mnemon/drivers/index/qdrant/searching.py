"""Going down a ranking the engine gives until what was asked for is settled: exact scores, ties by id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from mnemon.contracts.entries import Ask, Entry, Hit
from mnemon.drivers.index.qdrant.points import entry_of
from mnemon.logic import lexical
from mnemon.logic.lexical import Query
from mnemon.logic.text import terms

DIGITS = 6  # scores are told apart to this many decimals
_SLACK = 1e-5

# Asked for `size` points: (score, payload), best first.
Fetch = Callable[[int], Awaitable[Sequence[tuple[float, dict[str, Any]]]]]
# What a point really is worth; None where it does not match.
Judge = Callable[[float, Entry], float | None]


async def settle(fetch: Fetch, judge: Judge, ask: Ask) -> list[Hit]:
    """The engine's scores are never too low, so nothing it has not given yet can come before what it has."""
    size = 2 * ask.limit + 32
    while True:
        points = await fetch(size)
        hits = _kept(points, judge, ask)
        if len(points) < size:
            return hits[: ask.limit]
        unseen = points[-1][0] + _SLACK * (1 + abs(points[-1][0]))
        settled = [h for h in hits if h.score > unseen]
        if len(settled) >= ask.limit or (ask.min_score is not None and unseen < ask.min_score):
            return hits[: ask.limit]
        size *= 4


def _kept(points: Sequence[tuple[float, dict[str, Any]]], judge: Judge, ask: Ask) -> list[Hit]:
    hits: list[Hit] = []
    for given, payload in points:
        entry = entry_of(payload)
        score = judge(given, entry)
        if score is None or (ask.min_score is not None and score < ask.min_score):
            continue
        if ask.after is None or (-score, entry.id) > (-ask.after[0], ask.after[1]):
            hits.append(Hit(entry, score))
    return sorted(hits, key=lambda h: (-h.score, h.entry.id))


def by_vector(given: float, entry: Entry) -> float:
    return round(given, DIGITS)


def by_words(query: Query, shares: dict[int, float]) -> Judge:
    """BM25 from the text itself, in the arithmetic of the other indexes."""

    def judge(given: float, entry: Entry) -> float | None:
        numbers = terms(entry.text)
        counts = lexical.row_grams(numbers)
        if not lexical.holds(query, numbers, set(counts)):
            return None
        length = sum(1 for n in numbers if n)
        score = np.float32(0)
        for gram, share in shares.items():
            if gram in counts:
                score += np.float32(share) * np.float32(lexical.weight(counts[gram], length))
        return round(float(score), DIGITS)

    return judge
