"""The archive as plain files: every word, node and blob where a person can read it, durable and provable."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import CommitRecord
from mnemon.contracts.errors import PermissionDenied
from mnemon.contracts.forgetting import Intent, Traces
from mnemon.contracts.nodes import REVISIONS_KEPT, Edge, Level, Node, NodeKey, NodeStat, NodeSummary, Revision, Shelf
from mnemon.contracts.ports import Clock, LogName
from mnemon.contracts.reports import LoadReport, Repair, VerifyReport
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.contracts.sessions import AppendResult, Kept, LogLine, SessionRecord, StoredTurn, Tombstone, Witness
from mnemon.contracts.tags import Tagging
from mnemon.contracts.turns import Turn
from mnemon.drivers.archive.fs import moving
from mnemon.drivers.archive.fs.audit import audit
from mnemon.drivers.archive.fs.blobs import BlobFiles
from mnemon.drivers.archive.fs.durable import Step, make_dirs, no_step
from mnemon.drivers.archive.fs.erasing import EraserFiles
from mnemon.drivers.archive.fs.layout import Layout
from mnemon.drivers.archive.fs.logs import LogFiles
from mnemon.drivers.archive.fs.mending import Mender
from mnemon.drivers.archive.fs.nodes import NodeFiles
from mnemon.drivers.archive.fs.papers import PaperFiles
from mnemon.drivers.archive.fs.promises import PromiseFiles
from mnemon.drivers.archive.fs.relations import RelationFiles
from mnemon.drivers.archive.fs.traces import look
from mnemon.drivers.archive.fs.turns import TurnFiles
from mnemon.drivers.os_errors import in_our_words
from mnemon.drivers.together import Pace

T = TypeVar("T")
_DONE = object()
_HANDS = 16
_FEW = 8


async def _each(items: Iterator[T]) -> AsyncIterator[T]:
    """A blocking iterator, stepped in a thread."""
    while (item := await asyncio.to_thread(next, items, _DONE)) is not _DONE:
        yield item  # type: ignore[misc]


def _check_steward(scope: Scope) -> None:
    if not scope.steward:
        raise PermissionDenied("this is about everybody in the tenant; only its steward may ask for it")


@in_our_words
class FsArchive:
    """See `contracts.ports.Archive` for what each method promises. All disk work happens in a thread."""

    def __init__(
        self,
        home: Path,
        clock: Clock,
        *,
        entropy: Callable[[int], bytes] = os.urandom,
        step: Step = no_step,
        revisions_kept: int = REVISIONS_KEPT,
        kept_of: Mapping[Shelf, int] | None = None,
    ) -> None:
        make_dirs(home.absolute())
        self._step = step
        self._clock = clock
        self._entropy = entropy
        self._layout = Layout(home, step)
        self._blobs = BlobFiles(self._layout, step)
        self._turns = TurnFiles(self._layout, self._blobs, clock, entropy, step)
        # Who waits for the disk waits side by side: the file system syncs what many wait for in one go.
        self._pace = Pace()
        self._hands = ThreadPoolExecutor(_HANDS, thread_name_prefix="mnemon-archive")
        self._papers = PaperFiles(self._layout, self._turns, step)
        self._nodes = NodeFiles(self._layout, clock, step, revisions_kept, kept_of)
        self._relations = RelationFiles(self._layout, self._nodes, clock, step)
        self._logs = LogFiles(self._layout, clock, entropy, step)
        self._promises = PromiseFiles(self._layout.home, step)
        self._eraser = EraserFiles(self._layout, self._turns, self._papers, self._blobs, step)

    async def append_turns(
        self, scope: Scope, key: SessionKey, turns: Sequence[Turn], numbered: bool = False
    ) -> AppendResult:
        if self._turns.is_quick(key, turns):
            with suppress(BlockingIOError):  # somebody else holds the session: wait for them in a thread
                return self._turns.append(scope, key, turns, numbered, wait=False)
        return await asyncio.to_thread(self._turns.append, scope, key, turns, numbered)

    async def keep_turns(
        self, scope: Scope, record: SessionRecord, expect: int, turns: Sequence[Turn], numbered: bool = False
    ) -> Kept:
        if len(turns) <= _FEW and self._pace.is_quick:
            with suppress(BlockingIOError):  # somebody else holds the session: wait for them in a thread
                return self._kept(scope, record, expect, turns, numbered, False)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._hands, self._kept, scope, record, expect, turns, numbered)

    def _kept(self, *work: Any) -> Kept:
        begun = time.perf_counter()
        kept = self._turns.keep(*work)
        self._pace.took(begun)
        return kept

    async def read_turns(
        self, scope: Scope, key: SessionKey, after: int = 0, limit: int | None = None
    ) -> list[StoredTurn]:
        return await asyncio.to_thread(self._turns.read, scope, key, after, limit)

    async def read_tombstones(self, scope: Scope, key: SessionKey) -> list[Tombstone]:
        return await asyncio.to_thread(self._turns.tombstones, scope, key)

    async def forget_turns(self, scope: Scope, key: SessionKey, turn_ids: Sequence[str] | None, reason: str) -> int:
        return await asyncio.to_thread(self._turns.forget, scope, key, turn_ids, reason)

    async def mask_turns(self, scope: Scope, key: SessionKey, masks: Mapping[str, Sequence[tuple[int, int]]]) -> int:
        return await asyncio.to_thread(self._turns.mask, scope, key, masks)

    async def read_session(self, scope: Scope, key: SessionKey) -> SessionRecord | None:
        if self._turns.is_at_hand(key):
            return self._turns.read_session(scope, key)
        return await asyncio.to_thread(self._turns.read_session, scope, key)

    async def write_session(self, scope: Scope, record: SessionRecord, expect: int) -> SessionRecord:
        return await asyncio.to_thread(self._turns.write_session, scope, record, expect)

    def sessions(
        self, scope: Scope, owner: Owner | None = None, newest: int | None = None
    ) -> AsyncIterator[SessionRecord]:
        return _each(self._turns.sessions(scope, owner, newest))

    def owners(self, scope: Scope) -> AsyncIterator[Owner]:
        return _each(self._owners(scope))

    def _owners(self, scope: Scope) -> Iterator[Owner]:
        for owner in self._layout.owners(scope.tenant_id):
            if scope.steward or owner.principal in scope.principals:
                yield owner

    def tenants(self) -> AsyncIterator[str]:
        return _each(self._tenants())

    def _tenants(self) -> Iterator[str]:
        yield from self._layout.tenants()

    async def read_tags(self, scope: Scope, key: SessionKey) -> list[Tagging]:
        return await asyncio.to_thread(self._papers.tags, scope, key)

    async def write_tags(self, scope: Scope, key: SessionKey, taggings: Sequence[Tagging]) -> None:
        await asyncio.to_thread(self._papers.write_tags, scope, key, taggings)

    async def read_claims(self, scope: Scope, key: SessionKey) -> list[Claim]:
        return await asyncio.to_thread(self._papers.claims, scope, key)

    async def put_claims(
        self, scope: Scope, key: SessionKey, claims: Sequence[Claim], gone: Collection[str] = ()
    ) -> None:
        await asyncio.to_thread(self._papers.put_claims, scope, key, claims, gone)

    async def read_commits(self, scope: Scope, key: SessionKey, after: int = 0) -> list[CommitRecord]:
        return await asyncio.to_thread(self._papers.commits, scope, key, after)

    async def write_commit(self, scope: Scope, key: SessionKey, record: CommitRecord) -> None:
        await asyncio.to_thread(self._papers.write_commit, scope, key, record)

    async def resolve_path(self, scope: Scope, key: NodeKey) -> str:
        await self.read_node(scope, key, include_content=False)
        return str(self._layout.node(key))

    async def exists(self, scope: Scope, key: NodeKey) -> bool:
        return await asyncio.to_thread(self._nodes.exists, scope, key)

    async def stat_node(self, scope: Scope, key: NodeKey) -> NodeStat:
        return await asyncio.to_thread(self._nodes.stat, scope, key)

    async def write_node(self, scope: Scope, node: Node, expect: int | None = None, reason: str = "") -> Node:
        return await asyncio.to_thread(self._nodes.write, scope, node, expect, reason)

    async def read_node(self, scope: Scope, key: NodeKey, include_content: bool = True) -> Node:
        return await asyncio.to_thread(self._nodes.read, scope, key, include_content)

    async def write_level(self, scope: Scope, key: NodeKey, level: Level, text: str) -> Node:
        return await asyncio.to_thread(self._nodes.write_level, scope, key, level, text)

    async def write_metadata(self, scope: Scope, key: NodeKey, metadata: dict[str, Any]) -> Node:
        return await asyncio.to_thread(self._nodes.write_metadata, scope, key, metadata)

    async def list_children(
        self, scope: Scope, owner: Owner, shelf: Shelf | None = None, recursive: bool = False
    ) -> list[NodeSummary]:
        return await asyncio.to_thread(self._nodes.children, scope, owner, shelf, recursive)

    async def delete_node(self, scope: Scope, key: NodeKey, expect: int | None = None) -> bool:
        return await asyncio.to_thread(self._delete, scope, key, expect)

    def _delete(self, scope: Scope, key: NodeKey, expect: int | None) -> bool:
        """With the edges that lead to it; also those a deletion left that was cut off."""
        deleted = self._nodes.delete(scope, key, expect)
        self._step("node_delete.before_edges")
        if scope.tenant_id == key.tenant_id and not self._nodes.is_there(key):
            self._relations.drop_to(key)
        return deleted

    async def move_node(self, scope: Scope, key: NodeKey, to: NodeKey) -> Node:
        return await asyncio.to_thread(self._move, scope, key, to)

    def _move(self, scope: Scope, key: NodeKey, to: NodeKey) -> Node:
        moved = self._nodes.copy_to(scope, key, to)
        self._step("node_move.copied")
        self._relations.carry(scope, key, to)
        self._step("node_move.carried")
        self._relations.turn_to(key, to)
        self._step("node_move.turned")
        self._nodes.delete(scope, key)
        return moved

    async def revisions(self, scope: Scope, key: NodeKey) -> list[Revision]:
        return await asyncio.to_thread(self._nodes.revisions, scope, key)

    async def rollback_node(self, scope: Scope, key: NodeKey, version: int) -> Node:
        return await asyncio.to_thread(self._nodes.rollback, scope, key, version)

    async def get_edges(self, scope: Scope, key: NodeKey) -> list[Edge]:
        return await asyncio.to_thread(self._relations.get, scope, key)

    async def incoming_edges(self, scope: Scope, key: NodeKey) -> list[Edge]:
        return await asyncio.to_thread(self._relations.incoming, scope, key)

    async def upsert_edges(self, scope: Scope, key: NodeKey, edges: Sequence[Edge]) -> None:
        await asyncio.to_thread(self._relations.upsert, scope, key, edges)

    async def append_edges(self, scope: Scope, key: NodeKey, edges: Sequence[Edge]) -> None:
        await asyncio.to_thread(self._relations.append, scope, key, edges)

    async def remove_edges(
        self,
        scope: Scope,
        key: NodeKey,
        to_uris: Sequence[str] | None = None,
        relation_types: Sequence[str] | None = None,
    ) -> int:
        return await asyncio.to_thread(self._relations.remove, scope, key, to_uris, relation_types)

    async def put_blob(self, scope: Scope, data: bytes) -> str:
        return await asyncio.to_thread(self._blobs.put, scope, data)

    async def get_blob(self, scope: Scope, sha256: str) -> bytes:
        return await asyncio.to_thread(self._blobs.get, scope, sha256)

    async def append_log(
        self, scope: Scope, log: LogName, bodies: Sequence[dict[str, Any]], expect: int | None = None
    ) -> list[LogLine]:
        return await asyncio.to_thread(self._logs.append, scope, log, bodies, expect)

    async def read_log(self, scope: Scope, log: LogName, after: int = 0, limit: int | None = None) -> list[LogLine]:
        return await asyncio.to_thread(self._logs.read, scope, log, after, limit)

    async def forget_log(self, scope: Scope, log: LogName, seqs: Collection[int], reason: str) -> int:
        _check_steward(scope)
        return await asyncio.to_thread(self._logs.forget, scope.tenant_id, log, seqs, reason)

    async def drop_session(self, scope: Scope, key: SessionKey) -> bool:
        return await asyncio.to_thread(self._eraser.drop, scope, key)

    async def erase_session(self, scope: Scope, key: SessionKey, reason: str) -> dict[str, int]:
        return await asyncio.to_thread(self._eraser.session, scope, key, reason)

    async def erase_revisions(self, scope: Scope, key: NodeKey) -> int:
        return await asyncio.to_thread(self._nodes.erase_revisions, scope, key)

    async def erase_owner(self, scope: Scope, owner: Owner) -> dict[str, int]:
        _check_steward(scope)
        return await asyncio.to_thread(self._eraser.owner, scope.tenant_id, owner)

    async def erase_tenant(self, scope: Scope) -> dict[str, int]:
        _check_steward(scope)
        return await asyncio.to_thread(self._eraser.tenant, scope.tenant_id)

    def forgetting(self) -> AbstractAsyncContextManager[None]:
        return self._promises.held()

    async def promise(self, intent: Intent) -> None:
        await asyncio.to_thread(self._promises.make, intent)

    async def promised(self, tenant_id: str | None = None) -> list[Intent]:
        return await asyncio.to_thread(self._promises.all, tenant_id)

    async def kept(self, intent_id: str) -> None:
        await asyncio.to_thread(self._promises.keep, intent_id)

    async def traces(self, intent: Intent, alive: Sequence[str]) -> Traces:
        return await asyncio.to_thread(look, self._layout, intent, alive)

    async def verify(self, scope: Scope) -> VerifyReport:
        _check_steward(scope)
        return await asyncio.to_thread(audit, self._layout, scope.tenant_id)

    async def repair(self, scope: Scope, witnesses: Sequence[Witness] = ()) -> list[Repair]:
        _check_steward(scope)
        known = {w.session: w for w in witnesses}
        mender = Mender(
            self._layout, self._turns, self._nodes, self._eraser, self._clock, self._entropy, scope.tenant_id, known
        )
        return await asyncio.to_thread(mender.run)

    def dump(self, scope: Scope, owner: Owner | None = None) -> AsyncIterator[tuple[str, bytes]]:
        _check_steward(scope)
        return _each(moving.dump(self._layout, scope.tenant_id, owner))

    async def load(self, scope: Scope, files: Iterable[tuple[str, BinaryIO]]) -> LoadReport:
        _check_steward(scope)
        return await asyncio.to_thread(moving.load, self._layout, scope.tenant_id, files)

    async def close(self) -> None:
        self._hands.shutdown(wait=False)
