"""Listings in a fixed order: Qdrant sorts by one number, rows tied in it are sorted here."""

from __future__ import annotations

from collections.abc import Iterable

from qdrant_client import AsyncQdrantClient, models

from mnemon.drivers.index.qdrant.filters import Condition, all_of
from mnemon.drivers.index.qdrant.points import AT, PLACE_KEYS, POSITION, place_of_point
from mnemon.logic.listing import Order, Place

_PAGE = 1_000


class Listing:
    """Some rows of one collection, in one order."""

    def __init__(self, client: AsyncQdrantClient, collection: str, conditions: list[Condition], order: Order) -> None:
        self._client = client
        self._collection = collection
        self._conditions = conditions
        self._order = order
        self._key = AT if order.by_time else POSITION

    async def after(self, last: Place | None, count: int) -> list[Place]:
        """At least `count` places behind `last`, in order, or all there are."""
        sort_key = self._order.sort_key
        places: set[Place] = set()
        if last is not None:
            tied = await self._tied(self._first(last))
            places |= {p for p in tied if sort_key(p) > sort_key(last)}
        if len(places) < count:
            more = await self._sorted(last, count)
            places |= set(more)
            if len(more) == count:  # of those tied with the last one some may be missing
                places |= set(await self._tied(self._first(more[-1])))
        return sorted(places, key=sort_key)

    def _first(self, place: Place) -> int:
        return place.at if self._order.by_time else place.position

    async def _sorted(self, last: Place | None, count: int) -> list[Place]:
        beyond: list[Condition] = []
        if last is not None:
            side = "lt" if self._order.descending else "gt"
            beyond = [models.FieldCondition(key=self._key, range=models.Range(**{side: float(self._first(last))}))]
        direction = models.Direction.DESC if self._order.descending else models.Direction.ASC
        points, _ = await self._client.scroll(
            self._collection,
            scroll_filter=all_of([*self._conditions, *beyond]),
            order_by=models.OrderBy(key=self._key, direction=direction),
            limit=count,
            with_payload=PLACE_KEYS,
        )
        return list(_places(points))

    async def _tied(self, number: int) -> list[Place]:
        """Every row whose first number is this one."""
        condition = models.FieldCondition(key=self._key, match=models.MatchValue(value=number))
        found: list[Place] = []
        offset: models.ExtendedPointId | None = None
        while True:
            points, offset = await self._client.scroll(
                self._collection,
                scroll_filter=all_of([*self._conditions, condition]),
                limit=_PAGE,
                offset=offset,
                with_payload=PLACE_KEYS,
            )
            found += _places(points)
            if offset is None:
                return found


def _places(points: Iterable[models.Record]) -> Iterable[Place]:
    return (place_of_point(p.payload or {}) for p in points)
