"""Does a sentence say more than the words it cites? Every content word, number, name and date of it must stand there,
every other word have its sense there, and what was asked, denied or supposed must not come out as said.

This is a check of words, not of meaning: it cannot tell who did what to whom from the same words in another order, and
it refuses fair sentences that use words of their own. It errs towards silence.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from importlib import resources
from typing import NamedTuple

from mnemon.contracts.governance import Kind
from mnemon.logic import dates
from mnemon.logic.clauses import Clause, clauses, segments
from mnemon.logic.memo import remembered
from mnemon.logic.mood import misread, somebody_else
from mnemon.logic.numerals import numbers
from mnemon.logic.polarity import negative
from mnemon.logic.senses import SENSE_RUNS, SENSE_WORDS, carried, senses
from mnemon.logic.text import STOP_WORDS, fold, pieces, word_number

_NEUTRAL = tomllib.loads(
    resources.files("mnemon.logic").joinpath("data/neutral_words.toml").read_text(encoding="utf-8")
)
# What has a sense is held to that.
_NEUTRAL_WORDS = frozenset(word_number(word) for word in _NEUTRAL["en"]) | STOP_WORDS | SENSE_WORDS
_NEUTRAL_RUNS = re.compile("|".join(map(re.escape, sorted({*_NEUTRAL["zh"], *SENSE_RUNS}, key=len, reverse=True))))
_IRREGULAR = {
    word_number(form): frozenset(map(word_number, line.split()))
    for line in resources.files("mnemon.logic").joinpath("data/irregular_en.txt").read_text("utf-8").splitlines()
    for form in line.split()
}
_LETTERS_OR_DIGITS = re.compile(r"\d+|[^\W\d_]+(?:['’][^\W\d_]+)*")
THE_USER = re.compile(r"\b(?:the )?users?\b|用户", re.IGNORECASE)
# What is counted: behind a measure word a unit, or two characters of the thing.
_COUNTED = re.compile(
    r"\s*[个位名只条件次种杯本张头匹辆台]?([天周月年岁日号点元块斤米人]|[^\W\d_a-z和与跟及或的了在]{1,2})"
)
_DIRECTED = re.compile(
    r"\bthan\b|\bprefer\w*\b.*\b(?:to|over)\b|\bfrom\b.+\bto\b|\b(?:lend|lent|borrow\w*|owes?|owed|ga?ve|sent|sold)\b"
    r"|\d\s?/\s?\d|比|从.+[到去往]|借|欠|送给|还给|而不是",
    re.IGNORECASE,
)
_LISTED = re.compile(r"\b(?:and|or|with)\b|[,，、和]", re.IGNORECASE)
_TERM = re.compile(r"用户|[\u3400-\u9fff]|\d+|[^\W\d_]+")
_SPEAKER = re.compile(r"i|we|me|us|my|our|users?|我|咱|用户")
_NAME = re.compile(r"\b[A-Z][a-z]+\b")
# Chinese that rests on the right characters in another order still rests on them; a new word has new pairs.
_PAIRS_NEEDED = 0.5
_A_WEEK = timedelta(days=7)


class Cited(NamedTuple):
    """Words somebody said, who said them, and when: relative dates in them are meant from then on.

    `asked` is the question they answer, `before` all their speaker said up to there; a tool's words say nothing of the
    user unless they name one; `confirmed` words were somebody else's and the user said yes to them."""

    text: str
    speaker: str = ""
    said_at: datetime | None = None
    asked: str = ""
    before: str = ""
    from_tool: bool = False
    confirmed: bool = False


def unsupported(statement: str, cited: Sequence[Cited]) -> list[str]:
    """What the statement says and the cited words do not; empty when it holds."""
    source = "\n".join([*(c.text for c in cited), *(c.speaker for c in cited)])
    rest, odd = _without_dates(statement, cited, source)
    odd += _odd_numbers(rest, source)
    odd += _odd_words(rest, source)
    odd += _odd_characters(rest, source)
    odd += _odd_senses(rest, cited)
    odd += [c for c in statement if unicodedata.category(c) in ("So", "Sc") and c not in source]
    if cited and all(c.from_tool for c in cited) and THE_USER.search(statement) and not THE_USER.search(source):
        odd.append(THE_USER.findall(statement)[0])
    return list(dict.fromkeys(odd))


def invented(text: str, cited: Sequence[Cited]) -> list[str]:
    """For what may be put in words of its own: the numbers, names and dates in it that nobody said."""
    return [word for word in unsupported(text, cited) if word[:1].isupper() or any(c.isdigit() for c in word)]


