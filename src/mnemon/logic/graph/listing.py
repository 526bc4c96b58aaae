"""Where a page of graph items ended, as a cursor."""

from __future__ import annotations

from typing import NamedTuple

from mnemon.contracts.errors import BadCursor
from mnemon.contracts.graph import ItemKind
from mnemon.logic.listing import foreign_cursor, from_cursor, is_number, is_text, to_cursor

_LISTING = "graph"


class Place(NamedTuple):
    """Where an item stands: its time, then its id."""

    at: int
    id: str


def cursor_after(kind: ItemKind, place: Place) -> str:
    return to_cursor(_LISTING, kind, *place)


def place_of(kind: ItemKind, cursor: str) -> Place:
    """Where the page before ended, or `BadCursor` for a cursor of another listing."""
    listing, of, at, id_ = from_cursor(cursor, 4)
    if listing != _LISTING or not is_number(at) or not is_text(id_):
        raise foreign_cursor()
    if of != kind:
        raise BadCursor(f"this cursor belongs to a listing of {of}s, not of {kind}s", field="cursor")
    return Place(at, id_)
