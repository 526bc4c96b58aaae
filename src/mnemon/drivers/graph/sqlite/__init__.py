"""The default graph: one SQLite file beside the index, each row under those who may see it and whoever said it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, groupby
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from mnemon.contracts.errors import Busy
from mnemon.contracts.graph import GraphAsk, GraphEdge, GraphItem, GraphPage, Saying
from mnemon.contracts.ports import Direction
from mnemon.contracts.scope import Scope
from mnemon.drivers.graph.sqlite.asking import NUMBERED, compile_ask, shown
from mnemon.drivers.graph.sqlite.audiences import LISTED, Sql, listed, visible, within
from mnemon.drivers.graph.sqlite.rows import SELECT_EDGE, SELECT_ITEM, merged, merged_edge
from mnemon.drivers.graph.sqlite.telling import Speech, Teller, speeches
from mnemon.drivers.sqlite_file import at_once, clear_errors, connect, drop_broken, migrate, scrub, transaction
from mnemon.drivers.together import Together
from mnemon.logic.admission import check_limit
from mnemon.logic.graph.admission import check_sayings
from mnemon.logic.graph.listing import Place, cursor_after, place_of

_PAGES_IN_LOG = 8_000
_FEW = 16  # audiences that are walked one by one, each along its index; more are sorted together
_AT_ONCE = 8  # ids that are looked up in less time than a thread takes to be asked

_LITTLE = 40  # items and edges; a turn tells about a dozen

T = TypeVar("T")


class SqliteGraph:
    """See `contracts.ports.Graph` for what each method promises."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = Lock()
        self._writing = Lock()
        self._reader = connect(path)
        self._writer = connect(path)
        self._together = Together(self._put, self._put_now)
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
        with clear_errors(self._path):
            self._reader.execute("BEGIN")
            try:
                yield
            finally:
                self._reader.execute("COMMIT")

    @contextmanager
    def _change(self) -> Iterator[Teller]:
        with self._writing, self._changing() as teller:
            yield teller

    @contextmanager
    def _changing(self) -> Iterator[Teller]:
        with clear_errors(self._path), transaction(self._writer), Teller.at(self._writer) as teller:
            yield teller

    # --- writing

    async def put(self, scope: Scope, sayings: Sequence[Saying]) -> dict[str, int]:
        check_sayings(scope, sayings)
        if sayings:
            await self._together((scope, sayings), little=_is_little(sayings))
        given: Counter[str] = Counter()
        for saying in sayings:
            given.update(saying.batch.counts())
        return dict(given)

    def _put_now(self, work: tuple[Scope, Sequence[Saying]]) -> bool:
        try:
            with at_once(self._writing, self._writer) as mine:
                if mine:
                    self._put_within([work])
        except Busy:
            return False
        return mine

    def _put(self, works: list[tuple[Scope, Sequence[Saying]]]) -> None:
        with self._writing:
            self._put_within(works)

    def _put_within(self, works: list[tuple[Scope, Sequence[Saying]]]) -> None:
        with self._changing() as teller:
            for scope, sayings in works:
                teller.tell(scope, sayings)

    async def drop(self, scope: Scope, origins: Sequence[str]) -> int:
        return await asyncio.to_thread(self._drop, scope, list(origins))

    def _drop(self, scope: Scope, origins: list[str]) -> int:
        with self._change() as teller:
            gone = teller.forget(self._speeches(scope, origins))
            teller.tidy(scope)
        return gone

    def _speeches(self, scope: Scope, origins: list[str]) -> list[Speech]:
        return list(chain.from_iterable(speeches(self._writer, scope, origins).values()))

    async def erase(self, scope: Scope) -> int:
        return await asyncio.to_thread(self._erase, scope)

    def _erase(self, scope: Scope) -> int:
        with self._change() as teller:
            sql = f"SELECT number, audience, mark FROM speech WHERE audience {LISTED}"
            rows = self._writer.execute(sql, (listed(visible(self._writer, scope)),)).fetchall()
            gone = teller.forget([Speech(*row) for row in rows])
            teller.tidy(scope)
        return gone

    async def publish(self, scope: Scope, origins: Sequence[str]) -> int:
        return await asyncio.to_thread(self._publish, scope, list(origins))

    def _publish(self, scope: Scope, origins: list[str]) -> int:
        with self._change():
            hidden = [(one.number,) for one in self._speeches(scope, origins)]
            return sum(
                self._writer.executemany(
                    f"UPDATE {table} SET published = 1 WHERE speech = ? AND NOT published", hidden
                ).rowcount
                for table in ("item", "edge")
                if hidden
            )

    # --- reading

    async def _answered(self, few: bool, ask: Callable[..., T], *given: object) -> T:
        """What takes some microseconds is answered at once, if nobody else is reading: to hand it to a thread and be
        told takes longer."""
        if not (few and self._reading.acquire(blocking=False)):
            return await asyncio.to_thread(self._waited, ask, *given)
        try:
            with self._snapshot():
                return ask(*given)
        finally:
            self._reading.release()

    def _waited(self, ask: Callable[..., T], *given: object) -> T:
        with self._reading, self._snapshot():
            return ask(*given)

    async def marks(self, scope: Scope, origins: Sequence[str]) -> dict[str, str]:
        return await self._answered(len(origins) <= _AT_ONCE, self._marks, scope, list(origins))

    def _marks(self, scope: Scope, origins: list[str]) -> dict[str, str]:
        told = speeches(self._reader, scope, origins)
        return {origin: spoken[-1].mark for origin, spoken in told.items()}

    async def origins(self, scope: Scope) -> list[str]:
        return await self._answered(False, self._origins, scope)

    def _origins(self, scope: Scope) -> list[str]:
        sql = f"SELECT DISTINCT origin FROM speech WHERE audience {LISTED} ORDER BY origin"
        return [name for (name,) in self._reader.execute(sql, (listed(visible(self._reader, scope)),))]

    async def get(self, scope: Scope, ids: Sequence[str], now: datetime | None = None) -> list[GraphItem]:
        return await self._answered(len(ids) <= _AT_ONCE, self._get, scope, list(ids), now)

    def _get(self, scope: Scope, ids: list[str], now: datetime | None) -> list[GraphItem]:
        return self._items(scope, ids, within(self._reader, scope, "i.audience"), now) if ids else []

    def _items(self, scope: Scope, ids: Sequence[str], seen: Sql, now: datetime | None) -> list[GraphItem]:
        kept, values = shown("i", now)
        sql = (
            f"{SELECT_ITEM} WHERE i.ident {NUMBERED} AND {seen[0]} AND {kept}"
            " ORDER BY i.id, i.closeness, i.learnt, i.row"
        )
        rows = self._reader.execute(sql, [listed(ids), *seen[1], *values])
        found = {id_: merged(scope.tenant_id, list(same)) for id_, same in groupby(rows, key=_id_of)}
        return [found[id_] for id_ in ids if id_ in found]

    async def find(self, scope: Scope, ask: GraphAsk) -> GraphPage:
        check_limit(ask.limit)
        after = place_of(ask.kind, ask.cursor) if ask.cursor is not None else None
        return await self._answered(False, self._find, scope, ask, after)

    def _find(self, scope: Scope, ask: GraphAsk, after: Place | None) -> GraphPage:
        audiences = visible(self._reader, scope, ask.domain)
        walks = [[one] for one in audiences] if len(audiences) <= _FEW else [audiences]
        places: list[Place] = []
        for here in walks:
            rows = self._reader.execute(*compile_ask(ask, audiences, here, after))
            places += [Place(at, id_) for at, id_ in rows]
        places.sort()
        page = places[: ask.limit]
        seen: Sql = (f"i.audience {LISTED}", [listed(audiences)])
        items = self._items(scope, [place.id for place in page], seen, ask.now)
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
        return await self._answered(False, self._edges, scope, list(ids), types, direction, limit, now)

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
        seen, common = within(self._reader, scope, "e.audience")
        kept, common = f"{seen} AND {kept}", [*common, *values]
        for names, test in zip(types, ("e.rel", "e.rel NOT"), strict=True):
            if names:
                kept, common = f"{kept} AND {test} {LISTED}", [*common, listed(names)]
        chosen = " UNION ".join(f"SELECT e.* FROM edge e WHERE e.{side} {NUMBERED} AND {kept}" for side in sides)
        sql = f"{SELECT_EDGE.format(chosen)} ORDER BY src.id, e.rel, dst.id, e.audience, e.learnt, e.speech"
        rows = self._reader.execute(sql, [value for _ in sides for value in (listed(ids), *common)])
        found: list[GraphEdge] = []
        for _, same in groupby(rows, key=_ends_of):
            found.append(merged_edge(scope.tenant_id, same))
            if len(found) == limit:
                break
        return found

    async def count(self, scope: Scope) -> dict[str, int]:
        return await self._answered(False, self._count, scope)

    def _count(self, scope: Scope) -> dict[str, int]:
        seen = listed(visible(self._reader, scope))
        items = f"SELECT kind, COUNT(DISTINCT ident) FROM item WHERE audience {LISTED} GROUP BY kind ORDER BY kind"
        counts = dict(self._reader.execute(items, (seen,)).fetchall())
        edges = (
            "SELECT COUNT(*) FROM (SELECT DISTINCT src, rel, dst FROM edge"
            f" WHERE speech IN (SELECT number FROM speech WHERE audience {LISTED}))"
        )
        return {**counts, "edges": self._reader.execute(edges, (seen,)).fetchone()[0]}

    # --- upkeep

    async def purge(self) -> None:
        await asyncio.to_thread(self._purge)

    def _purge(self) -> None:
        with self._reading, self._writing, clear_errors(self._path):
            scrub(self._writer)
        drop_broken(self._path)

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


def _is_little(sayings: Sequence[Saying]) -> bool:
    """A turn or two of a chat."""
    return sum(sum(saying.batch.counts().values()) for saying in sayings) <= _LITTLE
