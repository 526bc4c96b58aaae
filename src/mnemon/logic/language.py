"""Which of the two languages a text is in."""

from __future__ import annotations

from mnemon.contracts.claims import Language
from mnemon.logic.text import pieces

# A few pages tell it; a book need not be read for it.
_ENOUGH = 20_000


def language_of(text: str) -> Language:
    """Chinese when its characters outweigh its words; a text with neither counts as English."""
    if text.isascii():
        return "en"
    characters = words = 0
    for run, word in pieces(text[:_ENOUGH]):
        characters += len(run)
        words += bool(word) and not word.isdigit()
    # One English word carries about as much as two characters.
    return "zh" if characters > words else "en"
