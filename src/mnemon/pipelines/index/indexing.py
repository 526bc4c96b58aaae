"""A session into the index: read what the archive holds beyond the marker, embed it, upsert it with a new marker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.contracts.entries import Entry
from mnemon.contracts.filters import Eq
from mnemon.contracts.ports import Archive, Embedder, Index
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord, StoredTurn
from mnemon.logic.ids import marker_id
from mnemon.pipelines.index.projection import marker_entry, turn_entries

# Turns of one transaction: readers see a session of up to this many turns wholly or not at all.
BATCH = 2_000


@dataclass(frozen=True, slots=True)
class Indexer:
    archive: Archive
    index: Index
    embedder: Embedder

    async def index_fresh(self, record: SessionRecord, fresh: Sequence[StoredTurn]) -> int:
        """Turns just archived: where they follow the marker directly, the archive need not be read again."""
        scope = Scope.steward_of(record.tenant_id)
        if fresh and fresh[0].seq == await self._indexed(scope, record.key) + 1:
            return await self._add(scope, record, fresh)
        return await self.index_session(record.key)

    async def _indexed(self, scope: Scope, key: SessionKey) -> int:
        marker = await self.index.get(scope, [marker_id(key)])
        return int(marker[0].fields["seq"]) if marker else 0

    async def index_session(self, key: SessionKey) -> int:
        """Bring one session up to date and return how many turns were indexed."""
        scope = Scope.steward_of(key.tenant_id)
        record = await self.archive.read_session(scope, key)
        if record is None:
            await self.index.delete(scope, Eq("uri", key.uri))
            return 0
        marker = next(iter(await self.index.get(scope, [marker_id(key)])), None)
        done = int(marker.fields["seq"]) if marker else 0
        if marker is not None and not await self._agrees(scope, key, marker):
            await self.index.delete(scope, Eq("uri", key.uri))
            done = 0
        indexed = 0
        while turns := await self.archive.read_turns(scope, key, after=done, limit=BATCH):
            indexed += await self._add(scope, record, turns)
            done = turns[-1].seq
        return indexed

    async def _agrees(self, scope: Scope, key: SessionKey, marker: Entry) -> bool:
        """Was the index built from these turns? The chain at the marker's turn tells, also when it is forgotten."""
        seq = int(marker.fields["seq"])
        at = await self.archive.read_turns(scope, key, after=seq - 1, limit=1)
        return bool(at) and at[0].seq == seq and at[0].chain == marker.metadata["head"]

    async def _add(self, scope: Scope, record: SessionRecord, turns: Sequence[StoredTurn]) -> int:
        vectors = await self.embedder.embed_texts([t.turn.text for t in turns])
        entries = turn_entries(record, turns, vectors)
        await self.index.upsert(scope, [*entries, marker_entry(record, turns[-1])])
        return len(turns)
