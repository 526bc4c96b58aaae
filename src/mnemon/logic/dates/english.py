"""Dates in English: yesterday, next Friday, two weeks ago, March 9th, the end of the month, 2026-03-09, 3 pm."""

from __future__ import annotations

import re
from datetime import date, time, timedelta

from mnemon.logic.dates import periods
from mnemon.logic.dates.grammar import WORDS, Grammar, Rule, Saying, alternatives
from mnemon.logic.dates.periods import Unit, When

_EN = WORDS["en"]
_FORMS: dict[str, str] = _EN["forms"]
_SHIFTS: dict[str, int] = _EN["shifts"]
_UNITS: dict[str, Unit] = _EN["units"]
_WEEKDAYS: dict[str, int] = _EN["weekdays"]
_MONTHS: dict[str, int] = _EN["months"]
_PARTS: dict[str, str] = _EN["parts_of_day"]
_LEADING = re.compile(_EN["leading"])
_NOUN = re.compile(r"['’]s\b|\s+(?:is|was|will be)\b")
_VAGUE = ("few", "several")


def with_preposition(written: str, before: str, after: str) -> str:
    """`tomorrow` needs no preposition, its date does; unless one stands there, or it is a noun of its own."""
    beside_chinese = before[-1:] > "\u2e80" or after[:1] > "\u2e80"
    if (
        beside_chinese
        or _LEADING.search(before)
        or _NOUN.match(after)
        or written.startswith(("a few", "few", "several"))
    ):
        return written
    if written[-3:-2] == ":":
        return f"at {written}" if before.strip() else f"At {written}"
    whole_day = written.startswith("the weekend") or (written[4:5] == written[7:8] == "-" and " to " not in written)
    joined = f"{'on' if whole_day else 'in'} {written}" if " to " not in written else f"from {written}"
    return joined.capitalize() if not before.strip() or before.rstrip()[-1] in ".!?。！？" else joined


def _form(match: re.Match[str]) -> str:
    return _PARTS[match["part"].lower()] if match["part"] else _FORMS["day"]


def _day(match: re.Match[str], saying: Saying) -> When:
    return periods.day(saying.today + timedelta(days=_EN["days"][match["word"].lower()]), _form(match))


def _day_part(match: re.Match[str], saying: Saying) -> When:
    word = match["word"].lower()
    part = "night" if word.endswith("night") else word.split()[-1]
    return periods.day(saying.today + timedelta(days=_EN["day_parts"][word]), _PARTS[part])


def _weekday(match: re.Match[str], saying: Saying) -> When:
    today, number = saying.today, _WEEKDAYS[match["day"].lower()]
    shift = _SHIFTS[match["shift"].lower()]
    if shift > 0:
        return periods.day(today + timedelta(days=7 + number - today.weekday()), _form(match))
    if shift == 0:
        return periods.day(today + timedelta(days=(number - today.weekday()) % 7), _form(match))
    return periods.day(periods.weekday(today, number, back=True), _form(match))


def _weekday_of_week(match: re.Match[str], saying: Saying) -> When:
    at = saying.today + timedelta(weeks=_SHIFTS[match["shift"].lower()])
    return periods.day(at + timedelta(days=_WEEKDAYS[match["day"].lower()] - at.weekday()), _FORMS["day"])


def _bare_weekday(match: re.Match[str], saying: Saying) -> When | None:
    if saying.is_habit(match.start()):
        return None
    at = periods.weekday(saying.today, _WEEKDAYS[match["day"].lower()], saying.looks_back(match.start()))
    return periods.day(at, _form(match))


def _unit(match: re.Match[str], saying: Saying) -> When:
    shift = _SHIFTS[match["shift"].lower()] if match["shift"].lower() != "the" else 0
    if match["unit"].lower() == "weekend":
        return periods.weekend(saying.today + timedelta(weeks=shift), _FORMS["weekend"])
    return periods.counted(saying.now, shift, _UNITS[match["unit"].lower()], _FORMS)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else int(_EN["numbers"][text])


def _half_hour(match: re.Match[str], saying: Saying) -> When:
    return periods.counted(saying.now, -30 if (match["way"] or "").lower() == "ago" else 30, "minute", _FORMS)


