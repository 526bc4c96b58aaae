"""Claims to their nodes: where each belongs, what is like it already, and the plan for every node they touch."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.commits import CommitOptions, DedupConfig, PlanAction, RelationOp, WritePlan
from mnemon.contracts.errors import MnemonError, ModelFailed
from mnemon.contracts.nodes import Edge, Node, NodeKey, Shelf
from mnemon.contracts.ports import Archive, Likeness
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Scope
from mnemon.logic import relations
from mnemon.logic.policies import Change, current_ids, plan, rendered
from mnemon.logic.shelves import SHELVES, filed_key, key_at, node_key
from mnemon.pipelines.ask import Asker, Rules
from mnemon.pipelines.tasks import DEDUP, MERGE, DedupInput, MergeInput
from mnemon.pipelines.write.refiling import node_at


@dataclass(slots=True)
class Placed:
    """`claims` are those given, each with its node and its interval; `others` are claims of other sessions that hold
    differently now."""

    claims: list[Claim] = field(default_factory=list)
    others: list[Claim] = field(default_factory=list)
    plans: list[WritePlan] = field(default_factory=list)
    skipped: int = 0
    degraded: list[Degraded] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Placer:
    archive: Archive
    likeness: Likeness
    dedup: DedupConfig

    async def place(
        self,
        asker: Asker,
        scope: Scope,
        claims: Sequence[Claim],
        gone: Sequence[Claim],
        options: CommitOptions,
        now: datetime,
        same_steps: Mapping[str, Sequence[Claim]] | None = None,
    ) -> Placed:
        out = Placed()
        filed = [c for c in claims if c.state is not ClaimState.PENDING]
        keys = await self._targets(asker, scope, filed, options, out)
        changes = _changes(filed, keys, gone)
        plans = await asyncio.gather(*(self.plan(asker, scope, change, now, out) for change in changes))
        if not options.skip_relations:
            plans = await self._related(scope, plans, same_steps or {})
        out.plans = list(plans)
        after = {c.claim_id: c for p in plans for c in p.claims_after}
        out.claims = [_filed(after.get(c.claim_id, c), keys.get(c.claim_id)) for c in claims]
        out.others = changed_by(plans, {c.claim_id for c in claims})
        return out

    async def replan(self, scope: Scope, change: Change, now: datetime) -> WritePlan:
        """Somebody else was there first: the same change, against what is there now."""
        return plan(change, await self.read(scope, change.key), now)

    # --- is it there already?

    async def _targets(
        self, asker: Asker, scope: Scope, claims: Sequence[Claim], options: CommitOptions, out: Placed
    ) -> dict[str, NodeKey]:
        keys = {c.claim_id: node_key(c) for c in claims}
        if options.skip_dedup:
            return keys
        known = {key: await self.archive.exists(scope, key) for key in set(keys.values())}
        new = [c for c in claims if SHELVES[c.shelf].policy == "aggregate_topic" and not known[keys[c.claim_id]]]
        if not new:
            return keys
        try:
            for claim, uri in zip(new, await self.likeness.nearest(scope, new), strict=True):
                if uri is not None:
                    keys[claim.claim_id] = await self._decided(asker, scope, claim, keys[claim.claim_id], uri, out)
        except MnemonError as error:
            out.degraded.append(Degraded("dedup", f"{error}; what might be there already was filed as new"))
        return keys

    async def _decided(self, asker: Asker, scope: Scope, claim: Claim, own: NodeKey, uri: str, out: Placed) -> NodeKey:
        key = key_at(own.tenant_id, own.owner, uri)
        existing = await self.read(scope, key)
        if existing is None:
            return own
        if self.dedup.enable_llm_decision:
            answer = await asker.ask(DEDUP, DedupInput(claim, existing), scope)
            if answer.output is None or answer.output.decision == "create":
                return own
            # Said before: nothing new to tell, but one more proof of it.
            out.skipped += answer.output.decision == "skip"
        return key

    # --- plans

    async def plan(self, asker: Asker, scope: Scope, change: Change, now: datetime, out: Placed) -> WritePlan:
        """What shall become of one node, in a model's words where there is one."""
        existing = await self.read(scope, change.key)
        made = plan(change, existing, now)
        if made.action is not PlanAction.MERGE or existing is None or made.after is None or asker.by_rules:
            return made
        return await self._worded(asker, scope, change, existing, made, now, out)

    async def _worded(
        self, asker: Asker, scope: Scope, change: Change, existing: Node, made: WritePlan, now: datetime, out: Placed
    ) -> WritePlan:
        """A model may tell what holds in its own words, as far as the gates let it; else our rendering stands."""
        assert made.after is not None
        claims = made.claims_after
        holding = tuple(c for c in claims if c.holds(now))
        # Counts are added up; there is nothing in them to be put into other words.
        fresh = tuple(c for c in change.incoming if c.holds(now) and not (c.tool and c.provider == Rules().provider))
        if not holding or not fresh:
            return made
        given = MergeInput(existing, change.title, holding, fresh, now)
        try:
            answer = await asker.ask(MERGE, given, scope)
        except ModelFailed as error:
            out.degraded.append(Degraded("merge", f"{change.key.uri}: {error}; rendered without the model"))
            return made
        if answer.output is None or answer.violations:
            why = "; ".join(str(v) for v in answer.violations[:2]) or "no usable answer"
            out.degraded.append(Degraded("merge", f"{change.key.uri}: {why}; rendered without the model"))
            return made
        merged = {**answer.output.model_dump(exclude={"reason"}), "claim_ids": current_ids(claims, now)}
        after = rendered(change.key, change.principals, change.title, claims, now, existing, merged)
        return replace(made, after=after, reason=f"{made.reason}; {answer.output.reason}".rstrip("; "))

    async def read(self, scope: Scope, key: NodeKey) -> Node | None:
        return await node_at(self.archive, scope, key)

    # --- relations

    async def _related(
        self, scope: Scope, plans: Sequence[WritePlan], same_steps: Mapping[str, Sequence[Claim]]
    ) -> list[WritePlan]:
        """What follows from the claims that come and go; see `logic.relations` for when there is which."""
        edges = relations.among(plans, same_steps)
        for p in plans:
            if p.after is not None:
                edges[p.target_uri] += await self._named(scope, p, edges)
        for uri, more in relations.together(plans, edges).items():
            edges[uri] += more
        return [replace(p, relation_ops=_ops(edges.get(p.target_uri, ()), await self._lost(scope, p))) for p in plans]

    async def _lost(self, scope: Scope, p: WritePlan) -> list[Edge]:
        left = {c.claim_id for c in p.claims_after}
        if p.after is None or all(c.claim_id in left for c in p.claims_before):
            return []
        return relations.lost(p, await self.archive.get_edges(scope, p.after.key))

    async def _named(self, scope: Scope, p: WritePlan, made: Collection[str]) -> list[Edge]:
        found: dict[str, Edge] = {}
        for claim in p.claims_after:
            for key, edge in relations.named(claim, p.target_uri) if claim.claim_id in p.claim_ids else ():
                if key.uri in made or await self.archive.exists(scope, key):
                    found[key.uri] = edge
        return list(found.values())


