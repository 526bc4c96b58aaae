"""What the replicas remember of a session whose files are damaged, for whoever puts it together again."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import cast

from mnemon.contracts.claims import Claim
from mnemon.contracts.entries import Entry
from mnemon.contracts.errors import MnemonError
from mnemon.contracts.filters import Eq, every
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import KeptRule, SessionStatus, StoredTurn, Witness
from mnemon.contracts.turns import Attachment, Role, Turn
from mnemon.logic.ids import marker_id
from mnemon.pipelines.graph.projection import origins_of
from mnemon.pipelines.index.projection import CLAIM, TURN, Marker, claim_of
from mnemon.pipelines.replicas import Replicas

_PAGE = 1_000


async def witness(replicas: Replicas, key: SessionKey) -> Witness:
    """As much as they answer: one that is broken itself remembers nothing."""
    scope = Scope.steward_of(key.tenant_id)
    index = replicas.indexer.index
    found = Witness(key)
    with suppress(MnemonError):
        entries = await _rows(replicas, scope, key, TURN)
        claims = await _rows(replicas, scope, key, CLAIM)
        marked = await index.get(scope, [marker_id(key)])
        principals = next((e.principals for e in (*marked, *entries)), ())
        turns = tuple(t for t in map(_turn, entries) if t is not None)
        found = Witness(key, tuple(principals), turns=turns, claims=tuple(c for c in map(_claim, claims) if c))
        if marked:
            marker = Marker.of(marked[0])
            marks = await replicas.grapher.graph.marks(scope, origins_of(key))
            found = Witness(
                key,
                tuple(principals),
                version=marker.version,
                completed=marked[0].fields.get("status") == SessionStatus.COMPLETED.value,
                kept=cast(KeptRule, marker.kept or "all"),
                graph=bool(marks) or not turns,
                commits=marker.commits,
                head=(marker.seq, marker.head),
                claim_ids=marker.claim_ids,
                turns=turns,
                claims=found.claims,
            )
    return found


async def _rows(replicas: Replicas, scope: Scope, key: SessionKey, kind: str) -> list[Entry]:
    rows: list[Entry] = []
    cursor: str | None = None
    while True:
        page = await replicas.indexer.index.scroll(
            scope, every(Eq("kind", kind), Eq("uri", key.uri)), "position", _PAGE, cursor
        )
        rows += page.entries
        if (cursor := page.next_cursor) is None:
            return rows


def _turn(entry: Entry) -> StoredTurn | None:
    told, fields = entry.metadata, entry.fields
    try:
        turn = Turn(
            turn_id=str(fields["turn_id"]),
            role=Role(str(fields["role"])),
            speaker=str(fields.get("speaker") or ""),
            timestamp_iso=told.get("timestamp_iso"),
            text=entry.text,
            attachments=tuple(Attachment.model_validate(a) for a in told.get("attachments", ())),
        )
        return StoredTurn(turn, int(str(fields["seq"])), datetime.fromisoformat(told["archived_at"]), "")
    except (KeyError, ValueError, TypeError):
        return None


def _claim(entry: Entry) -> Claim | None:
    try:
        return claim_of(entry)
    except (KeyError, ValueError):
        return None
