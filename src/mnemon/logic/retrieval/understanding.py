"""What a question says about where its answer stands, read without a model: whom it names, when, and how many."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from mnemon.contracts.claims import Language
from mnemon.contracts.turns import epoch_ms
from mnemon.logic import dates
from mnemon.logic.language import language_of
from mnemon.logic.lexical import MAX_QUERY
from mnemon.logic.retrieval.ranking_data import Forms
from mnemon.logic.text import STOP_WORDS, fold, pieces, terms

_SELF = {"en": ("I", "my"), "zh": ("我", "我的")}


@dataclass(frozen=True)
class Understood:
    """`names` are speakers the question names; `periods` are stretches of time it names, in milliseconds."""

    text: str
    language: Language
    names: tuple[str, ...]
    periods: tuple[tuple[int, int], ...]
    wants_date: bool
    wants_several: bool
    speaks_of_self: bool

    @cached_property
    def words(self) -> str:
        """What to look for in other people's words: no speaker's name, nothing a search would take for an order."""
        plain = _replaced(self.text, self.names, lambda whose: " ")
        found = (run or word.casefold() for run, word in pieces(plain))
        return " ".join(found)[:MAX_QUERY].strip() if _telling(plain) else ""

    @cached_property
    def as_said(self) -> str:
        """The question as the one it names would put it: people say I, not their own name."""
        me, my = _SELF[self.language]
        return _replaced(self.text, self.names, lambda whose: my if whose else me)

    @cached_property
    def terms(self) -> tuple[int, ...]:
        return tuple(n for n in terms(self.words) if n)

    def told(self) -> dict[str, object]:
        """For a caller who wants to know."""
        return {
            "language": self.language,
            "names": list(self.names),
            "periods": [[_day(begin), _day(end)] for begin, end in self.periods],
            "wants_date": self.wants_date,
            "wants_several": self.wants_several,
            "speaks_of_self": self.speaks_of_self,
        }


def understand(text: str, reference: datetime, forms: Forms, speakers: Iterable[str] = ()) -> Understood:
    """`reference` is the day its relative dates count from; `speakers` are people who have spoken."""
    return Understood(
        text=text,
        language=language_of(text),
        names=tuple(sorted(_named(text, speakers), key=lambda name: (-len(name), name))),
        periods=periods_in(text, reference),
        wants_date=forms.wants_date.search(text) is not None,
        wants_several=forms.wants_several.search(text) is not None,
        speaks_of_self=forms.speaks_of_self.search(text) is not None,
    )


def periods_in(text: str, reference: datetime) -> tuple[tuple[int, int], ...]:
    """The stretches of time a text names."""
    return tuple(_period(dated, reference) for dated in dates.find(text, reference))


def calls(name: str) -> tuple[str, ...]:
    """What a speaker is called: by the whole name, or by its first word."""
    first = name.split()[0] if name.split() else ""
    return tuple(dict.fromkeys(part for part in (name.strip(), first) if len(part) > 1))


def is_called(speaker: str, names: tuple[str, ...]) -> bool:
    return any(fold(name) in map(fold, calls(speaker)) for name in names)


def _named(text: str, speakers: Iterable[str]) -> set[str]:
    called = {call for speaker in set(speakers) for call in calls(speaker)}
    return {call for call in called if _name_form(call).search(text)}


def _name_form(name: str) -> re.Pattern[str]:
    """As a word of its own; where a language parts no words, anywhere."""
    plain = re.escape(name)
    return re.compile(rf"(?<!\w){plain}(?P<whose>['’]s)?(?!\w)" if name.isascii() else rf"{plain}(?P<whose>的)?")


def _replaced(text: str, names: tuple[str, ...], by: Callable[[bool], str]) -> str:
    """The text with each name, and each name's possessive, put differently."""
    for name in names:
        text = _name_form(name).sub(lambda found: by(found["whose"] is not None), text)
    return text


def _telling(text: str) -> bool:
    return any(n and n not in STOP_WORDS for n in terms(text))


def _period(dated: dates.Dated, reference: datetime) -> tuple[int, int]:
    begin, end = (
        epoch_ms(datetime(day.year, day.month, day.day, tzinfo=reference.tzinfo)) for day in (dated.begins, dated.ends)
    )
    return begin, end


def _day(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).date().isoformat()
