"""Whom a clause speaks of: the one who says it, or somebody else."""

from __future__ import annotations

import re

from mnemon.logic.clauses import Clause
from mnemon.logic.mood import somebody_else
from mnemon.logic.recall.saying import Saying
from mnemon.logic.recall.tables import NOBODY, OBJECT_ME, ORDERS, OTHERS, OTHERS_KIN, TO_ME
from mnemon.logic.recall.wording import KIN, relation
from mnemon.logic.rules.tables import Book

_PRONOUNS = ("he", "she", "they", "he's", "she's", "everyone", "everybody", "someone", "somebody", "people")
_CROWD = ("everyone", "everybody", "someone", "somebody", "people", "anyone", "anybody")
_NO_NAMES = ("It's", "It", "This", "That", "There", "That's", "There's", "What", "Here")
_OBJECTS = (
    "for",
    "to",
    "with",
    "of",
    "at",
    "from",
    "by",
    "about",
    "like",
    "than",
    "made",
    "let",
    "told",
    "gave",
    "got",
)
_WHOSE = re.compile(r"\b(?:my|our|the|his|her|their)\s*$", re.IGNORECASE)
_OPENING = 5
# Chinese speaks of 儿子 without 我.
_LONG_KIN = "|".join(w for words in KIN.values() for w in words if len(w) > 1 and not w.isascii())
_BARE_KIN = re.compile(f"(?:我们?(?:的|家的?)?)?(?P<kin>{_LONG_KIN})(?!和我|跟我|的?话)")
_KIN_EN = [word for words in KIN.values() for word in words if word.isascii()]
_SHORT_KIN = "|".join(_KIN_EN)
# "Colleague Dave got fined"; shorter ones are also other words.
_BARE_KIN_EN = re.compile(
    rf"(?P<kin>{'|'.join(word for word in _KIN_EN if len(word) > 3)})(?: [A-Z][a-z]+)? (?=[a-z])", re.IGNORECASE
)
_THEIR_KIN = re.compile(rf"{OTHERS_KIN} (?:{_SHORT_KIN})(?:'s)?\b", re.IGNORECASE)
_WITH_ME = re.compile("我[和跟与]")


def whose(book: Book, clause: Clause, earlier: str, last: Saying | None, before: Saying | None) -> tuple[str, bool]:
    """Whom a clause speaks of: "" is the one who says it. What names nobody goes on about whom the words before it
    spoke of, in Chinese across sentences too."""
    text = clause.text.replace("’", "'")
    lead = book.lead.match(text)
    opening = text[lead.end() :] if lead else text
    if ORDERS.search(text) or TO_ME.search(text) or _WITH_ME.match(opening):
        return "", False
    if match := _BARE_KIN.match(opening) or _BARE_KIN_EN.match(opening):
        return match["kin"], False
    if match := book.kin[False].match(opening):
        return match["kin"] + (f" {match['name']}" if match["name"] else ""), False
    if match := _THEIR_KIN.match(opening) or OTHERS[book.language].match(opening):
        return match.group().strip(), False
    if book.me[False].match(opening) or (book.mine and book.mine[False].match(opening)):
        return "", False
    plain = OBJECT_ME.sub(" ", NOBODY.sub(" ", clause.text))
    other = somebody_else("", clause._replace(text=plain, sentence=earlier + plain), len(plain))
    if other and _acts(other, plain):
        return other, other[:1].isupper()
    if last is not None and not earlier.strip():
        return last.who, last.named
    if last is not None and not book.me[False].search(OBJECT_ME.sub("", opening)):
        return last.who, last.named
    if (
        before is not None
        and before.who
        and book.language == "zh"
        and not re.search("我|请|别|不要|以后", clause.sentence)
    ):
        return before.who, before.named
    return "", False


def _acts(other: str, text: str) -> bool:
    """Is it somebody, and do they act: "for my mum's birthday" is said of the speaker, "made everybody move" of IT."""
    known = not other.isascii() or relation(other) or other in _PRONOUNS
    if not (known or (other[:1].isupper() and other not in _NO_NAMES)):
        return False
    before = _WHOSE.sub("", text[: max(text.find(other), 0)]).split()
    if not other.isascii():
        return True
    return len(before) <= (0 if other in _CROWD else _OPENING) and not (before and before[-1].lower() in _OBJECTS)
