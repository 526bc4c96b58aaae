"""The words of a turn that are its speaker's own, and the clauses of its sentences, each in its exact place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mnemon.contracts.turns import Turn
from mnemon.logic.evidence import foreign_ranges
from mnemon.logic.rules.tables import MASK, Book

_MASKED = re.compile(
    r"“[^”]*”|「[^」]*」|『[^』]*』|\"[^\"\n]*\"|```[\s\S]*?(?:```|\Z)|`[^`\n]*`|^>.*$|https?://\S+", re.MULTILINE
)


def masked(turn: Turn) -> str:
    """The turn's own words: quotes, code and what others put in are blanked out, place by place."""
    text = _MASKED.sub(lambda match: MASK * len(match.group()), turn.text).replace("’", "'")
    for start, end in foreign_ranges(turn):
        text = text[:start] + MASK * (end - start) + text[end:]
    return text


def pieces_of(book: Book, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Clauses; one that only says when belongs to the next."""
    at = start
    marks = [*((m.start(), m.end()) for m in book.clause_end.finditer(text, start, end)), (end, end)]
    for mark, after in marks:
        piece = text[at:mark].strip()
        if not piece or (book.adverbial.fullmatch(piece) and mark < end):
            if not piece:
                at = after
            continue
        yield at, mark
        at = after
