"""Listings in a fixed order as SQL: how to sort, and what leads behind the last row of the page before."""

from __future__ import annotations

from mnemon.contracts.filters import OrderBy
from mnemon.logic.listing import Place, order_of

Sql = tuple[str, list[object]]


def ordering(order: OrderBy) -> str:
    chosen = order_of(order)
    word = " DESC" if chosen.descending else ""
    first, second = ("at", "position") if chosen.by_time else ("position", "at")
    return f"e.{first}{word}, e.{second}{word}, e.id"


def behind(order: OrderBy, place: Place | None) -> Sql:
    if place is None:
        return "1", []
    chosen = order_of(order)
    sign = "<" if chosen.descending else ">"
    first, second = ("at", "position") if chosen.by_time else ("position", "at")
    one, two = (place.at, place.position) if chosen.by_time else (place.position, place.at)
    # The first test alone bounds the walk along an index; the rest is for rows tied with the last one.
    return (
        f"e.{first} {sign}= ? AND (e.{first} {sign} ? OR e.{second} {sign} ? OR (e.{second} = ? AND e.id > ?))",
        [one, one, two, two, place.id],
    )
