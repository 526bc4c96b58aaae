"""How sure a share is: 95 % intervals, for questions as independent and for whole conversations drawn anew."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Interval = tuple[float, float]

_Z = 1.959963984540054
_DRAWS = 10_000
_TAILS = (2.5, 97.5)


def wilson(right: int, n: int) -> Interval:
    """Wilson's interval: it keeps within 0 and 1, and says something also when all or none are right."""
    share, spread = right / n, _Z * _Z / n
    middle = share + spread / 2
    half = math.sqrt(spread * (share * (1 - share) + spread / 4))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def bootstrap(conversations: Sequence[tuple[int, int]], seed: int) -> Interval | None:
    """From (right, asked) of every conversation, because its questions rise and fall together; None for fewer than
    two."""
    if len(conversations) < 2:
        return None
    counts = np.asarray(conversations)
    drawn = np.random.default_rng(seed).integers(len(counts), size=(_DRAWS, len(counts)))
    right, asked = counts[drawn].sum(axis=1).T
    low, high = np.percentile(right / asked, _TAILS)
    return float(low), float(high)
