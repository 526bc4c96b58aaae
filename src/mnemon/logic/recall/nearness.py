"""How near a message is to the question by meaning, on a scale that does not depend on the embedder.

Scores of two embedders cannot be compared; how far a score stands out among all that came back can. Most of what
anybody says has nothing to do with a question, so the middle of the list is what "unrelated" scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

_FEW = 5
# Of a short list the middle is a guess: what stands out in it does so by so much at most.
_SHORT = 12
_SHARE = 0.15
_TINY = 1e-6


class Near(NamedTuple):
    """`score` is the embedder's, `stands_out` how many usual distances from the middle of its list it lies."""

    score: float
    stands_out: float


def nearness(ids: Sequence[str], scores: Sequence[float]) -> Mapping[str, Near]:
    """Of one search; a list too short to have a middle says nothing."""
    if len(ids) < _FEW or len(ids) != len(scores):
        return {}
    middle = median(scores)
    usual = max(median(abs(score - middle) for score in scores), _TINY)
    if len(ids) < _SHORT:
        usual = max(usual, _SHARE * (max(scores) - middle))
    return {id_: Near(score, (score - middle) / usual) for id_, score in zip(ids, scores, strict=True)}


def by_words(ids: Sequence[str], scores: Sequence[float]) -> Mapping[str, float]:
    """The share each has of the best match."""
    best = max(scores, default=0.0)
    return {id_: score / best for id_, score in zip(ids, scores, strict=True)} if best > 0 else {}
