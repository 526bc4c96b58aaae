"""Words of Chinese and English text as numbers: one way of cutting text for every index and every query.

English and other spaced scripts are cut into words, folded and stemmed; a word's number is a 63-bit hash. Chinese
characters, kana and Hangul are cut one by one; a character's number is its code point, and two that stand side by side
form a pair (`pair`), so that every Chinese word of one or two characters can be found exactly.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import chain, takewhile

import snowballstemmer

from mnemon.logic.memo import also_forget, remembered

_CJK = (
    "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0002fa1f\U00030000-\U000323af"
)
_PIECES = re.compile(rf"([{_CJK}]+)|([^\W_{_CJK}]+(?:['’][^\W_{_CJK}]+)*)")

_SPACE = re.compile(r"\s")
_BLOCK = 1 << 16

GAP = 0
WORD_BIT = 1 << 63
PAIR_BIT = 1 << 62
_CODE_POINT_BITS = 21

_numbers: dict[str, int] = {}
also_forget(_numbers.clear)
_NUMBERS_KEPT = 500_000
# Fewer letters than this begin too many words that have nothing to do with each other.
_TELLING = 3


def fold(word: str) -> str:
    """One spelling for every way of writing a word: full-width forms, case, curly apostrophes."""
    return _nfkc(word).casefold().replace("’", "'")


def word_number(word: str) -> int:
    """The number of a word: folded, stemmed where it is English, hashed."""
    number = _numbers.get(word)
    if number is None:
        digest = hashlib.blake2b(_stemmed(fold(word)).encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big") | WORD_BIT
        if len(_numbers) < _NUMBERS_KEPT:
            _numbers[word] = number
    return number


def beginning(word: str) -> str:
    """What every form of a word that has its number begins with, nearly always: what its stem leaves of it."""
    folded = fold(word)
    both = takewhile(lambda letters: letters[0] == letters[1], zip(folded, _stemmed(folded), strict=False))
    shared = "".join(letter for letter, _ in both)
    return shared if len(shared) >= _TELLING else folded


def _stemmed(folded: str) -> str:
    """English words without their endings; no ending ends in a digit, so numbers and codes stay as they are."""
    return _stem(folded) if folded.isascii() and not folded[-1].isdigit() else folded


def _stem(word: str) -> str:
    """A stemmer of its own each time: it keeps the word it works on in itself, and threads would mix them up."""
    return str(snowballstemmer.stemmer("english").stemWord(word))


def pair(first: int, second: int) -> int:
    """The number of two characters side by side."""
    return PAIR_BIT | (first << _CODE_POINT_BITS) | second


def is_character(number: int) -> bool:
    return GAP < number < PAIR_BIT


def pieces(text: str) -> list[tuple[str, str]]:
    """(run of characters, "") or ("", word) for every piece of a text."""
    return _PIECES.findall(text)


def terms(text: str) -> list[int]:
    """The numbers of a text in order; a GAP stands where characters are parted by something else."""
    out: list[int] = []
    after_run = False
    for run, word in chain.from_iterable(map(_PIECES.findall, _blocks(_nfkc(text)))):
        if run:
            if after_run:
                out.append(GAP)
            out.extend(map(ord, run))
            after_run = True
        else:
            out.append(word_number(word))
            after_run = False
    return out


def _blocks(text: str) -> Iterator[str]:
    """A text in parts of some pages, cut at white space: the pieces of a whole book at once would take much room."""
    start = 0
    while len(text) - start > _BLOCK and (space := _SPACE.search(text, start + _BLOCK)):
        yield text[start : space.end()]
        start = space.end()
    yield text[start:] if start else text


def located(text: str) -> Iterator[tuple[int, int, int]]:
    """(number, start, end) for every term of a text; pieces that touch nothing are told apart by their places."""
    plain, begins, ends = _normalized(text)
    for match in _PIECES.finditer(plain):
        if match[1]:
            for i, char in enumerate(match[1], match.start()):
                yield ord(char), begins[i], ends[i]
        else:
            yield word_number(match[2]), begins[match.start()], ends[match.end() - 1]


def _normalized(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """The text in NFKC, and for each of its characters where in the text it comes from."""
    if all(map(_stays_one, set(text))):
        return _nfkc(text), range(len(text)), range(1, len(text) + 1)
    out: list[str] = []
    begins: list[int] = []
    ends: list[int] = []
    start = 0
    for end in range(1, len(text) + 1):
        if end < len(text) and _joins(text[start:end], text[end]):
            continue
        plain = _nfkc(text[start:end])
        out.append(plain)
        begins += [start] * len(plain)
        ends += [end] * len(plain)
        start = end
    return "".join(out), begins, ends


@remembered(20_000)
def _stays_one(char: str) -> bool:
    """Is it one character in NFKC too, and none that could become one with what stands before it?"""
    plain = _nfkc(char)
    if len(plain) != 1:
        return False
    return plain.isascii() or not (unicodedata.category(plain).startswith("M") or "\u1160" <= plain <= "\u11ff")


def _joins(before: str, char: str) -> bool:
    """Does a character become one with what stands before it: an accent, a voicing mark, a vowel of Hangul?"""
    if char.isascii():
        return False
    return unicodedata.combining(char) != 0 or _nfkc(before + char) != _nfkc(before) + _nfkc(char)


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def grams(numbers: Sequence[int]) -> list[int]:
    """What a sequence of terms is looked up by: its words, its pairs, and characters that stand alone."""
    out: list[int] = []
    for i, number in enumerate(numbers):
        if not is_character(number):
            if number != GAP:
                out.append(number)
            continue
        before = i > 0 and is_character(numbers[i - 1])
        after = i + 1 < len(numbers) and is_character(numbers[i + 1])
        if after:
            out.append(pair(number, numbers[i + 1]))
        elif not before:
            out.append(number)
    return out


def _stop_words() -> frozenset[int]:
    data = resources.files("mnemon.logic").joinpath("data/stopwords_en.txt").read_text(encoding="utf-8")
    return frozenset(word_number(w) for w in data.split())


STOP_WORDS = _stop_words()
