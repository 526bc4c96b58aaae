"""How a clause is meant: plainly, asked, supposed, joked, told by others, as a task or as a standing order."""

from __future__ import annotations

import re

from mnemon.logic.clauses import Clause
from mnemon.logic.mood import MOODS
from mnemon.logic.polarity import signs
from mnemon.logic.recall.saying import Saying, Standing
from mnemon.logic.recall.tables import (
    ASKS,
    AVERSE,
    BIDS,
    DENIES,
    HEARER,
    IF,
    LASTING,
    ORDERS,
    SINCE,
    STATES,
    TASK,
    VAGUE,
)

_MOODS: dict[str, Standing] = {
    "joked": "joked",
    "worked on": "told",
    "supposed": "supposed",
    "asked": "asked",
    "reported": "told",
    "of the hearer": "hearer",
    "doubted": "vague",
    "over": "over",
    "wished": "wished",
}
_BY_NAME = {mood.name: mood for mood in MOODS}
_READS = re.compile(r"\bI (?:\w+ )?read(?! that| somewhere| in\b)", re.IGNORECASE)
_GUESS = re.compile(r"\bI suppose(?= I| it| so| that|\W*$)", re.IGNORECASE)
_I_DO = re.compile(r"我(?!的)|.*\b(?:I|we|We)\b")
OF_ONESELF = re.compile(r"(?<![给帮替让把教])我|\b(?:I|I['’]m|I['’]ve|my|we|our)\b")


def standing_of(clause: Clause, before: str) -> Standing:
    if DENIES.search(clause.text):
        return "denied"
    if _is_task(clause):
        return "request"
    if HEARER.match(clause.text):
        return "hearer"
    if ASKS.search(clause.text) and not OF_ONESELF.search(clause.text):
        return "asked"
    clause = clause._replace(text=_plainly(clause.text), sentence=_plainly(clause.sentence))
    for name, standing in _MOODS.items():
        if standing in ("over", "wished") and VAGUE.search(clause.text):
            return "vague"
        if standing == "told" and ORDERS.search(clause.text):
            continue
        if standing == "supposed" and VAGUE.search(clause.text) and not IF.search(clause.sentence):
            continue
        if standing == "over" and SINCE.search(clause.text):
            continue
        if _BY_NAME[name].marked(clause, before):
            return standing
    return "vague" if VAGUE.search(clause.text) else "plain"


def _is_task(clause: Clause) -> bool:
    """A task for now, which says nothing about anybody; what is told beside it of oneself does."""
    if LASTING.search(clause.sentence):
        return False
    if TASK.match(clause.text.strip()):
        return True
    return TASK.match(clause.sentence.strip()) is not None and not OF_ONESELF.search(clause.text)


def goes_on(text: str) -> bool:
    """Behind a question or a task, words without anybody who acts belong to it: "…, flour and butter and all"."""
    return not OF_ONESELF.search(text) and not STATES.search(text)


def _plainly(text: str) -> str:
    """Who supposes something of themselves guesses, and who reads the news reports nothing."""
    return _READS.sub("I use", _GUESS.sub("I guess", text))


def against(text: str) -> bool:
    turned = signs(text)
    return turned % 2 == 1 or (turned == 0 and AVERSE.search(text) is not None)


def bids(said: Saying, alone: bool = False) -> bool:
    """Is it said to the assistant as what it shall do, the clause or, if not `alone`, all of its sentence?"""
    texts = (said.text,) if alone else (said.text, said.whole)
    return any(BIDS.search(text) and not _I_DO.match(text) for text in texts)


def orders(said: Saying) -> bool:
    """Is it to hold from now on, and not about what the speaker does?"""
    if _I_DO.match(said.text):
        return False
    return bids(said) or LASTING.search(said.whole) is not None
