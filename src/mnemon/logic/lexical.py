"""The search language: words, "phrases", AND, OR, -not and brackets, in Chinese and English.

Words side by side are ranked: a hit holds at least one of them, and more is better. `AND` asks for both sides, `-word`
takes hits away, quotes ask for the words next to each other. Inside AND, behind a minus and in quotes a Chinese run is
taken as it stands; elsewhere any two of its neighbouring characters make a match.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from mnemon.contracts.errors import BadQuery
from mnemon.logic.text import STOP_WORDS, beginning, fold, grams, is_character, located, pair, pieces, terms

# BM25 with a fixed reference length: a row's weight does not change when other rows come or go, so every driver can
# store it, and scores of one corpus are the same in all of them.
K1 = 1.2
B = 0.6
REFERENCE_LENGTH = 24

MAX_QUERY = 10_000
# How many places a text is marked at: nobody looks at more, and a page of hits stays one that can be sent.
MOST_MARKED = 500
# How much of a text is read word by word: some pages of a book, a few milliseconds.
_READ = 20_000
# How many places behind that are looked at, and how much around each: a long word on both sides.
_TRIED = 2_000
_AROUND = 64
_MAX_DEPTH = 20

_TOKENS = re.compile(
    r"""\s*(?:
        (?P<open>-?\() | (?P<close>\)) |
        (?P<minus>-)?(?:
            "(?P<q1>[^"]*)" | “(?P<q2>[^”]*)” | 「(?P<q3>[^」]*)」 | 『(?P<q4>[^』]*)』 |
            (?P<word>[^\s()"“”「」『』]+)
        ) |
        (?P<bad>\S)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """Terms looked for: strictly as one sequence, or by any of their grams. `text` is how they were typed."""

    numbers: tuple[int, ...]
    strict: bool
    text: str = field(default="", compare=False)

    @property
    def grams(self) -> list[int]:
        return grams(self.numbers)


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Query, ...]
    without: tuple[Query, ...] = ()


Query = Leaf | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str = ""
    minus: bool = False


def parse(text: str) -> Query:
    """The query a person typed, or `BadQuery` that says what cannot be read."""
    if len(text) > MAX_QUERY:
        raise BadQuery(f"the search text is longer than {MAX_QUERY} characters", field="query_text")
    tokens = list(_tokens(text))
    query, rest = _group(tokens, 0, 0)
    if rest != len(tokens):
        raise BadQuery("there is a closing bracket too many", field="query_text")
    if query is None:
        raise BadQuery("the search text holds no word to look for", field="query_text")
    return _without_stop_words(query)


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKENS.finditer(text.rstrip()):
        if match["open"] or match["close"]:
            yield _Token("open" if match["open"] else "close", minus=match["open"] == "-(")
        elif match["word"] in ("AND", "OR", "NOT") and not match["minus"]:
            yield _Token(match["word"])
        elif match["word"] is not None:
            yield _Token("word", match["word"], bool(match["minus"]))
        elif match["bad"]:
            where = match.start("bad") + 1
            raise BadQuery(f"there is no closing quote for the one at character {where}", field="query_text")
        else:
            phrase = next(q for q in (match["q1"], match["q2"], match["q3"], match["q4"]) if q is not None)
            yield _Token("phrase", phrase, bool(match["minus"]))


def _group(tokens: list[_Token], at: int, depth: int) -> tuple[Query | None, int]:
    """Everything up to the closing bracket: alternatives, each a chain of ANDs."""
    if depth > _MAX_DEPTH:
        raise BadQuery(f"brackets are nested deeper than {_MAX_DEPTH}", field="query_text")
    wanted: list[Query] = []
    without: list[Query] = []
    while at < len(tokens) and tokens[at].kind != "close":
        if tokens[at].kind == "OR":
            at += 1
            continue
        part, excluded, at = _chain(tokens, at, depth)
        if part is not None:
            wanted.append(part)
        without += excluded
    if not wanted and without:
        raise BadQuery("a search needs at least one word that is not excluded", field="query_text")
    if not wanted:
        return None, at
    if len(wanted) == 1 and not without:
        return wanted[0], at
    return AnyOf(tuple(wanted), tuple(_strict(p) for p in without)), at


def _chain(tokens: list[_Token], at: int, depth: int) -> tuple[Query | None, list[Query], int]:
    """Operands joined by AND, and what is excluded: from the chain itself, or from everything beside a lone one."""
    chain: list[Query] = []
    excluded: list[Query] = []
    joined = False
    while True:
        negated, part, at = _operand(tokens, at, depth)
        if part is not None:
            (excluded if negated else chain).append(part)
        if at >= len(tokens) or tokens[at].kind != "AND":
            break
        joined, at = True, at + 1
    if not chain or not joined:
        return (chain[0] if chain else None), excluded, at
    every = tuple(_strict(p) for p in chain)
    together: Query = AllOf(every) if len(every) > 1 else every[0]
    if excluded:
        together = AnyOf((together,), tuple(_strict(p) for p in excluded))
    return together, [], at


def _operand(tokens: list[_Token], at: int, depth: int) -> tuple[bool, Query | None, int]:
    negated = False
    while at < len(tokens) and tokens[at].kind == "NOT":
        negated, at = not negated, at + 1
    if at >= len(tokens) or tokens[at].kind in ("close", "AND", "OR"):
        raise BadQuery("AND, OR and NOT need a word on their right", field="query_text")
    token = tokens[at]
    if token.kind == "open":
        query, at = _group(tokens, at + 1, depth + 1)
        if at >= len(tokens):
            raise BadQuery("there is no closing bracket", field="query_text")
        return negated != token.minus, query, at + 1
    numbers = tuple(terms(token.text))
    leaf = Leaf(numbers, token.kind == "phrase", token.text) if any(numbers) else None
    return negated != token.minus, leaf, at + 1


