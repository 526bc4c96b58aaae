"""The proof of everything kept: the archive by itself, and the index against it."""

from __future__ import annotations

from dataclasses import fields

from mnemon.contracts.filters import Eq, every
from mnemon.contracts.ports import Archive, Index
from mnemon.contracts.reports import Defect, VerifyReport
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import SessionRecord
from mnemon.logic.ids import turn_id
from mnemon.pipelines.index.catchup import orphans
from mnemon.pipelines.index.projection import TURN

_PAGE = 1_000


async def verify(archive: Archive, index: Index | None, tenant_id: str | None) -> VerifyReport:
    """All tenants, or one. With an index, its rows are compared word for word; differences there are notes: it is a
    replica, and `mnemon repair` or `mnemon rebuild` makes it right."""
    whole = VerifyReport()
    for tenant in [tenant_id] if tenant_id else [t async for t in archive.tenants()]:
        scope = Scope.steward_of(tenant)
        _add(whole, await archive.verify(scope))
        if index is None:
            continue
        async for record in archive.sessions(scope):
            whole.notes += await _compare(archive, index, scope, record)
        for uri in await orphans(archive, index, tenant):
            whole.notes.append(Defect(uri, "index_orphan", "the index knows a session the archive does not"))
    return whole


async def _compare(archive: Archive, index: Index, scope: Scope, record: SessionRecord) -> list[Defect]:
    """Page by page, so that a long session costs no more memory than a short one."""
    key = record.key
    after = here = missing = stale = 0
    while turns := await archive.read_turns(scope, key, after, _PAGE):
        after = turns[-1].seq
        words = {turn_id(key, t.turn.turn_id): t.turn.text for t in turns}
        held = {e.id: e.text for e in await index.get(scope, list(words))}
        here += len(held)
        missing += len(words) - len(held)
        stale += sum(held[i] != words[i] for i in held)
    extra = await index.count(scope, every(Eq("kind", TURN), Eq("uri", key.uri))) - here
    found = [
        ("index_missing", missing, "turns are not indexed"),
        ("index_extra", extra, "indexed turns are not in the archive"),
        ("index_stale", stale, "indexed turns have other words"),
    ]
    return [Defect(key.uri, kind, f"{count} {what}") for kind, count, what in found if count]


def _add(whole: VerifyReport, part: VerifyReport) -> None:
    for f in fields(VerifyReport):
        setattr(whole, f.name, getattr(whole, f.name) + getattr(part, f.name))