def _ops(made: Sequence[Edge], lost: Sequence[Edge]) -> tuple[RelationOp, ...]:
    again = {(e.to_uri, e.relation_type) for e in made}
    gone = tuple(e for e in lost if (e.to_uri, e.relation_type) not in again)
    ops = (RelationOp("upsert", tuple(made)), RelationOp("remove", gone))
    return tuple(op for op in ops if op.edges)


def _changes(claims: Sequence[Claim], keys: Mapping[str, NodeKey], gone: Sequence[Claim]) -> list[Change]:
    incoming: dict[NodeKey, list[Claim]] = defaultdict(list)
    leaving: dict[NodeKey, list[Claim]] = defaultdict(list)
    for claim in claims:
        key = keys[claim.claim_id]
        incoming[key].append(_filed(claim, key))
    for claim in gone:
        if claim.node_uri:
            leaving[filed_key(claim)].append(claim)
    return [
        change_for(key, incoming[key], frozenset(c.claim_id for c in leaving[key]), leaving[key])
        for key in dict.fromkeys([*incoming, *leaving])
    ]


def change_for(key: NodeKey, incoming: Sequence[Claim], gone: frozenset[str], known: Sequence[Claim] = ()) -> Change:
    first = next(iter([*incoming, *known]))
    title = key.owner.id if key.shelf is Shelf.PROFILE else first.routing_key
    return Change(key, first.principals, title, tuple(incoming), gone)


def _filed(claim: Claim, key: NodeKey | None) -> Claim:
    return claim if key is None or claim.node_uri == key.uri else claim.model_copy(update={"node_uri": key.uri})


def changed_by(plans: Sequence[WritePlan], own: set[str]) -> list[Claim]:
    """Claims that stood in the nodes before and hold otherwise now."""
    found = []
    for p in plans:
        before = {c.claim_id: c for c in p.claims_before}
        found += [c for c in p.claims_after if c.claim_id not in own and before.get(c.claim_id) != c]
    return found