def _strict(query: Query) -> Query:
    return replace(query, strict=True) if isinstance(query, Leaf) else query


def _without_stop_words(query: Query) -> Query:
    """In plain words without operators those that say nothing are left out, as long as one that does remains."""
    if not isinstance(query, AnyOf) or query.without:
        return query
    plain = [p for p in query.parts if isinstance(p, Leaf) and not p.strict]
    telling = tuple(p for p in plain if not all(n in STOP_WORDS for n in p.numbers))
    return replace(query, parts=telling) if telling and len(plain) == len(query.parts) else query


def scoring_grams(query: Query) -> list[int]:
    """Every gram that adds to a score, once."""
    match query:
        case Leaf():
            return list(dict.fromkeys(query.grams))
        case AllOf(parts) | AnyOf(parts):
            return list(dict.fromkeys(g for p in parts for g in scoring_grams(p)))


def is_ranked(query: Query) -> bool:
    """True where a row matches exactly when one of the scoring grams is in it."""
    match query:
        case Leaf(_, strict):
            return not strict or len(query.grams) == 1
        case AllOf():
            return False
        case AnyOf(parts, without):
            return not without and all(is_ranked(p) for p in parts)


def holds(query: Query, numbers: list[int], present: set[int]) -> bool:
    """Does a row with these terms (and these grams) match?"""
    match query:
        case Leaf(wanted, strict):
            looked_for = query.grams
            if not strict:
                return any(g in present for g in looked_for)
            return all(g in present for g in looked_for) and contains(numbers, wanted)
        case AllOf(parts):
            return all(holds(p, numbers, present) for p in parts)
        case AnyOf(parts, without):
            return any(holds(p, numbers, present) for p in parts) and not any(
                holds(p, numbers, present) for p in without
            )


def contains(numbers: list[int], wanted: tuple[int, ...]) -> bool:
    first, length = wanted[0], len(wanted)
    return any(
        numbers[i] == first and tuple(numbers[i : i + length]) == wanted for i in range(len(numbers) - length + 1)
    )


def row_grams(numbers: list[int]) -> dict[int, int]:
    """How often each gram (words, characters, pairs) stands in a row."""
    counts: dict[int, int] = {}
    for i, number in enumerate(numbers):
        if number:
            counts[number] = counts.get(number, 0) + 1
        if i and is_character(number) and is_character(numbers[i - 1]):
            both = pair(numbers[i - 1], number)
            counts[both] = counts.get(both, 0) + 1
    return counts


def idf(rows: int, holding: int) -> float:
    return math.log(1 + (rows - holding + 0.5) / (holding + 0.5))


def weight(count: int, length: int) -> float:
    """BM25's share of one gram that stands `count` times in a row of `length` terms."""
    return count * (K1 + 1) / (count + K1 * (1 - B + B * length / REFERENCE_LENGTH))


def _is_pair(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one[2] == other[1] and is_character(one[0]) and is_character(other[0])


def highlights(query: Query, text: str) -> tuple[tuple[int, int], ...]:
    """Where in the text the words asked for stand, as spans that touch are joined; the first `MOST_MARKED` of them.

    The beginning of a text is read word by word. Behind it only places are looked at where something stands that is
    spelt like a word asked for, so that a text of any length costs little more than finding them."""
    wanted = set(scoring_grams(query))
    marked: list[tuple[int, int]] = []
    for begin, end in _windows(query, text):
        inside = (begin or -1, end if end < len(text) else end + 1)
        # A word that touches the edge of what is looked at may go on behind it.
        marked += [m for m in _marked(wanted, text, begin, end) if inside[0] < m[0] and m[1] < inside[1]]
        if len(marked) >= MOST_MARKED:
            break
    joined: list[tuple[int, int]] = []
    for start, end in sorted(marked):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined[:MOST_MARKED])


def _marked(wanted: set[int], text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    found = list(located(text[begin:end]))
    for i, (number, start, stop) in enumerate(found):
        if number in wanted:
            yield begin + start, begin + stop
        if i + 1 < len(found) and _is_pair(found[i], found[i + 1]) and pair(number, found[i + 1][0]) in wanted:
            yield begin + start, begin + found[i + 1][2]


def _windows(query: Query, text: str) -> Iterator[tuple[int, int]]:
    """The stretches of a text to be looked at, in order; they overlap by a word where they meet."""
    close = _READ if len(text) > _READ else len(text)
    yield 0, close
    if close == len(text):
        return
    places: list[int] = []
    spellings = _spellings(query)
    for nth, spelling in enumerate(spellings, 1):
        at = close - _AROUND
        while len(places) < _TRIED * nth // len(spellings) and (at := text.find(spelling, at)) >= 0:
            places.append(at)
            at += len(spelling)
    begin = end = -1
    for place in sorted(places):
        if end >= place:
            end = min(place + _AROUND, len(text))
            continue
        if end > 0:
            yield begin, end
        begin, end = place - _AROUND, min(place + _AROUND, len(text))
    if end > 0:
        yield begin, end


def _spellings(query: Query) -> list[str]:
    """How what is looked for may be spelt in a text: as it begins, in small letters, in capitals, or with one first."""
    match query:
        case Leaf(text=text):
            found: list[str] = []
            for run, word in pieces(fold(text)):
                if word:
                    start = beginning(word)
                    found += [start, start.capitalize(), start.upper()]
                else:
                    found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
            return list(dict.fromkeys(found))
        case AllOf(parts) | AnyOf(parts):
            return list(dict.fromkeys(spelling for p in parts for spelling in _spellings(p)))
