"""Which sessions the index does not hold as the archive does: the work list of repair, import and rebuild."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mnemon.contracts.filters import Eq
from mnemon.contracts.ports import Archive, Index
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import SessionRecord
from mnemon.logic.ids import marker_id
from mnemon.pipelines.index.projection import MARKER


async def stale_sessions(archive: Archive, index: Index, tenant_id: str) -> AsyncIterator[SessionRecord]:
    """Sessions without a marker, or whose marker is behind or beside their page."""
    scope = Scope.steward_of(tenant_id)
    async for record in archive.sessions(scope):
        marker = next(iter(await index.get(scope, [marker_id(record.key)])), None)
        seen = (marker.fields["seq"], marker.metadata["head"]) if marker else (0, "")
        if seen != (record.turn_count, record.chain_head):
            yield record


async def orphans(archive: Archive, index: Index, tenant_id: str) -> list[str]:
    """Sessions the index knows and the archive does not."""
    scope = Scope.steward_of(tenant_id)
    known = {r.key.uri async for r in archive.sessions(scope)}
    lost: list[str] = []
    cursor: str | None = None
    while True:
        page = await index.scroll(scope, Eq("kind", MARKER), "oldest", 500, cursor)
        lost += [str(e.fields["uri"]) for e in page.entries if e.fields["uri"] not in known]
        if (cursor := page.next_cursor) is None:
            return lost
