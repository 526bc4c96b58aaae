"""Repair: the archive finishes what was cut off, and sessions the index lacks are queued again."""

from __future__ import annotations

import uuid

from mnemon.contracts.filters import Eq
from mnemon.contracts.ports import Archive, Index, Queue
from mnemon.contracts.reports import Repair
from mnemon.contracts.results import RepairResult
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import SessionRecord, SessionStatus
from mnemon.pipelines.index.catchup import orphans, stale_sessions
from mnemon.pipelines.index.worker import index_job


async def repair(archive: Archive, index: Index, queue: Queue, tenant_id: str | None) -> RepairResult:
    recovered = await queue.recover()
    repairs: list[Repair] = []
    queued = 0
    for tenant in [tenant_id] if tenant_id else [t async for t in archive.tenants()]:
        scope = Scope.steward_of(tenant)
        repairs += await archive.repair(scope)
        async for record in archive.sessions(scope):
            repairs += await _vouch(archive, scope, record)
        queued += await queue_stale(archive, index, queue, tenant)
        for uri in await orphans(archive, index, tenant):
            await index.delete(scope, Eq("uri", uri))
            repairs.append(Repair(uri, "removed from the index: the archive does not hold it"))
    return RepairResult(tuple(repairs), queued, recovered)


async def queue_stale(archive: Archive, index: Index, queue: Queue, tenant_id: str) -> int:
    """An index job for every session the index does not hold as the archive does."""
    jobs = [index_job(f"index-{uuid.uuid4().hex}", r.key) async for r in stale_sessions(archive, index, tenant_id)]
    if jobs:
        await queue.put(jobs)
    return len(jobs)


async def _vouch(archive: Archive, scope: Scope, record: SessionRecord) -> list[Repair]:
    """A session whose writer died between its words and its page: the page is brought up to the words."""
    turns = await archive.read_turns(scope, record.key, after=record.turn_count)
    if not turns:
        return []
    last = turns[-1]
    update = {"status": SessionStatus.COMPLETED, "turn_count": last.seq, "chain_head": last.chain}
    await archive.write_session(scope, record.model_copy(update=update), record.version)
    return [Repair(record.key.uri, f"its page now vouches for {last.seq} turns, {len(turns)} more than before")]
