"""How far back to look: what a question says about time becomes windows, the first one narrow, each next one wider."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from mnemon.contracts.recall import RecallSettings, Window
from mnemon.logic import dates
from mnemon.logic.dates.periods import add_months
from mnemon.logic.recall.tables import load

_DATA = load("asking")
_MARKS = [(re.compile(row["marks"], re.IGNORECASE), tuple(row["days"])) for row in _DATA["window"]]
# Only then a date says when something was said; else it belongs to what is asked: "on Sundays".
_SAID = re.compile(_DATA["forms"]["told"], re.IGNORECASE)
# … and so it does here: what was to be "by Friday", and 说周五去哪.
_DUE = re.compile(_DATA["forms"]["due"], re.IGNORECASE)
_LADDER: tuple[int, ...] = tuple(_DATA["ladder"]["days"])


@dataclass(frozen=True, slots=True)
class Span:
    """Days a question names, the last one not included."""

    begins: date
    ends: date


@dataclass(frozen=True, slots=True)
class Windows:
    """To be tried in this order. `exact`: the question or the caller names the time, and nothing beyond it counts."""

    steps: tuple[Window, ...]
    exact: bool = False


def windows(question: str, settings: RecallSettings, now: datetime, ahead: bool, open_end: bool = False) -> Windows:
    """`ahead`: a date in the question says when something will be, not when it was said; `open_end`: what answers may
    have been said before the time it asks about."""
    if settings.since or settings.until:
        return Windows((Window(since=settings.since, until=settings.until),), exact=True)
    for marks, days in _MARKS:
        if marks.search(question) and 0 not in days:
            days = tuple(dict.fromkeys((*days, *_beyond(max(days))))) if open_end else days
            return Windows(tuple(_back(n, now) for n in days), exact=0 not in days)
    named = named_days(question, now) if not ahead and _SAID.search(question) and not _DUE.search(question) else None
    if named is not None:
        return Windows((Window(since=_moment(named.begins, now), until=_moment(named.ends, now)),), exact=True)
    for marks, days in _MARKS:
        if marks.search(question):
            return Windows(tuple(_back(n, now) for n in days))
    return Windows(tuple(_back(n, now) for n in (settings.window_days, *_beyond(settings.window_days))))


def named_days(question: str, now: datetime) -> Span | None:
    """The first stretch of days a question names; of what was said, a month to come is that of the year before."""
    found = next((d for d in dates.find(question, now, "") if d.precision != "time"), None)
    if found is None:
        return None
    if found.begins > now.date() and not found.relative:
        return Span(add_months(found.begins, -12), add_months(found.ends, -12))
    return Span(found.begins, found.ends)


def _beyond(days: int) -> list[int]:
    return [n for n in _LADDER if n == 0 or n > days]


def _back(days: int, now: datetime) -> Window:
    return Window(since=_iso(now - timedelta(days=days))) if days else Window()


def _moment(day: date, now: datetime) -> str:
    return _iso(datetime(day.year, day.month, day.day, tzinfo=now.tzinfo))


def _iso(moment: datetime) -> str:
    """In seconds, so that the same question a moment later asks the same."""
    return moment.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
