"""What the replicas do not hold as the archive does, by what they hold and not by what they are marked with: the work
list of verify, repair, import and rebuild."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mnemon.contracts.errors import Corrupt, NotFound
from mnemon.contracts.filters import Eq, Where, every
from mnemon.contracts.nodes import NodeKey
from mnemon.contracts.ports import Archive, Graph, Index
from mnemon.contracts.reports import Defect
from mnemon.contracts.scope import Owner, Scope
from mnemon.contracts.sessions import SessionRecord, SessionStatus
from mnemon.logic.chunking import chunk_for_node
from mnemon.logic.ids import marker_id, turn_id
from mnemon.logic.shelves import key_at
from mnemon.pipelines.graph.projection import Grapher, session_uri
from mnemon.pipelines.index.projection import CHUNK, CLAIM, MARKER, TURN, Marker, claim_of

_PAGE = 1_000
_NEWEST = 8


async def index_differences(archive: Archive, index: Index, record: SessionRecord) -> list[Defect]:
    """A completed session's words and claims, row by row. Page by page, so that a long session costs no more memory
    than a short one."""
    key, scope = record.key, Scope.steward_of(record.tenant_id)
    after = here = missing = stale = 0
    while turns := await archive.read_turns(scope, key, after, _PAGE):
        after = turns[-1].seq
        words = {turn_id(key, t.turn.turn_id): t.turn.text for t in turns}
        held = {e.id: e.text for e in await index.get(scope, list(words))}
        here += len(held)
        missing += len(words) - len(held)
        stale += sum(held[i] != words[i] for i in held)
    extra = await index.count(scope, every(Eq("kind", TURN), Eq("uri", key.uri))) - here
    claims = {c.claim_id: c for c in await archive.read_claims(scope, key)} if record.claim_ids else {}
    known = {e.id: claim_of(e) for e in await index.get(scope, list(claims))}
    more = await index.count(scope, every(Eq("kind", CLAIM), Eq("uri", key.uri))) - len(known)
    found = [
        ("index_missing", missing, "turns are not indexed"),
        ("index_extra", extra, "indexed turns are not in the archive"),
        ("index_stale", stale, "indexed turns have other words"),
        ("index_missing", len(claims) - len(known), "claims are not indexed"),
        ("index_extra", more, "indexed claims are not in the archive"),
        ("index_stale", sum(known[i] != claims[i] for i in known), "indexed claims differ"),
    ]
    return [Defect(key.uri, kind, f"{count} {what}") for kind, count, what in found if count]


async def lagging(archive: Archive, index: Index, scope: Scope) -> str:
    """Is the index behind with what this scope asks about? By the sessions whose pages were turned last: an index that
    is missing, or older than the archive, has not got them. What it lacks in words; "" where it lacks nothing."""
    steward, late = Scope.steward_of(scope.tenant_id), 0
    # Those who ask are few, and those who own something many.
    asking = [owner for principal in sorted(scope.principals) if (owner := Owner.of(principal)) is not None]
    for owner in [o async for o in archive.owners(scope)] if scope.steward else asking:
        records = [r async for r in archive.sessions(steward, owner, _NEWEST) if r.status is SessionStatus.COMPLETED]
        held = await index.get(steward, [marker_id(r.key) for r in records])
        versions = {entry.id: Marker.of(entry).version for entry in held}
        late += sum(versions.get(marker_id(r.key)) != r.version for r in records)
    return f"the index does not hold {late} of the newest sessions as they are" if late else ""


async def stale_sessions(archive: Archive, index: Index, tenant_id: str) -> AsyncIterator[SessionRecord]:
    """Completed sessions without a marker, or whose marker is behind or beside their page; others whose words are not
    all there."""
    scope = Scope.steward_of(tenant_id)
    async for record in archive.sessions(scope):
        if record.status is not SessionStatus.COMPLETED:
            found = await index.get(scope, [marker_id(record.key)])
            held = Marker.of(found[0]) if found else Marker()
            if max(held.seq, held.words) < record.turn_count:
                yield record
        elif not await is_marked(index, record):
            yield record


async def is_marked(index: Index, record: SessionRecord) -> bool:
    """Is a session marked as indexed in the very version its page has?"""
    held = await index.get(Scope.steward_of(record.tenant_id), [marker_id(record.key)])
    return [Marker.of(entry) for entry in held] == [Marker.at(record, record.turn_count, record.chain_head)]


async def stale_in_graph(archive: Archive, grapher: Grapher, tenant_id: str) -> AsyncIterator[SessionRecord]:
    """Completed sessions the graph lacks, or holds in another version."""
    async for record in archive.sessions(Scope.steward_of(tenant_id)):
        if record.status is SessionStatus.COMPLETED and await grapher.is_behind(record):
            yield record


async def stale_nodes(archive: Archive, index: Index, tenant_id: str) -> AsyncIterator[NodeKey]:
    """Nodes the index lacks, or holds in another version or in other words."""
    scope = Scope.steward_of(tenant_id)
    async for owner in archive.owners(scope):
        for summary in await archive.list_children(scope, owner, recursive=True):
            if summary.is_dir:
                continue
            key = key_at(tenant_id, owner, summary.uri)
            try:
                node = await archive.read_node(scope, key)
            except (Corrupt, NotFound):  # damaged, and verify names it; or gone meanwhile
                continue
            words = {chunk.chunk_id: chunk.text_content for chunk in chunk_for_node(node)}
            held = await index.get(scope, list(words))
            if {e.id: e.text for e in held} != words or any(e.metadata.get("version") != node.version for e in held):
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
