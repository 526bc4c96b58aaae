"""Stretches of days: counted from the day something was said, cut to the unit they were named in."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime, time, timedelta
from typing import Literal

Precision = Literal["day", "week", "month", "year", "time"]
Unit = Literal["day", "week", "month", "year", "hour", "minute"]
PartOfMonth = Literal["begin", "middle", "end"]

_DAY = timedelta(days=1)
_SECONDS: Mapping[Unit, int] = {"day": 86_400, "week": 604_800, "hour": 3_600, "minute": 60}
# Of these the time of day counts: an hour ago is a minute of this day.
_SHORT: tuple[Unit, ...] = ("hour", "minute")


@dataclass(frozen=True, slots=True)
class When:
    """From `begins` to the day before `ends`. `written` is the absolute form of a relative date, "" of others."""

    begins: date
    ends: date
    precision: Precision
    written: str = ""
    at: time | None = None

    @property
    def relative(self) -> bool:
        return bool(self.written)


def day(at: date, form: str = "") -> When:
    """`form` has a place for the date: `{}` gives 2026-03-10; without one the date is absolute as it stands."""
    return When(at, at + _DAY, "day", form.format(at.isoformat()))


def week(at: date, form: str = "") -> When:
    """The week a day is in."""
    monday = at - timedelta(days=at.weekday())
    return When(monday, monday + 7 * _DAY, "week", form.format(monday.isoformat()))


def weekend(at: date, form: str = "") -> When:
    """The Saturday and Sunday of the week a day is in."""
    saturday = at + timedelta(days=5 - at.weekday())
    return When(saturday, saturday + 2 * _DAY, "day", form.format(saturday.isoformat()))


def month(at: date, form: str = "") -> When:
    first = at.replace(day=1)
    return When(first, add_months(first, 1), "month", form.format(f"{first:%Y-%m}"))


def year(at: date, form: str = "") -> When:
    return When(date(at.year, 1, 1), date(at.year + 1, 1, 1), "year", form.format(f"{at.year:04}"))


def part_of_month(at: date, part: PartOfMonth, form: str = "") -> When:
    """About a week at the beginning or end, ten days in the middle: as vague as the word."""
    first, after = at.replace(day=1), add_months(at.replace(day=1), 1)
    begins, ends = {
        "begin": (first, first + 7 * _DAY),
        "middle": (first + 10 * _DAY, first + 20 * _DAY),
        "end": (after - 7 * _DAY, after),
    }[part]
    return When(begins, ends, "week", form.format(f"{first:%Y-%m}"))


def span(begins: date, ends: date, precision: Precision, form: str) -> When:
    """A stretch of any length; the form takes its first and its last day."""
    return When(begins, ends, precision, form.format(begins.isoformat(), (ends - _DAY).isoformat()))


def shifted(now: datetime, count: int, unit: Unit) -> date:
    """So many units from now: the day it falls on."""
    if unit == "month":
        return add_months(now.date(), count)
    if unit == "year":
        return add_months(now.date(), 12 * count)
    return _moved(now, count, unit).date()


def _moved(now: datetime, count: int, unit: Unit) -> datetime:
    return now + timedelta(seconds=count * _SECONDS[unit])


def counted(now: datetime, count: int, unit: Unit, forms: Mapping[str, str]) -> When:
    """Three days ago is a day, three weeks ago a week, three months ago a month, three hours ago a time of a day."""
    at = shifted(now, count, unit)
    if unit == "week":
        return week(at, forms["week"])
    if unit == "month":
        return month(at, forms["month"])
    if unit == "year":
        return year(at, forms["year"])
    if unit in _SHORT:
        return When(at, at + _DAY, "day", f"{_moved(now, count, unit):%Y-%m-%d %H:%M}")
    return day(at, forms["day"])


def few(now: datetime, unit: Unit, sign: int, form: str) -> When:
    """几天前, "a few weeks ago": two to six of them, and the form keeps the words."""
    begins, ends = sorted((shifted(now, 2 * sign, unit), shifted(now, 6 * sign, unit)))
    precision: Precision = "year" if unit == "year" else "month" if unit == "month" else "week"
    reference = f"{now:%Y-%m-%d %H:%M}" if unit in _SHORT else now.date().isoformat()
    return When(begins, ends + _DAY, precision, form.format(reference))


def add_months(at: date, count: int) -> date:
    """The same day so many months on, or the last one of a shorter month."""
    years, months = divmod(at.month - 1 + count, 12)
    if not 1 <= at.year + years < MAXYEAR:
        raise OverflowError("beyond the calendar")
    last = monthrange(at.year + years, months + 1)[1]
    return date(at.year + years, months + 1, min(at.day, last))


def weekday(today: date, number: int, back: bool) -> date:
    """The next such day after today, or the latest before it."""
    ahead = (number - today.weekday()) % 7
    return today + timedelta(days=ahead - 7 if back else ahead or 7)


def day_of_month(today: date, number: int, back: bool) -> date | None:
    """The next such day, today included, or the latest before today; shorter months are passed over."""
    for months in range(0, -3, -1) if back else range(3):
        first = add_months(today.replace(day=1), months)
        if number <= monthrange(first.year, first.month)[1] and (first.replace(day=number) < today) == back:
            return first.replace(day=number)
    return None


def day_of_year(today: date, month_number: int, day_number: int | None, back: bool) -> date | None:
    """A day or month without a year: the next one, today included, or the latest one before today."""
    for years in range(0, -5, -1) if back else range(5):
        try:
            at = date(today.year + years, month_number, day_number or 1)
        except ValueError:
            # The 29th of February comes every four years.
            continue
        over = at < today if day_number else add_months(at, 1) <= today
        if over == back:
            return at
    return None


def clock(today: date, at: time) -> When:
    """A time of day says nothing about the day: it is today's unless a date stands before it."""
    return When(today, today + _DAY, "time", at=at)
