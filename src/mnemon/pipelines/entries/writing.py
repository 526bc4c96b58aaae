"""Changing entries: each change is one write of the log, durable before the index hears of it, and can be undone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mnemon.contracts.entries import Entry
from mnemon.contracts.errors import Conflict, InvalidArgument, NotFound, VersionConflict
from mnemon.contracts.memories import EntryOp, EntryPatch, EntryState, EntryVersion, Link, MemoryEntry, WriteReceipt
from mnemon.contracts.ports import Clock
from mnemon.contracts.scope import Scope
from mnemon.logic.admission import check_entries
from mnemon.logic.memories import drafted, link_audience, own_audience, patched
from mnemon.pipelines.entries import changes as log
from mnemon.pipelines.entries.changes import Change, Item, LinkChange
from mnemon.pipelines.entries.following import Follower
from mnemon.pipelines.entries.links import touching, weighed
from mnemon.pipelines.entries.placing import Audience, Held, as_logged, placed
from mnemon.pipelines.entries.projection import line_of, row_of, wire
from mnemon.pipelines.entries.resolving import Resolver

_TRIES = 20
_PAGE = 500

Plan = Callable[[], Awaitable[list[Change]]]


@dataclass(slots=True)
class EntryWriter:
    follower: Follower
    clock: Clock
    _known: dict[str, int] = field(default_factory=dict)
    _met: set[str] = field(default_factory=set)
    _turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def bring_up(self, tenant_id: str) -> None:
        """What another process may have written and not indexed, once."""
        if tenant_id not in self._met:
            async with self._turns[tenant_id]:
                await self.follower.catch_up(tenant_id)
            self._met.add(tenant_id)

    async def write(
        self, scope: Scope, entries: Sequence[MemoryEntry], links: Sequence[Link], upsert: bool
    ) -> WriteReceipt:
        """An entry is merged into one that says the same: equal kind, modality, domain and audience, and the same words
        but for their spelling. `metadata.dedup_skip` keeps it apart."""
        if not entries and not links:
            raise InvalidArgument("there is nothing to write", field="entries")
        embedder, now = self.follower.embedder, self.clock.now()
        drafts = [drafted(scope, e, n, embedder.model, embedder.dimension, now) for n, e in enumerate(entries)]
        stored: dict[str, str] = {}

        async def plan() -> list[Change]:
            held, places = await placed(self.follower.archive, self.follower.index, scope, drafts, upsert, now)
            stored.update({d.name: _id(held[key]) for d, key in zip(drafts, places, strict=True)})
            own = {id: key for d, key in zip(drafts, places, strict=True) for id in (d.name, d.state.id)}
            audiences = {key: entry.audience for key, entry in held.items()}
            return [*_items("write", scope, "", held), *await self._linked(scope, links, own, audiences)]

        done = await self._commit(scope, plan)
        return replace(done, id_map=dict(stored))

    async def update(self, scope: Scope, id: str, patch: EntryPatch, reason: str) -> WriteReceipt:
        async def plan() -> list[Change]:
            key, held = await self._found(scope, id)
            assert held.before is not None
            held.after = patched(held.before, patch, self.clock.now())
            return _items("update", scope, reason, {key: held})

        return await self._commit(scope, plan)

    async def delete(self, scope: Scope, id: str, soft: bool, reason: str) -> WriteReceipt:
        """Out of sight, to be rolled back; or, not `soft`, erased with everything it ever was."""

        async def plan() -> list[Change]:
            key, held = await self._found(scope, id, deleted=not soft)
            assert held.before is not None
            if soft:
                held.after = held.before.model_copy(update={"deleted": True})
                return _items("delete", scope, reason, {key: held})
            return await self._erasing(scope, key, held, reason)

        return await self._commit(scope, plan)

    async def rollback(self, scope: Scope, version: int, reason: str) -> WriteReceipt:
        async def plan() -> list[Change]:
            done = [c for c in await self._write_of(scope, version) if scope.sees(c.audience)]
            if not done:
                raise NotFound(f"no version {version} in this scope", version=version)
            if any(c.op == "erase" for c in done):
                raise Conflict(f"version {version} erased for good; it cannot be rolled back", version=version)
            held = await self._restored(scope, [c for c in done if c.item], version)
            back = _items("rollback", scope, reason, held)
            for change in done:
                if change.links:
                    undone = [replace(k, weight=k.before) for k in reversed(change.links)]
                    back += await self._link_lines("rollback", scope, reason, {change.audience: undone})
            return back

        return await self._commit(scope, plan)

    async def erase_over(self, tenant_id: str, rows: Sequence[Entry]) -> None:
        """Erase what is over for good."""
        scope = Scope.steward_of(tenant_id)
        for start in range(0, len(rows), _PAGE):
            part = rows[start : start + _PAGE]

            async def plan(part: Sequence[Entry] = part) -> list[Change]:
                logged = await as_logged(self.follower.archive, scope.tenant_id, part)
                held = {row.id: logged.get(row.id) or Held(row.principals, None, None) for row in part}
                return [line for key, e in held.items() for line in await self._erasing(scope, key, e, "expired")]

            await self._commit(scope, plan)

    async def history(self, scope: Scope, id: str) -> tuple[EntryVersion, ...]:
        """Newest first."""
        await self.bring_up(scope.tenant_id)
        row = await Resolver(self.follower.index).written(scope, id, deleted=True)
        trail = await log.trail(self.follower.archive, scope.tenant_id, line_of(row))
        return tuple(
            EntryVersion(c.version, c.op, c.at, c.by, c.reason, _shown(c.item.before), _shown(c.item.after))
            for c in trail
            if c.item
        )

    # --- one change at a time

    async def _commit(self, scope: Scope, plan: Plan) -> WriteReceipt:
        """Planned on what the log holds and appended to exactly that; when somebody else comes in between, anew."""
        tenant_id, follower = scope.tenant_id, self.follower
        async with self._turns[tenant_id]:
            for _ in range(_TRIES):
                # Taken out while we are at it: when something fails on the way, the next one looks for itself.
                known = self._known.pop(tenant_id, None)
                if known is None:
                    known = await follower.catch_up(tenant_id)
                planned = await plan()
                check_entries(scope, [row_of(tenant_id, c, None) for c in planned if c.item and c.item.after], 0)
                try:
                    done = await log.append(follower.archive, scope, planned, known)
                except VersionConflict as late:
                    self._known[tenant_id] = max(await follower.catch_up(tenant_id), late.last)
                    continue
                await follower.apply(tenant_id, done, done[-1].seq)
                # Somebody who wrote meanwhile may have been in the index before us.
                newer, last = await log.read(follower.archive, tenant_id, done[-1].seq, _PAGE)
                if newer:
                    await follower.apply(tenant_id, newer, last)
                self._known[tenant_id] = last
                return WriteReceipt(done[-1].version, done[-1].chain, done[-1].at)
        raise VersionConflict("others keep writing entries; try again")

    async def _found(self, scope: Scope, id: str, deleted: bool = False) -> tuple[str, Held]:
        row = await Resolver(self.follower.index).written(scope, id, deleted)
        held = await as_logged(self.follower.archive, scope.tenant_id, [row])
        if row.id not in held:
            raise NotFound(f"no entry {id} in this scope", id=id)
        return row.id, held[row.id]

    # --- links

    async def _linked(
        self, scope: Scope, links: Sequence[Link], own: Mapping[str, str], audiences: Mapping[str, Audience]
    ) -> list[Change]:
        """Links by the keys of their ends: entries of this write, rows the caller sees, or, as they are named, anything
        else: so nobody finds out by linking what there is."""
        ends = {end for link in links for end in (link.src_id, link.dst_id)}
        rows = await Resolver(self.follower.index).rows(scope, ends - own.keys())
        keys = {end: own[end] if end in own else rows[end].id if end in rows else end for end in ends}
        whose = {**{row.id: row.principals for row in rows.values()}, **audiences}
        wanted: dict[Audience, list[LinkChange]] = defaultdict(list)
        for link in links:
            src, dst = keys[link.src_id], keys[link.dst_id]
            audience = link_audience(whose[end] for end in (src, dst) if end in whose)
            wanted[audience or own_audience(scope, "links")].append(LinkChange(src, dst, link.rel_type, link.weight))
        return await self._link_lines("write", scope, "", wanted)

    async def _link_lines(
        self, op: EntryOp, scope: Scope, reason: str, links: Mapping[Audience, Sequence[LinkChange]]
    ) -> list[Change]:
        lines = []
        for audience, told in links.items():
            weights = await weighed(self.follower.graph, scope.tenant_id, audience, told)
            lines.append(Change(op, audience, tuple(sorted(scope.principals)), reason, links=weights))
        return lines

    # --- undoing

    async def _erasing(self, scope: Scope, key: str, held: Held, reason: str) -> list[Change]:
        """A line without words, which says what has to go."""
        trail = await log.trail(self.follower.archive, scope.tenant_id, held.line)
        erased = tuple(sorted(c.seq for c in trail))
        by = tuple(sorted(scope.principals))
        ends = await touching(self.follower.graph, scope.tenant_id, key)
        lines = [Change("erase", whose, by, links=tuple(links)) for whose, links in ends.items()]
        return [*lines, Change("erase", held.audience, by, reason, Item(key, None, None), erased=erased)]

    async def _write_of(self, scope: Scope, version: int) -> list[Change]:
        archive, tenant_id = self.follower.archive, scope.tenant_id
        here = await log.at(archive, tenant_id, [version])
        return await log.at(archive, tenant_id, here[0].written_together) if here else []

    async def _restored(self, scope: Scope, done: Sequence[Change], version: int) -> dict[str, Held]:
        """Each entry as it was before; one that was not there is out of sight."""
        rows = {r.id: r for r in await self.follower.index.get(scope, [c.item.key for c in done if c.item])}
        held: dict[str, Held] = {}
        for change in done:
            item = change.item
            assert item is not None
            assert item.after is not None
            row = rows.get(item.key)
            if row is None or line_of(row) != change.seq:
                later = row.metadata["version"] if row else None
                raise Conflict(
                    f"version {version} cannot be rolled back: "
                    + (f"version {later} came after it" if later else "what it wrote was erased")
                    + f" (entry {item.after.id})",
                    version=version,
                    later=later,
                )
            back = item.before or item.after.model_copy(update={"deleted": True})
            held[item.key] = Held(change.audience, item.after, back, change.seq)
        return held


def _items(op: EntryOp, scope: Scope, reason: str, held: Mapping[str, Held]) -> list[Change]:
    by = tuple(sorted(scope.principals))
    return [
        Change(op, entry.audience, by, reason, Item(key, entry.before, entry.after, entry.line))
        for key, entry in held.items()
    ]


def _id(held: Held) -> str:
    assert held.after is not None
    return held.after.id


def _shown(state: EntryState | None) -> MemoryEntry | None:
    return wire(state) if state is not None and not state.deleted else None