def _counted(match: re.Match[str], saying: Saying) -> When:
    count, unit = match["n"].lower(), _UNITS[match["unit"].lower()]
    sign = -1 if (match["way"] or "").lower() in ("ago", "back") else 1
    if count.endswith(_VAGUE):
        return periods.few(saying.now, unit, sign, f"{count} {unit}s {'before' if sign < 0 else 'after'} {{}}")
    return periods.counted(saying.now, sign * _number(count), unit, _FORMS)


def _window(match: re.Match[str], saying: Saying) -> When | None:
    if match["n"].lower().endswith(_VAGUE):
        return None
    back = match["shift"].lower() != "next"
    count = _number(match["n"].lower()) * (-1 if back else 1)
    far = periods.shifted(saying.now, count, _UNITS[match["unit"].lower()])
    begins, last = sorted((far, saying.today))
    return periods.span(begins, last + timedelta(days=1), "day", _FORMS["span"])


def _calendar(match: re.Match[str], saying: Saying) -> When | None:
    """A day or a month of the calendar, with or without a year."""
    number = _MONTHS[match["month"].lower()]
    day = int(match["day"]) if match["day"] else None
    if match["year"]:
        at: date | None = date(int(match["year"]), number, day or 1)
    else:
        at = periods.day_of_year(saying.today, number, day, saying.looks_back(match.start()))
    if at is None:
        return None
    return periods.day(at) if day else periods.month(at)


def _shifted_month(match: re.Match[str], saying: Saying) -> When:
    """`last March` is over, `this March` is this year's, `next March` is to come."""
    number, today = _MONTHS[match["month"].lower()], saying.today
    years = {-1: -(number >= today.month), 0: 0, 1: int(number <= today.month)}[_SHIFTS[match["shift"].lower()]]
    return periods.month(date(today.year + years, number, 1), _FORMS["month"])


def _year(match: re.Match[str], saying: Saying) -> When:
    return periods.year(date(int(match["year"]), 1, 1))


def _day_of_month(match: re.Match[str], saying: Saying) -> When | None:
    at = periods.day_of_month(saying.today, int(match["day"]), saying.looks_back(match.start()))
    return periods.day(at, _FORMS["day"]) if at else None


def _iso(match: re.Match[str], saying: Saying) -> When:
    at = date(int(match["year"]), int(match["month"]), int(match["day"] or 1))
    if wide := match["wide"] or match["zh"]:
        return periods.weekend(at) if wide.endswith(("末", "end of ")) else periods.week(at)
    return periods.day(at) if match["day"] else periods.month(at)


def _slashed(match: re.Match[str], saying: Saying) -> When | None:
    first, second, year = int(match["a"]), int(match["b"]), int(match["year"])
    if first <= 12 and second <= 12 and first != second:
        return None
    return periods.day(date(year, first, second) if first <= 12 else date(year, second, first))


def _time(match: re.Match[str], saying: Saying) -> When | None:
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), (match["half"] or "").lower()
    if half and not 1 <= hour <= 12:
        return None
    return periods.clock(saying.today, time(hour % 12 + 12 * half.startswith("p") if half else hour, minute))


_SHIFT = f"(?P<shift>{alternatives(_SHIFTS)})"
_COUNT = rf"(?P<n>\d{{1,3}}|{alternatives([*_EN['numbers'], 'a few', 'several', 'few'])})"
_UNIT = rf"(?P<unit>{alternatives(_UNITS)})"
_WEEKDAY = f"(?P<day>{alternatives(_WEEKDAYS)})"
_PART = rf"(?:\s+(?P<part>{alternatives(_PARTS)})\b)?"
# May and march are verbs as well: a month begins with a capital, unless no other word is written like it.
_LOWER = [name for name in _MONTHS if len(name) > 3 and name not in ("march", "sept")]
_MONTH = rf"(?P<month>{alternatives([*(name.title() for name in _MONTHS), *_LOWER])})\b(?:\.(?=\s+\d))?"
_DAY = r"(?P<day>3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?\b(?![:.]\d)"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_PREPOSITION = rf"\b(?i:{alternatives(_EN['before_month'])})\s+"
_NO_DAY, _NO_YEAR = "(?P<day>(?!))?", "(?P<year>(?!))?"

