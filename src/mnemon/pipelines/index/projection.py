"""Archived turns as entries of an index, and the marker that says how far a session is indexed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from mnemon.contracts.entries import EmbeddingVector, Entry
from mnemon.contracts.sessions import SessionRecord, StoredTurn
from mnemon.logic.ids import marker_id, turn_id

TURN = "turn"
MARKER = "session_marker"
SOURCE = "locomo_text_pipeline"


def turn_entries(record: SessionRecord, turns: Sequence[StoredTurn], vectors: Sequence[EmbeddingVector]) -> list[Entry]:
    key = record.key
    same = {
        "uri": key.uri,
        "session_id": key.session_id,
        "domain": "dialog",
        "source": SOURCE,
        "modality": "text",
        "published": True,
        "kept": True,
    }
    return [
        Entry(
            id=turn_id(key, stored.turn.turn_id),
            principals=record.principals,
            text=stored.turn.text,
            kind=TURN,
            fields={
                **same,
                "seq": stored.seq,
                "ts": stored.ts_ms,
                "role": str(stored.turn.role),
                "speaker": stored.turn.speaker,
                "turn_id": stored.turn.turn_id,
            },
            metadata=_metadata(stored),
            vector=vector.dense_vector,
        )
        for stored, vector in zip(turns, vectors, strict=True)
    ]


@lru_cache(maxsize=256)
def _iso(moment: datetime) -> str:
    return moment.isoformat()  # turns archived together share their moment


def _metadata(stored: StoredTurn) -> dict[str, Any]:
    turn = stored.turn
    metadata: dict[str, Any] = {"archived_at": _iso(stored.archived_at), "timestamp_iso": turn.timestamp_iso}
    if turn.attachments:
        metadata["attachments"] = [a.model_dump(mode="json", exclude_defaults=True) for a in turn.attachments]
    return metadata


def marker_entry(record: SessionRecord, last: StoredTurn) -> Entry:
    """Says up to which turn a session is indexed. Found by its id, never by similarity: it has no vector."""
    return Entry(
        id=marker_id(record.key),
        principals=record.principals,
        text=f"session_marker {record.session_id}",
        kind=MARKER,
        fields={"uri": record.key.uri, "session_id": record.session_id, "seq": last.seq, "status": record.status.value},
        metadata={"node_type": MARKER, "head": last.chain},
    )
