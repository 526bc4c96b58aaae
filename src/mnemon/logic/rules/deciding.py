"""Is a new memory already there? By its words: the same ones, most of them, or few."""

from __future__ import annotations

from mnemon.contracts.drafts import DedupDecision
from mnemon.logic.numerals import numbers
from mnemon.logic.polarity import negative
from mnemon.logic.text import STOP_WORDS, fold, grams, terms

_SAME = 0.9
_ALIKE = 0.5


def decide(candidate: str, existing: str) -> DedupDecision:
    """The same for and against, or with another number, is never the same: it belongs beside what is there."""
    if fold(candidate).strip() == fold(existing).strip():
        return DedupDecision(decision="skip", reason="the same words")
    new, old = _content(candidate), _content(existing)
    shared = len(new & old) / len(new) if new else 0.0
    agree = negative(candidate) == negative(existing) and _values(candidate) <= _values(existing)
    if shared >= _SAME and agree:
        return DedupDecision(decision="skip", reason=f"{shared:.0%} of its words are there")
    if shared >= _ALIKE:
        return DedupDecision(decision="merge_existing", reason=f"shares {shared:.0%} of its words")
    return DedupDecision(decision="create", reason=f"shares only {shared:.0%} of its words")


def _content(text: str) -> set[int]:
    return {gram for gram in grams(terms(text)) if gram not in STOP_WORDS}


def _values(text: str) -> set[str]:
    return {value for value, _, _ in numbers(text)}
