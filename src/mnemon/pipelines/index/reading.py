"""What a reader may see of an index at a moment: nothing that is over, nothing that is not shown yet.

Both are rare and soon swept away, so they are passed over among what was found instead of being asked for each time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mnemon.contracts.entries import Ask, Entry, Hit, Page
from mnemon.contracts.filters import OrderBy, Where
from mnemon.contracts.ports import Index
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import epoch_ms


def is_shown(entry: Entry, now: datetime) -> bool:
    over = entry.fields.get("expires_at")
    return entry.fields.get("published", True) is not False and (over is None or over > epoch_ms(now))


async def search_shown(index: Index, scope: Scope, ask: Ask, now: datetime) -> list[Hit]:
    found: list[Hit] = []
    while True:
        hits = await index.search(scope, ask)
        found += [hit for hit in hits if is_shown(hit.entry, now)]
        if len(found) >= ask.limit or len(hits) < ask.limit:
            return found[: ask.limit]
        ask = replace(ask, after=(float(hits[-1].score), hits[-1].entry.id))


async def scroll_shown(
    index: Index, scope: Scope, where: Where, order: OrderBy, limit: int, cursor: str | None, now: datetime
) -> Page:
    """A page may be shorter than asked for where something was passed over; the cursor says whether there is more."""
    found: list[Entry] = []
    while True:
        page = await index.scroll(scope, where, order, limit - len(found), cursor)
        found += [entry for entry in page.entries if is_shown(entry, now)]
        cursor = page.next_cursor
        if cursor is None or len(found) == limit:
            return Page(tuple(found), cursor)