def is_mostly_new(text: str, cited: Sequence[Cited]) -> bool:
    """Is less than half of what it speaks of spoken of in the words it is made from?"""
    said = content_terms("\n".join([*(c.text for c in cited), *(c.speaker for c in cited)]))
    about = content_terms(text)
    return len(about & said) * 2 < len(about)


def says_nothing(statement: str) -> bool:
    """Is it made of words that would fit anything?"""
    return not content_terms(statement) and not senses(statement) - {"being"}


def twisted(statement: str, cited: Sequence[Cited], kind: Kind = Kind.FACT) -> str:
    """Why the statement is not what the words closest to it say, although it is made of them; "" if it is."""
    for mine in clauses(statement):
        near = [(_closeness(mine.text, clause.text), clause, c) for c in cited for clause in clauses(c.text)]
        best = max((n for n, _, _ in near), default=0)
        reasons = [_twist(mine.text, statement, clause, c, kind) for n, clause, c in near if n == best]
        if reasons and all(reasons):
            return reasons[0]
    return _misplaced(statement, cited)


def _twist(mine: str, statement: str, clause: Clause, cited: Cited, kind: Kind) -> str:
    said = clause.text
    if cited.asked and not senses(said):
        said = f"{cited.asked} {said}"  # "Any allergies?" "Peanuts."
    if negative(mine) != negative(said):
        return "turns the quoted words round"
    if why := misread(statement, clause, cited.before, kind, cited.confirmed):
        return why
    if _reordered(mine, clause.text):
        return "changes what comes before and after"
    if cited.from_tool or cited.confirmed:
        return ""
    if other := somebody_else(statement, clause, _begins(clause.text, content_terms(mine))):
        return f"leaves out that it was said of {other}"
    return ""


def _reordered(mine: str, said: str) -> bool:
    """Where the order is the meaning (A rather than B, from A to B, A lent B), is it another one?"""
    names = [n for n in _names(mine) if n in said]
    if len(names) > 1 and not _LISTED.search(said):
        return sorted(names, key=mine.index) != sorted(names, key=said.index)
    if not _DIRECTED.search(said):
        return False
    there, here = _sequence(said), _sequence(mine)
    return [t for t in here if t in there] != [t for t in there if t in here]


def _sequence(text: str) -> list[int | str]:
    """Content, numbers and the speaker, in the order in which they first come."""
    found: list[int | str] = []
    for match in _TERM.finditer(fold(text)):
        word = match.group()
        if _SPEAKER.fullmatch(word):
            found.append("@")
        elif not (terms := content_terms(word)).issubset(found):
            found += terms
    return list(dict.fromkeys(found))


def _closeness(mine: str, said: str) -> int:
    """Shared content counts more than shared senses."""
    return 2 * len(content_terms(mine) & content_terms(said)) + len(senses(mine) & carried(said))


def _begins(clause: str, shared: frozenset[int | str]) -> int:
    """Where the first word two texts share stands; the end, where they share none."""
    places = [m.start() for m in _LETTERS_OR_DIGITS.finditer(clause) if word_number(m.group()) in shared]
    places += [n for n, c in enumerate(clause) if c in shared]
    return min(places, default=len(clause))


@remembered(8192)
def content_terms(text: str) -> frozenset[int | str]:
    """Content words and characters, to measure how much two texts share."""
    found: set[int | str] = set()
    for run, word in pieces(fold(text)):
        if run:
            found.update(_NEUTRAL_RUNS.sub("", run))
        else:
            found.update(n for n in map(word_number, _LETTERS_OR_DIGITS.findall(word)) if n not in _NEUTRAL_WORDS)
    return frozenset(found)


