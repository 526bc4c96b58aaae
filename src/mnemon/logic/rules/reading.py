"""Reading a turn: whose each clause is, and the first pattern that fits it. No word is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from mnemon.contracts.governance import Kind
from mnemon.contracts.nodes import Shelf
from mnemon.logic import dates
from mnemon.logic.clauses import sentences
from mnemon.logic.evidence import asks_to_remember
from mnemon.logic.language import language_of
from mnemon.logic.memo import remembered
from mnemon.logic.rules.cutting import pieces_of
from mnemon.logic.rules.tables import BOOKS, MASK, Book, Pattern

_TRAILING = re.compile(
    r"(?:[\s。.!！~～,，、…啊呢吧啦呀哈嘛噢哦]|\s(?:too|as well|though|lol|btw|by the way|haha|please|thanks|then))+$"
)
_ASKING = " \n?？吗么嘛好吧呢"
_SHORTEST = 4
_OBJECTS = ("x", "y", "z", "w")
# Whether a clause holds a date does not depend on the day.
_ANY_DAY = datetime(2024, 1, 2)


@dataclass(frozen=True, slots=True)
class Who:
    """Whom a clause is about: the speaker, or somebody the speaker calls my `kin`."""

    kin: str = ""
    name: str = ""


ME = Who()


@dataclass(frozen=True, slots=True)
class Reading:
    """One clause that says something: where it stands, the pattern that fits it, and its parts as they were said."""

    start: int
    end: int
    sentence: tuple[int, int]
    pattern: Pattern
    book: Book
    who: Who
    prefix: str
    said: str
    verb: tuple[int, int]
    parts: Mapping[str, str]
    mine: bool = False
    remembered: bool = False

    @property
    def around(self) -> tuple[int, int]:
        """The words that say whether it is over: the clause in Chinese, the sentence in English."""
        return (self.start, self.end) if self.book.language == "zh" else self.sentence

    @property
    def shelf(self) -> Shelf:
        """What is said of others is filed under them."""
        return Shelf.ENTITIES if self.who.kin and self.pattern.shelf is not Shelf.EVENTS else self.pattern.shelf

    @property
    def kind(self) -> Kind:
        """Somebody else's preference is a fact about them."""
        return Kind.FACT if self.who.kin else self.pattern.kind

    @property
    def object(self) -> str:
        """What is liked, needed, lived in: the first part that was there."""
        return next((self.parts[name] for name in _OBJECTS if self.parts.get(name)), "").strip() or self.said.strip()


@dataclass(frozen=True, slots=True)
class _Clause:
    """A stretch of a sentence, whom it is about, and where what it says of them begins."""

    start: int
    end: int
    who: Who | None
    prefix: str
    said_from: int
    mine: bool = False


@remembered(4096)
def readings(text: str, of_you: bool = False) -> tuple[Reading, ...]:
    """What a masked text says about its speaker, or, `of_you`, about the one it is said to."""
    found: list[Reading] = []
    before: tuple[int, int] | None = None
    for start, end in sentences(text):
        said = text[start:end]
        book = BOOKS[language_of(said)]
        remembered = not of_you and asks_to_remember(said)
        here = list(_sentence(book, text, start, end, of_you, remembered))
        if remembered and not here:
            here = [_whole(book, text, start, end, before)]
        found += here
        before = start, end
    if found and any(book.traps.turn.search(text) or book.traps.joke.search(text) for book in BOOKS.values()):
        return tuple(reading for reading in found if reading.remembered)
    return tuple(found)


def _sentence(book: Book, text: str, start: int, end: int, of_you: bool, remembered: bool) -> Iterator[Reading]:
    request = None if of_you else book.request.match(text, start, end)
    if request is not None:
        start, end = request.end(), start + len(text[start:end].rstrip(_ASKING))
    elif book.traps.sentence.search(text, start, end):
        return
    pieces = list(pieces_of(book, text, start, end))
    if request is None and pieces and text[start:end].rstrip().endswith(("?", "？")):
        last = pieces.pop()
        if not of_you and book.traps.tag_question.search(text[last[0] : end].strip()):
            return
    who: Who | None = None
    introduced: Who | None = None
    asked: tuple[int, int] | None = None
    alone = not of_you
    for a, b in pieces:
        clause = _clause(book, text, a, b, who or introduced, of_you)
        who, introduced = clause.who, None
        alone = alone and (who is not None or bool(book.bare_start.match(text, clause.start, clause.end)))
        reading = _fits(book, text, clause, of_you, remembered, alone)
        if reading is not None and reading.pattern.name == "remind" and not reading.parts["x"].strip():
            reading = _reminded(text, reading, asked)
        if reading is None:
            asked = clause.start, clause.end
            continue
        if reading.pattern.introduces:
            introduced, who = Who(reading.parts[reading.pattern.introduces].strip()), None
        yield _placed(book, text, replace(reading, sentence=(start, end), remembered=remembered))


def _placed(book: Book, text: str, reading: Reading) -> Reading:
    """A clause such as 用Figma is not Chinese on its own: then the sentence is quoted."""
    if language_of(text[reading.start : reading.end]) == book.language:
        return reading
    start, end = reading.sentence
    said = text[start:end]
    return replace(reading, start=end - len(said.lstrip()), end=start + len(said.rstrip()))


