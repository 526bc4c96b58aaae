"""How near a message is to the question by meaning, on a scale that does not depend on the embedder.

Scores of two embedders cannot be compared; how far a score stands out among all that came back can. Most of what
anybody says has nothing to do with a question, so the middle of the list is what "unrelated" scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

_FEW = 5
# Of a short list the middle is a guess: what stands out in it does so by so much at most.
_SHORT = 12
_SHARE = 0.15
_TINY = 1e-6


@dataclass(frozen=True, slots=True)
class Near:
    """`score` is the embedder's, `stands_out` how many usual distances from the middle of its list it lies."""

    score: float
    stands_out: float

    @property
    def clearly(self) -> bool:
        """Near enough to answer on its own."""
        return self.score >= 0.3 and self.stands_out >= 5.0

    @property
    def fairly(self) -> bool:
        """Near enough where nothing else is."""
        return self.score >= 0.27 and self.stands_out >= 4.0

    @property
    def at_all(self) -> bool:
        return self.stands_out >= 2.0

    def fairly_or_more(self, best: float) -> bool:
        """Near enough to be what became of the nearest."""
        return self.stands_out >= 4.0 and self.stands_out >= best * 0.3

    @property
    def of_the_named(self) -> bool:
        """Near enough in words about the very person who was asked about."""
        return self.stands_out >= 3.0

    @property
    def very(self) -> bool:
        """Near enough although it does not look like what was asked about."""
        return self.score >= 0.35 and self.stands_out >= 9.0


def nearness(ids: Sequence[str], scores: Sequence[float]) -> Mapping[str, Near]:
    """Of one search; a list too short to have a middle says nothing."""
    if len(ids) < _FEW or len(ids) != len(scores):
        return {}
    middle = median(scores)
    usual = max(median(abs(score - middle) for score in scores), _TINY)
    if len(ids) < _SHORT:
        usual = max(usual, _SHARE * (max(scores) - middle))
    return {id_: Near(score, (score - middle) / usual) for id_, score in zip(ids, scores, strict=True)}
