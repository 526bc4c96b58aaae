"""Quotes and their places: does a span hold, and where does a quote stand that is out of place?"""

from __future__ import annotations

import unicodedata

from mnemon.contracts.turns import Turn
from mnemon.logic.denoise import verbatim_length

_JOINER = "\u200d"


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
    if _JOINER in (before, after) or unicodedata.combining(after) or 0xFE00 <= ord(after) <= 0xFE0F:
        return True
    if 0x1F3FB <= ord(after) <= 0x1F3FF:  # a skin tone
        return True
    if all(0x1F1E6 <= ord(c) <= 0x1F1FF for c in (before, after)):  # a flag is two of these
        run = len(text[:at]) - len(text[:at].rstrip("".join(map(chr, range(0x1F1E6, 0x1F200)))))
        return run % 2 == 1
    return False
