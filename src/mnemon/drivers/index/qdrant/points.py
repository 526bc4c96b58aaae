"""Entries as Qdrant points and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from qdrant_client import models

from mnemon.contracts.entries import Entry, Vector
from mnemon.contracts.filters import FIELDS
from mnemon.drivers.index.qdrant.filters import GRAMS, PRINCIPALS, PRINCIPALS_COUNT, TENANT, gram_key
from mnemon.logic import lexical
from mnemon.logic.admission import unit
from mnemon.logic.ids import stable_id
from mnemon.logic.listing import Place
from mnemon.logic.text import terms

DENSE = "dense"
WORDS = "words"
AT = "_at"
POSITION = "_position"
PLACE_KEYS = [AT, POSITION, "id"]
_TEXT = "_text"
_METADATA = "_metadata"
_OWN_FIELDS = [name for name in FIELDS if name not in ("id", "kind")]


def point_id(tenant: str, entry_id: str) -> str:
    """Qdrant takes UUIDs; the entry's own id is in the payload."""
    return stable_id("entry", tenant, entry_id)


def point_of(tenant: str, entry: Entry) -> models.PointStruct:
    numbers = terms(entry.text)
    counts = lexical.row_grams(numbers)
    length = sum(1 for n in numbers if n)
    vectors: dict[str, Any] = {}
    if entry.vector is not None:
        vectors[DENSE] = stored_vector(entry.vector).tolist()
    if counts:
        vectors[WORDS] = sparse({g: lexical.weight(n, length) for g, n in counts.items()}, combine="sum")
    principals = sorted(set(entry.principals))
    fields = {k: v for k, v in entry.fields.items() if v is not None and v != [] and v != ()}
    payload = {
        **{k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()},
        "id": entry.id,
        "kind": entry.kind,
        TENANT: tenant,
        PRINCIPALS: principals,
        PRINCIPALS_COUNT: len(principals),
        AT: entry.fields.get("ts") or 0,
        POSITION: entry.fields.get("seq") or 0,
        GRAMS: [gram_key(g) for g in counts],
        _TEXT: entry.text,
        _METADATA: json.dumps(entry.metadata, ensure_ascii=False),
    }
    return models.PointStruct(id=point_id(tenant, entry.id), vector=vectors, payload=payload)


def stored_vector(vector: Vector) -> Vector:
    """Length one, in the precision of 16-bit floats: scores are the same as in every other index."""
    return unit(vector).astype(np.float16).astype(np.float32)


def sparse(weights: dict[int, float], combine: str = "max") -> models.SparseVector:
    """Grams folded to 32 bits. Where two meet, rows add up and questions take the larger share: a score can come out
    too high by that, never too low, and is worked out anew from the text."""
    folded: dict[int, float] = {}
    for gram, weight in weights.items():
        at = (gram ^ (gram >> 32)) & 0xFFFFFFFF
        there = folded.get(at, 0.0)
        folded[at] = there + weight if combine == "sum" else max(there, weight)
    return models.SparseVector(indices=list(folded), values=list(folded.values()))


def entry_of(payload: dict[str, Any]) -> Entry:
    return Entry(
        id=payload["id"],
        principals=tuple(payload[PRINCIPALS]),
        text=payload[_TEXT],
        kind=payload["kind"],
        fields={name: payload[name] for name in _OWN_FIELDS if name in payload},
        metadata=json.loads(payload[_METADATA]),
    )


def place_of_point(payload: dict[str, Any]) -> Place:
    return Place(payload[AT], payload[POSITION], payload["id"])