def _reminded(text: str, reading: Reading, asked: tuple[int, int] | None) -> Reading | None:
    """后天要转房租，到时候提醒我: what to be reminded of stands in the clause before."""
    if asked is None:
        return None
    return replace(reading, start=asked[0], parts={**reading.parts, "before": "", "x": text[slice(*asked)]})


def _clause(book: Book, text: str, start: int, end: int, inherited: Who | None, of_you: bool) -> _Clause:
    start += len(text[start:end]) - len(text[start:end].lstrip())
    for opening in (book.lead, book.remember, book.lead):
        if match := opening.match(text, start, end):
            start = match.end()
    trailing = _TRAILING.search(text[start:end])
    end = start + trailing.start() if trailing else end
    if match := book.kin[of_you].match(text, start, end):
        who = Who(match["kin"], match["name"] or "")
        return _about(book, text, start, end, who, match["prefix"], match.end())
    if book.mine and (match := book.mine[of_you].match(text, start, end)):
        return _Clause(start, end, ME, "", match.end(), mine=True)
    if match := book.me[of_you].match(text, start, end):
        return _about(book, text, start, end, ME, match["prefix"], match.end())
    if inherited and inherited.kin and (match := book.pronoun.match(text, start, end)):
        return _Clause(start, end, inherited, "", match.end())
    if book.others.match(text, start, end):
        return _Clause(start, end, None, "", start)
    return _about(book, text, start, end, inherited, "", start)


def _about(book: Book, text: str, start: int, end: int, who: Who | None, prefix: str, said_from: int) -> _Clause:
    """我去年搬到…: a date behind the subject is no part of what is said."""
    if book.before and (match := book.before.match(text, said_from, end)):
        return _Clause(start, end, who, prefix + match["prefix"], match.end())
    return _Clause(start, end, who, prefix, said_from)


def _fits(book: Book, text: str, clause: _Clause, of_you: bool, remembered: bool, alone: bool) -> Reading | None:
    """The first pattern that fits. `alone`: nobody but the speaker was spoken of, so a subject may be left out."""
    whole = text[clause.start : clause.end]
    if len(whole) < 2 or MASK in whole or book.traps.clause.search(whole):
        return None
    asked = whole[:1].lower() + whole[1:] if book.language == "en" and whole[:2] not in ("I ", "I'") else whole
    said = text[clause.said_from : clause.end]
    for pattern in book.candidates(whole):
        if pattern.remembered and not remembered:
            continue
        if pattern.mode in ("asks", "any") and not of_you:
            reading = _matched(book, pattern, asked, clause.start, clause, ME)
            if reading is not None:
                return reading
        if pattern.mode == "asks" or (clause.who is None and not (pattern.bare and alone)):
            continue
        if pattern.only_bare and clause.who is not None:
            continue
        who = clause.who or ME
        if clause.mine != (pattern.mode == "mine") or (pattern.only_me and who.kin):
            continue
        if pattern.kin is not None and not pattern.kin.search(who.kin):
            continue
        text_said = said if book.language == "zh" or clause.mine else said.lstrip()
        reading = _matched(book, pattern, text_said, clause.end - len(text_said), clause, who)
        if reading is not None:
            return reading
    return None


def _matched(book: Book, pattern: Pattern, said: str, offset: int, clause: _Clause, who: Who) -> Reading | None:
    match = pattern.regex.fullmatch(said)
    if match is None or (pattern.needs and not pattern.needs.search(said)):
        return None
    parts = {name: value or "" for name, value in match.groupdict().items()}
    if any(parts.get(name) and book.traps.empty.fullmatch(parts[name]) for name in _OBJECTS):
        return None
    if pattern.when and not _dated(clause.prefix + said):
        return None
    verb = next((match.span(name) for name in match.groupdict() if name.startswith("verb") and match[name]), (0, 0))
    start, end = clause.start, clause.end
    if pattern.span:
        start, end = (offset + at for at in match.span(pattern.span))
        start += len(parts[pattern.span]) - len(parts[pattern.span].lstrip())
    return Reading(start, end, (start, end), pattern, book, who, clause.prefix, said, verb, parts, mine=clause.mine)


def _dated(text: str) -> bool:
    return any(dated.precision != "time" for dated in dates.find(text, _ANY_DAY))


def _whole(book: Book, text: str, start: int, end: int, before: tuple[int, int] | None) -> Reading:
    """What the user asked to remember in words no pattern knows: the sentence, or the one before it."""
    clause = _clause(book, text, start, end, None, False)
    if clause.end - clause.start < _SHORTEST and before is not None:
        clause = _clause(book, text, *before, None, False)
    if clause.end - clause.start < _SHORTEST:
        clause = _Clause(start, len(text[:end].rstrip()), None, "", start)
    a, b = clause.start, clause.end
    said = text[a:b]
    shelf = Shelf.PROFILE if clause.who == ME else Shelf.EVENTS if _dated(said) else Shelf.ENTITIES
    return Reading(a, b, (start, end), book.keeping[shelf], book, ME, "", said, (0, 0), {"x": said}, remembered=True)
