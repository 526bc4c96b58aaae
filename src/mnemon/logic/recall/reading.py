"""What messages say: every clause, whose it is, how it is meant, and whether it is for or against.

Nothing here knows the question. A clause that is asked, supposed, joked, told by others or said of others is kept and
marked as such, because what seems to speak against a point has to be explained, not forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from typing import Literal

from mnemon.contracts.claims import Language
from mnemon.contracts.results import Message
from mnemon.contracts.turns import Role, Turn, parse_time
from mnemon.logic.clauses import Clause, sentences
from mnemon.logic.evidence import confirms
from mnemon.logic.language import language_of
from mnemon.logic.mood import MOODS, somebody_else
from mnemon.logic.polarity import signs
from mnemon.logic.recall.tables import (
    ASKS,
    AVERSE,
    BIDS,
    CORRECTS,
    DENIES,
    DISOWNS,
    ELLIPTIC,
    HEARER,
    IF,
    IRONY,
    JOKES,
    LASTING,
    LAUGHS,
    LONGEST_CORRECTION,
    NOBODY,
    OBJECT_ME,
    ORDERS,
    OTHERS,
    OTHERS_KIN,
    QUOTED_SPEECH,
    SINCE,
    STATES,
    TASK,
    THING_OPENS,
    TO_ME,
    TURNS,
    VAGUE,
    WILD,
)
from mnemon.logic.recall.wording import KIN, relation
from mnemon.logic.rules.cutting import masked, pieces_of
from mnemon.logic.rules.reading import Reading, readings
from mnemon.logic.rules.tables import BOOKS, MASK, Book

# `plain` is said in earnest of how things are; `vague` so too, but not for certain; `over` of how they were; `wished`
# of how they shall be. The others say nothing about anybody.
Standing = Literal[
    "plain",
    "vague",
    "over",
    "wished",
    "asked",
    "request",
    "supposed",
    "joked",
    "told",
    "hearer",
    "denied",
    "corrected",
    "echo",
]
EARNEST: frozenset[Standing] = frozenset({"plain", "vague", "over", "wished"})
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
_QUOTES = re.compile(r"“([^”]*)”|「([^」]*)」|『([^』]*)』|\"([^\"\n]*)\"")
_REQUEST = re.compile(r"请|以后|一律|(?:的)?时候?[，,]|\b(?:please|always|never|when you|whenever)\b", re.IGNORECASE)
_TELLS = re.compile(
    r"说|写|发|喊|讲|道|朋友圈|\b(?:sa(?:ys?|id|ying)|wrote|writes|shout\w*|post\w*|text\w*|yell\w*|keeps?)\b"
)
# "Why do I get this error: list index out of range": what stands behind the colon is asked about.
_ASKED_FOR = re.compile(
    r"(?:why|how|what|which|who|where|为什么|怎么|这个.{0,6}是什么)[^,，。.]{0,60}[:：]", re.IGNORECASE
)
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
_READS = re.compile(r"\bI (?:\w+ )?read(?! that| somewhere| in\b)", re.IGNORECASE)
_GUESS = re.compile(r"\bI suppose(?= I| it| so| that|\W*$)", re.IGNORECASE)
_I_DO = re.compile(r"我(?!的)|.*\b(?:I|we|We)\b")
_WITH_ME = re.compile("我[和跟与]")
_BLANK = re.compile(r"(?<=[\u4e00-\u9fff])[ \u3000]+(?=[\u4e00-\u9fff])")
_A_DOUBT: dict[Language, int] = {"zh": 7, "en": 24}
OF_ONESELF = re.compile(r"(?<![给帮替让把教])我|\b(?:I|I['’]m|I['’]ve|my|we|our)\b")
_NEAR = 3
_NEAR_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class Saying:
    """One clause in its sentence. `own` is the whole message with what is not its speaker's blanked out; `who` is ""
    for the one who speaks, else somebody else; `named` that it is a name nobody explains, which may be a thing;
    `of_thing` that it opens with a thing. `turning`: it says that something is no more as it was. `told` is what its
    sentence tells of the same one."""

    message: Message
    own: str
    start: int
    end: int
    sentence: tuple[int, int]
    who: str
    named: bool
    of_thing: bool
    standing: Standing
    against: bool
    turning: bool
    elliptic: bool = False
    rule: str = ""
    told: str = ""

    @property
    def text(self) -> str:
        """The clause in the speaker's own words."""
        return self.own[self.start : self.end]

    @property
    def whole(self) -> str:
        """The sentence in the speaker's own words."""
        return self.own[slice(*self.sentence)]

    @property
    def said_at(self) -> datetime:
        return parse_time(self.message.ts)

    @property
    def key(self) -> tuple[str, int, int]:
        return self.message.message_id, self.start, self.end


