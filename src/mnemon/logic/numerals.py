"""Numbers in a text, however they are written: 12, twelve, 十二; 12k, 1.2 万, twelve thousand; 5%, 百分之五."""

from __future__ import annotations

import re
from decimal import Decimal

from mnemon.logic.memo import remembered

_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL = {word: n for n, word in enumerate(_ONES)} | {word: 20 + 10 * n for n, word in enumerate(_TENS)}
_LARGE = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000}
_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "亿": 100_000_000}
_SCALES = {**_LARGE, "k": 1000, "千": 1000, "万": 10_000, "亿": 100_000_000}
_WORD = "|".join([*sorted(_SMALL, key=len, reverse=True), *_LARGE])
_HAN = "".join([*_DIGITS, *_UNITS])
_PERCENT = r"(?:\s?%|\s(?:percent|per cent)\b)"
_NUMBER = re.compile(
    rf"(?P<arabic>\d+(?:[.,]\d+)*)(?:\s?(?P<scale>[万亿千]|k\b|(?:{'|'.join(_LARGE)})\b))?(?P<rate>{_PERCENT})?"
    rf"|(?P<share>百分之)?(?P<chinese>[{_HAN}]+)"
    rf"|\b(?P<english>(?:{_WORD})(?:(?:\s+and)?[\s-]+(?:{_WORD}))*)\b(?P<part>{_PERCENT})?",
    re.IGNORECASE,
)
# A run longer than any number people say is no number to reckon with.
_LONGEST = 40


def chinese(text: str) -> int:
    """十二 → 12, 三百零五 → 305, 二〇二六 → 2026."""
    if not any(c in _UNITS for c in text):
        return int("".join(str(_DIGITS[c]) for c in text))
    total = section = digit = 0
    for c in text:
        if c in _DIGITS:
            digit = _DIGITS[c]
        elif (unit := _UNITS[c]) >= 10_000:
            total = (total + section + digit) * unit
            section = digit = 0
        else:
            section += (digit or 1) * unit
            digit = 0
    return total + section + digit


@remembered(8192)
def numbers(text: str) -> tuple[tuple[str, int, int], ...]:
    """(value, start, end) of every number; a value is its digits without separators of thousands."""
    found: list[tuple[str, int, int]] = []
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        if match["arabic"]:
            found.append((_arabic(match["arabic"], match["scale"]) + ("%" if match["rate"] else ""), start, end))
        elif match["chinese"]:
            said = match["chinese"]
            value = str(chinese(said)) if len(said) <= _LONGEST else said
            found.append((value + ("%" if match["share"] else ""), start, end))
        else:
            said, at = match["english"], match.start("english")
            values = [(str(value), at + a, at + b) for value, a, b in _english(said)]
            last, begun, _ = values.pop()
            found += [*values, (last + ("%" if match["part"] else ""), begun, end)]
    return tuple(found)


def _arabic(digits: str, scale: str | None) -> str:
    plain = re.sub(r",(?=\d{3}\b)", "", digits)
    if scale is None or len(plain) > _LONGEST or not re.fullmatch(r"\d+(?:\.\d+)?", plain):
        return plain
    return f"{(Decimal(plain) * _SCALES[scale.lower()]).normalize():f}"


def _english(said: str) -> list[tuple[int, int, int]]:
    """two hundred and five → 205; but one, two: what does not add up to one number is several."""
    found: list[tuple[int, int, int]] = []
    total = section = 0
    last = 0  # the value of the word before, 0 where a number begins
    for match in re.finditer(_WORD, said, re.IGNORECASE):
        word = match.group().lower()
        start, end = match.span()
        small = _SMALL.get(word, 0)
        joins = found and (word in _LARGE or (last >= 100 and small < last) or (last >= 20 and small < 10))
        if not joins:
            total = section = 0
        begun = found.pop()[1] if joins else start
        if word not in _LARGE:
            section, last = section + small, small
        elif (last := _LARGE[word]) == 100:
            section = (section or 1) * 100
        else:
            total, section = total + (section or 1) * last, 0
        found.append((total + section, begun, end))
    return found
