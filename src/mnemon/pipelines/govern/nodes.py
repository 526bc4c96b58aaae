"""The readable memories: list them, read one, see its earlier versions, give one another place."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any

from mnemon.contracts.errors import InvalidArgument, NotFound
from mnemon.contracts.filters import Eq, In, every
from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.nodes import Edge, Node, NodeKey, NodeSummary, Revision, Shelf
from mnemon.contracts.ports import Archive, Queue
from mnemon.contracts.scope import Owner, Scope
from mnemon.logic.policies import claims_in
from mnemon.logic.shelves import key_at, slug
from mnemon.pipelines.index.projection import CHUNK, PROFILE
from mnemon.pipelines.index.worker import LEASE
from mnemon.pipelines.jobs import node_job, node_of
from mnemon.pipelines.replicas import Replicas
from mnemon.pipelines.write.settling import settle_others


@dataclass(frozen=True, slots=True)
class NodeKeeper:
    archive: Archive
    queue: Queue
    replicas: Replicas
    worker: str

    async def listed(self, scope: Scope, owner: Owner, shelf: Shelf | None = None) -> list[NodeSummary]:
        found = await self.archive.list_children(scope, owner, shelf, recursive=True)
        return [summary for summary in found if not summary.is_dir]

    async def read(self, scope: Scope, key: NodeKey) -> Node:
        return await self.archive.read_node(scope, key)

    async def revisions(self, scope: Scope, key: NodeKey) -> list[Revision]:
        return await self.archive.revisions(scope, key)

    async def relations(self, scope: Scope, key: NodeKey, relation_type: str | None, hops: int) -> list[Edge]:
        """Both ways, the nearest first; what leads to somebody else's memory is not seen."""
        found: dict[tuple[str, str, str], Edge] = {}
        seen, front = {key}, [key]
        for _ in range(hops):
            beyond: list[NodeKey] = []
            for here in front:
                edges = await self.archive.get_edges(scope, here) + await self.archive.incoming_edges(scope, here)
                for edge in edges:
                    other = self._other_end(here, edge)
                    if other is None or relation_type not in (None, edge.relation_type):
                        continue
                    if other in seen or await self.archive.exists(scope, other):
                        found.setdefault((edge.from_uri, edge.to_uri, edge.relation_type), edge)
                        beyond += [] if other in seen else [other]
                        seen.add(other)
            front = beyond
        return list(found.values())

    def _other_end(self, here: NodeKey, edge: Edge) -> NodeKey | None:
        uri = edge.to_uri if edge.from_uri == here.uri else edge.from_uri
        try:
            other = key_at(here.tenant_id, here.owner, uri)
        except ValueError:
            return None
        return other if other.uri == uri else None

    async def relate(
        self, scope: Scope, key: NodeKey, to: NodeKey, relation_type: str, reason: str, weight: float
    ) -> Edge:
        if not await self.archive.exists(scope, to):
            raise NotFound(f"no node {to.uri} in this scope", uri=to.uri)
        await self.archive.upsert_edges(scope, key, [Edge(key.uri, to.uri, relation_type, reason, weight)])
        there = await self.archive.get_edges(scope, key)
        return next(e for e in there if (e.to_uri, e.relation_type) == (to.uri, relation_type))

    async def unrelate(self, scope: Scope, key: NodeKey, to_uri: str | None, relation_type: str | None) -> int:
        return await self.archive.remove_edges(
            scope, key, None if to_uri is None else [to_uri], None if relation_type is None else [relation_type]
        )

    async def move(self, scope: Scope, key: NodeKey, name: str) -> Node:
        """Under another name on its shelf. Intent first: a crash in between is finished by the worker."""
        to = replace(key, slug=slug(name))
        if to == key:
            raise InvalidArgument("the node has this name already", field="name")
        await self.archive.read_node(scope, key)
        job = replace(node_job(key, JobKind.MOVE), job_id=f"move-{uuid.uuid4().hex}")
        job = replace(job, payload={**job.payload, "to": to.slug})
        await self.queue.put([job], claim_by=self.worker, lease=LEASE)
        await self.carry_out(job)
        await self.queue.done(job.job_id)
        return await self.archive.read_node(scope, to)

    async def carry_out(self, job: Job) -> None:
        key = node_of(job)
        to = replace(key, slug=job.payload["to"])
        scope = Scope.steward_of(job.tenant_id)
        try:
            await self.archive.move_node(scope, key, to)
        except NotFound:
            if not await self.archive.exists(scope, to):
                raise
        node = await self.archive.read_node(scope, to)
        claims = [c.model_copy(update={"node_uri": to.uri}) for c in claims_in(node)]
        rows: list[dict[str, Any]] = [c.model_dump(mode="json", exclude_defaults=True) for c in claims]
        if rows != node.metadata.get("claims", []):
            await self.archive.write_metadata(scope, to, {**node.metadata, "claims": rows})
        await settle_others(self.archive, scope, claims)
        await self.replicas.indexer.index.delete(scope, every(In("kind", (CHUNK, PROFILE)), Eq("uri", key.uri)))
        await self.replicas.index_node(to)
        for session in dict.fromkeys(c.session for c in claims):
            await self.replicas.bring_up(session)