def read(message: Message) -> tuple[Saying, ...]:
    """Every clause of a message, in order."""
    if message.role not in (Role.USER, Role.ASSISTANT) or not message.content.strip():
        return ()
    text = _own(message)
    of_you = message.role == Role.ASSISTANT
    found = {(r.start, r.end): r for r in readings(text, of_you=of_you)}
    joke = JOKES.search(text) is not None
    worked_on = TASK.match(text.strip()) is not None and any(book.traps.turn.search(text) for book in BOOKS.values())
    out: list[Saying] = []
    for start, end in _sentences(text):
        for said in _clauses(message, text, start, end, out[-1] if out else None):
            reading = _reading(said, found)
            if joke:
                said = replace(said, standing="joked")
            elif worked_on and not _REQUEST.search(text[start:end]):
                said = replace(said, standing="request")
            elif of_you:
                said = replace(said, standing="echo")
            out.append(replace(said, rule=reading.pattern.name) if reading else said)
    out = [replace(said, told=_told(said, out)) for said in _doubted(out)]
    denied = {said.sentence for said in out if said.standing == "denied"}
    out = [replace(said, standing="denied") if said.sentence in denied else said for said in out]
    if any(said.standing == "joked" for said in out):
        return tuple(replace(said, standing="joked") if said.standing in EARNEST else said for said in out)
    return tuple(out)


def _told(said: Saying, sayings: Sequence[Saying]) -> str:
    return " ".join(other.text for other in sayings if other.sentence == said.sentence and other.who == said.who)


def _doubted(sayings: Sequence[Saying]) -> Iterator[Saying]:
    """想去冲浪，应该会去吧: a doubt with nothing of its own belongs to the clause before it."""
    for said, after in zip_longest(sayings, sayings[1:]):
        doubted = (
            after is not None
            and after.standing == "vague"
            and after.sentence == said.sentence
            and len(after.text) <= _A_DOUBT[language_of(after.text)]
        )
        yield replace(said, standing="vague") if doubted and said.standing in ("plain", "wished") else said


def _own(message: Message) -> str:
    """The message with code, quoted speech and what others put in blanked out; names in quotes stay."""
    turn = Turn(turn_id=message.message_id, role=Role(message.role), text=message.content)
    text = masked(turn)
    for match in _QUOTES.finditer(message.content):
        inner = next(group for group in match.groups() if group is not None)
        if not QUOTED_SPEECH.search(inner):
            text = text[: match.start()] + match.group() + text[match.end() :]
    return text


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Sentences; what trails off in dots goes on in the next."""
    begins: int | None = None
    for start, end in sentences(text):
        begins = start if begins is None else begins
        if text[:end].rstrip().endswith(("…", "...")) and end < len(text.rstrip()):
            continue
        yield begins, end
        begins = None
    if begins is not None:
        yield begins, len(text)


def _clauses(message: Message, text: str, start: int, end: int, before: Saying | None) -> Iterator[Saying]:
    said = text[start:end]
    book = BOOKS[language_of(said)]
    parted = [part for a, b in pieces_of(book, text, start, end) for part in _at_blanks(text, a, b)]
    pieces = [(a, b) for a, b in parted if text[a:b].strip()] or [(start, end)]
    sentence = _stripped(message.content, start, end)
    quoting = MASK in said and _TELLS.search(said) is not None
    wild = IRONY.search(said) is not None or (LAUGHS.search(text[start:]) and WILD.search(said)) is not None
    asks_for = _ASKED_FOR.match(said.strip()) is not None
    last: Saying | None = None
    for number, (a, b) in enumerate(pieces):
        at, to = _stripped(message.content, a, b)
        clause = Clause(text[at:to], said, number == len(pieces) - 1)
        who, named = _whose(book, clause, text[start:at], last, before)
        standing: Standing = "joked" if wild else "told" if quoting else _standing(clause, text[:at])
        standing = "asked" if asks_for and standing in EARNEST else standing
        if standing == "plain" and last is not None and last.standing in ("asked", "request") and _goes_on(clause.text):
            standing = last.standing
        elliptic = number > 0 and ELLIPTIC.search(clause.text.strip(" 。.!！")) is not None
        if not clause.text.strip(f"{MASK} ，。,."):
            continue
        last = Saying(
            message=message,
            own=text,
            start=last.start if elliptic and last is not None else at,
            end=to,
            sentence=sentence,
            who=who,
            named=named,
            of_thing=THING_OPENS[book.language].match(clause.text) is not None,
            standing=standing,
            against=_against(clause.text),
            turning=TURNS.search(said) is not None,
            elliptic=elliptic,
        )
        yield last


def _standing(clause: Clause, before: str) -> Standing:
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


def _at_blanks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Who types Chinese without marks parts clauses by blanks."""
    for blank in _BLANK.finditer(text, start, end):
        yield start, blank.start()
        start = blank.end()
    yield start, end


