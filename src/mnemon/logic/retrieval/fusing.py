"""`dialog_v1`'s order: each route's own scores times a fixed weight, every id once, best first.

Frozen: a better order is another strategy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mnemon.contracts.retrieval import RetrievalHit, Source

WEIGHTS: dict[Source, float] = {"fact_search": 2.0, "reference_trace": 1.8, "event_search": 1.0}
REFERENCE_SHARE = 0.9
"""A reference is as good as its fact, less a little: the words are right, the match was with the fact."""


def fused(hits: Iterable[RetrievalHit], topk: int) -> tuple[RetrievalHit, ...]:
    best: dict[str, RetrievalHit] = {}
    for hit in hits:
        weighed = replace(hit, final_score=hit.score * WEIGHTS[hit.source])
        if hit.id not in best or weighed.final_score > best[hit.id].final_score:
            best[hit.id] = weighed
    return tuple(sorted(best.values(), key=lambda hit: (-hit.final_score, hit.id))[:topk])
