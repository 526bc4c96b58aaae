"""The graph told anew from the archive: every session, and what others told it. It answers meanwhile."""

from __future__ import annotations

from contextlib import suppress

from mnemon.contracts.errors import Corrupt
from mnemon.contracts.ports import Archive
from mnemon.contracts.scope import Scope
from mnemon.pipelines.graph.projection import Grapher
from mnemon.pipelines.graph.replaying import replay
from mnemon.pipelines.index.catchup import orphans_in_graph


async def rebuild_graph(archive: Archive, grapher: Grapher, tenant_id: str) -> None:
    scope = Scope.steward_of(tenant_id)
    async for record in archive.sessions(scope):
        with suppress(Corrupt, ValueError):  # damaged beyond mending: verify names it, and the others are told
            await grapher.project(record.key, anew=True)
    await grapher.graph.drop(scope, await orphans_in_graph(archive, grapher.graph, tenant_id))
    await replay(archive, grapher.graph, tenant_id)
