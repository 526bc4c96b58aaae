"""Claims that hold otherwise since a node was written, told to the sessions they come from."""

from __future__ import annotations

from collections.abc import Sequence

from mnemon.contracts.claims import Claim
from mnemon.contracts.errors import NotFound, VersionConflict
from mnemon.contracts.ports import Archive
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.logic.shelves import filed_key


async def settle_others(archive: Archive, scope: Scope, claims: Sequence[Claim]) -> list[Claim]:
    """Claims that hold otherwise since their nodes were written: their own files say so too.

    Whoever changes a node tells the files after it; so each is compared with its node once more, because somebody
    who changed the node after us may have told its file before us."""
    told = {c.claim_id: c for c in claims}
    left = list(claims)
    while left:
        await _tell(archive, scope, left)
        now = await as_filed(archive, scope, left)
        left = [now[c.claim_id] for c in left if now.get(c.claim_id, c) != c]
        told |= {c.claim_id: c for c in left}
    return list(told.values())


async def _tell(archive: Archive, scope: Scope, claims: Sequence[Claim]) -> None:
    by_session: dict[SessionKey, list[Claim]] = {}
    for claim in claims:
        by_session.setdefault(claim.session, []).append(claim)
    for key, of_session in by_session.items():
        try:
            there = {c.claim_id: c for c in await archive.read_claims(scope, key)}
            changed = [c for c in of_session if c.claim_id in there and there[c.claim_id] != c]
            if changed:
                await archive.put_claims(scope, key, changed)
                await touch(archive, scope, key)
        except NotFound:  # forgotten meanwhile
            continue


async def as_filed(archive: Archive, scope: Scope, claims: Sequence[Claim]) -> dict[str, Claim]:
    """The same claims as their nodes hold them now."""
    found: dict[str, Claim] = {}
    ids = {c.claim_id for c in claims}
    for key in dict.fromkeys(filed_key(c) for c in claims if c.node_uri):
        try:
            node = await archive.read_node(scope, key)
        except NotFound:
            continue
        rows = node.metadata.get("claims", [])
        found |= {row["claim_id"]: Claim.model_validate(row) for row in rows if row["claim_id"] in ids}
    return found


async def touch(archive: Archive, scope: Scope, key: SessionKey) -> SessionRecord | None:
    """A new version of a session's page: whoever keeps a replica of the session sees that it is behind."""
    while True:
        record = await archive.read_session(scope, key)
        if record is None:
            return None
        try:
            return await archive.write_session(scope, record, record.version)
        except VersionConflict:
            continue
