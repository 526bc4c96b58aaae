"""Where entries go: in place of one with the same id, merged into one that says the same, or as new ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from mnemon.contracts.entries import Entry
from mnemon.contracts.errors import Conflict
from mnemon.contracts.filters import In
from mnemon.contracts.memories import EntryState
from mnemon.contracts.ports import Archive, Index
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import epoch_ms
from mnemon.logic.memories import Draft, folded, merged
from mnemon.pipelines.entries import changes as log
from mnemon.pipelines.entries.projection import DELETED, line_of

_PAGE = 500

Audience = tuple[str, ...]
# For whom, and what, folded.
_Words = tuple[Audience, str]


@dataclass(slots=True)
class Held:
    """An entry as it was found and as it is to be; `line` is where the log says how it was found."""

    audience: Audience
    before: EntryState | None
    after: EntryState | None
    line: int = 0


async def as_logged(archive: Archive, tenant_id: str, rows: Sequence[Entry]) -> dict[str, Held]:
    """Rows as the log has them, whole."""
    found = {c.seq: c for c in await log.at(archive, tenant_id, map(line_of, rows))}
    held: dict[str, Held] = {}
    for row in rows:
        change = found.get(line_of(row))
        if change and change.item and change.item.after:
            held[row.id] = Held(change.audience, change.item.after, change.item.after, change.seq)
    return held


async def placed(
    archive: Archive, index: Index, scope: Scope, drafts: Sequence[Draft], upsert: bool, now: datetime
) -> tuple[dict[str, Held], list[str]]:
    """What the drafts make of what is there, by key, in the order of writing; and where each went."""
    rows = {row.id: row for row in await index.get(scope, list(dict.fromkeys(d.key for d in drafts)))}
    twins = await _twins(index, scope.tenant_id, (d for d in drafts if d.merges), now)
    there = await as_logged(archive, scope.tenant_id, list((rows | {row.id: row for row in twins.values()}).values()))
    same = {words: row.id for words, row in twins.items()}
    changed: dict[str, Held] = {}
    places: list[str] = []
    for draft in drafts:
        words = (draft.audience, folded(draft.state))
        own, twin = _alive(there.get(draft.key)), _alive(there.get(same.get(words, "")))
        key, after = draft.key, draft.state
        if own and draft.merges and not draft.given_id:
            after = merged(own, draft.state)
        elif own and not upsert:
            raise Conflict(f"there is an entry {draft.state.id} already", id=draft.state.id)
        elif not own and draft.merges and twin and folded(twin) == words[1]:  # it may have other words by now
            key, after = same[words], merged(twin, draft.state)
        changed[key] = there.setdefault(key, Held(draft.audience, None, None))
        changed[key].after = after
        if draft.merges:
            same[words] = key
        places.append(key)
    return changed, places


def _alive(held: Held | None) -> EntryState | None:
    return held.after if held is not None and held.after is not None and not held.after.deleted else None


async def _twins(index: Index, tenant_id: str, drafts: Iterable[Draft], now: datetime) -> dict[_Words, Entry]:
    """Rows that say the same as a draft, to exactly the same people."""
    wanted: dict[Audience, set[str]] = defaultdict(set)
    for draft in drafts:
        wanted[draft.audience].add(folded(draft.state))
    found: dict[_Words, Entry] = {}
    for audience, words in wanted.items():
        exactly = Scope(tenant_id, frozenset(audience)).narrowed("all", audience)
        where = In("folded", tuple(sorted(words)))
        cursor: str | None = None
        while True:
            page = await index.scroll(exactly, where, "oldest", _PAGE, cursor)
            for row in page.entries:
                over = row.fields.get("expires_at")
                if row.fields.get("state") != DELETED and (over is None or over > epoch_ms(now)):
                    found.setdefault((audience, str(row.fields["folded"])), row)
            if (cursor := page.next_cursor) is None:
                break
    return found
