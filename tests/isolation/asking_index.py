"""Questions to an index, each judged: the same for every driver, and for drivers broken on purpose."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from tally import Tally
from world import AWKWARD, KINDS, WORDS, Asker, Row, World, chosen, marks

from mnemon.contracts.entries import Ask, Entry, Hit, Vector
from mnemon.contracts.errors import BadQuery, PermissionDenied
from mnemon.contracts.filters import EVERYTHING, And, Eq, In, Missing, Not, Or, OrderBy, Where
from mnemon.contracts.ports import Index
from mnemon.contracts.scope import Scope

DIMENSION = 8
ORDERS: tuple[OrderBy, ...] = ("newest", "oldest", "position", "position_desc")

Keep = Callable[[Row], bool]


def scope_of(asker: Asker) -> Scope:
    return Scope(asker.tenant, asker.principals, asker.match, asker.narrow)


def entry_of(row: Row, vectors: np.random.Generator | None = None) -> Entry:
    n = int(row.mark[1:-1])
    vector = vectors.standard_normal(DIMENSION).astype(np.float32) if vectors is not None else None
    fields = {"session_id": row.session, "speaker": row.session, "ts": n, "seq": n, "tags": list(row.words)}
    return Entry(row.id, tuple(row.principals), row.text, row.kind, fields, {"mark": row.mark}, vector)


async def filled(index: Index, rows: Iterable[Row], seed: int) -> None:
    vectors = np.random.default_rng(seed)
    by_tenant: dict[str, list[Entry]] = {}
    for row in rows:
        by_tenant.setdefault(row.tenant, []).append(entry_of(row, vectors))
    for tenant, entries in by_tenant.items():
        await index.upsert(Scope.steward_of(tenant), entries)


@dataclass(frozen=True)
class Seen:
    """One who asks, and all they may see."""

    asker: Asker
    world: World

    @cached_property
    def scope(self) -> Scope:
        return scope_of(self.asker)

    @cached_property
    def rows(self) -> list[Row]:
        return self.world.visible(self.asker)

    @cached_property
    def ids(self) -> list[str]:
        return [row.id for row in self.rows]


class Examination:
    def __init__(self, index: Index, world: World, tally: Tally, askers: int) -> None:
        self._index = index
        self._rng = random.Random(world.seed + 1)
        self._tally = tally
        self._seen = [Seen(asker, world) for asker in world.askers(askers)]
        self._all_ids = [row.id for row in world.rows]
        self._stolen: list[tuple[OrderBy, str]] = []

    async def ask(self, count: int) -> None:
        """So many questions, of every kind in turn, the cheap ones more often."""
        kinds: Sequence[Callable[[Seen], Awaitable[None]]] = (
            self._by_vector,
            self._by_words,
            self._by_awkward_words,
            self._by_scrolling,
            *[self._by_id] * 3,
            *[self._by_counting] * 5,
        )
        enough = self._tally.checks + count
        while self._tally.checks < enough:
            seen = self._rng.choice(self._seen)
            for kind in kinds:
                await kind(seen)

    def _where(self, seen: Seen, chance: float = 0.25) -> tuple[Where, Keep]:
        """A filter, and in plain Python what it keeps; most often none."""
        if self._rng.random() > chance:
            return EVERYTHING, lambda row: True
        kind, name = self._rng.choice(KINDS), self._rng.choice(AWKWARD)
        named = self._rng.choice(seen.rows).session if seen.rows and self._rng.random() < 0.7 else name
        filters: list[tuple[Where, Keep]] = [
            (Eq("kind", kind), lambda row: row.kind == kind),
            (Eq("session_id", named), lambda row: row.session == named),
            (In("speaker", (named, name)), lambda row: row.session in (named, name)),
            (Not(Eq("session_id", named)), lambda row: row.session != named),
            (And((Eq("kind", kind), Not(Eq("speaker", name)))), lambda row: row.kind == kind and row.session != name),
            (Or((Eq("kind", kind), Eq("tags", WORDS[0]))), lambda row: row.kind == kind or WORDS[0] in row.words),
            (In("session_id", ()), lambda row: False),
            (Or(()), lambda row: False),
            (Not(Or(())), lambda row: True),
            (Missing("role"), lambda row: True),
            (In("id", tuple(seen.ids[:3] + self._all_ids[:3])), lambda row: row.id in seen.ids[:3] + self._all_ids[:3]),
        ]
        return self._rng.choice(filters)

    def _limit(self) -> int:
        return self._rng.choice((3, 20, 10_000))

    def _judge(self, seen: Seen, asked: object, got: Iterable[Entry], may: Iterable[Row], limit: int) -> None:
        """By what the rows say, not by their ids: two tenants may use one id."""
        told = {mark for entry in got for mark in marks(entry.text + entry.metadata["mark"])}
        self._tally.judge(seen.asker, asked, told, {row.mark for row in may}, at_most=limit)

    async def _search(self, seen: Seen, ask: Ask, keep: Keep) -> None:
        hits: list[Hit] = await self._index.search(seen.scope, ask)
        self._judge(seen, ask.text or "by meaning", [h.entry for h in hits], filter(keep, seen.rows), ask.limit)

    async def _by_vector(self, seen: Seen) -> None:
        where, keep = self._where(seen)
        await self._search(seen, Ask(vector=self._vector(), where=where, limit=self._limit()), keep)

    def _vector(self) -> Vector:
        return np.asarray([self._rng.gauss(0, 1) for _ in range(DIMENSION)], dtype=np.float32)

    async def _by_words(self, seen: Seen) -> None:
        where, keep = self._where(seen)
        word = self._rng.choice(WORDS)
        ask = Ask(text=word, where=where, limit=self._limit())
        await self._search(seen, ask, lambda row: word in row.words and keep(row))

    async def _by_awkward_words(self, seen: Seen) -> None:
        """Whatever it finds, if it can be read at all, is the asker's."""
        text = f"{self._rng.choice(AWKWARD)} {self._rng.choice(('', 'OR kettle', '*', '%', '绿茶'))}"
        try:
            hits = await self._index.search(seen.scope, Ask(text=text, limit=10_000))
        except BadQuery:
            hits = []
        told = {mark for hit in hits for mark in marks(hit.entry.text)}
        self._tally.judge(seen.asker, text, told, {row.mark for row in seen.rows}, complete=False)

    async def _by_scrolling(self, seen: Seen) -> None:
        """All pages; or one behind a cursor that somebody else was given."""
        where, keep = self._where(seen)
        may = list(filter(keep, seen.rows))
        if self._stolen and self._rng.random() < 0.2:
            order, cursor = self._rng.choice(self._stolen)
            page = await self._index.scroll(seen.scope, where, order, 50, cursor)
            told = {mark for entry in page.entries for mark in marks(entry.text)}
            self._tally.judge(seen.asker, "behind another's cursor", told, {row.mark for row in may}, complete=False)
            return
        order = self._rng.choice(ORDERS)
        limit = self._rng.choice((max(1, len(may) // 2), 10_000))
        entries: list[Entry] = []
        next_: str | None = None
        while True:
            page = await self._index.scroll(seen.scope, where, order, limit, next_)
            entries += page.entries
            next_ = page.next_cursor
            if next_ is None:
                break
            self._stolen = [*self._stolen[-50:], (order, next_)]
        self._judge(seen, f"everything, {order}", entries, may, 10_000)

    async def _by_id(self, seen: Seen) -> None:
        ids = list(dict.fromkeys([*chosen(self._rng, seen.ids, self._all_ids, 4), self._rng.choice(AWKWARD)]))
        got = await self._index.get(seen.scope, ids)
        self._judge(seen, f"for {ids}", got, [row for row in seen.rows if row.id in ids], len(ids))

    async def _by_counting(self, seen: Seen) -> None:
        where, keep = self._where(seen, 0.7)
        got = await self._index.count(seen.scope, where)
        self._tally.counted(seen.asker, f"how many {where}", got, sum(map(keep, seen.rows)))


async def everything(index: Index, world: World) -> dict[str, Entry]:
    """What is there, whoever may see it."""
    found: dict[str, Entry] = {}
    for tenant in world.tenants:
        page = await index.scroll(Scope.steward_of(tenant), EVERYTHING, limit=100_000)
        found |= {entry.metadata["mark"]: entry for entry in page.entries}
    return found


async def try_to_change(index: Index, world: World, tally: Tally, rounds: int) -> None:
    """People delete, publish and overwrite as far as they are let; only what they see may change."""
    rng = random.Random(world.seed + 2)
    rows = {row.mark: row for row in world.rows}
    for _ in range(rounds):
        asker = world.asker()
        mine = world.visible(asker)
        kind = rng.choice(KINDS)
        where: Where = rng.choice((EVERYTHING, Eq("kind", kind)))
        may = {row.mark for row in mine if where == EVERYTHING or row.kind == kind}
        tally.counted(asker, "to publish", await index.publish(scope_of(asker), where), len(may))
        others = [row for row in world.rows if row.tenant == asker.tenant and row not in mine]
        await _try_to_overwrite(index, asker, rng.choice(others) if others else None, tally)
        gone = await index.delete(scope_of(asker), where)
        tally.counted(asker, "to delete", gone, len(may))
        left = await everything(index, world)
        tally.judge(asker, "to delete", rows.keys() - left.keys(), may)
        await filled(index, (rows[mark] for mark in may), world.seed)


async def _try_to_overwrite(index: Index, asker: Asker, target: Row | None, tally: Tally) -> None:
    """Another's row under its own id, as one's own; and a row of one's own in another's name."""
    if target is None:
        return
    for principals in (sorted(asker.principals)[:1], sorted(target.principals)):
        written = Entry(target.id, tuple(principals), "mine now", metadata={"mark": "stolen"})
        try:
            await index.upsert(scope_of(asker), [written])
        except PermissionDenied:
            tally.refused(asker, f"overwrite {target.id}", True)
        else:
            tally.refused(asker, f"overwrite {target.id} as {principals}", False)
