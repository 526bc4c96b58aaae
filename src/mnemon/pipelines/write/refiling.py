"""One node brought to what a change makes of it, whoever else changes it at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mnemon.contracts.commits import PlanAction, WritePlan
from mnemon.contracts.errors import NotFound, VersionConflict
from mnemon.contracts.nodes import Node, NodeKey
from mnemon.contracts.ports import Archive
from mnemon.contracts.scope import Scope
from mnemon.logic.relations import lost

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
