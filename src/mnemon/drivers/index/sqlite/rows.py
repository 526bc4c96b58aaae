"""Entries as rows and back."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mnemon.contracts.entries import Entry
from mnemon.contracts.filters import FIELDS
from mnemon.drivers.index.sqlite.filters import COLUMNS, LISTS
from mnemon.logic.exact import units
from mnemon.logic.text import terms

INSERT_ENTRY = (
    "INSERT INTO entry (row, generation, tenant, id, section, kind, at, position, lists, "
    + ", ".join(COLUMNS)
    + ") VALUES ("
    + ", ".join("?" * (9 + len(COLUMNS)))
    + ")"
)
INSERT_BODY = "INSERT INTO body (row, text, metadata, terms, vector) VALUES (?, ?, ?, ?, ?)"
SELECT_ENTRY = (
    "SELECT e.row, e.id, e.kind, s.principals, b.text, b.metadata, e.lists, "
    + ", ".join(f"e.{c}" for c in COLUMNS)
    + " FROM entry e JOIN section s ON s.id = e.section JOIN body b ON b.row = e.row"
)
# One encoder for all rows: `json.dumps` with options makes a new one each time.
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_BOOLEANS = {name for name, kind in FIELDS.items() if kind is bool}


@lru_cache(maxsize=4096)
def principals_text(principals: tuple[str, ...]) -> str:
    return json.dumps(sorted(set(principals)), ensure_ascii=False)


def entry_row(entry: Entry, row: int, generation: int, tenant: str, section: int) -> tuple[object, ...]:
    fields = entry.fields
    lists = {name: list(fields[name]) for name in LISTS if fields.get(name)}
    return (
        row,
        generation,
        tenant,
        entry.id,
        section,
        entry.kind,
        fields.get("ts") or 0,
        fields.get("seq") or 0,
        _to_json(lists) if lists else None,
        *[fields.get(c) for c in COLUMNS],
    )


def body_columns(entries: Sequence[Entry]) -> list[tuple[object, ...]]:
    """Words, metadata, terms and vector of each entry, in the order of the table."""
    return [
        (e.text, _to_json(e.metadata), array("Q", terms(e.text)).tobytes(), v)
        for e, v in zip(entries, _packed_vectors(entries), strict=True)
    ]


def _packed_vectors(entries: Sequence[Entry]) -> list[bytes | None]:
    """Vectors of length one as 16-bit floats; all of them in one go, since one by one costs more than storing them."""
    given = [e.vector for e in entries if e.vector is not None]
    if not given:
        return [None] * len(entries)
    small = units(np.stack(given).astype(np.float32)).astype(np.float16)
    rows = iter(small)
    return [None if e.vector is None else next(rows).tobytes() for e in entries]


def entry_of(row: tuple[Any, ...]) -> Entry:
    _, id_, kind, principals, text, metadata, lists, *columns = row
    fields: dict[str, Any] = {c: v for c, v in zip(COLUMNS, columns, strict=True) if v is not None}
    for name in _BOOLEANS & fields.keys():
        fields[name] = bool(fields[name])
    if lists:
        fields.update(json.loads(lists))
    return Entry(id_, tuple(json.loads(principals)), text, kind, fields, json.loads(metadata))
