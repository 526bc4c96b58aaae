"""What the index does not hold as the archive does: the work list of repair, import and rebuild."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mnemon.contracts.filters import Eq, Where, every
from mnemon.contracts.nodes import NodeKey
from mnemon.contracts.ports import Archive, Graph, Index
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import SessionRecord, SessionStatus
from mnemon.logic.chunking import chunk_id
from mnemon.logic.ids import marker_id
from mnemon.logic.shelves import key_at
from mnemon.pipelines.graph.projection import Grapher, session_uri
from mnemon.pipelines.index.projection import CHUNK, MARKER, Marker


async def stale_sessions(archive: Archive, index: Index, tenant_id: str) -> AsyncIterator[SessionRecord]:
    """Completed sessions without a marker, or whose marker is behind or beside their page."""
    scope = Scope.steward_of(tenant_id)
    async for record in archive.sessions(scope):
        if record.status is not SessionStatus.COMPLETED:
            continue
        held = [Marker.of(entry) for entry in await index.get(scope, [marker_id(record.key)])]
        if held != [Marker.at(record, record.turn_count, record.chain_head)]:
            yield record


async def stale_in_graph(archive: Archive, grapher: Grapher, tenant_id: str) -> AsyncIterator[SessionRecord]:
    """Completed sessions the graph lacks, or holds in another version."""
    async for record in archive.sessions(Scope.steward_of(tenant_id)):
        if record.status is SessionStatus.COMPLETED and await grapher.is_behind(record):
            yield record


async def stale_nodes(archive: Archive, index: Index, tenant_id: str) -> AsyncIterator[NodeKey]:
    """Nodes the index lacks, or holds in another version."""
    scope = Scope.steward_of(tenant_id)
    async for owner in archive.owners(scope):
        for summary in await archive.list_children(scope, owner, recursive=True):
            if summary.is_dir:
                continue
            key = key_at(tenant_id, owner, summary.uri)
            stat = await archive.stat_node(scope, key)
            held = await index.get(scope, [chunk_id(key.uri, 0, 0)])
            if stat.exists and stat.version != (held[0].metadata.get("version") if held else 0):
                yield key


async def orphan_nodes(archive: Archive, index: Index, tenant_id: str) -> list[str]:
    """Nodes the index knows and the archive does not."""
    scope = Scope.steward_of(tenant_id)
    known: set[str] = set()
    async for owner in archive.owners(scope):
        known |= {s.uri for s in await archive.list_children(scope, owner, recursive=True) if not s.is_dir}
    return await _unknown(index, scope, every(Eq("kind", CHUNK), Eq("level", 0)), known)


async def orphans_in_graph(archive: Archive, graph: Graph, tenant_id: str) -> list[str]:
    """What the graph was told by sessions the archive does not know."""
    scope = Scope.steward_of(tenant_id)
    known = {r.key.uri async for r in archive.sessions(scope)}
    told = {origin: session_uri(origin) for origin in await graph.origins(scope)}
    return [origin for origin, uri in told.items() if uri is not None and uri not in known]


async def orphans(archive: Archive, index: Index, tenant_id: str) -> list[str]:
    """Sessions the index knows and the archive does not."""
    scope = Scope.steward_of(tenant_id)
    known = {r.key.uri async for r in archive.sessions(scope)}
    return await _unknown(index, scope, Eq("kind", MARKER), known)


async def _unknown(index: Index, scope: Scope, where: Where, known: set[str]) -> list[str]:
    lost: list[str] = []
    cursor: str | None = None
    while True:
        page = await index.scroll(scope, where, "oldest", 500, cursor)
        lost += [str(e.fields["uri"]) for e in page.entries if e.fields["uri"] not in known]
        if (cursor := page.next_cursor) is None:
            return lost
