"""`dialog_v1`: facts by meaning, the words those facts cite, and turns by meaning; fixed weights (001 §7.3)."""

from __future__ import annotations

from collections.abc import Sequence

from mnemon.contracts.entries import Hit
from mnemon.contracts.filters import In, every
from mnemon.contracts.retrieval import Quote, RetrievalHit
from mnemon.logic.retrieval.fusing import REFERENCE_SHARE, fused
from mnemon.pipelines.index.projection import SOURCE
from mnemon.pipelines.retrieval.citing import Citation, cited, evidence_of
from mnemon.pipelines.retrieval.desk import FACTS, KEPT_TURNS, Desk, Found, Request
from mnemon.pipelines.retrieval.showing import joined, shown, shown_id, whole

FACT_SOURCES = In("source", (SOURCE, "mem0"))


async def find(request: Request, desk: Desk) -> Found:
    vector = await desk.embedded(request.query)
    facts = await desk.near("fact_search", vector, every(FACTS, FACT_SOURCES, request.when), request.topk)
    events = await desk.near("event_search", vector, every(KEPT_TURNS, request.when), request.topk)
    await desk.look(request.when, kept_only=True)
    citations = await cited(desk, facts)
    references = await _references(request, desk, citations)
    hits = [_fact(hit, citations) for hit in facts] + references + [_event(hit) for hit in events]
    return Found(fused(hits, request.topk))


def _fact(hit: Hit, citations: Sequence[Citation]) -> RetrievalHit:
    entry = hit.entry
    return RetrievalHit(shown_id(entry), hit.score, 0.0, "fact_search", shown(entry), evidence_of(entry, citations))


def _event(hit: Hit) -> RetrievalHit:
    return RetrievalHit(shown_id(hit.entry), hit.score, 0.0, "event_search", shown(hit.entry), whole(hit.entry))


async def _references(request: Request, desk: Desk, citations: Sequence[Citation]) -> list[RetrievalHit]:
    """The turns the facts cite, each with its best fact's score and the words every one of them cites."""
    named: dict[str, tuple[float, list[Quote]]] = {}
    for citation in citations:
        score, quotes = named.get(citation.row, (citation.score, []))
        named[citation.row] = max(score, citation.score), [*quotes, *citation.quotes]
    hits = []
    for entry in await desk.entries("trace_references", list(named), every(KEPT_TURNS, request.when)):
        score, quotes = named[entry.id]
        told = shown(entry)
        hits.append(
            RetrievalHit(shown_id(entry), score * REFERENCE_SHARE, 0.0, "reference_trace", told, joined(quotes))
        )
    return hits