_RULES = [
    Rule(rf"(?i:\b(?P<word>{alternatives(_EN['days'])})\b{_PART})", _day),
    Rule(rf"(?i:\b(?P<word>{alternatives(_EN['day_parts'])})\b)", _day_part),
    Rule(rf"(?i:\b{_SHIFT}\s+{_WEEKDAY}\b{_PART})", _weekday),
    Rule(rf"(?i:\b{_WEEKDAY}\s+(?:of\s+)?(?P<shift>last|this|next)\s+week\b)", _weekday_of_week),
    Rule(rf"\b(?i:{_SHIFT})\s+{_MONTH}(?!\s+\d)", _shifted_month),
    Rule(r"(?i:\b(?P<shift>last|next|this)\s+(?P<unit>weekend|week|month|year)\b(?!\s+of\b))", _unit),
    Rule(r"(?i:\b(?:end|start|beginning|middle|rest) of (?P<core>(?P<shift>the) (?P<unit>week|month|year))\b)", _unit),
    Rule(r"(?i:\b(?:by|before|until) (?P<core>(?P<shift>the) (?P<unit>weekend))\b)", _unit),
    Rule(rf"(?i:\b(?:(?:the|over the|during the)\s+)?(?P<shift>last|past|next)\s+{_COUNT}\s+{_UNIT}\b)", _window),
    Rule(r"(?i:\b(?:in\s+)?half\s+an\s+hour(?:\s+(?P<way>ago|from now|later)|(?<=\bin half an hour))\b)", _half_hour),
    Rule(rf"(?i:\b{_COUNT}\s+{_UNIT}\s+(?P<way>ago|back|from now|later)\b)", _counted),
    Rule(rf"(?i:\bin\s+{_COUNT}\s+{_UNIT}(?P<way>['’]?\s+time)?\b)", _counted),
    Rule(rf"\b{_MONTH}\s+{_DAY}(?:,?\s+{_YEAR})?", _calendar),
    Rule(rf"\b(?:the\s+)?{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?", _calendar),
    Rule(rf"{_NO_DAY}\b{_MONTH},?\s+{_YEAR}", _calendar),
    Rule(rf"{_NO_DAY}{_NO_YEAR}{_PREPOSITION}(?P<core>{_MONTH})(?!\s+\d)", _calendar),
    Rule(
        r"(?i:\b(?:on|by|before|until|after|from|due)\s+(?P<core>the\s+(?P<day>\d{1,2})(?:st|nd|rd|th)\b))(?!\s+[a-z])",
        _day_of_month,
    ),
    Rule(
        r"(?i:\b(?P<wide>the week(?:end)? of )|(?<![\d./-]))(?P<year>(?:19|20)\d\d)"
        r"[-/.](?P<month>0?[1-9]|1[0-2])(?:[-/.](?P<day>0?[1-9]|[12]\d|3[01]))?(?![\d/]|[-.]\d)(?P<zh>那周|的周末)?",
        _iso,
    ),
    Rule(r"(?<![\d/])(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<year>(?:19|20)\d\d)(?![\d/])", _slashed),
    Rule(rf"(?i:\b(?:{alternatives(_EN['before_year'])})\s+)(?P<core>{_YEAR})(?![-/.]\d)", _year),
    Rule(rf"(?i:\b{_WEEKDAY}\b{_PART})", _bare_weekday),
    Rule(r"(?i:(?<![\d:.])(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?\s*(?P<half>[ap]\.?m\b\.?))", _time),
    Rule(r"(?P<half>(?!))?(?<![\d:.])(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?![\d:])", _time),
]
_COMPOUNDS = [compound.replace("WEEKDAY", f"(?:{alternatives(_WEEKDAYS)})") for compound in _EN["compounds"]]
# A Chinese character beside an English word is no part of it.
ENGLISH = Grammar(_EN, _RULES, _COMPOUNDS, re.ASCII)
