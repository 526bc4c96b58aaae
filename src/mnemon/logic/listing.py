"""The orders entries are listed in, and cursors that say where a page ended."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from mnemon.contracts.errors import BadCursor, InvalidArgument
from mnemon.contracts.filters import OrderBy

_LONGEST = 10_000  # an id of 512 characters, escaped, is far shorter


class Place(NamedTuple):
    """Where an entry stands: its time, its position in its session, its id; 0 where it has none."""

    at: int
    position: int
    id: str


class Order(NamedTuple):
    """Which of the two numbers comes first, and whether the larger one does; ties by id."""

    by_time: bool
    descending: bool

    @property
    def sort_key(self) -> Callable[[Place], tuple[int, int, str]]:
        sign = -1 if self.descending else 1
        if self.by_time:
            return lambda p: (sign * p.at, sign * p.position, p.id)
        return lambda p: (sign * p.position, sign * p.at, p.id)


_ORDERS: dict[OrderBy, Order] = {
    "newest": Order(by_time=True, descending=True),
    "oldest": Order(by_time=True, descending=False),
    "position": Order(by_time=False, descending=False),
    "position_desc": Order(by_time=False, descending=True),
}


def order_of(name: OrderBy) -> Order:
    try:
        return _ORDERS[name]
    except KeyError:
        raise InvalidArgument(f"there is no order {name!r}; known: {', '.join(_ORDERS)}", field="order") from None


def to_cursor(*parts: str | float) -> str:
    """Where a page ended, as text that means nothing to anybody else."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def from_cursor(cursor: str, length: int) -> list[Any]:
    """The parts of a cursor, or `BadCursor`; what they are has still to be checked."""
    try:
        parts = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True)) if len(cursor) <= _LONGEST else None
    except (ValueError, TypeError, RecursionError):
        parts = None
    if not isinstance(parts, list) or len(parts) != length:
        raise foreign_cursor()
    return parts


def foreign_cursor() -> BadCursor:
    return BadCursor("this cursor was not given out by a listing", field="cursor")


def cursor_after(order: OrderBy, place: Place) -> str:
    return to_cursor(order, *place)


def place_of(order: OrderBy, cursor: str) -> Place:
    """Where the page before ended, or `BadCursor` for a cursor of another listing."""
    name, at, position, id_ = from_cursor(cursor, 4)
    if name != order:
        raise BadCursor(f"this cursor belongs to a listing ordered by {name}, not {order}", field="cursor")
    if not (is_number(at) and is_number(position) and is_text(id_)):
        raise foreign_cursor()
    return Place(at, position, id_)


def is_text(value: object) -> bool:
    """A string that can be written down: no half of a surrogate pair."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63