def _goes_on(text: str) -> bool:
    """Behind a question or a task, words without anybody who acts belong to it: "…, flour and butter and all"."""
    return not OF_ONESELF.search(text) and not STATES.search(text)


def _is_task(clause: Clause) -> bool:
    """A task for now, which says nothing about anybody; what is told beside it of oneself does."""
    if LASTING.search(clause.sentence):
        return False
    if TASK.match(clause.text.strip()):
        return True
    return TASK.match(clause.sentence.strip()) is not None and not OF_ONESELF.search(clause.text)


def _plainly(text: str) -> str:
    """Who supposes something of themselves guesses, and who reads the news reports nothing."""
    return _READS.sub("I use", _GUESS.sub("I guess", text))


def _whose(book: Book, clause: Clause, earlier: str, last: Saying | None, before: Saying | None) -> tuple[str, bool]:
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


def _against(text: str) -> bool:
    turned = signs(text)
    return turned % 2 == 1 or (turned == 0 and AVERSE.search(text) is not None)


def _reading(said: Saying, found: dict[tuple[int, int], Reading]) -> Reading | None:
    return next((r for (a, b), r in found.items() if a < said.end and said.start < b), None)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Without blanks and marks at its edges."""
    said = text[start:end]
    left = len(said) - len(said.lstrip(" \t\n,，:：—-"))
    right = len(said.rstrip(" \t\n,，.。;；!！"))
    return (start + left, start + right) if left < right else (start, end)


def taken_back(said: Saying, after: Sequence[Message]) -> Standing | None:
    """What one of the speaker's next messages makes of it: a joke, or somebody else's words."""
    for message in after:
        if message.role == said.message.role and _follows(said.message, message):
            if JOKES.search(message.content):
                return "joked"
            if DISOWNS.search(message.content):
                return "told"
    return None


def correction(message: Message, later: Sequence[Message]) -> Message | None:
    """The speaker's next message, where it puts this one right."""
    after = sorted((m for m in later if m.role == message.role and _follows(message, m)), key=place)
    return after[0] if after and is_correction(after[0]) else None


def is_correction(message: Message) -> bool:
    return len(message.content) <= LONGEST_CORRECTION and CORRECTS.search(message.content) is not None


def confirmed(message: Message, later: Sequence[Message]) -> Message | None:
    """The user's plain yes to what the assistant said right before."""
    after = sorted((m for m in later if _follows(message, m)), key=place)
    return after[0] if after and after[0].role == Role.USER and confirms(after[0].content) else None


def bids(said: Saying, alone: bool = False) -> bool:
    """Is it said to the assistant as what it shall do, the clause or, if not `alone`, all of its sentence?"""
    texts = (said.text,) if alone else (said.text, said.whole)
    return any(BIDS.search(text) and not _I_DO.match(text) for text in texts)


def orders(said: Saying) -> bool:
    """Is it to hold from now on, and not about what the speaker does?"""
    if _I_DO.match(said.text):
        return False
    return bids(said) or LASTING.search(said.whole) is not None


def place(message: Message) -> tuple[datetime, int, str]:
    return parse_time(message.ts), int(message.meta.get("seq", 0)), message.message_id


def _follows(first: Message, second: Message) -> bool:
    """Is it said soon after, in the same session?"""
    if first.session_id != second.session_id or first.message_id == second.message_id:
        return False
    if "seq" in first.meta and "seq" in second.meta:
        return 0 < int(second.meta["seq"]) - int(first.meta["seq"]) <= _NEAR
    seconds = (parse_time(second.ts) - parse_time(first.ts)).total_seconds()
    return 0 < seconds <= _NEAR_SECONDS
