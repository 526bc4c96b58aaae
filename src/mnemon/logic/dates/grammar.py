"""How a language's dates are read: one pass over the text, then the rule that fits says which days are meant."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from importlib import resources
from typing import Any

from mnemon.logic.dates.periods import When

WORDS: dict[str, Any] = tomllib.loads(
    resources.files("mnemon.logic").joinpath("data/dates.toml").read_text(encoding="utf-8")
)
_GROUP_NAME = re.compile(r"\(\?P<\w+>")


class Saying:
    """A text and the moment it was said, to be asked about the sentence around a date."""

    def __init__(self, text: str, now: datetime, context: str, grammar: Grammar) -> None:
        self.text = text
        self.now = now
        self._context = context
        self._grammar = grammar

    @property
    def today(self) -> date:
        return self.now.date()

    @cached_property
    def _ends(self) -> list[int]:
        return [match.end() for match in self._grammar.ends.finditer(self.text)]

    def _sentence(self, at: int) -> str:
        if self._context:
            return self._context
        start = max((end for end in self._ends if end <= at), default=0)
        return self.text[start : min((end for end in self._ends if end > at), default=len(self.text))]

    def looks_back(self, at: int) -> bool:
        """Does the clause speak of what is over, or the sentence, where the clause does not say?"""
        for words in (self._clause(at), self._sentence(at)):
            past, future = self._grammar.past.search(words), self._grammar.future.search(words)
            if past or future:
                return bool(past and not future)
        return False

    def _clause(self, at: int) -> str:
        if self._context:
            return ""
        start = max(self.text.rfind(mark, 0, at) for mark in ",，;；.。") + 1
        end = min((end for mark in ",，;；.。" if (end := self.text.find(mark, at)) >= 0), default=len(self.text))
        return self.text[start:end]

    def is_habit(self, at: int) -> bool:
        return bool(self._grammar.habit.search(self._sentence(at)))


Resolve = Callable[[re.Match[str], Saying], When | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """`core`, where the pattern names it, is the date itself; what else is matched only shows that it is one."""

    pattern: str
    resolve: Resolve


class Grammar:
    """The rules in order: of two that begin at the same place the first one counts, after the compounds."""

    def __init__(self, words: dict[str, Any], rules: Sequence[Rule], compounds: Sequence[str], flags: int = 0) -> None:
        self.ends, self.past = re.compile(words["ends"]), re.compile(words["past"])
        self.future, self.habit = re.compile(words["future"]), re.compile(words["habit"])
        self._cue = re.compile(words["cue"])
        self._rules = [(re.compile(rule.pattern, flags), rule.resolve) for rule in rules]
        # One alternation finds the place; the groups of a rule are read when it is known which one it is.
        parts = ["|".join(compounds), *(_GROUP_NAME.sub("(?:", rule.pattern) for rule in rules)]
        anything = "|".join(f"(?P<r{n}>{part})" for n, part in enumerate(parts))
        self._any = re.compile(f"{words['starts']}(?:{anything})", flags)

    def read(self, text: str, now: datetime, context: str = "") -> Iterator[tuple[int, int, When]]:
        if not self._cue.search(text):
            return
        saying = Saying(text, now, context, self)
        for match in self._any.finditer(text):
            number = int((match.lastgroup or "r0")[1:])
            if number == 0:
                continue
            pattern, resolve = self._rules[number - 1]
            parts = pattern.match(text, match.start())
            if parts is None:
                continue
            try:
                when = resolve(parts, saying)
            except (ValueError, OverflowError):
                # The thirtieth of February, or a year beyond the calendar.
                continue
            if when is not None:
                start, end = parts.span("core") if "core" in pattern.groupindex else parts.span()
                yield start, end, when


def alternatives(words: Iterable[str]) -> str:
    """Longest first, so that no word hides a longer one."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
