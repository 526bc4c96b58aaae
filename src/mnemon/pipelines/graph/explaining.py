"""Why something is known: from knowledge over events to the exact words, each checked when it is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from mnemon.contracts.errors import Corrupt
from mnemon.contracts.graph import (
    Entity,
    Event,
    Evidence,
    GraphAsk,
    GraphEdge,
    GraphItem,
    Knowledge,
    Pointer,
    UtteranceEvidence,
)
from mnemon.contracts.graph_results import ExplainedEvent, Explanation, Quote, QuotedUtterance
from mnemon.contracts.ports import Clock, Graph
from mnemon.contracts.scope import Scope

_MANY = 10_000
_SUPPORT = "SUPPORTED_BY"
_DERIVED = "DERIVED_FROM"
_ABOUT = ("INVOLVES", "MENTIONS", "STATED_BY", "SPOKEN_BY")

Item = TypeVar("Item", bound=GraphItem)
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Explainer:
    graph: Graph
    clock: Clock

    async def knowledge(self, scope: Scope, known: Knowledge) -> Explanation:
        out = await self._edges(scope, known, [known.id])
        events = await self._events(scope, known, _ends(out, _DERIVED))
        return Explanation(
            known,
            events,
            await self._quoted(scope, out),
            entities=await self._entities(scope, known, [known.id, *(e.event.id for e in events)]),
        )

    async def event(self, scope: Scope, event: Event) -> Explanation:
        derived = await self.graph.edges(
            closer(scope, event), [event.id], [_DERIVED], "in", limit=_MANY, now=self.clock.now()
        )
        return Explanation(
            None,
            await self._events(scope, event, [event.id]),
            known=await self._get(scope, [edge.src_id for edge in derived], Knowledge),
            entities=await self._entities(scope, event, [event.id]),
        )

    async def _events(self, scope: Scope, about: GraphItem, ids: Sequence[str]) -> tuple[ExplainedEvent, ...]:
        events = await self._get(scope, ids, Event)
        edges = await self._edges(scope, about, [event.id for event in events])
        return tuple(
            [
                ExplainedEvent(event, await self._quoted(scope, [e for e in edges if e.src_id == event.id]))
                for event in sorted(events, key=_time_of)
            ]
        )

    async def _quoted(self, scope: Scope, edges: Iterable[GraphEdge]) -> tuple[QuotedUtterance, ...]:
        """The utterances edges say something rests on, each with the words; without a pointer, all of them."""
        pointers: dict[str, list[Pointer]] = defaultdict(list)
        for edge in edges:
            if edge.rel_type == _SUPPORT:
                pointers[edge.dst_id] += [p for p in edge.evidence if p.utterance_id == edge.dst_id]
        return await self.quoted(scope, await self._get(scope, list(pointers), UtteranceEvidence), pointers)

    async def quoted(
        self, scope: Scope, utterances: Sequence[UtteranceEvidence], pointers: Mapping[str, Sequence[Pointer]]
    ) -> tuple[QuotedUtterance, ...]:
        """Utterances with the words pointed at; what is stored of these words must say the same."""
        subjects = tuple(u.id for u in utterances)
        stored: dict[str, dict[Span, str]] = defaultdict(dict)
        ask = GraphAsk("evidence", subjects=subjects, limit=_MANY, now=self.clock.now())
        for item in (await self.graph.find(scope, ask)).items if subjects else ():
            if isinstance(item, Evidence):
                stored[item.utterance_id][item.span_start, item.span_end] = item.text
        return tuple(_cut(u, pointers[u.id], stored[u.id]) for u in utterances)

    async def _entities(self, scope: Scope, about: GraphItem, ids: Sequence[str]) -> tuple[Entity, ...]:
        edges = await self._edges(scope, about, ids, _ABOUT)
        return await self._get(scope, list(dict.fromkeys(edge.dst_id for edge in edges)), Entity)

    async def _edges(
        self, scope: Scope, about: GraphItem, ids: Sequence[str], rel_types: Sequence[str] = (_SUPPORT, _DERIVED)
    ) -> list[GraphEdge]:
        return await self.graph.edges(closer(scope, about), ids, rel_types, "out", limit=_MANY, now=self.clock.now())

    async def _get(self, scope: Scope, ids: Sequence[str], kind: type[Item]) -> tuple[Item, ...]:
        found = await self.graph.get(scope, ids, self.clock.now())
        return tuple(item for item in found if isinstance(item, kind))


def closer(scope: Scope, item: GraphItem) -> Scope:
    """What is told to at least as few as the item: an edge that anybody may write is no evidence for what is mine."""
    return scope.narrowed("all", item.user_id)


def _cut(utterance: UtteranceEvidence, pointers: Sequence[Pointer], stored: Mapping[Span, str]) -> QuotedUtterance:
    text = utterance.raw_text
    spans = sorted({(p.span_start, p.span_end) for p in pointers}) or [(0, len(text))]
    for start, end in spans:
        if not start <= end <= len(text) or stored.get((start, end), text[start:end]) != text[start:end]:
            raise Corrupt(
                f"what is quoted of utterance {utterance.id} does not stand at [{start}:{end}]", where=utterance.id
            )
    return QuotedUtterance(utterance, tuple(Quote(start, end, text[start:end]) for start, end in spans))


def _time_of(event: Event) -> tuple[datetime, str]:
    return event.t_abs_start or datetime.min.replace(tzinfo=UTC), event.id


def _ends(edges: Iterable[GraphEdge], rel_type: str) -> list[str]:
    return list(dict.fromkeys(edge.dst_id for edge in edges if edge.rel_type == rel_type))
