"""How words are meant: asked, supposed, wished, doubted, told by others, over, or said of somebody else."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from mnemon.contracts.governance import Kind
from mnemon.logic.clauses import Clause
from mnemon.logic.text import fold

Scope = Literal["clause", "sentence", "before"]

_DATA: dict[str, Any] = tomllib.loads(
    resources.files("mnemon.logic").joinpath("data/mood.toml").read_text(encoding="utf-8")
)


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{p})" for p in patterns) or "(?!)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mood:
    """Where its marks stand is not simply so; a statement says as much by one of `same`. One that is `confirmed` counts
    only for what the user said yes to."""

    name: str
    told: str
    scope: Scope
    kinds: frozenset[Kind]
    marks: re.Pattern[str]
    excepted: re.Pattern[str]
    same: re.Pattern[str]
    confirmed: bool

    def marked(self, clause: Clause, before: str) -> bool:
        if self.name == "asked" and clause.last and clause.sentence.rstrip(" \"'”’)）").endswith(("?", "？")):
            return True
        text = {"clause": clause.text, "sentence": clause.sentence, "before": before}[self.scope].replace("’", "'")
        return bool(self.marks.search(self.excepted.sub(" ", text)))


MOODS = tuple(
    Mood(
        name=row["name"],
        told=row["told"],
        scope=row["scope"],
        kinds=frozenset(map(Kind, row.get("kinds", Kind))),
        marks=_any(row["marks"]),
        excepted=_any(row.get("except", [])),
        same=_any(row["same"]),
        confirmed=row.get("confirmed", False),
    )
    for row in _DATA["mood"]
)
_REQUEST = _any(_DATA["request"]["marks"])
_REQUESTED = frozenset(map(Kind, _DATA["request"]["kinds"]))
# What the user has confirmed was asked, or guessed, by somebody else.
_SETTLED_BY_YES = ("asked", "doubted", "supposed", "of the hearer")


def misread(statement: str, clause: Clause, before: str, kind: Kind, confirmed: bool) -> str:
    """Why a statement takes a clause for more than it was meant, or "" if it does not."""
    for mood in MOODS:
        if kind not in mood.kinds or mood.same.search(statement) or (mood.confirmed and not confirmed):
            continue
        if confirmed and mood.name in _SETTLED_BY_YES:
            continue
        if mood.name == "asked" and kind in _REQUESTED and _REQUEST.search(clause.sentence.strip()):
            continue
        if mood.marked(clause, before):
            return mood.told
    return ""


_WHO = {name: text.replace("KIN_ZH", _DATA["who"]["kin_zh"]).replace("KIN_EN", _DATA["who"]["kin_en"])
        for name, text in _DATA["who"].items()}  # fmt: skip
_SUBJECT = re.compile(
    f"(?P<speaker>{_WHO['speaker']})|(?:{_WHO['others_zh']})|(?:{_WHO['others_en']})", re.IGNORECASE | re.MULTILINE
)
_NAMING = ("of_zh", "role_zh", "of_en", "role_en", "named")
_WHOSE = re.compile(r"\buser'?s?'|用户(?:的|家)|\b(?:he|she|they|his|her)\b|[他她]", re.IGNORECASE)
_NOT_A_NAME = frozenset(
    ["this", "that", "there", "it", "here", "what", "today", "work", "life", "everything", "nothing"]
)


def somebody_else(statement: str, clause: Clause, until: int) -> str:
    """Whom a clause is about, if it is not its speaker and the statement does not name them. `until` is where what the
    two share begins: who acts stands before it, in need anywhere in the clause, or in an earlier one of the sentence
    ("my brother snores and hates cats")."""
    found = list(_SUBJECT.finditer(clause.text.replace("’", "'")))
    acting = next((m for m in reversed(found) if m.start() < until), found[0] if found else None)
    if acting is None:
        earlier = clause.sentence[: max(clause.sentence.find(clause.text), 0)].replace("’", "'")
        acting = next(reversed(list(_SUBJECT.finditer(earlier))), None)
    if acting is None or acting["speaker"]:
        return ""
    told = fold(statement)
    if they := acting["they_zh"] or acting["they_en"]:
        return "" if _WHOSE.search(told) or they.casefold() in told else they
    who: str = next(acting[name] for name in _NAMING if acting[name])
    return "" if who.casefold() in _NOT_A_NAME or any(part in told for part in _stems(who)) else who


def _stems(who: str) -> list[str]:
    """妹妹 and 妹, "parents" and "parent"."""
    folded = fold(who)
    return [folded.rstrip("s"), folded[-1]] if not folded.isascii() else [folded.rstrip("s")]
