"""Listings in a fixed order, and cursors that say where a page ended."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mnemon.contracts.errors import BadCursor
from mnemon.contracts.filters import OrderBy

_ORDERS: dict[OrderBy, tuple[str, str, Callable[[Any], tuple[Any, ...]]]] = {
    "newest": (
        "e.at DESC, e.position DESC, e.id",
        "(e.at < ? OR (e.at = ? AND (e.position < ? OR (e.position = ? AND e.id > ?))))",
        lambda r: (-r[0], -r[1], r[2]),
    ),
    "oldest": (
        "e.at, e.position, e.id",
        "(e.at > ? OR (e.at = ? AND (e.position > ? OR (e.position = ? AND e.id > ?))))",
        lambda r: (r[0], r[1], r[2]),
    ),
    "position": (
        "e.position, e.at, e.id",
        "(e.position > ? OR (e.position = ? AND (e.at > ? OR (e.at = ? AND e.id > ?))))",
        lambda r: (r[1], r[0], r[2]),
    ),
    "position_desc": (
        "e.position DESC, e.at DESC, e.id",
        "(e.position < ? OR (e.position = ? AND (e.at < ? OR (e.at = ? AND e.id > ?))))",
        lambda r: (-r[1], -r[0], r[2]),
    ),
}


@dataclass(frozen=True, slots=True)
class Seek:
    """An order, and the condition that leads behind the last row of the page before."""

    name: OrderBy
    order: str
    condition: str
    values: tuple[object, ...]
    sort_key: Callable[[Any], tuple[Any, ...]]

    def cursor_after(self, row: tuple[object, ...]) -> str:
        return base64.urlsafe_b64encode(json.dumps([self.name, *row]).encode()).decode()


def seek(order: OrderBy, cursor: str | None) -> Seek:
    sql, behind, sort_key = _ORDERS[order]
    if cursor is None:
        return Seek(order, sql, "1", (), sort_key)
    try:
        name, at, position, id_ = json.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, binascii.Error):
        raise BadCursor("this cursor was not given out by a listing", field="cursor") from None
    if name != order or not isinstance(at, int) or not isinstance(position, int) or not isinstance(id_, str):
        raise BadCursor(f"this cursor belongs to a listing ordered by {name}, not {order}", field="cursor")
    first, second = (at, position) if order in ("newest", "oldest") else (position, at)
    return Seek(order, sql, behind, (first, first, second, second, id_), sort_key)
