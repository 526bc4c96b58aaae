"""Dates in Chinese: 昨天, 上周五, 下个月底, 三天后, 去年3月, 二〇二六年三月九日, 下午三点半."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, time, timedelta
from typing import Any

from mnemon.logic.dates import periods
from mnemon.logic.dates.grammar import WORDS, Grammar, Rule, Saying, alternatives
from mnemon.logic.dates.periods import PartOfMonth, Unit, When
from mnemon.logic.numerals import chinese

_ZH = WORDS["zh"]
_FORMS: dict[str, str] = _ZH["forms"]
_SHIFTS: dict[str, int] = _ZH["shifts"]
_UNITS: dict[str, Unit] = _ZH["units"]
_WEEKDAYS: dict[str, int] = _ZH["weekdays"]
_PARTS: dict[str, PartOfMonth] = {"初": "begin", "中": "middle", "底": "end", "末": "end"}
_QUARTERS = {"半": 30, "一刻": 15, "三刻": 45}
_FEW = ("几", "数")
_HALVES: dict[str, tuple[int, Unit]] = {
    "年": (6, "month"), "月": (2, "week"), "小时": (30, "minute"), "钟头": (30, "minute")
}  # fmt: skip


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else chinese(text)


def _day(match: re.Match[str], saying: Saying) -> When:
    return periods.day(saying.today + timedelta(days=_ZH["days"][match["word"]]), _FORMS["day"])


def _day_part(match: re.Match[str], saying: Saying) -> When:
    word = match["word"]
    return periods.day(saying.today + timedelta(days=_ZH["day_parts"][word]), _FORMS["day"] + word[-1])


def _weekday(match: re.Match[str], saying: Saying) -> When:
    at = saying.today + timedelta(weeks=_SHIFTS[match["shift"]])
    if match["day"] == "末":
        return periods.weekend(at, _FORMS["weekend"])
    return periods.day(at + timedelta(days=_WEEKDAYS[match["day"]] - at.weekday()), _FORMS["day"])


def _bare_weekday(match: re.Match[str], saying: Saying) -> When | None:
    if saying.is_habit(match.start()):
        return None
    at = periods.weekday(saying.today, _WEEKDAYS[match["day"]], saying.looks_back(match.start()))
    return periods.day(at, _FORMS["day"])


def _week(match: re.Match[str], saying: Saying) -> When:
    return periods.week(saying.today + timedelta(weeks=_SHIFTS[match["shift"]]), _FORMS["week"])


def _in_month(first: date, match: re.Match[str], relative: bool = True) -> When:
    """A day, a part or the whole of a month."""
    if match["day"]:
        return periods.day(first.replace(day=_number(match["day"])), _FORMS["day"] if relative else "")
    if match["part"]:
        form = _FORMS["part"].replace("@", match["part"]) if relative else ""
        return periods.part_of_month(first, _PARTS[match["part"]], form)
    return periods.month(first, _FORMS["month"] if relative else "")


def _month(match: re.Match[str], saying: Saying) -> When:
    return _in_month(periods.add_months(saying.today.replace(day=1), _SHIFTS[match["shift"]]), match)


def _part_of_this_month(match: re.Match[str], saying: Saying) -> When:
    return _in_month(saying.today.replace(day=1), match)


def _end_of_year(first: date, part: str) -> When:
    """年初 is January, 年底 is December."""
    return periods.month(first if part == "初" else first.replace(month=12), _FORMS["month"])


def _part_of_this_year(match: re.Match[str], saying: Saying) -> When:
    return _end_of_year(date(saying.today.year, 1, 1), match["part"])


def _year(match: re.Match[str], saying: Saying) -> When:
    first = date(saying.today.year + _ZH["years"][match["word"]], 1, 1)
    if match["end"]:
        return _end_of_year(first, match["end"])
    if match["month"]:
        return _in_month(first.replace(month=_number(match["month"])), match)
    return periods.year(first, _FORMS["year"])


def _full(match: re.Match[str], saying: Saying) -> When:
    first = date(_number(match["year"]), _number(match["month"] or "1"), 1)
    return _in_month(first, match, relative=False) if match["month"] else periods.year(first)


def _without_year(match: re.Match[str], saying: Saying) -> When | None:
    day = _number(match["day"]) if match["day"] else None
    at = periods.day_of_year(saying.today, _number(match["month"]), day, saying.looks_back(match.start()))
    return _in_month(at.replace(day=1), match, relative=False) if at else None


def _day_of_month(match: re.Match[str], saying: Saying) -> When | None:
    at = periods.day_of_month(saying.today, _number(match["day"]), saying.looks_back(match.start()))
    return periods.day(at, _FORMS["day"]) if at else None


def _counted(match: re.Match[str], saying: Saying) -> When:
    count, unit = match["n"], _UNITS[match["unit"]]
    sign = -1 if match["way"] == "前" else 1
    if count in _FEW:
        return periods.few(saying.now, unit, sign, f"{{}}的{match.group()}")
    if match["way"] == "内":
        last = periods.shifted(saying.now, _number(count), unit)
        return periods.span(saying.today, last + timedelta(days=1), "day", _FORMS["within"])
    return periods.counted(saying.now, sign * _number(count), unit, _FORMS)


def _half(match: re.Match[str], saying: Saying) -> When:
    """半年 is six months, 半个月 about two weeks, 半小时 thirty minutes."""
    sign = -1 if match["way"] == "前" else 1
    count, unit = _HALVES[match["unit"]]
    return periods.counted(saying.now, sign * count, unit, _FORMS)


def _in(match: re.Match[str], saying: Saying) -> When:
    """再过三个月: as three months from now."""
    return periods.counted(saying.now, _number(match["n"]), _UNITS[match["unit"]], _FORMS)


def _same_day(match: re.Match[str], saying: Saying) -> When:
    """三年前的今天, 去年今天."""
    years = _number(match["n"]) if match["n"] else -int(_ZH["years"][match["word"]])
    return periods.day(periods.add_months(saying.today, -12 * years), _FORMS["day"])


def _two_days(match: re.Match[str], saying: Saying) -> When:
    """明后天, 今明两天."""
    first = saying.today + timedelta(days=_ZH["two_days"][match["word"]])
    return periods.span(first, first + timedelta(days=2), "day", _FORMS["span"])


def _days_before(match: re.Match[str], saying: Saying) -> When:
    return periods.few(saying.now, "day", -1, "{}的几天前")


def _window(match: re.Match[str], saying: Saying) -> When:
    count = _number(match["n"]) * (1 if match["ahead"] else -1)
    begins, last = sorted((saying.today, periods.shifted(saying.now, count, _UNITS[match["unit"]])))
    return periods.span(begins, last + timedelta(days=1), "day", _FORMS["span"])


def _time(match: re.Match[str], saying: Saying) -> When:
    hour, part, rest = _number(match["hour"]), match["part"], match["rest"] or ""
    if part and hour < 12 and not (part == "中午" and hour >= 10):
        hour += _ZH["hours"][part]
    minute = _QUARTERS[rest] if rest in _QUARTERS else _number(match["minute"]) if match["minute"] else 0
    return periods.clock(saying.today, time(0 if hour == 24 else hour, minute))


def _apart(words: Mapping[str, Any]) -> str:
    """The words, unless their first character belongs to the word before."""
    not_after: dict[str, str] = _ZH["not_after"]
    return "|".join(
        f"(?<![{not_after[word[0]]}]){word}" if word[0] in not_after else word
        for word in sorted(words, key=len, reverse=True)
    )


_NUMBER = r"(?:\d{1,4}|[零〇一二两三四五六七八九十百]{1,4})"
_WEEK = "(?:周|星期|礼拜)"
_SHIFT = f"(?P<shift>{_apart(_SHIFTS)})"
_UNIT = f"(?P<unit>{alternatives(_UNITS)})"
_IN_MONTH = rf"(?:(?P<day>{_NUMBER})[日号]|(?P<part>[初底中末](?![学国文秋心])))?"
_MONTH = rf"(?P<month>{_NUMBER})月份?{_IN_MONTH}"
_WAY = "(?:之|以)?(?P<way>前(?![端台辈任景])|后(?![端台期果悔])|内(?![容存部]))"
_DAY = r"(?P<day>\d{1,2}|[二三]?十[一二三四五六七八九]?|[一二三四五六七八九])"
_HOUR = r"(?P<hour>\d{1,2}|[零一二两三四五六七八九十]{1,3})"
_MINUTE = rf"(?P<rest>半|[一三]刻|(?P<minute>{_NUMBER})分)"

_RULES = [
    Rule(f"(?P<word>{alternatives(_ZH['two_days'])})(?:两天|天)", _two_days),
    Rule(rf"(?:(?P<n>{_NUMBER})年前|(?P<word>{_apart(_ZH['years'])}))的?今[天日]", _same_day),
    Rule(f"(?P<word>{_apart(_ZH['days'])})", _day),
    Rule(f"(?P<word>{_apart(_ZH['day_parts'])})", _day_part),
    Rule(f"{_SHIFT}个?{_WEEK}(?P<day>[一二三四五六日天末])", _weekday),
    Rule(f"{_SHIFT}个?{_WEEK}", _week),
    Rule(f"{_SHIFT}个?月份?{_IN_MONTH}", _month),
    Rule(f"(?P<word>{_apart(_ZH['years'])})(?:的?{_MONTH}|年?(?P<end>[初底末]))?", _year),
    Rule(rf"(?P<day>(?!))?(?<![{_ZH['not_part_after']}])月(?P<part>[初底末])", _part_of_this_month),
    Rule(rf"(?<![{_ZH['not_part_after']}])年(?P<part>[初底末])", _part_of_this_year),
    Rule(rf"(?P<year>\d{{4}}|[零〇一二三四五六七八九]{{4}})年(?:{_MONTH})?(?![代级间])", _full),
    Rule(rf"(?P<n>\d{{1,4}}|[一二两三四五六七八九十百]{{1,4}}|(?<!\d的)[几数])多?个?{_UNIT}{_WAY}", _counted),
    Rule(rf"半(?:个(?=[月小钟]))?(?P<unit>年|月|小时|钟头){_WAY}", _half),
    Rule(rf"(?<![超不度经通路])再?过(?P<n>\d{{1,3}}|[一三四五六七八九十]{{1,3}}|两(?!天))个?{_UNIT}(?![多了左])", _in),
    Rule("(?<![以之])前[几两]天", _days_before),
    Rule(rf"(?:过去|最近|近|(?P<ahead>未来|接下来|今后))的?这?(?P<n>{_NUMBER})个?{_UNIT}", _window),
    Rule(rf"(?<![个\d第]){_MONTH}", _without_year),
    Rule(f"{_WEEK}(?P<day>[一二三四五六日天])", _bare_weekday),
    Rule(rf"(?<![\d第A-Za-z]){_DAY}号(?={_ZH['before_day_of_month']})", _day_of_month),
    Rule(rf"(?<={_ZH['after_day_of_month']}){_DAY}号(?!{_ZH['not_day_of_month']})", _day_of_month),
    Rule(rf"(?P<part>{alternatives(_ZH['hours'])})\s*{_HOUR}(?:点钟?{_MINUTE}?|时(?![候间段代光]))", _time),
    Rule(rf"(?P<part>(?!))?(?<![\d.]){_HOUR}点(?:钟|{_MINUTE})", _time),
]
CHINESE = Grammar(_ZH, _RULES, _ZH["compounds"])
