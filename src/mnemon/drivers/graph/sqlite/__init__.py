"""The default graph: one SQLite file beside the index, each row under those who may see it and whoever said it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any

from mnemon.contracts.graph import GraphAsk, GraphEdge, GraphItem, GraphPage, Saying
from mnemon.contracts.ports import Direction
from mnemon.contracts.scope import Scope
from mnemon.drivers.graph.sqlite.asking import LISTED, compile_ask, listed, shown
from mnemon.drivers.graph.sqlite.audiences import Audience, audience, visible
from mnemon.drivers.graph.sqlite.rows import (
    INSERT_EDGE,
    INSERT_ITEM,
    INSERT_NAME,
    SELECT_EDGE,
    SELECT_ITEM,
    edge_row,
    item_row,
    merged,
    merged_edge,
    name_rows,
)
from mnemon.drivers.sqlite_file import clear_errors, connect, migrate, scrub, transaction
from mnemon.logic.admission import check_limit
from mnemon.logic.graph.admission import check_sayings
from mnemon.logic.graph.listing import Place, cursor_after, place_of

_PAGES_IN_LOG = 8_000
_FEW = 16  # audiences that are walked one by one, each along its index; more are sorted together

_SPEECH = (
    "SELECT s.origin, s.audience FROM said s JOIN origin o ON o.id = s.origin"
    f" WHERE o.tenant = ? AND o.name {LISTED} AND s.audience {LISTED}"
)
_GONE = "origin = ? AND audience = ?"
_NAMES_GONE = "DELETE FROM name WHERE item IN (SELECT row FROM item WHERE {0})"
# A plus keeps SQLite from going through everything an origin said to find one row.
_REPLACED = "id = ? AND audience = ? AND +origin = ?"
_EDGE_REPLACED = "src = ? AND rel = ? AND dst = ? AND +audience = ? AND +origin = ?"

# An origin's number and the number of those it speaks to.
Speech = tuple[int, int]


class SqliteGraph:
    """See `contracts.ports.Graph` for what each method promises."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = Lock()
        self._writing = Lock()
        self._reader = connect(path)
        self._writer = connect(path)
        try:
            with clear_errors(path):
                migrate(self._writer, path, __name__)
                # Rows lie all over the file: the longer pages wait in the log, the fewer are written twice.
                self._writer.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_IN_LOG}")
        except BaseException:
            self._close()
            raise

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Reads within see one state of the file, whoever writes meanwhile."""
        with self._reading, clear_errors(self._path):
            self._reader.execute("BEGIN")
            try:
                yield
            finally:
                self._reader.execute("COMMIT")

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._writing, clear_errors(self._path), transaction(self._writer):
            yield

    # --- writing

    async def put(self, scope: Scope, sayings: Sequence[Saying]) -> dict[str, int]:
        check_sayings(scope, sayings)
        if sayings:
            await asyncio.to_thread(self._put, scope, sayings)
        given: Counter[str] = Counter()
        for saying in sayings:
            given.update(saying.batch.counts())
        return dict(given)

    def _put(self, scope: Scope, sayings: Sequence[Saying]) -> None:
        with self._change():
            for saying in sayings:
                self._say(scope, saying)

    def _say(self, scope: Scope, saying: Saying) -> None:
        origin = self._origin(scope.tenant_id, saying.origin)
        before = self._speeches(scope, [saying.origin])
        items = {item.id: item for item in saying.batch.items()}  # one given twice: the later one counts
        edges = {(edge.src_id, edge.rel_type, edge.dst_id): edge for edge in saying.batch.edges}
        if saying.whole:
            self._forget(before)
        else:
            self._replace(before, list(items), list(edges))
        audiences: dict[tuple[tuple[str, ...], str], Audience] = {}

        def to(given: GraphItem | GraphEdge) -> Audience:
            key = (given.user_id, given.memory_domain)
            if key not in audiences:
                audiences[key] = audience(self._writer, scope.tenant_id, *key)
            return audiences[key]

        row = self._writer.execute("SELECT COALESCE(MAX(row), 0) FROM item").fetchone()[0]
        numbered = list(enumerate(items.values(), row + 1))
        self._writer.executemany(INSERT_ITEM, [item_row(item, n, to(item), origin) for n, item in numbered])
        self._writer.executemany(INSERT_NAME, [named for n, item in numbered for named in name_rows(item, n)])
        self._writer.executemany(INSERT_EDGE, [edge_row(edge, to(edge), origin) for edge in edges.values()])
        told = {one.id for one in audiences.values()} | ({one for _, one in before} if not saying.whole else set())
        if not told:  # it has nothing to say, and says so to whoever it is
            told = {audience(self._writer, scope.tenant_id, scope.principals, "").id}
        self._writer.executemany(
            "INSERT OR REPLACE INTO said (origin, audience, mark) VALUES (?, ?, ?)",
            [(origin, one, saying.mark) for one in told],
        )

    def _origin(self, tenant: str, name: str) -> int:
        self._writer.execute("INSERT OR IGNORE INTO origin (tenant, name) VALUES (?, ?)", (tenant, name))
        found = self._writer.execute("SELECT id FROM origin WHERE tenant = ? AND name = ?", (tenant, name))
        return int(found.fetchone()[0])

    def _speeches(self, scope: Scope, origins: Sequence[str]) -> list[Speech]:
        """What these origins said, as far as the scope sees it."""
        seen = listed(visible(self._writer, scope))
        return self._writer.execute(_SPEECH, (scope.tenant_id, listed(origins), seen)).fetchall()

    def _forget(self, speeches: Sequence[Speech]) -> int:
        """Everything of these; how many items and edges that was."""
        if not speeches:
            return 0
        self._writer.executemany(_NAMES_GONE.format(_GONE), speeches)
        gone = sum(
            self._writer.executemany(f"DELETE FROM {table} WHERE {_GONE}", speeches).rowcount
            for table in ("item", "edge")
        )
        self._writer.executemany(f"DELETE FROM said WHERE {_GONE}", speeches)
        return gone

    def _replace(self, before: Sequence[Speech], ids: list[str], edges: list[tuple[str, str, str]]) -> None:
        """Make room for what an origin says anew, also where it said it to others."""
        for origin, to in before:
            rows = [(id_, to, origin) for id_ in ids]
            self._writer.executemany(_NAMES_GONE.format(_REPLACED), rows)
            self._writer.executemany(f"DELETE FROM item WHERE {_REPLACED}", rows)
            ends = [(*edge, to, origin) for edge in edges]
            self._writer.executemany(f"DELETE FROM edge WHERE {_EDGE_REPLACED}", ends)

    async def drop(self, scope: Scope, origins: Sequence[str]) -> int:
        return await asyncio.to_thread(self._drop, scope, list(origins))

    def _drop(self, scope: Scope, origins: list[str]) -> int:
        with self._change():
            gone = self._forget(self._speeches(scope, origins))
            self._tidy(scope)
        return gone

    async def erase(self, scope: Scope) -> int:
        return await asyncio.to_thread(self._erase, scope)

    def _erase(self, scope: Scope) -> int:
        with self._change():
            seen = listed(visible(self._writer, scope))
            sql = f"SELECT origin, audience FROM said WHERE audience {LISTED}"
            gone = self._forget(self._writer.execute(sql, (seen,)).fetchall())
            self._tidy(scope)
        return gone

    def _tidy(self, scope: Scope) -> None:
        """Names of origins and of people nothing is left of."""
        for table, column in (("origin", "origin"), ("audience", "audience")):
            self._writer.execute(
                f"DELETE FROM {table} WHERE tenant = ? AND id NOT IN (SELECT {column} FROM said)", (scope.tenant_id,)
            )

    async def publish(self, scope: Scope, origins: Sequence[str]) -> int:
        return await asyncio.to_thread(self._publish, scope, list(origins))

    def _publish(self, scope: Scope, origins: list[str]) -> int:
        with self._change():
            speeches = self._speeches(scope, origins)
            return sum(
                self._writer.executemany(
                    f"UPDATE {table} SET published = 1 WHERE {_GONE} AND NOT published", speeches
                ).rowcount
                for table in ("item", "edge")
                if speeches
            )

    # --- reading

    async def marks(self, scope: Scope, origins: Sequence[str]) -> dict[str, str]:
        return await asyncio.to_thread(self._marks, scope, list(origins))

    def _marks(self, scope: Scope, origins: list[str]) -> dict[str, str]:
        with self._snapshot():
            sql = (
                "SELECT o.name, s.mark FROM origin o JOIN said s ON s.origin = o.id"
                f" WHERE o.tenant = ? AND o.name {LISTED} AND s.audience {LISTED}"
            )
            seen = listed(visible(self._reader, scope))
            return dict(self._reader.execute(sql, (scope.tenant_id, listed(origins), seen)).fetchall())

    async def origins(self, scope: Scope) -> list[str]:
        return await asyncio.to_thread(self._origins, scope)

    def _origins(self, scope: Scope) -> list[str]:
        with self._snapshot():
            sql = (
                "SELECT DISTINCT o.name FROM said s JOIN origin o ON o.id = s.origin"
                f" WHERE s.audience {LISTED} ORDER BY o.name"
            )
            return [name for (name,) in self._reader.execute(sql, (listed(visible(self._reader, scope)),))]

    async def get(self, scope: Scope, ids: Sequence[str], now: datetime | None = None) -> list[GraphItem]:
        return await asyncio.to_thread(self._get, scope, list(ids), now)

    def _get(self, scope: Scope, ids: list[str], now: datetime | None) -> list[GraphItem]:
        with self._snapshot():
            return self._items(scope, ids, visible(self._reader, scope), now)

    def _items(self, scope: Scope, ids: Sequence[str], audiences: list[int], now: datetime | None) -> list[GraphItem]:
        kept, values = shown("i", now)
        kept = f"i.id {LISTED} AND i.audience {LISTED} AND {kept}"
        sql = f"{SELECT_ITEM} WHERE {kept} ORDER BY i.id, i.closeness, i.learnt, i.row"
        rows = self._reader.execute(sql, [listed(ids), listed(audiences), *values])
        found = {id_: merged(scope.tenant_id, list(same)) for id_, same in groupby(rows, key=_id_of)}
        return [found[id_] for id_ in ids if id_ in found]

    async def find(self, scope: Scope, ask: GraphAsk) -> GraphPage:
        check_limit(ask.limit)
        after = place_of(ask.kind, ask.cursor) if ask.cursor is not None else None
        return await asyncio.to_thread(self._find, scope, ask, after)

    def _find(self, scope: Scope, ask: GraphAsk, after: Place | None) -> GraphPage:
        with self._snapshot():
            audiences = visible(self._reader, scope, ask.domain)
            walks = [[one] for one in audiences] if len(audiences) <= _FEW else [audiences]
            places: list[Place] = []
            for here in walks:
                rows = self._reader.execute(*compile_ask(ask, audiences, here, after))
                places += [Place(at, id_) for at, id_ in rows]
            places.sort()
            page = places[: ask.limit]
            items = self._items(scope, [place.id for place in page], audiences, ask.now)
        return GraphPage(tuple(items), cursor_after(ask.kind, page[-1]) if len(places) > ask.limit else None)

    async def edges(
        self,
        scope: Scope,
        ids: Sequence[str],
        rel_types: Sequence[str] = (),
        direction: Direction = "both",
        limit: int = 1000,
        now: datetime | None = None,
        without: Sequence[str] = (),
    ) -> list[GraphEdge]:
        check_limit(limit)
        types = (list(rel_types), list(without))
        return await asyncio.to_thread(self._edges, scope, list(ids), types, direction, limit, now)

    def _edges(
        self,
        scope: Scope,
        ids: list[str],
        types: tuple[list[str], list[str]],
        direction: Direction,
        limit: int,
        now: datetime | None,
    ) -> list[GraphEdge]:
        sides = {"out": ("src",), "in": ("dst",), "both": ("src", "dst")}[direction]
        kept, values = shown("e", now)
        with self._snapshot():
            common: list[object] = [listed(visible(self._reader, scope)), *values]
            kept = f"e.audience {LISTED} AND {kept}"
            for names, test in zip(types, ("e.rel", "e.rel NOT"), strict=True):
                if names:
                    kept, common = f"{kept} AND {test} {LISTED}", [*common, listed(names)]
            chosen = " UNION ".join(f"SELECT e.row FROM edge e WHERE e.{side} {LISTED} AND {kept}" for side in sides)
            sql = f"{SELECT_EDGE} WHERE e.row IN ({chosen}) ORDER BY e.src, e.rel, e.dst, e.audience, e.learnt, e.row"
            rows = self._reader.execute(sql, [value for _ in sides for value in (listed(ids), *common)])
            found: list[GraphEdge] = []
            for _, same in groupby(rows, key=_ends_of):
                found.append(merged_edge(scope.tenant_id, same))
                if len(found) == limit:
                    break
            return found

    async def count(self, scope: Scope) -> dict[str, int]:
        return await asyncio.to_thread(self._count, scope)

    def _count(self, scope: Scope) -> dict[str, int]:
        with self._snapshot():
            seen = listed(visible(self._reader, scope))
            items = f"SELECT kind, COUNT(DISTINCT id) FROM item WHERE audience {LISTED} GROUP BY kind ORDER BY kind"
            counts = dict(self._reader.execute(items, (seen,)).fetchall())
            speeches = f"SELECT origin, audience FROM said WHERE audience {LISTED}"
            edges = (
                "SELECT COUNT(*) FROM (SELECT DISTINCT src, rel, dst FROM edge"
                f" WHERE (origin, audience) IN ({speeches}))"
            )
            return {**counts, "edges": self._reader.execute(edges, (seen,)).fetchone()[0]}

    # --- upkeep

    async def purge(self) -> None:
        await asyncio.to_thread(self._purge)

    def _purge(self) -> None:
        with self._reading, self._writing, clear_errors(self._path):
            scrub(self._writer)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._reading, self._writing:
            self._reader.close()
            self._writer.close()


def _id_of(row: tuple[Any, ...]) -> Any:
    return row[0]


def _ends_of(row: tuple[Any, ...]) -> Any:
    return row[:4]
