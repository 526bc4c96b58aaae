"""A commit's record carried out node by node; done again after a crash, it does only what is left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import CommitRecord, NodeChange, NodeImage, PlanAction, WritePlan, WriteResult
from mnemon.contracts.errors import MnemonError, VersionConflict
from mnemon.contracts.nodes import Edge, Node
from mnemon.contracts.ports import Archive
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.logic.policies import claims_in, same_node
from mnemon.logic.shelves import key_at
from mnemon.pipelines.write.placing import Placer, change_for, changed_by
from mnemon.pipelines.write.refiling import PAUSE_S, TRIES, node_at


@dataclass(slots=True)
class Applied:
    results: list[WriteResult] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    own: list[Claim] = field(default_factory=list)
    others: list[Claim] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    changes: list[NodeChange] = field(default_factory=list)


def change_of(plan: WritePlan) -> NodeChange:
    """A plan as it is written down."""
    return NodeChange(
        uri=plan.target_uri,
        action=plan.action,
        reason=plan.reason,
        claim_ids=plan.claim_ids,
        before=_image_before(plan.before),
        after=_image(plan.after),
        relations=tuple(
            {"to_uri": e.to_uri, "relation_type": e.relation_type, "reason": e.reason, "weight": e.weight}
            | ({"op": op.op} if op.op == "remove" else {})
            for op in plan.relation_ops
            for e in op.edges
        ),
    )


def _image_before(node: Node | None) -> NodeImage | None:
    """Nobody carries this out again: of its claims the ids are enough."""
    image = _image(node)
    if image is None:
        return None
    ids = [{"claim_id": row["claim_id"]} for row in image.metadata.get("claims", [])]
    return image.model_copy(update={"metadata": {**image.metadata, "claims": ids}})


def _image(node: Node | None) -> NodeImage | None:
    if node is None:
        return None
    return NodeImage(
        version=node.version,
        principals=node.principals,
        abstract=node.abstract,
        overview=node.overview,
        content=node.content,
        metadata=node.metadata,
    )


@dataclass(frozen=True, slots=True)
class Applier:
    archive: Archive
    placer: Placer

    async def apply(
        self, scope: Scope, session: SessionKey, record: CommitRecord, claims: Sequence[Claim], now: datetime
    ) -> Applied:
        """A node that cannot be written is named and passed over; the others are written, side by side."""
        parts = await asyncio.gather(
            *(self._one(scope, session, change, record, claims, now) for change in record.changes)
        )
        whole = Applied()
        for part in parts:
            for name in Applied.__dataclass_fields__:
                getattr(whole, name).extend(getattr(part, name))
        return whole

    async def _one(
        self,
        scope: Scope,
        session: SessionKey,
        change: NodeChange,
        record: CommitRecord,
        claims: Sequence[Claim],
        now: datetime,
    ) -> Applied:
        out = Applied()
        if not change.forgotten:
            try:
                change = await self._settled(scope, session, change, record, claims, now, out)
            except (MnemonError, OSError) as error:
                out.failures.append(f"{change.uri}: {error}")
        out.changes.append(change)
        return out

    async def _settled(
        self,
        scope: Scope,
        session: SessionKey,
        change: NodeChange,
        record: CommitRecord,
        claims: Sequence[Claim],
        now: datetime,
        out: Applied,
    ) -> NodeChange:
        """The change as it was made in the end."""
        for tried in range(TRIES):
            there = await self._read(scope, session, change)
            if not _is(there, change.before) and not _same(there, _node(session, change)):
                change, out.own, out.others = await self._planned_again(scope, session, change, record, claims, now)
            try:
                await self._make(scope, session, change, there, out)
            except VersionConflict:
                await asyncio.sleep(PAUSE_S * tried)
                continue
            return change
        raise VersionConflict(f"others keep changing it; {TRIES} tries were made")

    async def _planned_again(
        self,
        scope: Scope,
        session: SessionKey,
        change: NodeChange,
        record: CommitRecord,
        claims: Sequence[Claim],
        now: datetime,
    ) -> tuple[NodeChange, list[Claim], list[Claim]]:
        """Somebody else changed the node since it was planned: the same claims, against what is there now."""
        key = key_at(session.tenant_id, session.owner, change.uri)
        mine = [c for c in claims if c.node_uri == change.uri]
        known = claims_in(await self._read(scope, session, change))
        again = await self.placer.replan(scope, change_for(key, mine, frozenset(record.gone), known), now)
        ids = {c.claim_id for c in mine}
        own = [c for c in again.claims_after if c.claim_id in ids]
        return change_of(again).model_copy(update={"relations": change.relations}), own, changed_by([again], ids)

    async def _make(
        self, scope: Scope, session: SessionKey, change: NodeChange, there: Node | None, out: Applied
    ) -> None:
        after = _node(session, change)
        if after is None:
            # Also where it is gone already: a crash may have left edges that lead to it.
            key = key_at(session.tenant_id, session.owner, change.uri)
            await self.archive.delete_node(scope, key, expect=there.version if there else None)
            if there is not None:
                out.results.append(WriteResult(change.uri, PlanAction.DELETE, 0, False, False))
            return
        if there is None or not _same(there, after):
            expect = there.version if there else 0
            there = await self.archive.write_node(scope, after, expect=expect, reason=change.reason)
        made = change.before is None
        touched = change.action is not PlanAction.SKIP
        out.results.append(
            WriteResult(change.uri, change.action, there.version, made and touched, touched and not made)
        )
        await self._relate(scope, there, change, out)

    async def _relate(self, scope: Scope, node: Node, change: NodeChange, out: Applied) -> None:
        if not change.relations:
            return
        edges = [Edge(change.uri, **row) for row in change.relations if "op" not in row]
        for row in change.relations:
            if "op" in row:
                await self.archive.remove_edges(scope, node.key, [row["to_uri"]], [row["relation_type"]])
        there = {(e.to_uri, e.relation_type, e.reason) for e in await self.archive.get_edges(scope, node.key)}
        if any((e.to_uri, e.relation_type, e.reason) not in there for e in edges):
            await self.archive.upsert_edges(scope, node.key, edges)
        out.edges += edges

    async def _read(self, scope: Scope, session: SessionKey, change: NodeChange) -> Node | None:
        return await node_at(self.archive, scope, key_at(session.tenant_id, session.owner, change.uri))


def _node(session: SessionKey, change: NodeChange) -> Node | None:
    after = change.after
    if after is None:
        return None
    key = key_at(session.tenant_id, session.owner, change.uri)
    return Node(key, after.principals, after.abstract, after.overview, after.content, after.metadata)


def _same(there: Node | None, after: Node | None) -> bool:
    if there is None or after is None:
        return there is after
    return same_node(there, after)


def _is(there: Node | None, before: NodeImage | None) -> bool:
    if there is None or before is None:
        return there is None and before is None
    return there.version == before.version
