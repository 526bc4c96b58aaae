"""Entries of an index as a caller sees them: in the form of the wire, with the words that prove them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from mnemon.contracts.claims import Claim
from mnemon.contracts.entries import Entry
from mnemon.contracts.memories import MemoryEntry
from mnemon.contracts.retrieval import Quote
from mnemon.logic.ids import turn_id
from mnemon.pipelines.entries.projection import WRITTEN, entry_in
from mnemon.pipelines.index.projection import CHUNK, CLAIM, claim_of

_SEMANTIC = frozenset({CLAIM, CHUNK})
_TURN_FIELDS = ("turn_id", "role", "speaker", "seq", "uri")
_CHUNK_FIELDS = ("shelf", "level", "uri")


def shown_id(entry: Entry) -> str:
    """The id a caller knows it by: of what came in through `write`, the one it was given there."""
    return str(entry.metadata["entry"]["id"]) if entry.kind in WRITTEN else entry.id


def shown(entry: Entry) -> MemoryEntry:
    """With 001's names: `run_id` is the session, `user_id` the principals."""
    if entry.kind in WRITTEN:
        return entry_in(entry)
    semantic = entry.kind in _SEMANTIC
    fields = entry.fields
    metadata: dict[str, Any] = {
        "user_id": list(entry.principals),
        "memory_domain": fields.get("domain"),
        "run_id": fields.get("session_id"),
        "source": fields.get("source"),
    }
    if entry.kind == CLAIM:
        metadata |= _of_claim(claim_of(entry))
    else:
        told = _CHUNK_FIELDS if entry.kind == CHUNK else _TURN_FIELDS
        metadata |= {name: fields[name] for name in told if fields.get(name) is not None} | entry.metadata
    if fields.get("ts"):
        metadata["timestamp"] = datetime.fromtimestamp(fields["ts"] / 1000, UTC).isoformat()
    return MemoryEntry.model_construct(
        id=entry.id,
        kind="semantic" if semantic else "episodic",
        modality=fields.get("modality", "text"),
        contents=(entry.text,),
        metadata={name: value for name, value in metadata.items() if value is not None},
        published=fields.get("published", True),
    )


def _of_claim(claim: Claim) -> dict[str, Any]:
    governance = claim.governance
    return {
        "fact_type": claim.kind.value,
        "status": claim.status.value,
        "scope": governance.forget_policy.value,
        "importance": governance.importance,
        "importance_level": governance.importance_level,
        "ttl_seconds": governance.ttl_seconds,
        "requires_confirmation": governance.requires_confirmation,
        "tenant_id": claim.tenant_id,
        "evidence_level": governance.evidence_level.value,
        "shelf": claim.shelf.value,
        "entities": list(claim.entities),
        "source_session_id": claim.session_id,
        "source_turn_ids": list(claim.source_turn_ids),
        "rationale": claim.rationale,
        "uri": claim.session.uri,
    }


def quotes_of(claim: Claim, turn: str | None = None) -> tuple[Quote, ...]:
    """Its words; with `turn` only those said in that one."""
    return tuple(
        Quote(turn_id(claim.session, s.turn_id), claim.session_id, s.turn_id, s.start, s.end, s.text_exact)
        for s in claim.spans
        if turn is None or s.turn_id == turn
    )


def whole(entry: Entry) -> tuple[Quote, ...]:
    """A turn proves itself."""
    fields = entry.fields
    if "turn_id" not in fields:
        return ()
    return (Quote(shown_id(entry), fields.get("session_id", ""), fields["turn_id"], 0, len(entry.text), entry.text),)


def joined(quotes: Iterable[Quote]) -> tuple[Quote, ...]:
    return tuple(dict.fromkeys(quotes))
