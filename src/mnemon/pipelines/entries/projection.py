"""Entries as rows of an index, and back."""

from __future__ import annotations

import numpy as np

from mnemon.contracts.entries import Entry, Vector
from mnemon.contracts.filters import Eq, Not, Or
from mnemon.contracts.memories import EntryState, MemoryEntry
from mnemon.contracts.scope import in_address
from mnemon.logic.entry_fields import fields_of, text_of
from mnemon.logic.ids import stable_id
from mnemon.logic.memories import folded, given_vector
from mnemon.pipelines.entries.changes import Change
from mnemon.pipelines.index.projection import CHUNK, CLAIM, MARKER, MARKER_SOURCE, TURN

EPISODIC, SEMANTIC = "episodic", "semantic"
WRITTEN = (EPISODIC, SEMANTIC)
KINDS = {EPISODIC: (TURN, EPISODIC), SEMANTIC: (CLAIM, SEMANTIC), CHUNK: (CHUNK,)}
"""Which rows each `memory_type` of the wire is made of."""
FINDABLE = Or((Eq("kind", TURN), Not(Eq("kept", False))))
"""Every turn, whatever anybody made of it: a tag makes one weigh more, and never hides the others. Of what came in
through `write`, everything but the markers of others."""
ACTIVE, DELETED = "active", "deleted"
FOLLOWER = "entries_marker"
# Nobody holds this principal: only a steward sees how far the index is.
_NOBODY = ("log:entries",)


def row_of(tenant_id: str, change: Change, vector: Vector | None) -> Entry:
    item = change.item
    assert item is not None
    assert item.after is not None
    state = item.after
    fields = fields_of(state)
    run = fields.get("session_id")
    place = stable_id("run", *change.audience, run) if run and "seq" in fields else item.key
    marker = fields.get("source") == MARKER_SOURCE or state.metadata.get("node_type") == MARKER
    return Entry(
        id=item.key,
        principals=change.audience,
        text=text_of(state),
        kind=state.kind,
        fields={
            **fields,
            "uri": f"ctx://{in_address(tenant_id)}/entries/{place}",
            "kept": not marker,
            "state": DELETED if state.deleted else None if marker else ACTIVE,
            "folded": folded(state),
        },
        metadata={
            "entry": state.model_dump(mode="json", exclude_defaults=True, exclude={"vectors"}),
            "version": change.version,
            "line": change.seq,
        },
        vector=vector,
    )


def vector_given(state: EntryState, model: str) -> Vector | None:
    given = given_vector(state, model)
    return None if given is None else np.asarray(given, dtype=np.float32)


def entry_in(row: Entry) -> MemoryEntry:
    """What was written, in the form of the wire."""
    return wire(EntryState.model_validate(row.metadata["entry"]))


def wire(state: EntryState) -> MemoryEntry:
    return MemoryEntry.model_construct(
        id=state.id,
        kind=state.kind,
        modality=state.modality,
        contents=state.contents,
        vectors=state.vectors,
        metadata=state.metadata,
        published=state.published,
    )


def line_of(row: Entry) -> int:
    return int(row.metadata["line"])


def follower_id(tenant_id: str) -> str:
    return stable_id(FOLLOWER, tenant_id)


def follower_row(tenant_id: str, seq: int) -> Entry:
    """How far the index is with the log of entries."""
    return Entry(follower_id(tenant_id), _NOBODY, "", FOLLOWER, {"seq": seq, "published": False})
