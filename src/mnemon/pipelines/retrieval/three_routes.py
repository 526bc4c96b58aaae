"""`dialog_v1`: facts by meaning, the words those facts cite, and turns by meaning; fixed weights (001 §7.3)."""

from __future__ import annotations

from collections.abc import Sequence

from mnemon.contracts.claims import Claim
from mnemon.contracts.entries import Hit
from mnemon.contracts.filters import In, every
from mnemon.contracts.retrieval import Quote, RetrievalHit
from mnemon.logic.ids import turn_id
from mnemon.logic.retrieval.fusing import REFERENCE_SHARE, fused
from mnemon.pipelines.index.projection import SOURCE, claim_of
from mnemon.pipelines.retrieval.desk import CLAIMS, TURNS, Desk, Found, Request
from mnemon.pipelines.retrieval.showing import joined, quotes_of, shown, whole

FACT_SOURCES = In("source", (SOURCE, "mem0"))


async def find(request: Request, desk: Desk) -> Found:
    vector = await desk.embedded(request.query)
    facts = await desk.near("fact_search", vector, every(CLAIMS, FACT_SOURCES, request.when), request.topk)
    events = await desk.near("event_search", vector, every(TURNS, request.when), request.topk)
    references = await _references(request, desk, facts)
    hits = [_fact(hit) for hit in facts] + references + [_event(hit) for hit in events]
    return Found(fused(hits, request.topk))


def _fact(hit: Hit) -> RetrievalHit:
    return RetrievalHit(hit.entry.id, hit.score, 0.0, "fact_search", shown(hit.entry), quotes_of(claim_of(hit.entry)))


def _event(hit: Hit) -> RetrievalHit:
    return RetrievalHit(hit.entry.id, hit.score, 0.0, "event_search", shown(hit.entry), whole(hit.entry))


async def _references(request: Request, desk: Desk, facts: Sequence[Hit]) -> list[RetrievalHit]:
    """The turns the facts cite, each with its best fact's score and the words every one of them cites."""
    cited: dict[str, tuple[float, list[Quote]]] = {}
    for fact in facts:
        claim: Claim = claim_of(fact.entry)
        for turn in claim.source_turn_ids:
            id = turn_id(claim.session, turn)
            score, quotes = cited.get(id, (fact.score, []))
            cited[id] = max(score, fact.score), [*quotes, *quotes_of(claim, turn)]
    entries = await desk.entries("trace_references", list(cited), every(TURNS, request.when))
    hits = []
    for entry in entries:
        score, quotes = cited[entry.id]
        evidence = joined(quotes)
        hits.append(RetrievalHit(entry.id, score * REFERENCE_SHARE, 0.0, "reference_trace", shown(entry), evidence))
    return hits
