"""Words taken out of a turn that stays: each character of them becomes a mark, so that every other place holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mnemon.contracts.claims import Claim
from mnemon.contracts.turns import Span
from mnemon.logic.text import pieces, terms

MASK = "█"

# Where words are taken out, by turn: from and to, in code points.
Cut = Sequence[tuple[int, int]]
Masks = Mapping[str, Cut]


def mask(text: str, cut: Cut, begins: int = 0) -> str:
    """The text without the words between these places; `begins` is where the text itself stands."""
    marks = list(text)
    for start, end in cut:
        start, end = max(start - begins, 0), min(end - begins, len(marks))
        marks[start:end] = MASK * max(end - start, 0)
    return "".join(marks)


def is_silent(text: str) -> bool:
    """Is there no word left in it?"""
    return not pieces(text)


def quotes(text: str, cut: Cut) -> list[str]:
    """The words that are taken out, as far as they still stand there."""
    return [said for start, end in cut if not is_silent(said := text[start:end])]


def without(value: Any, said: Sequence[str]) -> Any:
    """The same JSON value, with these words masked wherever they stand in it."""
    match value:
        case str():
            for words in said:
                value = value.replace(words, MASK * len(words))
            return value
        case dict():
            return {name: without(inner, said) for name, inner in value.items()}
        case list() | tuple():
            return [without(inner, said) for inner in value]
    return value


def touches(span: Span, masks: Masks) -> bool:
    return any(start < span.end and span.start < end for start, end in masks.get(span.turn_id, ()))


def recut(claim: Claim, masks: Masks) -> Claim:
    """The claim with its quotes as they stand in the masked turns."""
    spans = tuple(
        span.model_copy(update={"text_exact": mask(span.text_exact, masks[span.turn_id], span.start)})
        if touches(span, masks)
        else span
        for span in claim.spans
    )
    return claim if spans == claim.spans else claim.model_copy(update={"spans": spans})


def still_rests(claim: Claim, masks: Masks, said: Sequence[str]) -> bool:
    """May a neighbour stay when these words are taken out of what it quotes? Only where every word it shares with its
    quotes is still in them, and where it does not say the masked words itself."""
    after = recut(claim, masks)
    if after is claim:
        return True
    told = (claim.statement, claim.title, claim.overview, claim.content, claim.corrected_from, claim.rationale)
    if any(words in text for words in said for text in told):
        return False
    shared = {*terms(claim.statement)} & {t for span in claim.spans for t in terms(span.text_exact)} - {0}
    return bool(shared) and shared <= {t for span in after.spans for t in terms(span.text_exact)}
