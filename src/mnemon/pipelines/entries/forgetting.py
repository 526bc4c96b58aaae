"""Forgetting whose entries these were: every line that speaks to somebody, and the vectors of its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from mnemon.contracts.ports import Archive, Embedder
from mnemon.contracts.scope import Scope
from mnemon.logic.entry_fields import text_of
from mnemon.pipelines.entries import changes as log
from mnemon.pipelines.entries.following import uncache

_PAGE = 500


async def forget_entries(archive: Archive, embedder: Embedder, tenant_id: str, principal: str) -> Counter[str]:
    """All that somebody is among the audience of, and how much of what that was. Index and graph are not asked."""
    found = await _uncached(archive, embedder, tenant_id, principal)
    gone = await archive.forget_log(Scope.steward_of(tenant_id), log.LOG, found.seqs, "forgotten")
    return Counter(entries=len(found.keys), log_lines=gone, cached_vectors=found.vectors)


async def entry_texts(archive: Archive, tenant_id: str, principal: str | None) -> AsyncIterator[str]:
    """What was ever written to somebody, and why; to anybody with None."""
    async for changes in _pages(archive, tenant_id, principal):
        for change in changes:
            states = (change.item.before, change.item.after) if change.item else ()
            for text in (*(text_of(state) for state in states if state), change.reason):
                yield text


async def uncache_entries(archive: Archive, embedder: Embedder, tenant_id: str) -> int:
    """The vectors of everything that was ever written in a tenant; the log itself stays."""
    return (await _uncached(archive, embedder, tenant_id, None)).vectors


@dataclass(slots=True)
class _Found:
    seqs: list[int] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    vectors: int = 0


async def _uncached(archive: Archive, embedder: Embedder, tenant_id: str, principal: str | None) -> _Found:
    """The vectors first: once the lines are gone, nothing would tell what was embedded."""
    found = _Found()
    async for theirs in _pages(archive, tenant_id, principal):
        found.vectors += await uncache(embedder, theirs)
        found.seqs += [change.seq for change in theirs]
        found.keys |= {change.item.key for change in theirs if change.item and change.item.after}
    return found


async def _pages(archive: Archive, tenant_id: str, principal: str | None) -> AsyncIterator[list[log.Change]]:
    last, seq = -1, 0
    while last != seq:
        last = seq
        changes, seq = await log.read(archive, tenant_id, seq, _PAGE)
        yield [change for change in changes if principal is None or principal in change.audience]
