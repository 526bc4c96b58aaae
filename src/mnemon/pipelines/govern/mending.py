"""Repair: the archive is made whole, finishes what was cut off, and what the replicas lack is brought to them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.commits import WritePlan
from mnemon.contracts.errors import Corrupt, MnemonError, NotFound, VersionConflict
from mnemon.contracts.filters import Eq, every
from mnemon.contracts.nodes import NodeKey
from mnemon.contracts.ports import Archive, Queue
from mnemon.contracts.reports import Repair
from mnemon.contracts.results import RepairResult
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import SessionRecord, SessionStatus
from mnemon.logic.policies import plan
from mnemon.logic.shelves import filed_key
from mnemon.pipelines.entries.following import Follower
from mnemon.pipelines.govern.witnessing import witness
from mnemon.pipelines.graph.replaying import replay
from mnemon.pipelines.index.catchup import (
    index_differences,
    is_marked,
    orphan_nodes,
    orphans,
    orphans_in_graph,
    stale_in_graph,
    stale_nodes,
    stale_sessions,
)
from mnemon.pipelines.index.projection import MARKER
from mnemon.pipelines.jobs import index_job, node_job
from mnemon.pipelines.replicas import Replicas
from mnemon.pipelines.write.placing import change_for
from mnemon.pipelines.write.refiling import node_at, refile, unsettled
from mnemon.pipelines.write.settling import settle_others, touch


async def repair(
    archive: Archive, replicas: Replicas, queue: Queue, tenant_id: str | None, now: datetime
) -> RepairResult:
    """One tenant or all of them, one after the other: what is beyond mending in one place is said and stops nothing."""
    recovered = await queue.recover()
    repairs: list[Repair] = [
        Repair(path, "set aside: no job can be read here", "set aside") for path in await queue.damaged(aside=True)
    ]
    sessions = nodes = 0
    for tenant in [tenant_id] if tenant_id else [t async for t in archive.tenants()]:
        repairs += await mend_archive(archive, replicas, tenant, now)
        try:
            more = await _mend_replicas(archive, replicas, queue, tenant, repairs)
        except (MnemonError, OSError) as error:
            repairs.append(Repair(f"replicas of {tenant}", f"left as they are: {error}", "left"))
        else:
            sessions, nodes = sessions + more[0], nodes + more[1]
    return RepairResult(tuple(repairs), sessions, recovered, nodes)


async def mend_archive(archive: Archive, replicas: Replicas, tenant_id: str, now: datetime) -> list[Repair]:
    """The files of a tenant, with the help of what the replicas remember of those that are damaged."""
    scope = Scope.steward_of(tenant_id)
    damaged = (await archive.verify(scope)).damaged
    repairs = await archive.repair(scope, [await witness(replicas, key) for key in damaged])
    records = [record async for record in archive.sessions(scope)]
    for record in records:
        try:
            repairs += await _vouch(archive, scope, record)
        except (Corrupt, NotFound, ValueError) as error:
            repairs.append(Repair(record.key.uri, f"left as it is: {error}", "left"))
    repairs += await _refile_lost(archive, scope, [r async for r in archive.sessions(scope)], now)
    for key, claims in [found async for found in unsettled(archive, tenant_id)]:
        await settle_others(archive, scope, claims)
        for session in dict.fromkeys(c.session for c in claims):
            await touch(archive, scope, session)
        repairs.append(Repair(key.uri, f"{len(claims)} claims stand in their sessions as they do here"))
    return repairs


async def _mend_replicas(
    archive: Archive, replicas: Replicas, queue: Queue, tenant: str, repairs: list[Repair]
) -> tuple[int, int]:
    scope, index, graph = Scope.steward_of(tenant), replicas.indexer.index, replicas.grapher.graph
    for uri in [*await orphans(archive, index, tenant), *await orphan_nodes(archive, index, tenant)]:
        await index.delete(scope, Eq("uri", uri))
        repairs.append(Repair(uri, "removed from the index: the archive does not hold it"))
    for origin in await orphans_in_graph(archive, graph, tenant):
        await graph.drop(scope, [origin])
        repairs.append(Repair(origin, "removed from the graph: the archive does not hold it"))
    async for record in archive.sessions(scope):
        repairs += await _mend_content(archive, replicas, scope, record)
    await replay(archive, graph, tenant)
    if lines := await Follower(archive, index, replicas.indexer.embedder, graph).mend(tenant):
        repairs.append(Repair(f"entries of {tenant}", f"indexed {lines} changes the index did not hold"))
    return await queue_stale(archive, replicas, queue, tenant)


async def _mend_content(archive: Archive, replicas: Replicas, scope: Scope, record: SessionRecord) -> list[Repair]:
    """A session that is marked as told and is told otherwise: it is told anew. One that is not marked so has a job."""
    if record.status is not SessionStatus.COMPLETED:
        return []
    index, grapher, uri = replicas.indexer.index, replicas.grapher, record.key.uri
    done: list[Repair] = []
    try:
        if await is_marked(index, record) and (found := await index_differences(archive, index, record)):
            extra = any(d.kind == "index_extra" for d in found)
            await index.delete(scope, Eq("uri", uri) if extra else every(Eq("kind", MARKER), Eq("uri", uri)))
            await replicas.index_session(record.key)
            done += [Repair(uri, f"indexed anew: {d.detail}") for d in found]
        if not await grapher.is_behind(record) and await grapher.differs(record):
            await grapher.project(record.key, anew=True)
            done.append(Repair(uri, "told to the graph anew: it told it otherwise"))
    except (Corrupt, NotFound, ValueError):  # damaged beyond mending, and told; or forgotten meanwhile
        pass
    return done


async def catch_up(archive: Archive, replicas: Replicas, queue: Queue) -> None:
    """After somebody died at work: what they archived is vouched for, and what has not reached the replicas queued."""
    async for tenant in archive.tenants():
        scope = Scope.steward_of(tenant)
        for record in [record async for record in archive.sessions(scope)]:
            if record.status is SessionStatus.COMPLETED:
                with suppress(Corrupt, NotFound, VersionConflict):  # damaged, forgotten, or written on meanwhile
                    await _vouch(archive, scope, record)
        await queue_stale(archive, replicas, queue, tenant)
        indexer = replicas.indexer
        await Follower(archive, indexer.index, indexer.embedder, replicas.grapher.graph).mend(tenant)


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
    are all, only its writer could say: one that had no words before is told to be written again."""
    turns = await archive.read_turns(scope, record.key, after=record.turn_count)
    if not turns:
        return []
    last = turns[-1]
    update: dict[str, Any] = {"turn_count": last.seq, "chain_head": last.chain, "answered": record.turn_count}
    if record.status is not SessionStatus.COMPLETED and not record.turn_count:
        again = "its writer died before the end; write it again"
        update |= {"status": SessionStatus.FAILED, "error_reason": again, "order": None}
    await archive.write_session(scope, record.model_copy(update=update), record.version)
    return [Repair(record.key.uri, f"its page now vouches for {last.seq} turns, {len(turns)} more than before")]


async def _refile_lost(archive: Archive, scope: Scope, records: Sequence[SessionRecord], now: datetime) -> list[Repair]:
    """Claims whose node is gone with all its versions: it is made again from all that were in it."""
    lost: dict[NodeKey, list[Claim]] = {}
    for record in records:
        if record.status is not SessionStatus.COMPLETED or not record.claim_ids:
            continue
        with suppress(Corrupt, NotFound, ValueError):  # damaged beyond mending, and told; or forgotten meanwhile
            for claim in await archive.read_claims(scope, record.key):
                if claim.node_uri and claim.state in (ClaimState.ACTIVE, ClaimState.SUPERSEDED):
                    lost.setdefault(filed_key(claim), []).append(claim)
    done: list[Repair] = []
    for key, claims in lost.items():
        if await archive.exists(scope, key):
            continue

        async def planned(key: NodeKey = key, claims: list[Claim] = claims) -> WritePlan:
            return plan(change_for(key, claims, frozenset()), await node_at(archive, scope, key), now)

        await refile(archive, scope, key, planned, "made again from its claims")
        done.append(Repair(key.uri, f"made again from {len(claims)} claims", "salvaged"))
    return done
