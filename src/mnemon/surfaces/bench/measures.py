"""How good a ranking or an answer is, given what it should have been."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from mnemon.logic.text import GAP, terms, word_number

DEPTHS = (1, 5, 10, 30)
_NDCG_DEPTH = 10
_SAYS_NOTHING = frozenset({GAP, *map(word_number, ("a", "an", "the", "and"))})

Figures = dict[str, float]


def measured(evidence: frozenset[str], ranking: Sequence[str]) -> Figures:
    """For each depth: is any of the evidence there, what share of it, and is it all; and nDCG@10."""
    hits = [id in evidence for id in dict.fromkeys(ranking)]
    figures: Figures = {}
    for depth in DEPTHS:
        found = sum(hits[:depth])
        figures |= {
            f"any@{depth}": float(found > 0),
            f"rec@{depth}": found / len(evidence),
            f"full@{depth}": float(found == len(evidence)),
        }
    gained = sum(_gain(rank) for rank, hit in enumerate(hits[:_NDCG_DEPTH]) if hit)
    figures["ndcg@10"] = gained / sum(map(_gain, range(min(len(evidence), _NDCG_DEPTH))))
    return figures


def _gain(rank: int) -> float:
    return 1 / math.log2(rank + 2)


def mean(rows: Iterable[Figures]) -> Figures:
    """Of each figure, and how many there were."""
    all_ = list(rows)
    return {name: sum(row[name] for row in all_) / len(all_) for name in all_[0]} | {"n": float(len(all_))}


def token_f1(gold: str, answer: str) -> float:
    """The harmonic mean of precision and recall over stemmed words and single characters, articles left out."""
    wanted, given = (Counter(t for t in terms(text) if t not in _SAYS_NOTHING) for text in (gold, answer))
    shared = (wanted & given).total()
    return 2 * shared / (wanted.total() + given.total()) if shared else 0.0
