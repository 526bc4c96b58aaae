"""Which turns a ranking serves: the best ones, or, for a question that wants several places, the best few of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mnemon.logic.retrieval.features import Candidate
from mnemon.logic.retrieval.ranking_data import Several


def in_order(candidates: Sequence[Candidate], scores: NDArray[np.float64], limit: int) -> list[int]:
    """Positions, best first, ties by id."""
    ids = [c.entry.id for c in candidates]
    return sorted(range(len(ids)), key=lambda i: (-round(float(scores[i]), 9), ids[i]))[:limit]


def spread(candidates: Sequence[Candidate], scores: NDArray[np.float64], limit: int, several: Several) -> list[int]:
    """The same, but each turn chosen makes its neighbours and its session a little less wanted."""
    order = in_order(candidates, scores, len(candidates))
    places = [candidates[i].place for i in order]
    left = np.array([scores[i] for i in order])
    numbers: dict[str, int] = {}
    sessions = np.array([numbers.setdefault(uri, len(numbers)) for uri, _ in places])
    at = np.array([seq for _, seq in places])
    chosen: list[int] = []
    while len(chosen) < min(limit, len(order)):
        best = int(np.argmax(left))
        chosen.append(order[best])
        same = sessions == sessions[best]
        left[same] -= several.same_session
        left[same & (np.abs(at - at[best]) == 1)] -= several.next_to
        left[best] = -np.inf
    return chosen
