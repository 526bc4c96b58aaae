"""Scoring the absolute sentences against lines labelled by hand."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from mnemon.logic.absolute import Rewritten, Setting, absolute, findings

Part = Literal["development", "test", "unseen"]
Row = dict[str, Any]

FOLDER = Path(__file__).parent
SETTINGS = {
    "python_group": Setting(
        datetime.fromisoformat("2026-02-21T14:30:00+08:00"), "Null", "小未", "Python交流群", "", ("阿杰", "小雨")
    ),
    "hangzhou": Setting(datetime.fromisoformat("2026-02-21T14:30:00+08:00"), "Null", "小未", "", "杭州"),
    "backend_group": Setting(datetime.fromisoformat("2026-02-25T09:05:00+08:00"), "林晓", "Undefined", "后端摸鱼群"),
    "new_year": Setting(datetime.fromisoformat("2026-01-01T00:20:00+08:00"), "1708213363"),
    "climbers": Setting(
        datetime.fromisoformat("2026-03-10T18:45:00-05:00"), "Maya", "Mnemo", "Climbing Crew", "", ("Tom", "Priya")
    ),
    "boston": Setting(datetime.fromisoformat("2026-03-10T18:45:00-05:00"), "James", "Mnemo", "", "Boston"),
    "game_night": Setting(datetime.fromisoformat("2025-12-31T23:50:00+00:00"), "Alex", "Undefined", "Game Night"),
}
_DATE = re.compile(
    r"(?P<en>the week(?:end)? of )?(?<!\d)(?P<iso>(?:19|20)\d\d-\d\d(?:-\d\d(?: \d\d:\d\d)?)?)(?!\d)"
    r"(?P<zh>那周|的周末)?"
    r"|(?<![\d-])(?P<year>(?:19|20)\d\d)(?![\d-])"
)
_WIDE = {"the week of ": "week ", "the weekend of ": "weekend ", "那周": "week ", "的周末": "weekend "}
# Null的妈, James's dad: the owner and what they own are counted one by one.
_OWNED = re.compile(r"的|'s ")


@dataclass
class Score:
    """`passed`: nothing relative is left; `dated`: all dates of a line right, of the lines that name one; `named`: how
    many pronouns and places got the right name, of those that got or should have one."""

    lines: int = 0
    passed: int = 0
    vague: int = 0
    dated: int = 0
    with_dates: int = 0
    named: int = 0
    with_names: int = 0
    errors: list[str] = field(default_factory=list)

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


def rows() -> Iterator[tuple[Part, Row]]:
    """Odd lines of the labelled set are for development, even ones for the test."""
    for number, row in enumerate(_read("labelled"), 1):
        yield ("development" if number % 2 else "test"), row
    yield from (("unseen", row) for row in _read("unseen"))


def _read(name: str) -> list[Row]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def rewritten(row: Row) -> Rewritten:
    return absolute(row["text"], SETTINGS[row["setting"]], row["speaker"])


def score(row: Row) -> Score:
    out, text = rewritten(row), row["text"]
    left = [found.text for found in findings(out.text)]
    dates, expected = _dates(out.text) - _dates(text), set(row.get("dates", ()))
    right, total = _named(row, out)
    errors = [
        f"{what}  {text!r} → {out.text!r}"
        for what, wrong in [
            (f"left {left}", bool(left)),
            (f"dates {sorted(expected)}", dates != expected),
            (f"names {row.get('names', [])} {list(out.unresolved)}", right < total),
        ]
        if wrong
    ]
    return Score(
        1, not left, bool(out.unresolved), dates == expected and bool(expected), bool(expected), right, total, errors
    )


def _dates(text: str) -> set[str]:
    return {
        _WIDE.get(match["en"] or match["zh"] or "", "") + (match["iso"] or match["year"])
        for match in _DATE.finditer(text)
    }


def _named(row: Row, out: Rewritten) -> tuple[int, int]:
    """How often each name came into the text, against how often it should have; `?` is one nobody can know."""
    expected = Counter(part for label in row.get("names", ()) for part in _OWNED.split(label))
    setting = SETTINGS[row["setting"]]
    known = {setting.sender, setting.bot, setting.group, setting.location, *setting.others} - {""}
    came = {name: max(0, _count(out.text, name) - _count(row["text"], name)) for name in known | set(expected) - {"?"}}
    came["?"] = len(out.unresolved)
    right = sum(min(expected[name], count) for name, count in came.items())
    return right, max(expected.total(), sum(came.values()))


def _count(text: str, name: str) -> int:
    """Names in letters are whole words; a date may stand right behind a Chinese one."""
    whole = rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])"
    return len(re.findall(whole, text)) if name.isascii() else text.count(name)


def scores() -> dict[tuple[Part, str], Score]:
    """By part and language, and for both languages together."""
    parts: tuple[Part, ...] = ("development", "test", "unseen")
    out: dict[tuple[Part, str], Score] = {(part, language): Score() for part in parts for language in ("zh", "en")}
    for part, row in rows():
        out[part, row["language"]] += score(row)
    return {**out, **{(part, "both"): out[part, "zh"] + out[part, "en"] for part in parts}}
