"""The whole of one retrieval: a strategy finds, a model may reorder and answer, and the result says how it went.

The two can be apart: what finds needs the index, what answers needs a model, and a model's key stays with its owner."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from mnemon.contracts.ports import Clock, Embedder, Index
from mnemon.contracts.reports import Degraded
from mnemon.contracts.retrieval import ExecutedCall, Looked, Plan, Rerank, RetrievalDebug, RetrievalHit, RetrievalResult
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.retrieval.answering import answer
from mnemon.pipelines.retrieval.desk import Desk, Request
from mnemon.pipelines.retrieval.reranking import reranked
from mnemon.pipelines.retrieval.strategies import STRATEGIES


@dataclass(frozen=True, slots=True)
class Extras:
    """What a model is wanted for. `strict`: its failure is an error (`llm_policy="require"`)."""

    rerank: Rerank = field(default_factory=Rerank)
    reranker: Asker | None = None
    with_answer: bool = False
    task: str = "GENERAL"
    answerer: Asker | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found without any model, and how."""

    hits: tuple[RetrievalHit, ...]
    calls: tuple[ExecutedCall, ...]
    degraded: tuple[Degraded, ...] = ()
    understood: dict[str, Any] = field(default_factory=dict)
    prompt: str | None = None
    looked: Looked = field(default_factory=Looked)


class Finder(Protocol):
    async def find(self, strategy: str, request: Request) -> Finding: ...


@dataclass(frozen=True, slots=True)
class OwnIndex:
    """Finds in an index at hand."""

    index: Index
    embedder: Embedder
    clock: Clock

    async def find(self, strategy: str, request: Request) -> Finding:
        desk = Desk(self.index, self.embedder, request.scope, self.clock.now())
        found = await STRATEGIES[strategy](request, desk)
        if desk.failures and not found.hits:
            raise desk.failures[0]
        return Finding(found.hits, tuple(desk.calls), tuple(desk.degraded), found.understood, found.prompt, desk.looked)


@dataclass(frozen=True, slots=True)
class Retriever:
    finder: Finder

    async def retrieve(self, strategy: str, request: Request, extras: Extras) -> RetrievalResult:
        begun = time.perf_counter()
        found = await self.finder.find(strategy, request)
        hits, calls, degraded = found.hits, list(found.calls), list(found.degraded)
        if extras.rerank.enabled:
            started = time.perf_counter()
            hits, why = await reranked(
                request.query, hits, extras.rerank.top_n, extras.reranker, request.scope, extras.strict
            )
            calls.append(ExecutedCall("rerank", 0 if why else len(hits), _ms_since(started)))
            degraded = [*degraded, *why]
        retrieved = _ms_since(begun)
        said, qa_ms = None, None
        if extras.with_answer:
            started = time.perf_counter()
            said, why = await answer(request.query, extras.task, hits, extras.answerer, request.scope, extras.strict)
            qa_ms = _ms_since(started)
            degraded = [*degraded, *why]
        asked = next((asker for asker in (extras.answerer, extras.reranker) if asker is not None), None)
        debug = RetrievalDebug(
            strategy=strategy,
            plan=Plan(retrieved, retrieved, _ms_since(begun), qa_ms),
            executed_calls=tuple(calls),
            evidence_count=len(hits),
            degraded=tuple(degraded),
            understood=found.understood,
            llm_used=asked.llm_used if asked is not None else None,
        )
        return RetrievalResult(strategy, request.query, hits, debug, said, found.prompt, found.looked)


def _ms_since(moment: float) -> float:
    return round((time.perf_counter() - moment) * 1000, 3)
