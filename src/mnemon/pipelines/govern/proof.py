"""The proof of everything kept: the archive by itself, and the index against it."""

from __future__ import annotations

from dataclasses import fields

from mnemon.contracts.filters import Eq, every
from mnemon.contracts.ports import Archive, Index
from mnemon.contracts.reports import Defect, VerifyReport
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import SessionRecord, SessionStatus
from mnemon.logic.ids import turn_id
from mnemon.pipelines.entries.following import is_behind
from mnemon.pipelines.index.catchup import orphan_nodes, orphans, stale_nodes
from mnemon.pipelines.index.projection import CLAIM, TURN, claim_of

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
            if record.status is SessionStatus.COMPLETED:
                whole.notes += await _compare(archive, index, scope, record)
                whole.notes += await _compare_claims(archive, index, scope, record)
            else:
                why = record.error_reason or "its writer has not finished"
                whole.notes.append(Defect(record.key.uri, record.status.value, why))
        for uri in await orphans(archive, index, tenant):
            whole.notes.append(Defect(uri, "index_orphan", "the index knows a session the archive does not"))
        for uri in await orphan_nodes(archive, index, tenant):
            whole.notes.append(Defect(uri, "index_orphan", "the index knows a memory the archive does not"))
        if await is_behind(archive, index, tenant):
            whole.notes.append(Defect(f"entries of {tenant}", "index_stale", "the index lacks the last of them"))
        async for key in stale_nodes(archive, index, tenant):
            whole.notes.append(Defect(key.uri, "index_stale", "the index does not hold this memory as it is"))
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


async def _compare_claims(archive: Archive, index: Index, scope: Scope, record: SessionRecord) -> list[Defect]:
    claims = {c.claim_id: c for c in await archive.read_claims(scope, record.key)} if record.claim_ids else {}
    held = {e.id: claim_of(e) for e in await index.get(scope, list(claims))}
    missing = len(claims) - len(held)
    stale = sum(held[i] != claims[i] for i in held)
    extra = await index.count(scope, every(Eq("kind", CLAIM), Eq("uri", record.key.uri))) - len(held)
    found = [
        ("index_missing", missing, "claims are not indexed"),
        ("index_extra", extra, "indexed claims are not in the archive"),
        ("index_stale", stale, "indexed claims differ"),
    ]
    return [Defect(record.key.uri, kind, f"{count} {what}") for kind, count, what in found if count]


def _add(whole: VerifyReport, part: VerifyReport) -> None:
    for f in fields(VerifyReport):
        setattr(whole, f.name, getattr(whole, f.name) + getattr(part, f.name))
