"""Repair: the archive finishes what was cut off, and what the index lacks is queued again."""

from __future__ import annotations

from typing import Any

from mnemon.contracts.filters import Eq
from mnemon.contracts.ports import Archive, Queue
from mnemon.contracts.reports import Repair
from mnemon.contracts.results import RepairResult
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import SessionRecord, SessionStatus
from mnemon.pipelines.entries.following import Follower
from mnemon.pipelines.graph.replaying import replay
from mnemon.pipelines.index.catchup import (
    orphan_nodes,
    orphans,
    orphans_in_graph,
    stale_in_graph,
    stale_nodes,
    stale_sessions,
)
from mnemon.pipelines.jobs import index_job, node_job
from mnemon.pipelines.replicas import Replicas


async def repair(archive: Archive, replicas: Replicas, queue: Queue, tenant_id: str | None) -> RepairResult:
    recovered = await queue.recover()
    repairs: list[Repair] = []
    sessions = nodes = 0
    for tenant in [tenant_id] if tenant_id else [t async for t in archive.tenants()]:
        scope = Scope.steward_of(tenant)
        repairs += await archive.repair(scope)
        async for record in archive.sessions(scope):
            repairs += await _vouch(archive, scope, record)
        for uri in [
            *await orphans(archive, replicas.indexer.index, tenant),
            *await orphan_nodes(archive, replicas.indexer.index, tenant),
        ]:
            await replicas.indexer.index.delete(scope, Eq("uri", uri))
            repairs.append(Repair(uri, "removed from the index: the archive does not hold it"))
        graph = replicas.grapher.graph
        for origin in await orphans_in_graph(archive, graph, tenant):
            await graph.drop(scope, [origin])
            repairs.append(Repair(origin, "removed from the graph: the archive does not hold it"))
        await replay(archive, graph, tenant)
        if lines := await Follower(archive, replicas.indexer.index, replicas.indexer.embedder, graph).mend(tenant):
            repairs.append(Repair(f"entries of {tenant}", f"indexed {lines} changes the index did not hold"))
        more = await queue_stale(archive, replicas, queue, tenant)
        sessions, nodes = sessions + more[0], nodes + more[1]
    return RepairResult(tuple(repairs), sessions, recovered, nodes)


async def queue_stale(archive: Archive, replicas: Replicas, queue: Queue, tenant_id: str) -> tuple[int, int]:
    """A job for every session and every node the index does not hold as the archive does."""
    stale = {r.key async for r in stale_sessions(archive, replicas.indexer.index, tenant_id)}
    stale |= {r.key async for r in stale_in_graph(archive, replicas.grapher, tenant_id)}
    sessions = [index_job(key) for key in sorted(stale)]
    nodes = [node_job(key) async for key in stale_nodes(archive, replicas.indexer.index, tenant_id)]
    if sessions or nodes:
        await queue.put([*sessions, *nodes])
    return len(sessions), len(nodes)


async def _vouch(archive: Archive, scope: Scope, record: SessionRecord) -> list[Repair]:
    """A session whose writer died between its words and its page: the page is brought up to the words. Whether they
    are all, only its writer could say: one that was never complete is told to be written again."""
    turns = await archive.read_turns(scope, record.key, after=record.turn_count)
    if not turns:
        return []
    last = turns[-1]
    update: dict[str, Any] = {"turn_count": last.seq, "chain_head": last.chain}
    if record.status is not SessionStatus.COMPLETED:
        update |= {"status": SessionStatus.FAILED, "error_reason": "its writer died before the end; write it again"}
    await archive.write_session(scope, record.model_copy(update=update), record.version)
    return [Repair(record.key.uri, f"its page now vouches for {last.seq} turns, {len(turns)} more than before")]
