"""What an import brought in, filed: every claim meets those about the same matter, as if all had been said here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.commits import PlanAction, WritePlan
from mnemon.contracts.nodes import Edge, Node, NodeKey, Shelf
from mnemon.contracts.ports import Archive, Timekeeper
from mnemon.contracts.reports import LoadReport
from mnemon.contracts.scope import Owner, Scope
from mnemon.logic.policies import Change, claims_in, edited_by_hand, plan
from mnemon.logic.shelves import filed_key, key_at
from mnemon.pipelines.write.refiling import node_at, refile
from mnemon.pipelines.write.settling import settle_others

# Claims that are in no node: one waits for somebody's word, the other is over.
_UNFILED = (ClaimState.PENDING, ClaimState.EXPIRED)


@dataclass(frozen=True, slots=True)
class Filer:
    archive: Archive
    clock: Timekeeper

    async def file(self, tenant_id: str, report: LoadReport) -> list[str]:
        """Bring the nodes of whoever something came in for to what all sessions here hold together. The conflicts that
        are left: two that were edited by hand, each in another way, and words that differ."""
        scope = Scope.steward_of(tenant_id)
        settled: set[str] = set()
        for met in report.nodes:
            if await self._take_over(scope, met.node):
                settled.update(met.files)
        for owner in sorted(report.owners):
            await self._file_owner(scope, owner, report)
        for met in report.nodes:
            await self._relate(scope, met.node.key, met.edges)
        return [name for name in report.conflicts if name not in settled]

    async def _take_over(self, scope: Scope, theirs: Node) -> bool:
        """What a person wrote into a node elsewhere becomes the node here, unless somebody wrote into this one too."""
        ours = await node_at(self.archive, scope, theirs.key)
        if ours is None or not edited_by_hand(theirs) or ours.content == theirs.content:
            return True
        if edited_by_hand(ours):
            return False
        await self.archive.write_node(scope, theirs, expect=ours.version, reason="edited by hand elsewhere")
        return True

    async def _file_owner(self, scope: Scope, owner: Owner, report: LoadReport) -> None:
        held: dict[NodeKey, list[Claim]] = defaultdict(list)
        async for record in self.archive.sessions(scope, owner):
            for claim in await self.archive.read_claims(scope, record.key):
                if claim.node_uri and claim.claim_id in record.claim_ids and claim.state not in _UNFILED:
                    held[filed_key(claim)].append(claim)
        here = [s.uri for s in await self.archive.list_children(scope, owner, recursive=True) if not s.is_dir]
        keys = dict.fromkeys([*held, *(key_at(scope.tenant_id, owner, uri) for uri in here)])
        for key in keys:
            await self._file_node(scope, key, held.get(key, ()), report)

    async def _relate(self, scope: Scope, key: NodeKey, edges: Sequence[Edge]) -> None:
        """What a node has to do with others there, it has here too, where they are here."""
        known = {(e.to_uri, e.relation_type) for e in await self.archive.get_edges(scope, key)}
        more = [e for e in edges if (e.to_uri, e.relation_type) not in known]
        more = [e for e in more if await self.archive.exists(scope, key_at(key.tenant_id, key.owner, e.to_uri))]
        if more and await self.archive.exists(scope, key):
            await self.archive.upsert_edges(scope, key, more)

    async def _file_node(self, scope: Scope, key: NodeKey, held: Sequence[Claim], report: LoadReport) -> None:
        ids = {c.claim_id for c in held}

        async def planned() -> WritePlan:
            node = await node_at(self.archive, scope, key)
            known = claims_in(node)
            # A node that came in rests on sessions that came with it; of those that were refused it keeps nothing.
            new = key.uri in report.new_nodes
            lost = {c.claim_id for c in known if (c.claim_id not in ids if new else c.claim_id in report.gone)}
            if not held and not lost:
                return WritePlan(PlanAction.SKIP, key.uri, node, node)
            return plan(_change(key, held, known, frozenset(lost)), node, self.clock.over_by())

        made = await refile(self.archive, scope, key, planned, "filed what an import brought in")
        now = {c.claim_id: c for c in made.claims_after}
        await settle_others(self.archive, scope, [now[c.claim_id] for c in held if now.get(c.claim_id, c) != c])


def _change(key: NodeKey, held: Sequence[Claim], known: Sequence[Claim], gone: frozenset[str]) -> Change:
    """Named as the claim learnt last names it."""
    last = max(held or known, key=lambda c: (c.recorded_at, c.valid_from, c.claim_id))
    title = key.owner.id if key.shelf is Shelf.PROFILE else last.routing_key
    return Change(key, last.principals, title, tuple(held), gone, moved=True)
