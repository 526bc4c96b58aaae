"""`search`: one question to the index, within what the caller may see, and what the hits are linked to."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from mnemon.contracts.entries import Ask, Hit
from mnemon.contracts.filters import Eq, In, Missing, Not, Or, Range, Where, every
from mnemon.contracts.memories import GraphParams, Neighbor, SearchFilters, SearchHit, SearchResult
from mnemon.contracts.ports import Clock, Embedder, Graph, Index
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import epoch_ms
from mnemon.logic.searching import compiled, narrowed
from mnemon.pipelines.entries.neighbourhood import Neighbourhood, Step
from mnemon.pipelines.entries.projection import ACTIVE, EPISODIC, FINDABLE, KINDS, SEMANTIC, WRITTEN
from mnemon.pipelines.index.projection import BY_HAND, CHUNK, MARKER_SOURCE
from mnemon.pipelines.index.reading import search_shown
from mnemon.pipelines.retrieval.showing import shown

# A hit that is linked to another hit gains this much, halved by each further step between them.
LINK_BOOST = 0.05
_LOOKED_AT = 2_000
# What no longer holds is not remembered, and a session's marker is nobody's memory.
_SAID_NOWHERE_ELSE = Or((Not(Eq("kind", CHUNK)), Eq("source", BY_HAND)))
"""A piece of a readable memory says once more what claims and turns say, unless a person wrote it there."""
_REMEMBERED = every(FINDABLE, Or((Missing("state"), Eq("state", ACTIVE))))


@dataclass(slots=True)
class _Trace:
    """How long each step took, and what it found."""

    timings_ms: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    routes: list[str] = field(default_factory=list)
    _since: float = field(default_factory=time.perf_counter)

    def step(self, name: str, **counts: int) -> None:
        now = time.perf_counter()
        self.timings_ms[name] = round((now - self._since) * 1000, 3)
        self._since = now
        self.counts |= counts
        self.routes.append(name)

    def told(self) -> dict[str, Any]:
        total = round(sum(self.timings_ms.values()), 3)
        return {"timings_ms": {**self.timings_ms, "total": total}, "counts": self.counts, "routes": self.routes}


@dataclass(frozen=True, slots=True)
class EntrySearch:
    index: Index
    embedder: Embedder
    graph: Graph
    clock: Clock

    async def search(
        self, scope: Scope, query: str, topk: int, filters: SearchFilters, graph: GraphParams | None
    ) -> SearchResult:
        """`graph` is None where links are not to be followed."""
        trace = _Trace()
        scope = narrowed(scope, filters)
        where = self._where(filters)
        vector = (await self.embedder.embed_texts([query], "query"))[0].dense_vector
        trace.step("embed")
        around = Neighbourhood(self.graph, self.index, scope, self.clock.now())
        ask = Ask(vector=vector, where=where, limit=topk, min_score=filters.threshold)
        hits = await self._hits(scope, ask, filters, around)
        trace.step("dense", hits=len(hits), **await self._looked(scope, where))
        scores = {hit.entry.id: float(hit.score) for hit in hits}
        entries = {hit.entry.id: shown(hit.entry) for hit in hits}
        neighbors: dict[str, tuple[Neighbor, ...]] = {}
        boosts: dict[str, float] = {}
        if graph is not None and hits:
            steps = await around.around(list(scores), graph)
            boosts = _boosts(steps, scores)
            named = await around.told(steps, graph.neighbor_cap)
            neighbors = {entries[key].id or key: found for key, found in named.items() if found}
            trace.step("graph", boosted=len(boosts), neighbors=sum(map(len, neighbors.values())))
        scores = {key: round(score + boosts.get(key, 0.0), 6) for key, score in scores.items()}
        told = [
            SearchHit(entries[key].id or key, scores[key], entries[key])
            for key in sorted(scores, key=lambda key: (-scores[key], key))
        ]
        return SearchResult(tuple(told), neighbors, _hint(told, filters, neighbors, len(boosts)), trace.told())

    def _where(self, filters: SearchFilters) -> Where:
        parts = [compiled(filters, KINDS, (EPISODIC, SEMANTIC, CHUNK))]
        if filters.memory_type is None:
            parts.append(_SAID_NOWHERE_ELSE)
        if MARKER_SOURCE not in (filters.source or ()):
            parts.append(_REMEMBERED)
        if filters.published is False:
            over = Range("expires_at", lte=epoch_ms(self.clock.now()))
            parts += [In("kind", WRITTEN), Eq("published", False), Not(over)]
        return every(*parts)

    async def _looked(self, scope: Scope, where: Where) -> dict[str, int]:
        """How many entries there were to look at, and how many more there would have been without a filter."""
        looked = await self.index.count(scope, where)
        usual = self._where(SearchFilters())
        without = looked if where == usual else await self.index.count(scope, usual)
        return {"looked_at": looked, "left_out": max(without - looked, 0)}

    async def _hits(self, scope: Scope, ask: Ask, filters: SearchFilters, around: Neighbourhood) -> list[Hit]:
        if filters.rel_types is None:
            return await self._page(scope, ask, filters)
        topk, kept, looked = ask.limit, list[Hit](), 0
        ask = replace(ask, limit=max(4 * topk, 64))
        while True:
            page = await self._page(scope, ask, filters)
            linked = await around.having([hit.entry.id for hit in page], filters.rel_types)
            kept += [hit for hit in page if hit.entry.id in linked]
            looked += len(page)
            if len(page) < ask.limit or len(kept) >= topk or looked >= _LOOKED_AT:
                return kept[:topk]
            ask = replace(ask, after=(float(page[-1].score), page[-1].entry.id))

    async def _page(self, scope: Scope, ask: Ask, filters: SearchFilters) -> list[Hit]:
        if filters.published is False:
            return await self.index.search(scope, ask)
        return await search_shown(self.index, scope, ask, self.clock.now())


def _boosts(steps: dict[str, list[Step]], scores: dict[str, float]) -> dict[str, float]:
    nearest = {key: min((s.hops for s in found if s.key in scores), default=0) for key, found in steps.items()}
    return {key: LINK_BOOST / 2 ** (hops - 1) for key, hops in nearest.items() if hops}


def _hint(hits: list[SearchHit], filters: SearchFilters, neighbors: dict[str, Any], boosted: int) -> str:
    """One line for people."""
    if not hits:
        given = sorted(filters.model_dump(exclude_none=True, exclude_defaults=True))
        return "nothing found" + (f" with filters {', '.join(given)}" if given else "")
    said = [f"{len(hits)} found, the best at {hits[0].score:.3f}"]
    if neighbors:
        said.append(f"{sum(map(len, neighbors.values()))} linked to them")
    if boosted:
        said.append(f"{boosted} raised because they are linked to each other")
    return "; ".join(said)
