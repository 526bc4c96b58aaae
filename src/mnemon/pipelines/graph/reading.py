"""The graph as it is asked: events, entities and their time, what held when, and why; each within a scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from mnemon.contracts.errors import InvalidArgument, NotFound
from mnemon.contracts.graph import (
    Entity,
    Event,
    Evidence,
    GraphAsk,
    GraphItem,
    GraphPage,
    Knowledge,
    PendingEquiv,
    Pointer,
    State,
    UtteranceEvidence,
)
from mnemon.contracts.graph_results import Explanation, HeldState, QuotedUtterance, Resolution, StateChange
from mnemon.contracts.ports import Archive, Clock, Graph
from mnemon.contracts.scope import Scope, checked_id
from mnemon.logic.graph import states
from mnemon.logic.ids import stable_id
from mnemon.logic.moments import moment_of
from mnemon.pipelines.graph.explaining import Explainer, closer
from mnemon.pipelines.graph.resolving import Resolver

MAX_PAGE = 500
_MANY = 100_000
_PAGE = 1000

Moment = str | datetime
Item = TypeVar("Item", bound=GraphItem)


@dataclass(frozen=True, slots=True)
class GraphReader:
    graph: Graph
    archive: Archive
    clock: Clock
    resolver: Resolver = field(init=False)
    explainer: Explainer = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "resolver", Resolver(self.graph, self.archive, self.clock))
        object.__setattr__(self, "explainer", Explainer(self.graph, self.clock))

    # --- events and time

    async def events(
        self, scope: Scope, since: Moment | None, until: Moment | None, limit: int, cursor: str | None
    ) -> GraphPage:
        return await self._find(scope, _between(GraphAsk("event"), since, until), limit, cursor)

    async def event(self, scope: Scope, id: str) -> Event:
        return await self._one(scope, id, Event)

    async def timeslices(
        self, scope: Scope, start: Moment | None, end: Moment | None, kind: str | None, limit: int, cursor: str | None
    ) -> GraphPage:
        ask = _between(GraphAsk("time_slice", slice_kind=kind or ""), start, end, ("start", "end"))
        return await self._find(scope, ask, limit, cursor)

    # --- entities

    async def entities(self, scope: Scope, name: str | None, limit: int, cursor: str | None) -> GraphPage:
        names = (checked_id("name", name),) if name is not None else ()
        return await self._find(scope, GraphAsk("entity", names=names), limit, cursor)

    async def resolve(self, scope: Scope, name: str) -> Resolution:
        return await self.resolver.resolve(scope, checked_id("name", name))

    async def timeline(
        self,
        scope: Scope,
        entity_id: str,
        since: Moment | None,
        until: Moment | None,
        limit: int,
        cursor: str | None,
    ) -> GraphPage:
        """The events an entity takes part in or is named in, under any of its names."""
        entity, ids = await self._joined(scope, entity_id)
        ask = _between(GraphAsk("event", linked=ids), since, until)
        return await self._find(closer(scope, entity), ask, limit, cursor)

    async def evidences(self, scope: Scope, entity_id: str, limit: int, cursor: str | None) -> GraphPage:
        """The words that speak of an entity, oldest first: at most those of `limit` utterances."""
        entity, ids = await self._joined(scope, entity_id)
        near = closer(scope, entity)
        pointers: dict[str, list[Pointer]] = defaultdict(list)
        for edge in await self.graph.edges(near, ids, limit=_MANY, now=self.clock.now()):
            for pointer in edge.evidence:
                pointers[pointer.utterance_id].append(pointer)
        page = await self._find(near, GraphAsk("utterance", ids=tuple(pointers)), limit, cursor)
        said = [u for u in page.items if isinstance(u, UtteranceEvidence)]
        quoted = await self.explainer.quoted(near, said, pointers)
        return replace(page, items=tuple(evidence for one in quoted for evidence in _evidence(one)))

    # --- why

    async def explain_event(self, scope: Scope, id: str) -> Explanation:
        return await self.explainer.event(scope, await self._one(scope, id, Event))

    async def explain_knowledge(self, scope: Scope, id: str) -> Explanation:
        return await self.explainer.knowledge(scope, await self._one(scope, id, Knowledge))

    # --- what held when

    async def states_current(
        self, scope: Scope, subject: str, property: str | None, known_at: Moment | None
    ) -> tuple[HeldState, ...]:
        found, one = await self._states(scope, subject, property)
        return states.current(found, self.clock.now(), _moment("known_at", known_at), one)

    async def states_at(
        self, scope: Scope, subject: str, when: Moment, property: str | None, known_at: Moment | None
    ) -> tuple[HeldState, ...]:
        found, one = await self._states(scope, subject, property)
        return states.at_time(found, moment_of("when", when), _moment("known_at", known_at), one)

    async def states_changes(
        self, scope: Scope, subject: str, property: str | None, since: Moment | None, until: Moment | None
    ) -> tuple[StateChange, ...]:
        found, one = await self._states(scope, subject, property)
        begin, end = _moment("since", since), _moment("until", until)
        return tuple(
            change
            for change in states.changes(found, one=one)
            if (begin is None or begin <= change.changed_at) and (end is None or change.changed_at < end)
        )

    async def _states(self, scope: Scope, subject: str, property: str | None) -> tuple[list[State], dict[str, str]]:
        """All that was ever said of a subject, and of those that are one with it; which those are."""
        entity, ids = await self._joined(scope, subject)
        ask = GraphAsk("state", subjects=ids, property=property or "", limit=_PAGE, now=self.clock.now())
        found: list[State] = []
        while True:
            page = await self.graph.find(closer(scope, entity), ask)
            found += [item for item in page.items if isinstance(item, State)]
            if page.next_cursor is None:
                return found, dict.fromkeys(ids, subject)
            ask = replace(ask, cursor=page.next_cursor)

    # --- who is one

    async def pending_equivs(self, scope: Scope) -> tuple[PendingEquiv, ...]:
        return await self.resolver.pending(scope)

    async def approve(self, scope: Scope, id: str) -> PendingEquiv:
        return await self.resolver.decide(scope, id, "approved")

    async def reject(self, scope: Scope, id: str) -> PendingEquiv:
        return await self.resolver.decide(scope, id, "rejected")

    # --- pieces

    async def _joined(self, scope: Scope, named: str) -> tuple[Entity, tuple[str, ...]]:
        """An entity by its id or, where nobody else is called so, by its name; with all that are one with it."""
        found = await self.graph.get(scope, [checked_id("id", named)], self.clock.now())
        entity = found[0] if found else (await self.resolver.resolve(scope, named)).entity
        if not isinstance(entity, Entity):
            raise NotFound(f"no entity {named} in this scope", id=named)
        return entity, tuple(e.id for e in await self.resolver.one_with(scope, entity))

    async def _one(self, scope: Scope, id: str, kind: type[Item]) -> Item:
        found = await self.graph.get(scope, [checked_id("id", id)], self.clock.now())
        if not found or not isinstance(found[0], kind):
            raise NotFound(f"no {kind.kind} {id} in this scope", id=id)
        return found[0]

    async def _find(self, scope: Scope, ask: GraphAsk, limit: int, cursor: str | None) -> GraphPage:
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidArgument(f"limit must be between 1 and {MAX_PAGE}", field="limit")
        return await self.graph.find(scope, replace(ask, limit=limit, cursor=cursor, now=self.clock.now()))


def _between(
    ask: GraphAsk, since: Moment | None, until: Moment | None, names: Sequence[str] = ("since", "until")
) -> GraphAsk:
    return replace(ask, since=_moment(names[0], since), until=_moment(names[1], until))


def _moment(name: str, moment: Moment | None) -> datetime | None:
    return None if moment is None else moment_of(name, moment)


def _evidence(quoted: QuotedUtterance) -> list[Evidence]:
    utterance = quoted.utterance
    return [
        Evidence(
            id=stable_id("evidence", utterance.id, str(quote.span_start), str(quote.span_end)),
            tenant_id=utterance.tenant_id,
            user_id=utterance.user_id,
            memory_domain=utterance.memory_domain,
            created_at=utterance.created_at,
            utterance_id=utterance.id,
            span_start=quote.span_start,
            span_end=quote.span_end,
            text=quote.text_exact,
        )
        for quote in quoted.quotes
    ]
