"""The temporal graph bound to one person: who did what when, what held when, and why it is known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from mnemon.contracts.graph import Event, GraphBatch, GraphPage, PendingEquiv
from mnemon.contracts.graph_results import Explanation, GraphReceipt, HeldState, Resolution, StateChange
from mnemon.contracts.scope import Scope
from mnemon.engine.addressing import reader
from mnemon.engine.opened import OpenMemory
from mnemon.engine.parts import Parts
from mnemon.pipelines.graph.reading import GraphReader, Moment

T = TypeVar("T")


class AsyncGraphView:
    """Everything is asked and told within the scope; `since` and `start` count, `until` and `end` do not."""

    def __init__(self, open_parts: Callable[[], Parts], scope: Scope) -> None:
        self._open = open_parts
        self.scope = scope

    async def _asked(self, ask: Callable[[GraphReader], Awaitable[T]]) -> T:
        """Of a graph that is missing or turns out to be broken only once it had the time to be brought up."""
        parts = self._open()
        found, _ = await parts.answered(self.scope, lambda: ask(parts.graphs))
        return found

    async def upsert(self, batch: GraphBatch | Mapping[str, Any]) -> GraphReceipt:
        """Tell the graph something from outside. Every item and edge says for whom it is (`user_id`, principals such as
        `u:alice`) and its `memory_domain`, all of them the same; quotes must stand where they say."""
        return await self._open().outside.upsert(self.scope, batch)

    async def events(
        self,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> GraphPage:
        """What happened, oldest first."""
        return await self._asked(lambda graphs: graphs.events(self.scope, since, until, limit, cursor))

    async def event(self, id: str) -> Event:
        """One event."""
        return await self._asked(lambda graphs: graphs.event(self.scope, id))

    async def entities(self, name: str | None = None, limit: int = 100, cursor: str | None = None) -> GraphPage:
        """People and things, all of them or those called so."""
        return await self._asked(lambda graphs: graphs.entities(self.scope, name, limit, cursor))

    async def resolve(self, name: str) -> Resolution:
        """Whom a name means, and whom it may mean."""
        return await self._asked(lambda graphs: graphs.resolve(self.scope, name))

    async def timeline(
        self,
        entity_id: str,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> GraphPage:
        """The events somebody or something takes part in or is named in, oldest first."""
        return await self._asked(lambda graphs: graphs.timeline(self.scope, entity_id, since, until, limit, cursor))

    async def evidences(self, entity_id: str, limit: int = 100, cursor: str | None = None) -> GraphPage:
        """The exact words that speak of an entity, oldest first; `limit` counts utterances."""
        return await self._asked(lambda graphs: graphs.evidences(self.scope, entity_id, limit, cursor))

    async def timeslices(
        self,
        start: Moment | None = None,
        end: Moment | None = None,
        kind: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> GraphPage:
        """The days and months something happened in."""
        return await self._asked(lambda graphs: graphs.timeslices(self.scope, start, end, kind, limit, cursor))

    async def explain_event(self, id: str) -> Explanation:
        """What was said of an event, word for word, and what was derived from it."""
        return await self._asked(lambda graphs: graphs.explain_event(self.scope, id))

    async def explain_knowledge(self, id: str) -> Explanation:
        """Why something is known: the events it was derived from, the utterances, the exact words."""
        return await self._asked(lambda graphs: graphs.explain_knowledge(self.scope, id))

    async def states_current(
        self, subject: str, property: str | None = None, known_at: Moment | None = None
    ) -> tuple[HeldState, ...]:
        """What holds of a subject now; `known_at` leaves out what was learnt later."""
        return await self._asked(lambda graphs: graphs.states_current(self.scope, subject, property, known_at))

    async def states_at(
        self, subject: str, when: Moment, property: str | None = None, known_at: Moment | None = None
    ) -> tuple[HeldState, ...]:
        """What held of a subject at a moment; `known_at` leaves out what was learnt later."""
        return await self._asked(lambda graphs: graphs.states_at(self.scope, subject, when, property, known_at))

    async def states_changes(
        self,
        subject: str,
        property: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> tuple[StateChange, ...]:
        """What changed when, from what to what, and when we learnt it."""
        return await self._asked(lambda graphs: graphs.states_changes(self.scope, subject, property, since, until))

    async def pending_equivs(self) -> tuple[PendingEquiv, ...]:
        """Entities that may be one and that nobody has decided."""
        return await self._asked(lambda graphs: graphs.pending_equivs(self.scope))

    async def approve(self, id: str) -> PendingEquiv:
        """Two entities are one from now on, until it is rejected."""
        return await self._asked(lambda graphs: graphs.approve(self.scope, id))

    async def reject(self, id: str) -> PendingEquiv:
        """Two entities are not one, whatever their names."""
        return await self._asked(lambda graphs: graphs.reject(self.scope, id))


class Graphing(OpenMemory):
    def graph(
        self,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> AsyncGraphView:
        """The temporal graph for one person: nothing it is asked can reach beyond this scope."""
        return AsyncGraphView(self._open, reader(tenant_id, user_id, product_id, group_id, agent_id))

    async def graph_upsert(
        self,
        batch: GraphBatch | Mapping[str, Any],
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> GraphReceipt:
        """Tell the graph something from outside (`GraphUpsertRequest`); it is in the ledger before it is seen."""
        return await self.graph(tenant_id, user_id, product_id, group_id, agent_id).upsert(batch)
