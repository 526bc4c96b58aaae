"""Quotes and their places: does a span hold, and where does a quote stand that is out of place?"""

from __future__ import annotations

import unicodedata

from mnemon.contracts.turns import Turn
from mnemon.logic.denoise import verbatim_length

_JOINER = "\u200d"
# Skin tones, and the letters that make the flag of a region.
_PARTS = frozenset(map(chr, [*range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080)]))
_FLAG = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def problem(turn: Turn, start: int, end: int, text_exact: str) -> str:
    """Why these words do not stand there, or "" if they do. Places are Unicode code points."""
    if not text_exact.strip():
        return "the quote is empty"
    if turn.text[start:end] != text_exact:
        return "the quote does not stand there"
    if end > verbatim_length(turn):
        return "the quote reaches into the mark of a cut"
    if _inside(turn.text, start) or _inside(turn.text, end):
        return "the quote cuts a character in two"
    return ""


def place_of(turn: Turn, quote: str) -> tuple[int, int] | None:
    """Where a quote stands, if it stands in the turn exactly once."""
    if not quote.strip():
        return None
    first = turn.text.find(quote)
    if first < 0 or turn.text.find(quote, first + 1) >= 0:
        return None
    return first, first + len(quote)


def _inside(text: str, at: int) -> bool:
    """Is this place within what people see as one character: a letter and its accent, an emoji of several parts?"""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if before == "\r" and after == "\n":
        return True
    if before.isascii() and after.isascii():
        return False
    if _JOINER in (before, after) or unicodedata.category(after).startswith("M") or after in _PARTS:
        return True
    if before in _FLAG and after in _FLAG:  # a flag is two of these
        return (at - len(text[:at].rstrip(_FLAG))) % 2 == 1
    return "\u1160" <= after <= "\u11ff"  # the vowel or the end of a Korean syllable
