"""The graph told anew from the archive: every session, and what others told it. It answers meanwhile."""

from __future__ import annotations

from mnemon.contracts.ports import Archive
from mnemon.contracts.scope import Scope
from mnemon.pipelines.graph.projection import Grapher, session_uri
from mnemon.pipelines.graph.replaying import replay


async def rebuild_graph(archive: Archive, grapher: Grapher, tenant_id: str) -> None:
    scope = Scope.steward_of(tenant_id)
    known: set[str] = set()
    async for record in archive.sessions(scope):
        await grapher.project(record.key, anew=True)
        known.add(record.key.uri)
    lost = [o for o in await grapher.graph.origins(scope) if (uri := session_uri(o)) is not None and uri not in known]
    await grapher.graph.drop(scope, lost)
    await replay(archive, grapher.graph, tenant_id)
