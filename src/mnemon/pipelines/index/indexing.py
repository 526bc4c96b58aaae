"""The archive into the index: a session's turns beyond its marker, its claims, and the nodes its commits touched."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import CommitRecord
from mnemon.contracts.entries import Entry
from mnemon.contracts.errors import NotFound
from mnemon.contracts.filters import Eq, In, Not, every
from mnemon.contracts.nodes import Node, NodeKey
from mnemon.contracts.ports import Archive, Embedder, Index
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord, SessionStatus, StoredTurn
from mnemon.logic.chunking import ChunkRecord, chunk_for_node
from mnemon.logic.ids import marker_id
from mnemon.logic.shelves import key_at
from mnemon.pipelines.index.projection import (
    CHUNK,
    CLAIM,
    HIDDEN,
    PROFILE,
    Lives,
    Marker,
    added_claims,
    chunk_entries,
    claim_entries,
    is_new,
    is_profile,
    lives,
    marker_entry,
    profile_entry,
    profile_text,
    turn_entries,
)

# Of a session that is not complete.
_NOT_YET = Lives("none")
# Turns of one transaction: a session of up to this many is seen wholly or not at all without a second step.
BATCH = 2_000


@dataclass(frozen=True, slots=True)
class Indexer:
    archive: Archive
    index: Index
    embedder: Embedder

    async def index_session(
        self, key: SessionKey, fresh: Sequence[StoredTurn] = (), page: SessionRecord | None = None
    ) -> int:
        """Bring one session up to date and return how many turns were indexed. `fresh` are turns just archived, `page`
        the page that was just written: where they follow the marker directly, they need not be read again. Of one that
        is not completed the words are shown, and how it stands; nothing of them counts as remembered yet.

        The page is read again afterwards: whoever changed it meanwhile may have been here before us."""
        scope = Scope.steward_of(key.tenant_id)
        indexed = seen = 0
        record = page or await self.archive.read_session(scope, key)
        while record is not None and record.version != seen:
            indexed += await self._index(scope, record, fresh)
            seen, fresh = record.version, ()
            record = await self.archive.read_session(scope, key)
        if record is None:
            await self.index.delete(scope, Eq("uri", key.uri))
        return indexed

    async def _index(self, scope: Scope, record: SessionRecord, fresh: Sequence[StoredTurn]) -> int:
        key = record.key
        marker, more_said = await self._marker(scope, record, fresh)
        if record.status is not SessionStatus.COMPLETED:
            return await self._words(scope, record, marker)
        if marker == Marker.at(record, record.turn_count, record.chain_head) and not more_said:
            return 0
        commits: list[CommitRecord] = []
        if marker.commits < record.commits:
            commits = await self.archive.read_commits(scope, key, after=marker.commits)
        # Turns that are indexed already and were judged since are indexed once more.
        done = min([marker.seq if marker.kept == record.kept else 0, *(c.first_seq - 1 for c in commits)])
        life = lives(record, await self.archive.read_tags(scope, key) if record.kept == "tagged" else [])
        if not (fresh and fresh[0].seq == done + 1):
            fresh = await self.archive.read_turns(scope, key, after=done, limit=BATCH)
        claims = await self._claims(scope, record, marker)
        touched = dict.fromkeys(change.uri for commit in commits for change in commit.changes)
        nodes = [key_at(key.tenant_id, key.owner, uri) for uri in touched]
        indexed = len(fresh)
        long = len(fresh) == BATCH
        while long and (more := await self.archive.read_turns(scope, key, after=fresh[-1].seq, limit=BATCH)):
            # Too many for one step: written unseen, and shown together at the end.
            await self.index.upsert(scope, await self._turns(record, fresh, life, published=False))
            indexed += len(more)
            fresh = more
        end = Marker.at(record, fresh[-1].seq, fresh[-1].chain) if fresh else Marker.at(record, marker.seq, marker.head)
        words = await self._turns(record, fresh, life, published=indexed == len(fresh))
        if indexed > len(fresh):
            new = {c.claim_id for c in claims} - set(marker.claim_ids)
            await self.index.upsert(scope, [*words, *await self._said(claims, new)])
            await self.index.publish(scope, every(Eq("uri", key.uri), Eq("published", False), Not(In("state", HIDDEN))))
            words = []
        else:
            words += await self._said(claims)
        chunks, versions = await self._chunks(scope, nodes)
        # Before the marker says that they are gone. What is indexed in one step is there with its marker or not at
        # all; only where it took several, or there was no marker, can one be left that no marker names.
        unknown = marker.seq == 0 and not is_new(record, fresh)
        if indexed > BATCH or unknown or not set(marker.claim_ids) <= set(record.claim_ids):
            await self._drop_lost_claims(scope, record)
        await self.index.upsert(scope, [*words, *chunks, marker_entry(record, end)])
        await self._look_again(scope, versions)
        return indexed

    async def index_words(self, key: SessionKey, fresh: Sequence[StoredTurn] = ()) -> None:
        """Words just archived, to be found as words at once: nobody waits for an embedder. The marker goes back with
        them to where it was, so whoever comes next embeds them, also where somebody has done so meanwhile."""
        scope = Scope.steward_of(key.tenant_id)
        record = await self.archive.read_session(scope, key)
        if record is None:
            return
        marker, _ = await self._marker(scope, record, fresh)
        done = max(marker.seq, marker.words)
        while turns := fresh or await self.archive.read_turns(scope, key, after=done, limit=BATCH):
            words = turn_entries(record, turns, None, _NOT_YET)
            await self.index.upsert(scope, [*words, marker_entry(record, marker)])
            if fresh:
                return
            done = turns[-1].seq

    async def _words(self, scope: Scope, record: SessionRecord, marker: Marker) -> int:
        """The words of a session that is not complete. The marker's turn stays: they are judged when it is."""
        indexed = 0
        done = max(marker.seq, marker.words)
        while turns := await self.archive.read_turns(scope, record.key, after=done, limit=BATCH):
            words = await self._turns(record, turns, _NOT_YET, published=True)
            done = turns[-1].seq
            await self.index.upsert(scope, [*words, marker_entry(record, replace(marker, words=done))])
            indexed += len(turns)
        if not indexed:
            await self.index.upsert(scope, [marker_entry(record, marker)])
        return indexed

    async def index_node(self, key: NodeKey) -> None:
        """One node as it is now, or nothing of it where it is gone."""
        scope = Scope.steward_of(key.tenant_id)
        chunks, versions = await self._chunks(scope, [key])
        await self.index.upsert(scope, chunks)
        await self._look_again(scope, versions)

    async def index_turns(self, key: SessionKey, turn_ids: Collection[str]) -> None:
        """Some turns as they read now, where words were taken out of them."""
        scope = Scope.steward_of(key.tenant_id)
        record = await self.archive.read_session(scope, key)
        if record is None or record.status is not SessionStatus.COMPLETED:
            return
        life = lives(record, await self.archive.read_tags(scope, key) if record.kept == "tagged" else [])
        turns = [t for t in await self.archive.read_turns(scope, key) if t.turn.turn_id in turn_ids]
        await self.index.upsert(scope, await self._turns(record, turns, life, published=True))

    # --- how far

    async def _marker(self, scope: Scope, record: SessionRecord, fresh: Sequence[StoredTurn]) -> tuple[Marker, bool]:
        """How far the index is, and whether more was said since. Was it built from these turns at all? The chain at
        the marker's turn tells."""
        if is_new(record, fresh):
            return Marker(), True
        found = await self.index.get(scope, [marker_id(record.key)])
        marker = Marker.of(found[0]) if found else Marker()
        if marker.seq == 0 or (fresh and (fresh[0].seq - 1, fresh[0].hangs_on) == (marker.seq, marker.head)):
            return marker, True
        at = await self.archive.read_turns(scope, record.key, after=marker.seq - 1, limit=2)
        if at and (at[0].seq, at[0].chain) == (marker.seq, marker.head):
            return marker, len(at) > 1
        await self.index.delete(scope, Eq("uri", record.key.uri))
        return Marker(), True

    async def _look_again(self, scope: Scope, versions: dict[NodeKey, int]) -> None:
        """Nodes somebody else has changed while they were indexed."""
        for key, version in versions.items():
            if (await self.archive.stat_node(scope, key)).version != version:
                await self.index_node(key)

    # --- what

    async def _chunks(self, scope: Scope, keys: Sequence[NodeKey]) -> tuple[list[Entry], dict[NodeKey, int]]:
        """Nodes in pieces, and the version each was read in. What the index holds of them beside that is dropped."""
        entries: list[Entry] = []
        versions: dict[NodeKey, int] = {}
        for key in keys:
            node = await self._node(scope, key)
            versions[key] = node.version if node else 0
            chunks = chunk_for_node(node) if node else []
            await self._drop_old_chunks(scope, key, versions[key], chunks)
            if node:
                whole = [profile_text(node)] if is_profile(node) else []
                vectors = await self.embedder.embed_texts([*(c.text_content for c in chunks), *whole])
                entries += chunk_entries(node, chunks, vectors[: len(chunks)])
                entries += [profile_entry(node, vector) for vector in vectors[len(chunks) :]]
        return entries, versions

    async def _said(self, claims: Sequence[Claim], unseen: Collection[str] = ()) -> list[Entry]:
        vectors = await self.embedder.embed_texts([c.statement for c in claims]) if claims else []
        return claim_entries(claims, vectors, unseen)

    async def _claims(self, scope: Scope, record: SessionRecord, marker: Marker) -> list[Claim]:
        """Those that may differ from what the index holds."""
        added = added_claims(marker.version, marker.claim_ids, record)
        settled = set(record.claim_ids if added is None else added)
        if not settled:
            return []
        return [c for c in await self.archive.read_claims(scope, record.key) if c.claim_id in settled]

    async def _drop_lost_claims(self, scope: Scope, record: SessionRecord) -> None:
        of_session = every(Eq("kind", CLAIM), Eq("uri", record.key.uri))
        await self.index.delete(scope, every(of_session, Not(In("id", record.claim_ids))))

    async def _drop_old_chunks(self, scope: Scope, key: NodeKey, version: int, chunks: Sequence[ChunkRecord]) -> None:
        if version != 1:
            now = In("id", tuple(c.chunk_id for c in chunks))
            await self.index.delete(scope, every(Eq("kind", CHUNK), Eq("uri", key.uri), Not(now)))
            if version == 0:
                await self.index.delete(scope, every(Eq("kind", PROFILE), Eq("uri", key.uri)))

    async def _turns(
        self, record: SessionRecord, turns: Sequence[StoredTurn], life: Lives, published: bool
    ) -> list[Entry]:
        vectors = await self.embedder.embed_texts([t.turn.text for t in turns]) if turns else []
        return turn_entries(record, turns, vectors, life, published)

    async def _node(self, scope: Scope, key: NodeKey) -> Node | None:
        try:
            return await self.archive.read_node(scope, key)
        except NotFound:
            return None
