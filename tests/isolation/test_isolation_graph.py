"""Whoever asks the graph whatever: their own items and edges, all of them, and nobody else's word about them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from asking_index import Seen
from tally import Tally
from world import AWKWARD, SEED, SHARES, TIMES, Row, World, chosen, marks

from mnemon.contracts.errors import PermissionDenied
from mnemon.contracts.graph import Entity, Event, GraphAsk, GraphBatch, GraphEdge, GraphItem, Saying
from mnemon.contracts.ports import Graph
from mnemon.contracts.scope import Scope
from mnemon.drivers.graph.sqlite import SqliteGraph

DAY = datetime(2026, 1, 1, tzinfo=UTC)
EVERYBODY_S = "everybody's"
"""An entity that every row speaks of, each under a name of its own."""


def origin(row: Row) -> str:
    return f"session {row.id}"


def saying(row: Row) -> Saying:
    n = int(row.mark[1:-1])
    whose = {"tenant_id": row.tenant, "user_id": tuple(sorted(row.principals)), "memory_domain": "dialog"}
    return Saying(
        origin(row),
        GraphBatch(
            entities=(
                Entity(id=f"e {row.id}", name=f"{row.session} {row.mark}", **whose),
                Entity(id=EVERYBODY_S, name=f"name {row.mark}", aliases=(row.session,), **whose),
            ),
            events=(Event(id=row.id, summary=row.text, t_abs_start=DAY + timedelta(hours=n), **whose),),
            edges=(
                GraphEdge(src_id=row.id, dst_id=f"e {row.id}", rel_type="INVOLVES", **whose),
                GraphEdge(src_id=row.id, dst_id=EVERYBODY_S, rel_type="MENTIONS", **whose),
            ),
        ),
        mark=row.mark,
    )


async def filled(graph: Graph, world: World) -> None:
    for tenant in world.tenants:
        here = [saying(row) for row in world.rows if row.tenant == tenant]
        await graph.put(Scope.steward_of(tenant), here)


class Examination:
    def __init__(self, graph: Graph, world: World, tally: Tally) -> None:
        self._graph = graph
        self._rng = random.Random(world.seed + 1)
        self._tally = tally
        self._seen = [Seen(asker, world) for asker in world.askers(300)]
        self._rows = world.rows
        self._stolen: list[str] = []

    async def ask(self, count: int) -> None:
        while self._tally.checks < count:
            seen = self._rng.choice(self._seen)
            await self._by_id(seen)
            await self._by_listing(seen)
            await self._by_name(seen)
            await self._by_edges(seen)
            await self._by_origin(seen)

    def _judge(self, seen: Seen, asked: str, got: object, may: list[Row], complete: bool = True) -> None:
        self._tally.judge(seen.asker, asked, marks(got), {row.mark for row in may}, complete)

    async def _by_id(self, seen: Seen) -> None:
        ids = chosen(self._rng, seen.ids, [row.id for row in self._rows], 4)
        ids = list(dict.fromkeys([*ids, *(f"e {id_}" for id_ in ids), self._rng.choice(AWKWARD)]))
        got = await self._graph.get(seen.scope, ids)
        self._judge(seen, f"for {ids}", got, [row for row in seen.rows if row.id in ids])
        shared = await self._graph.get(seen.scope, [EVERYBODY_S])
        self._judge(seen, "for what all speak of", shared, seen.rows, complete=False)
        self._tally.counted(seen.asker, "is it there", len(shared), int(bool(seen.rows)))

    async def _by_listing(self, seen: Seen) -> None:
        items: list[GraphItem] = []
        cursor: str | None = None
        limit = self._rng.choice((max(1, len(seen.rows) // 2), 10_000))
        while True:
            page = await self._graph.find(seen.scope, GraphAsk("event", limit=limit, cursor=cursor))
            items += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
            self._stolen = [*self._stolen[-20:], cursor]
        self._judge(seen, "every event", items, seen.rows)
        if self._stolen:
            stolen = GraphAsk("event", cursor=self._rng.choice(self._stolen))
            page = await self._graph.find(seen.scope, stolen)
            self._judge(seen, "behind another's cursor", page, seen.rows, complete=False)
        until = DAY + timedelta(hours=len(self._rows) // 2)
        early = [row for row in seen.rows if int(row.mark[1:-1]) < len(self._rows) // 2]
        page = await self._graph.find(seen.scope, GraphAsk("event", until=until, limit=10_000))
        self._judge(seen, "the first half", page, early)

    async def _by_name(self, seen: Seen) -> None:
        """A name leads to an entity only for those it was said to."""
        row = self._rng.choice(seen.rows if seen.rows and self._rng.random() < 0.5 else self._rows)
        mine = [own for own in seen.rows if own.mark == row.mark]
        page = await self._graph.find(seen.scope, GraphAsk("entity", names=(f"{row.session} {row.mark}",)))
        self._judge(seen, f"who is called {row.mark}", page, mine)
        page = await self._graph.find(seen.scope, GraphAsk("entity", names=(f"name {row.mark}",)))
        self._judge(seen, f"what is called {row.mark}", page, seen.rows if mine else [], complete=False)
        linked = GraphAsk("event", linked=(EVERYBODY_S,), limit=10_000)
        self._judge(seen, "who mentions it", await self._graph.find(seen.scope, linked), seen.rows)

    async def _by_edges(self, seen: Seen) -> None:
        row = self._rng.choice(self._rows)
        edges = await self._graph.edges(seen.scope, [row.id, EVERYBODY_S], limit=10_000)
        self._tally.judge(seen.asker, "edges", {edge.src_id for edge in edges}, set(seen.ids))
        counts = await self._graph.count(seen.scope)
        self._tally.counted(seen.asker, "how many edges", counts["edges"], 2 * len(seen.rows))
        self._tally.counted(seen.asker, "how many events", counts.get("event", 0), len(seen.rows))

    async def _by_origin(self, seen: Seen) -> None:
        names = set(await self._graph.origins(seen.scope))
        self._tally.judge(seen.asker, "who spoke", names, {origin(row) for row in seen.rows})
        asked = [origin(row) for row in self._rng.choices(self._rows, k=5)]
        told = await self._graph.marks(seen.scope, asked)
        self._judge(seen, "how far", told, [row for row in seen.rows if origin(row) in asked])


@pytest.fixture
async def graph(tmp_path: Path) -> Graph:
    return SqliteGraph(tmp_path / "graph.db")


async def test_no_question_reaches_beyond_its_scope(graph: Graph) -> None:
    world, tally = World(SEED + 6, rows_per_tenant=60), Tally(SEED)
    await filled(graph, world)
    await Examination(graph, world, tally).ask(SHARES["graph"] * TIMES)
    await graph.close()
    tally.close("graph")


async def test_nobody_changes_what_they_do_not_see(graph: Graph) -> None:
    world, tally = World(SEED + 7, rows_per_tenant=20), Tally(SEED)
    await filled(graph, world)
    names = {origin(row) for row in world.rows}
    for asker in world.askers(60 * TIMES):
        seen = Seen(asker, world)
        foreign = next((row for row in world.rows if row.mark not in {own.mark for own in seen.rows}), None)
        if foreign is not None:
            with pytest.raises(PermissionDenied):
                await graph.put(seen.scope, [saying(foreign)])
        gone = await graph.drop(seen.scope, sorted(names))
        tally.counted(asker, "to drop", gone, 5 * len(seen.rows))
        left = {row.mark for tenant in world.tenants for row in await _left(graph, world, tenant)}
        tally.judge(asker, "to drop", {row.mark for row in world.rows} - left, {row.mark for row in seen.rows})
        for row in seen.rows:
            await graph.put(Scope.steward_of(row.tenant), [saying(row)])
    await graph.close()
    assert (tally.leaks, tally.missing) == ([], [])
    assert tally.found > 100


async def _left(graph: Graph, world: World, tenant: str) -> list[Row]:
    page = await graph.find(Scope.steward_of(tenant), GraphAsk("event", limit=100_000))
    told = marks(page)
    return [row for row in world.rows if row.mark in told]
