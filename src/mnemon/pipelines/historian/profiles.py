"""People's and groups' profiles: read, searched, compared, and taken back to what they were."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mnemon.contracts.chats import EntityType, Profile, ProfileDiff, ProfileHit, ProfileVersion
from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import PlanAction, WritePlan
from mnemon.contracts.entries import Entry
from mnemon.contracts.errors import NotFound
from mnemon.contracts.filters import Eq, In, Where, every
from mnemon.contracts.nodes import Node, NodeKey, Shelf
from mnemon.contracts.ports import Archive, Clock, Embedder, Index
from mnemon.contracts.scope import Owner, OwnerKind, Scope
from mnemon.logic.policies import Change, claims_in, plan, same_node
from mnemon.logic.portraits import composed, difference, tags_in, without_over
from mnemon.logic.profiles import OWN, entity_of, slug_of
from mnemon.logic.retrieval.ranking_data import ranking_data
from mnemon.logic.retrieval.understanding import understand
from mnemon.logic.retrieval.worth import fits
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.index.projection import PROFILE, group_tag, user_tag
from mnemon.pipelines.replicas import Replicas
from mnemon.pipelines.retrieval.desk import Desk
from mnemon.pipelines.write.refiling import node_at, refile

_TAGS = {"user": user_tag, "group": group_tag}
# A person may be known in several places; so more is looked at than is shown.
_POOL_EACH = 4
# Says in a node's metadata which version it was made equal to, for whoever finishes a rollback that was cut off.
ROLLED_BACK_TO = "rolled_back_to"


@dataclass(frozen=True, slots=True)
class ProfileKeeper:
    archive: Archive
    index: Index
    embedder: Embedder
    keeper: ClaimKeeper
    replicas: Replicas
    clock: Clock

    # --- reading

    async def get(self, scope: Scope, entity_type: EntityType, entity_id: str) -> Profile:
        now = self.clock.now()
        nodes = [without_over(node, now) for node in await self._nodes(scope, entity_type, entity_id)]
        shown = [node for node in nodes if node is not None]
        if not shown:
            raise _unknown(entity_type, entity_id)
        return composed(entity_type, entity_id, shown)

    async def search(
        self, scope: Scope, query: str, entity_type: EntityType | None, entity_id: str | None, top_k: int
    ) -> tuple[ProfileHit, ...]:
        """By words and by meaning, each entity once: one embedding, two scans of the profiles the scope sees."""
        desk = Desk(self.index, self.embedder, scope, self.clock.now())
        where = every(Eq("kind", PROFILE), _about(entity_type, entity_id))
        asked = understand(query, desk.now, ranking_data().forms)
        words = await desk.holding("word_search", asked.words, where, _POOL_EACH * top_k)
        meaning = await desk.near("meaning_search", await desk.embedded(query), where, _POOL_EACH * top_k)
        entries = {hit.entry.id: hit.entry for hit in (*words, *meaning)}
        if desk.failures and not entries:
            raise desk.failures[0]
        fit = fits({h.entry.id: float(h.score) for h in meaning}, {h.entry.id: float(h.score) for h in words})
        best: dict[str, ProfileHit] = {}
        for entry in sorted(entries.values(), key=lambda e: (-fit[e.id], e.id)):
            best.setdefault(str(entry.metadata["id"]), _hit(entry, fit[entry.id]))
        return tuple(best.values())[:top_k]

    async def history(self, scope: Scope, entity_type: EntityType, entity_id: str) -> tuple[ProfileVersion, ...]:
        """Newest first. Of several nodes the one that changed last is meant."""
        node = await self._meant(scope, entity_type, entity_id)
        saved = node.updated_at.isoformat() if node.updated_at else ""
        newest = ProfileVersion(node.key.uri, node.version, saved, "", node.content, current=True)
        return newest, *(
            ProfileVersion(node.key.uri, r.node.version, r.saved_at.isoformat(), r.reason, r.node.content)
            for r in await self.archive.revisions(scope, node.key)
        )

    async def diff(
        self, scope: Scope, entity_type: EntityType, entity_id: str, from_version: int, to_version: int | None
    ) -> ProfileDiff:
        node = await self._meant(scope, entity_type, entity_id)
        after = node if to_version is None else await self._version(scope, node, to_version)
        return difference(await self._version(scope, node, from_version), after)

    async def _nodes(self, scope: Scope, entity_type: EntityType, entity_id: str) -> list[Node]:
        found = []
        for key in await self._keys(scope, entity_type, entity_id):
            node = await node_at(self.archive, scope, key)
            claims = claims_in(node)
            if node is not None and (not claims or entity_of(key, claims) == (entity_type, entity_id)):
                found.append(node)
        return found

    async def _keys(self, scope: Scope, entity_type: EntityType, entity_id: str) -> list[NodeKey]:
        """A person's own folder, and what each group of the scope knows of him; or a group's own."""
        if entity_type == "group":
            return await self._keys_in(scope, Owner.group(entity_id), OWN)
        keys = await self._keys_in(scope, Owner.user(entity_id), "")
        for principal in sorted(p for p in scope.principals if p.startswith("g:")):
            keys += await self._keys_in(scope, Owner.group(principal[2:]), slug_of(user_tag(entity_id)))
        return keys

    async def _keys_in(self, scope: Scope, owner: Owner, slug: str) -> list[NodeKey]:
        """Nodes for further audiences carry a suffix. A group that is asked for itself alone has none to show; so its
        folder, with a node for every member, is not listed."""
        if owner.kind is OwnerKind.GROUPS and scope.principals <= {owner.principal}:
            return [NodeKey(scope.tenant_id, owner, Shelf.PROFILE, slug)]
        found = await self.archive.list_children(scope, owner, Shelf.PROFILE)
        names = [s.name for s in found if not slug or s.name == slug or s.name.startswith(f"{slug}--")]
        return [NodeKey(scope.tenant_id, owner, Shelf.PROFILE, name) for name in names]

    async def _meant(self, scope: Scope, entity_type: EntityType, entity_id: str) -> Node:
        nodes = await self._nodes(scope, entity_type, entity_id)
        if not nodes:
            raise _unknown(entity_type, entity_id)
        return max(nodes, key=lambda n: (n.updated_at.timestamp() if n.updated_at else 0.0, n.key.uri))

    async def _version(self, scope: Scope, node: Node, version: int) -> Node:
        if version == node.version:
            return node
        earlier = [r.node for r in await self.archive.revisions(scope, node.key)]
        for found in earlier:
            if found.version == version:
                return found
        there = ", ".join(str(n.version) for n in (node, *earlier))
        raise NotFound(f"{node.key.uri} has no version {version}; there are {there}", version=version)

    # --- taking back

    async def rollback(self, scope: Scope, entity_type: EntityType, entity_id: str, version: int) -> Profile:
        """A new version equal to an earlier one. What was learnt since leaves its sessions and the index, and what was
        known then is known again, as it stood then; what is over by now stays over.

        The sessions come first: until the node is written it holds what has to go and its copy what has to come, so a
        call that was cut off is finished by making it again. Who learns something meanwhile finds it kept."""
        seen = await self._meant(scope, entity_type, entity_id)
        wanted = await self._as_it_was(scope, seen, version)
        known, then = ({c.claim_id: c for c in claims_in(node)} for node in (seen, wanted))
        gone = [claim for id, claim in known.items() if id not in then]
        back = [claim for id, claim in then.items() if known.get(id) != claim]
        await self._settle(scope, back, gone)
        await self._note(scope, gone, [claim for claim in back if claim.claim_id not in known])
        key, ids = seen.key, frozenset(c.claim_id for c in gone)

        async def planned() -> WritePlan:
            there = await node_at(self.archive, scope, key)
            if there is not None and there.version == seen.version:
                action = PlanAction.SKIP if same_node(wanted, there) else PlanAction.MERGE
                return WritePlan(action, key.uri, wanted, there)
            change = Change(key, wanted.principals, wanted.metadata.get("title", ""), tuple(then.values()), ids)
            return plan(change, there, self.clock.now())

        made = await refile(self.archive, scope, key, planned, f"rolled back to version {version}")
        if made.before is None or made.before.version != seen.version:
            await self._agree(scope, key, {**known, **then})
        await self.replicas.index_node(key)
        return await self.get(scope, entity_type, entity_id)

    async def _agree(self, scope: Scope, key: NodeKey, touched: Mapping[str, Claim]) -> None:
        """Where others change the node too: the sessions hold what it says once nobody does any more."""
        node = await node_at(self.archive, scope, key)
        while True:
            held = {c.claim_id: c for c in claims_in(node)} if node else {}
            await self._settle(scope, list(held.values()), [c for id, c in touched.items() if id not in held])
            after = await node_at(self.archive, scope, key)
            if (after.version if after else 0) == (node.version if node else 0):
                return
            node = after

    async def _as_it_was(self, scope: Scope, node: Node, version: int) -> Node:
        try:
            earlier = await self._version(scope, node, version)
        except NotFound:
            if node.metadata.get(ROLLED_BACK_TO) == version:
                return node  # done; the copy was the oldest one, and went when this version was written
            raise
        if earlier.version == node.version:
            return node
        found = without_over(earlier, self.clock.now())
        if found is None:
            raise NotFound(f"of version {version} of {node.key.uri} nothing holds any more", version=version)
        return replace(found, metadata={**found.metadata, ROLLED_BACK_TO: version})

    async def _settle(self, scope: Scope, claims: Sequence[Claim], gone: Collection[Claim]) -> None:
        for session in dict.fromkeys(c.session for c in (*claims, *gone)):
            here = [c for c in claims if c.session == session]
            await self.keeper.settle(scope, session, here, {c.claim_id for c in gone if c.session == session})

    async def _note(self, scope: Scope, gone: Sequence[Claim], back: Sequence[Claim]) -> None:
        for verb, claims in (("rollback", gone), ("restore", back)):
            if claims:
                await self.keeper.note(scope, verb, [c.claim_id for c in claims])


def _unknown(entity_type: str, entity_id: str) -> NotFound:
    return NotFound(f"nothing is known of {entity_type} {entity_id!r} here", entity_type=entity_type)


def _about(entity_type: EntityType | None, entity_id: str | None) -> Where:
    types = tuple(_TAGS) if entity_type is None else (entity_type,)
    return In("tags", types if entity_id is None else tuple(_TAGS[name](entity_id) for name in types))


def _hit(entry: Entry, score: float) -> ProfileHit:
    told = entry.metadata
    return ProfileHit(
        id=str(told["id"]),
        entity_type="group" if told["entity_type"] == "group" else "user",
        entity_id=str(told["entity_id"]),
        score=round(score, 6),
        text=entry.text,
        updated_at=str(told.get("updated_at") or ""),
        tags=tags_in(told),
        uri=str(entry.fields["uri"]),
    )
