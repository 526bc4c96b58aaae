"""The gate: which words of a sentence depend on who said it, when or where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mnemon.contracts.claims import Language
from mnemon.logic import dates
from mnemon.logic.absolute.setting import WORDS
from mnemon.logic.memo import remembered

Kind = Literal["pronoun", "time", "place"]

_KINDS: dict[Kind, str] = {"pronoun": "pronouns", "time": "times", "place": "places"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One word that is not absolute, and where it stands (in code points)."""

    kind: Kind
    text: str
    start: int
    end: int


class Mark(NamedTuple):
    """A listed word: what it is, and under what it is listed; `user` is the one thing listed that is no finding."""

    kind: Kind | Literal["user"]
    language: Language
    role: str
    start: int
    end: int


# Where English words begin and end, also beside Chinese characters.
_BEGINS, _ENDS = "(?<![A-Za-z0-9_-])(?=[A-Za-z])", "(?![A-Za-z0-9_]|-[A-Za-z])"


def _listed(language: Language) -> Iterator[str]:
    """Each pattern of a language in a group named after where it is listed."""
    for kind, table in _KINDS.items():
        for role, pattern in WORDS[table][language].items():
            yield f"(?P<{kind}__{language}__{role}>{pattern})"
    yield f"(?P<user__{language}__sender>{WORDS['user'][language]})"


def _compiled() -> re.Pattern[str]:
    """Longer words first, then what is listed."""
    chinese = "|".join([*WORDS["allowed"]["zh"], *_listed("zh")])
    english = f"(?:{'|'.join(WORDS['allowed']['en'])})|(?:{'|'.join(_listed('en'))}){_ENDS}"
    return re.compile(f"{dates.QUOTED.pattern}|(?=[{WORDS['starts']}])(?:{chinese})|{_BEGINS}(?ai:{english})")


_ANY = _compiled()


@remembered(1024)
def marks(text: str) -> tuple[Mark, ...]:
    """Every listed word outside quotes, code, addresses and longer words."""
    found: list[Mark] = []
    for match in _ANY.finditer(text):
        if match.lastgroup is not None:
            kind, language, role = match.lastgroup.split("__")
            found.append(Mark(kind, language, role, *match.span()))  # type: ignore[arg-type]
    return tuple(found)


def findings(text: str) -> list[Finding]:
    """What is not absolute, in order and not overlapping; nothing in quotes, code, addresses and longer words."""
    return list(_findings(text))


@remembered(1024)
def _findings(text: str) -> tuple[Finding, ...]:
    found = [Finding("time", dated.text, dated.start, dated.end) for dated in dates.unsettled(text)]
    for mark in marks(text):
        if mark.kind != "user" and all(mark.end <= other.start or other.end <= mark.start for other in found):
            found.append(Finding(mark.kind, text[mark.start : mark.end], mark.start, mark.end))
    return tuple(sorted(found, key=lambda finding: finding.start))
