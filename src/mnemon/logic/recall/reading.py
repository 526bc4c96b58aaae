"""What messages say: every clause, whose it is, how it is meant, and whether it is for or against.

Nothing here knows the question. A clause that is asked, supposed, joked, told by others or said of others is kept and
marked as such, because what seems to speak against a point has to be explained, not forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from mnemon.contracts.claims import Language
from mnemon.contracts.results import Message
from mnemon.contracts.turns import Role, Turn
from mnemon.logic.clauses import Clause, sentences
from mnemon.logic.language import language_of
from mnemon.logic.recall.meaning import against, goes_on, standing_of
from mnemon.logic.recall.saying import EARNEST, Saying, Standing
from mnemon.logic.recall.tables import ELLIPTIC, IRONY, JOKES, LAUGHS, QUOTED_SPEECH, TASK, THING_OPENS, TURNS, WILD
from mnemon.logic.recall.whose import whose
from mnemon.logic.rules.cutting import masked, pieces_of
from mnemon.logic.rules.reading import Reading, readings
from mnemon.logic.rules.tables import BOOKS, MASK

_QUOTES = re.compile(r"“([^”]*)”|「([^」]*)」|『([^』]*)』|\"([^\"\n]*)\"")
_REQUEST = re.compile(r"请|以后|一律|(?:的)?时候?[，,]|\b(?:please|always|never|when you|whenever)\b", re.IGNORECASE)
_TELLS = re.compile(
    r"说|写|发|喊|讲|道|朋友圈|\b(?:sa(?:ys?|id|ying)|wrote|writes|shout\w*|post\w*|text\w*|yell\w*|keeps?)\b"
)
# "Why do I get this error: list index out of range": what stands behind the colon is asked about.
_ASKED_FOR = re.compile(
    r"(?:why|how|what|which|who|where|为什么|怎么|这个.{0,6}是什么)[^,，。.]{0,60}[:：]", re.IGNORECASE
)
_BLANK = re.compile(r"(?<=[\u4e00-\u9fff])[ \u3000]+(?=[\u4e00-\u9fff])")
_A_DOUBT: dict[Language, int] = {"zh": 7, "en": 24}


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
        who, named = whose(book, clause, text[start:at], last, before)
        standing: Standing = "joked" if wild else "told" if quoting else standing_of(clause, text[:at])
        standing = "asked" if asks_for and standing in EARNEST else standing
        if standing == "plain" and last is not None and last.standing in ("asked", "request") and goes_on(clause.text):
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
            against=against(clause.text),
            turning=TURNS.search(said) is not None,
            elliptic=elliptic,
        )
        yield last


def _at_blanks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Who types Chinese without marks parts clauses by blanks."""
    for blank in _BLANK.finditer(text, start, end):
        yield start, blank.start()
        start = blank.end()
    yield start, end


def _reading(said: Saying, found: dict[tuple[int, int], Reading]) -> Reading | None:
    return next((r for (a, b), r in found.items() if a < said.end and said.start < b), None)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Without blanks and marks at its edges."""
    said = text[start:end]
    left = len(said) - len(said.lstrip(" \t\n,，:：—-"))
    right = len(said.rstrip(" \t\n,，.。;；!！"))
    return (start + left, start + right) if left < right else (start, end)
