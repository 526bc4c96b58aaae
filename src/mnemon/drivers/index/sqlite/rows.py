"""Entries as rows and back."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemon.contracts.entries import Entry
from mnemon.contracts.filters import FIELDS
from mnemon.drivers.index.sqlite.filters import COLUMNS, LISTS
from mnemon.logic.admission import unit
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


def principals_text(principals: Sequence[str]) -> str:
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


def body_row(entry: Entry, row: int) -> tuple[object, ...]:
    vector = None if entry.vector is None else unit(entry.vector).astype(np.float16).tobytes()
    metadata = _to_json(entry.metadata)
    return (row, entry.text, metadata, array("Q", terms(entry.text)).tobytes(), vector)


def entry_of(row: tuple[Any, ...]) -> Entry:
    _, id_, kind, principals, text, metadata, lists, *columns = row
    fields: dict[str, Any] = {c: v for c, v in zip(COLUMNS, columns, strict=True) if v is not None}
    for name in _BOOLEANS & fields.keys():
        fields[name] = bool(fields[name])
    if lists:
        fields.update(json.loads(lists))
    return Entry(id_, tuple(json.loads(principals)), text, kind, fields, json.loads(metadata))
