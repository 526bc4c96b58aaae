"""One node brought to what a change makes of it, whoever else changes it at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import PlanAction, WritePlan
from mnemon.contracts.errors import Corrupt, NotFound, VersionConflict
from mnemon.contracts.nodes import Node, NodeKey
from mnemon.contracts.ports import Archive
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.logic.policies import claims_in
from mnemon.logic.relations import lost
from mnemon.logic.shelves import key_at

# Each try that fails is somebody else's that succeeded; so as many may be needed as there are writers.
TRIES = 60
PAUSE_S = 0.002


async def node_at(archive: Archive, scope: Scope, key: NodeKey) -> Node | None:
    try:
        return await archive.read_node(scope, key)
    except NotFound:
        return None


async def let_go(archive: Archive, scope: Scope, key: NodeKey, made: WritePlan) -> None:
    """Relations go with the claims they rest on."""
    left = {c.claim_id for c in made.claims_after}
    if any(c.claim_id not in left for c in made.claims_before):
        for edge in lost(made, await archive.get_edges(scope, key)):
            await archive.remove_edges(scope, key, [edge.to_uri], [edge.relation_type])


async def refile(
    archive: Archive, scope: Scope, key: NodeKey, planned: Callable[[], Awaitable[WritePlan]], reason: str
) -> WritePlan:
    """`planned` looks at the node as it is and says what shall become of it; it is asked again as long as somebody
    else was faster. The plan that was carried out, or that there was nothing to do."""
    for tried in range(TRIES):
        made = await planned()
        if made.action is PlanAction.SKIP:
            return made
        expect = made.before.version if made.before else 0
        try:
            if made.after is None:
                await archive.delete_node(scope, key, expect=expect)
            else:
                await archive.write_node(scope, made.after, expect=expect, reason=reason)
                await let_go(archive, scope, key, made)
        except VersionConflict:
            await asyncio.sleep(PAUSE_S * tried)
            continue
        return made
    raise VersionConflict(f"others keep changing {key.uri}; {TRIES} tries were made", uri=key.uri)


async def unsettled(archive: Archive, tenant_id: str) -> AsyncIterator[tuple[NodeKey, list[Claim]]]:
    """Nodes with claims that stand otherwise in their sessions' files. Whoever changes a node tells the files after it,
    so where they differ, somebody was cut off and the node is right."""
    scope = Scope.steward_of(tenant_id)
    told: dict[SessionKey, dict[str, Claim]] = {}

    async def held(session: SessionKey) -> dict[str, Claim]:
        if session not in told:
            try:
                told[session] = {c.claim_id: c for c in await archive.read_claims(scope, session)}
            except (NotFound, Corrupt, ValueError):  # forgotten, or damaged and named by verify
                told[session] = {}
        return told[session]

    async for owner in archive.owners(scope):
        for summary in await archive.list_children(scope, owner, recursive=True):
            if summary.is_dir:
                continue
            key = key_at(tenant_id, owner, summary.uri)
            try:
                claims = claims_in(await node_at(archive, scope, key))
            except (Corrupt, ValueError):
                continue
            if other := [c for c in claims if (await held(c.session)).get(c.claim_id, c) != c]:
                yield key, other
