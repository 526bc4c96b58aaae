"""A replica made anew from the archive, beside the old one, and swapped in when it is whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from mnemon.contracts.errors import Corrupt
from mnemon.contracts.ports import Archive, Embedder, Graph, Index
from mnemon.contracts.results import RebuildResult
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.pipelines.entries.following import Follower
from mnemon.pipelines.index.catchup import stale_nodes, stale_sessions
from mnemon.pipelines.index.indexing import Indexer

# (sessions done, sessions in all, turns indexed so far)
Progress = Callable[[int, int, int], None]


async def rebuild(
    archive: Archive,
    index: Index,
    embedder: Embedder,
    graph: Graph,
    progress: Progress | None = None,
    restart: bool = False,
) -> RebuildResult:
    """Resumable: sessions an interrupted rebuild has finished are not done again. The old index answers meanwhile."""
    begun = time.monotonic()
    fresh = await index.begin_rebuild(embedder.model, embedder.dimension, restart)
    try:
        indexer = Indexer(archive, fresh, embedder)
        tenants = [t async for t in archive.tenants()]
        total = 0
        for tenant in tenants:
            async for _ in archive.sessions(Scope.steward_of(tenant)):
                total += 1
        todo = [record.key for tenant in tenants async for record in stale_sessions(archive, fresh, tenant)]
        resumed = total - len(todo)
        entries = 0
        for done, key in enumerate(todo, 1):
            entries += await _indexed(indexer, key)
            if progress:
                progress(resumed + done, total, entries)
        # Sessions written meanwhile went to the old index only.
        for tenant in [t async for t in archive.tenants()]:
            async for record in stale_sessions(archive, fresh, tenant):
                entries += await _indexed(indexer, record.key)
            async for node in stale_nodes(archive, fresh, tenant):
                await indexer.index_node(node)
            with suppress(Corrupt):  # a damaged log: what is in front of the damage is there, and verify names the rest
                await Follower(archive, fresh, embedder, graph).catch_up(tenant)
        await fresh.finish_rebuild()
    finally:
        await fresh.close()
    return RebuildResult(embedder.model, total, entries, resumed, time.monotonic() - begun)


async def _indexed(indexer: Indexer, key: SessionKey) -> int:
    """One that is damaged beyond mending keeps nobody else from being indexed; verify names it."""
    try:
        return await indexer.index_session(key)
    except (Corrupt, ValueError):
        return 0
