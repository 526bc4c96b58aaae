"""The proof of everything kept: the archive by itself, and the index against it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields

from mnemon.contracts.errors import Corrupt, MnemonError, NotFound
from mnemon.contracts.ports import Archive, Index, Queue
from mnemon.contracts.reports import Defect, VerifyReport
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import SessionRecord, SessionStatus
from mnemon.pipelines.entries.following import is_behind
from mnemon.pipelines.graph.projection import Grapher
from mnemon.pipelines.index.catchup import index_differences, orphan_nodes, orphans, orphans_in_graph, stale_nodes
from mnemon.pipelines.replicas import Replicas
from mnemon.pipelines.write.refiling import unsettled


async def verify(
    archive: Archive, replicas: Replicas | None, queue: Queue | None, tenant_id: str | None
) -> VerifyReport:
    """All tenants, or one. With replicas, what they hold is compared word for word; differences there are notes: they
    are replicas, and `mnemon repair` or `mnemon rebuild` makes them right. Whatever is damaged is named, and the rest
    is proven none the less."""
    whole = VerifyReport()
    for tenant in [tenant_id] if tenant_id else [t async for t in archive.tenants()]:
        scope = Scope.steward_of(tenant)
        _add(whole, await archive.verify(scope))
        whole.notes += await _unsettled(archive, tenant)
        async for record in archive.sessions(scope):
            if record.status is not SessionStatus.COMPLETED:
                why = record.error_reason or "its writer has not finished"
                whole.notes.append(Defect(record.key.uri, record.status.value, why))
        if replicas is not None:
            try:
                whole.notes += await _replicas(archive, replicas, tenant)
            except MnemonError as error:
                whole.notes.append(Defect(f"replicas of {tenant}", "replica_broken", f"{error}; repair makes it anew"))
    if queue is not None and tenant_id is None:
        whole.notes += [Defect(path, "queue", "no job can be read here") for path in await queue.damaged()]
    return whole


async def _replicas(archive: Archive, replicas: Replicas, tenant: str) -> list[Defect]:
    index, notes = replicas.indexer.index, []
    async for record in archive.sessions(Scope.steward_of(tenant)):
        if record.status is SessionStatus.COMPLETED:
            notes += await _unlike(archive, index, replicas.grapher, record)
    for uri in await orphans(archive, index, tenant):
        notes.append(Defect(uri, "index_orphan", "the index knows a session the archive does not"))
    for uri in await orphan_nodes(archive, index, tenant):
        notes.append(Defect(uri, "index_orphan", "the index knows a memory the archive does not"))
    for origin in await orphans_in_graph(archive, replicas.grapher.graph, tenant):
        notes.append(Defect(origin, "graph_orphan", "the graph knows a session the archive does not"))
    with suppress(Corrupt):  # a damaged log is told already
        if await is_behind(archive, index, tenant):
            notes.append(Defect(f"entries of {tenant}", "index_stale", "the index lacks the last of them"))
    async for key in stale_nodes(archive, index, tenant):
        notes.append(Defect(key.uri, "index_stale", "the index does not hold this memory as it is"))
    return notes


async def _unlike(archive: Archive, index: Index, grapher: Grapher, record: SessionRecord) -> list[Defect]:
    """What the replicas hold otherwise of one completed session. Where its files are damaged, that is told already."""
    try:
        found = await index_differences(archive, index, record)
        if await grapher.differs(record):
            found.append(Defect(record.key.uri, "graph_stale", "the graph does not tell it as it is"))
    except NotFound:  # forgotten meanwhile
        return []
    except (Corrupt, ValueError):
        return []
    return found


async def _unsettled(archive: Archive, tenant_id: str) -> list[Defect]:
    """Memories and sessions that tell a claim differently: a write that was cut off, which a job or repair finishes."""
    return [
        Defect(key.uri, "unsettled", f"{len(claims)} claims stand otherwise in their sessions; repair settles them")
        async for key, claims in unsettled(archive, tenant_id)
    ]


def _add(whole: VerifyReport, part: VerifyReport) -> None:
    for f in fields(VerifyReport):
        setattr(whole, f.name, getattr(whole, f.name) + getattr(part, f.name))
