"""Names beside a memory, such as the one it is filed under: a topic of the table, or words that were said."""

from __future__ import annotations

import re
import tomllib
from importlib import resources

from mnemon.logic.senses import carried, senses
from mnemon.logic.support import Cited, content_terms, invented
from mnemon.logic.text import fold, pieces, word_number

_DATA = tomllib.loads(resources.files("mnemon.logic").joinpath("data/topics.toml").read_text(encoding="utf-8"))
_WORDS = frozenset(word_number(word) for word in _DATA["en"].split())
_RUNS = re.compile("|".join(sorted(map(re.escape, _DATA["zh"].split()), key=len, reverse=True)))
# A topic is a word or two, not a sentence.
_MOST_CHARACTERS = 12
_MOST_WORDS = 5
# 嫁给马可 is no topic: what relates one thing to another says something.
_RELATING = re.compile("[给被把了着跟和与]")


def is_topic(name: str, source: str) -> bool:
    """Does a name say nothing that the source does not?"""
    there = content_terms(source)
    plain = set(fold(source))
    for run, word in pieces(fold(name.replace("_", " "))):
        if run and not set(_RUNS.sub("", run)) <= plain:
            return False
        if word and not content_terms(word) <= there | {*_WORDS}:
            return False
    return True


def names_a_topic(name: str, source: str) -> bool:
    """May a memory be filed under this word although nobody said it? A topic of the model's own says nothing: it is
    short, relates nothing to anything, and holds no number and no name that the source does not hold."""
    words = [run or word for run, word in pieces(fold(name))]
    long = sum(len(w) if not w.isascii() else 0 for w in words) > _MOST_CHARACTERS or len(words) > _MOST_WORDS
    if not words or long or "\n" in name or senses(name) - carried(source) or _RELATING.search(_RUNS.sub("", name)):
        return False
    return not invented(name, [Cited(source)])


def stands(name: str, source: str) -> bool:
    """Is a name there as it stands, and not as a part of another word?"""
    found = re.escape(fold(name.strip()))
    edges = (r"(?<![a-z0-9])", r"(?![a-z0-9])") if name.isascii() else ("", "")
    return bool(found) and re.search(f"{edges[0]}{found}{edges[1]}", fold(source)) is not None