def _particulars(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Every segment with its numbers, and with its names."""
    for segment in segments(text):
        yield segment, frozenset(value for value, _, _ in numbers(fold(segment)))
        yield segment, _names(segment)


def _names(text: str) -> frozenset[str]:
    return frozenset(name for name in _NAME.findall(text) if word_number(name) not in _NEUTRAL_WORDS)


def _misplaced(statement: str, cited: Sequence[Cited]) -> str:
    """Is a number or a name taken from one thing and said of another? Then a clause that is clearly closer to the
    statement holds another one."""
    said = [row for c in cited for row in _particulars(c.text)]
    for mine, values in _particulars(statement):
        for value in values:
            about = mine.replace(value, " ")
            own = [_alike(about, text) for text, _ in said if _holds(text, value)]
            rivals = [
                _alike(about, text)
                for text, others in said
                if not _holds(text, value) and _same_sort(value, others - values)
            ]
            if own and rivals and max(rivals) > max(own):
                return f"says {value} of another thing"
    return ""


def _alike(a: str, b: str) -> int:
    return len(content_terms(a) & content_terms(b)) + len(senses(a) & carried(b))


def _holds(text: str, value: str) -> bool:
    return value in text or any(value == found for found, _, _ in numbers(fold(text)))


def _same_sort(value: str, others: frozenset[str]) -> bool:
    return any(value[:1].isdigit() == other[:1].isdigit() for other in others)


class _Day(NamedTuple):
    begins: date
    ends: date
    at: time | None
    loose: bool

    def allows(self, other: dates.Dated) -> bool:
        """A date may be told as it is or less exactly, never more; what was relative to a week, by its days too."""
        if other.at is not None and other.at != self.at:
            return False
        wider = other.begins <= self.begins and self.ends <= other.ends
        within = self.begins <= other.begins and other.ends <= self.ends
        return wider or (self.loose and within)


def _without_dates(statement: str, cited: Sequence[Cited], source: str) -> tuple[str, list[str]]:
    """The statement without the dates the cited words give, and the dates they do not."""
    known: list[_Day] = []
    for c in cited:
        if c.said_at is None:
            continue
        given = dates.find(c.text, c.said_at)
        known += [_Day(d.begins, d.ends, d.at, d.relative and d.ends - d.begins <= _A_WEEK) for d in given]
        if not any(d.precision != "time" for d in given):  # words without a date are of the day they were said
            today = c.said_at.date()
            known += [_Day(today, today + timedelta(days=1), at, True) for at in {None, *(d.at for d in given)}]
    reference = next((c.said_at for c in cited if c.said_at), datetime(2000, 1, 1))
    odd: list[str] = []
    rest = statement
    for d in reversed(dates.find(statement, reference)):
        verbatim = re.search(rf"(?<!\d){re.escape(d.text)}(?!\d)", source)
        if not verbatim and not any(day.allows(d) for day in known):
            odd.append(d.text)
        rest = f"{rest[: d.start]} {rest[d.end :]}"
    return rest, odd


def _odd_numbers(statement: str, source: str) -> list[str]:
    there = _counted(source)
    values = {value for value, _ in there}
    odd: list[str] = []
    for value, what in _counted(statement):
        rivals = {v for v, w in there if w and w == what}
        # The number stands somewhere, but the thing counted is counted otherwise.
        if value not in values or (rivals and value not in rivals):
            odd.append(value)
    return odd


def _counted(text: str) -> list[tuple[str, int | str]]:
    """Every number and what stands right behind it: the thing it counts."""
    plain = fold(text)
    return [(value, _thing(plain[end : end + 40])) for value, _, end in numbers(plain)]


def _thing(after: str) -> int | str:
    if match := _COUNTED.match(after):
        return match[1]
    for word in re.findall(r"\s*([a-z]+)|.", after, re.DOTALL):
        if not word:
            break
        if (number := word_number(word)) not in STOP_WORDS:
            return number
    return ""


def _odd_words(statement: str, source: str) -> list[str]:
    there = {number for word in _words(source) for number in _forms(word)}
    return [
        word
        for word in _words(statement)
        if not word.isdigit()
        and there.isdisjoint(_forms(word))
        and word_number(word) not in _NEUTRAL_WORDS
        and not _is_number(word)
    ]


def _forms(word: str) -> frozenset[int]:
    """A word's number, and where it is irregular those of its other forms."""
    return _IRREGULAR.get(number := word_number(word), frozenset({number}))


def _words(text: str) -> Iterable[str]:
    """Words as they stand, and their parts where digits touch letters: 5km, B12."""
    for _, word in pieces(text):
        if word:
            yield from _LETTERS_OR_DIGITS.findall(word)


def _is_number(word: str) -> bool:
    return any((start, end) == (0, len(word)) for _, start, end in numbers(word))


def _odd_characters(statement: str, source: str) -> list[str]:
    folded = fold(source)
    there = set(folded)
    odd: list[str] = []
    pairs = held = 0
    for run, _ in pieces(fold(statement)):
        for part in _NEUTRAL_RUNS.sub(" ", run).split() if run else ():
            if any(c not in there and not _is_number(c) for c in part):
                odd.append(part)
            pairs += len(part) - 1
            held += sum(part[i : i + 2] in folded for i in range(len(part) - 1))
    if not odd and pairs and held < pairs * _PAIRS_NEEDED:
        odd.append(statement)
    return odd


def _odd_senses(statement: str, cited: Sequence[Cited]) -> list[str]:
    """What relates the words of the statement must have been said in one way or another, if only in the question."""
    there = frozenset().union(*(carried(f"{c.text}\n{c.asked}") for c in cited))
    return sorted(senses(statement) - there)
