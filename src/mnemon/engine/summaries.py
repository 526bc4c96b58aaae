"""An older bot's summaries of its turns, taken over as if it had told them by `end`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mnemon.contracts.chats import EndCall
from mnemon.contracts.errors import Conflict, InvalidArgument, MalformedInput, NotFound
from mnemon.contracts.filters import Eq, In, every
from mnemon.contracts.ports import Index
from mnemon.contracts.results import SkippedSummary, SummariesResult
from mnemon.contracts.scope import Scope, checked_id
from mnemon.engine.cognitive import Cognition
from mnemon.engine.ending import Moment, ended
from mnemon.logic.chats import call_turn_id
from mnemon.logic.end_summaries import (
    Chat,
    Places,
    RequestIds,
    Summary,
    names_without_ids,
    records,
    summaries,
)
from mnemon.logic.language import language_of
from mnemon.pipelines.index.projection import TURN

_SHOWN = 10
_AT_ONCE = 500
# Who spoke in a group, an older bot did not write down.
_NOBODY = "unknown"
_SOMEBODY = {"zh": "某人", "en": "somebody"}

Source = str | Path | Sequence[Any]


@dataclass(frozen=True, slots=True)
class Migration:
    """What is to be told, and what cannot be."""

    records: int
    calls: tuple[EndCall, ...]
    skipped: tuple[SkippedSummary, ...]

    def result(self, queued: int, already_there: int, dry_run: bool) -> SummariesResult:
        chats = Counter(f"{call.request_type} {call.group_name or call.owner.id}" for call in self.calls)
        first = tuple(f"{call.timestamp} {call.action_summary[:100]}" for call in self.calls[:_SHOWN])
        return SummariesResult(
            self.records, queued, already_there, self.skipped, dict(chats.most_common()), first, dry_run
        )


class Summaries(Cognition):
    async def import_end_summaries(
        self,
        source: Source,
        tenant_id: str,
        user_id: str | None = None,
        group_id: str | None = None,
        *,
        chats: Mapping[str, str] | None = None,
        at: Moment | None = None,
        dry_run: bool = False,
    ) -> SummariesResult:
        """Take over an `end_summaries.json`: a file, or its rows (texts, or `{summary, timestamp, location}`).

        Each becomes a turn told by `end`; telling it again changes nothing. `user_id` or `group_id` is the chat of rows
        that name none; `chats` gives the ids of chats a file knows only by name. `at` is the time of rows without one,
        else that of the file. A row that cannot be taken over is left out, and the result says why. A dry run tells
        what would be done, and does nothing."""
        parts = self._at_work()
        zone = parts.config.cognitive.historian.timezone
        now = parts.clock.now()
        plan = await asyncio.to_thread(migration, source, tenant_id, user_id, group_id, chats, at, now, zone)
        if dry_run:
            return plan.result(len(plan.calls), 0, True)
        if not parts.config.cognitive.enabled:
            raise InvalidArgument("cognitive.enabled is false: nothing is taken over", field="cognitive.enabled")
        there = set() if parts.service else await _there(parts.index, tenant_id, [c.event_id for c in plan.calls])
        queued = 0
        for call in plan.calls:
            if call.event_id not in there:
                with suppress(Conflict):  # it waits, as of another time: that of the file, which was written since
                    queued += (await parts.chats.end(tenant_id, parts.masked(call))).status == "queued"
        if self._worker is not None:
            self._worker.wake()
        return plan.result(queued, len(plan.calls) - queued, False)


async def _there(index: Index, tenant_id: str, event_ids: Sequence[str]) -> set[str]:
    """Which of these turns are remembered already, whatever time they were given then."""
    by_turn = {call_turn_id(id_): id_ for id_ in event_ids}
    turns, found = list(by_turn), set()
    for first in range(0, len(turns), _AT_ONCE):
        where = every(Eq("kind", TURN), In("turn_id", tuple(turns[first : first + _AT_ONCE])))
        page = await index.scroll(Scope.steward_of(tenant_id), where, limit=_AT_ONCE)
        found |= {by_turn[entry.fields["turn_id"]] for entry in page.entries}
    return found


def migration(
    source: Source,
    tenant_id: str,
    user_id: str | None = None,
    group_id: str | None = None,
    chats: Mapping[str, str] | None = None,
    at: Moment | None = None,
    now: datetime | None = None,
    zone: str = "",
) -> Migration:
    """The turns a file comes to; nothing but the file is looked at."""
    checked_id("tenant_id", tenant_id)
    rows, written_at = _rows(source)
    found = list(summaries(rows))
    places, named = _places(user_id, group_id, chats or {}), names_without_ids(found)
    ids, calls, skipped = RequestIds(), list[EndCall](), list[SkippedSummary]()
    for row in found:
        if not isinstance(row, Summary):
            skipped.append(SkippedSummary(row.number, row.why, row.text))
            continue
        try:
            chat = places.of(row, named)
            when = row.timestamp if row.timestamp is not None else written_at if at is None else at
            calls.append(_call(row, chat, ids.of(row, chat), when, now or datetime.now(UTC), zone))
        except InvalidArgument as wrong:
            skipped.append(SkippedSummary(row.number, wrong.message, row.text[:80]))
    return Migration(len(rows), tuple(calls), tuple(skipped))


def _rows(source: Source) -> tuple[list[Any], datetime | None]:
    """The rows of a file, and when it was last written."""
    if not isinstance(source, str | Path):
        return list(source), None
    try:
        written_at = datetime.fromtimestamp(Path(source).stat().st_mtime, UTC)
        return records(Path(source).read_text(encoding="utf-8-sig")), written_at
    except FileNotFoundError:
        raise NotFound(f"there is no file {source}", field="source") from None
    except UnicodeDecodeError as error:
        raise MalformedInput(f"{source}: not UTF-8 at byte {error.start}", field="source") from None


def _places(user_id: str | None, group_id: str | None, chats: Mapping[str, str]) -> Places:
    if user_id is not None and group_id is not None:
        raise InvalidArgument("give user_id or group_id: rows that name no chat belong to one", field="group_id")
    for name, id_ in chats.items():
        checked_id(f"chats[{name}]", id_)
    if group_id is not None:
        return Places(Chat("group", checked_id("group_id", group_id)), chats)
    return Places(Chat("private", checked_id("user_id", user_id)) if user_id is not None else None, chats)


def _call(row: Summary, chat: Chat, request_id: str, when: Moment | None, now: datetime, zone: str) -> EndCall:
    if when is None:
        raise InvalidArgument("it has no timestamp, and no time was given for those", field="at")
    in_group = chat.kind == "group"
    return ended(
        request_id,
        1,
        row.text,
        "",
        None if in_group else chat.id,
        chat.id if in_group else None,
        _NOBODY if in_group else chat.id,
        _SOMEBODY[language_of(row.text)] if in_group else chat.name,
        chat.name if in_group else "",
        "",
        (),
        (),
        when,
        None,
        "",
        chat.kind,
        now,
        zone,
    )
