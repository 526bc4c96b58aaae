"""The log of entries into index and graph, line after line; whoever finds them behind brings them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.contracts.entries import Entry, Vector
from mnemon.contracts.filters import In
from mnemon.contracts.ports import Archive, Embedder, Graph, Index
from mnemon.contracts.scope import Scope
from mnemon.logic.entry_fields import text_of
from mnemon.logic.memo import forget_everything
from mnemon.pipelines.entries import changes as log
from mnemon.pipelines.entries import links
from mnemon.pipelines.entries.changes import Change
from mnemon.pipelines.entries.projection import follower_id, follower_row, row_of, vector_given

_PAGE = 500


async def followed_to(index: Index, tenant_id: str) -> int:
    """The last line the index holds."""
    found = await index.get(Scope.steward_of(tenant_id), [follower_id(tenant_id)])
    return int(found[0].fields["seq"]) if found else 0


async def is_behind(archive: Archive, index: Index, tenant_id: str) -> bool:
    """Does the log hold more than the index?"""
    changes, _ = await log.read(archive, tenant_id, await followed_to(index, tenant_id), 1)
    return bool(changes)


@dataclass(frozen=True, slots=True)
class Follower:
    archive: Archive
    index: Index
    embedder: Embedder
    graph: Graph

    async def catch_up(self, tenant_id: str) -> int:
        """Everything the index lacks; the number of the last line."""
        seq = await followed_to(self.index, tenant_id)
        while True:
            changes, last = await log.read(self.archive, tenant_id, seq, _PAGE)
            if last == seq:
                return seq
            await self.apply(tenant_id, changes, last)
            seq = last

    async def mend(self, tenant_id: str) -> int:
        """Everything index and graph lack; how many lines the index did not hold."""
        before = await followed_to(self.index, tenant_id)
        if not await links.are_kept(self.graph, tenant_id):
            await self._carry_all(tenant_id)
        return await self.catch_up(tenant_id) - before

    async def _carry_all(self, tenant_id: str) -> None:
        last, seq = -1, 0
        while last != seq:
            last = seq
            changes, seq = await log.read(self.archive, tenant_id, seq, _PAGE)
            await links.carry(self.graph, tenant_id, changes)
        if seq:
            await links.vouch(self.graph, tenant_id)

    async def apply(self, tenant_id: str, changes: Sequence[Change], last: int) -> None:
        """Lines in their order, up to `last`. Done again it does no harm: the mark is written with the rows."""
        scope = Scope.steward_of(tenant_id)
        for change in changes:
            if change.erased:
                await self._erase(scope, change)
        await links.carry(self.graph, tenant_id, changes)
        newest = {change.item.key: change for change in changes if change.item}
        gone = tuple(key for key, change in newest.items() if change.item and change.item.after is None)
        if gone:
            await self.index.delete(scope, In("id", gone))
            await self.index.purge()
        rows = await self._rows(tenant_id, [change for key, change in newest.items() if key not in gone])
        await self.index.upsert(scope, [*rows, follower_row(tenant_id, last)])

    async def _rows(self, tenant_id: str, changes: Sequence[Change]) -> list[Entry]:
        given = [vector_given(c.item.after, self.embedder.model) for c in changes if c.item and c.item.after]
        texts = [text_of(c.item.after) for c in changes if c.item and c.item.after]
        wanted = [n for n, (vector, text) in enumerate(zip(given, texts, strict=True)) if vector is None and text]
        made = await self.embedder.embed_texts([texts[n] for n in wanted]) if wanted else []
        vectors: list[Vector | None] = list(given)
        for n, vector in zip(wanted, made, strict=True):
            vectors[n] = vector.dense_vector
        return [row_of(tenant_id, change, vector) for change, vector in zip(changes, vectors, strict=True)]

    async def _erase(self, scope: Scope, change: Change) -> None:
        """Vectors kept of the words first: a crash must not take away the only list of what was embedded."""
        there = await log.at(self.archive, scope.tenant_id, change.erased)
        if there:
            await uncache(self.embedder, there)
            await self.archive.forget_log(scope, log.LOG, [c.seq for c in there], "erased")
            forget_everything()


async def uncache(embedder: Embedder, changes: Sequence[Change]) -> int:
    """Forget the vectors of everything these lines say; how many there were."""
    forget = getattr(embedder, "forget", None)
    states = [state for c in changes if c.item for state in (c.item.before, c.item.after) if state]
    texts = list(dict.fromkeys(text_of(state) for state in states))
    return int(await forget(texts)) if forget is not None and texts else 0
