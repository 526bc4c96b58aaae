"""Other words for the same thing, in both languages: what a question names, and how a message may have put it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mnemon.contracts.claims import Language
from mnemon.logic.language import language_of
from mnemon.logic.lexical import contains
from mnemon.logic.memo import remembered
from mnemon.logic.recall.tables import load
from mnemon.logic.support import content_terms
from mnemon.logic.text import PAIR_BIT, WORD_BIT, fold, grams, terms

_MOST_FORMS = 14
# A run of Chinese is several words; as many pairs of characters as this are one of them, and some glue.
_PAIRS_OF_A_WORD = 3
_SHARE_NEEDED = 0.5


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing, its kinds, and what one is called who is against it."""

    name: str
    words: tuple[str, ...]
    kinds: tuple[str, ...]
    opposite: tuple[str, ...]


class Mention(NamedTuple):
    """A thing that is spoken of; `kind` is the kind of it that is named, `flipped` that the word itself is against."""

    thing: str
    kind: str = ""
    flipped: bool = False


class Worded:
    """A text to be asked whether words stand in it: Chinese as they are, English in any of their forms."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.folded = fold(text)
        self._numbers = [n for n in terms(self.folded) if n]

    def holds(self, word: str) -> bool:
        if word.endswith("!"):  # a name that is also a word: as it is written
            return re.search(rf"(?<![A-Za-z]){re.escape(word[:-1])}(?![A-Za-z])", self.text) is not None
        plain = fold(word)
        if not plain.isascii():
            return plain in self.folded
        wanted = tuple(n for n in terms(plain) if n)
        return bool(wanted) and contains(self._numbers, wanted)

    def holds_any(self, words: Iterable[str]) -> bool:
        return any(self.holds(word) for word in words)


_DATA = load("words")
THINGS = tuple(
    Thing(row["name"], tuple(row["words"]), tuple(row.get("kinds", ())), tuple(row.get("opposite", ())))
    for row in _DATA["thing"]
)
KIN: dict[str, tuple[str, ...]] = {name: tuple(words) for name, words in _DATA["kin"].items()}
NAMED = tuple(sorted({w for thing in THINGS for w in (*thing.words, *thing.opposite)}, key=len, reverse=True))


@dataclass(frozen=True, slots=True)
class Needle:
    """Something a question names, and every other way to say it. `kinds` answer a question for the thing."""

    text: str
    same: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def forms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.text, *self.same, *self.kinds)))

    @property
    def fixed(self) -> bool:
        """Is it a thing we know, or written as a name is?"""
        return bool(self.same) or (not self.text.islower() and self.text.isascii())

    @property
    def by_name(self) -> Needle:
        return Needle(self.text, self.same)

    def stands_in(self, said: Worded) -> bool:
        return self.share(said) >= _SHARE_NEEDED

    def share(self, said: Worded) -> float:
        """How much of it is there: all, or of a longer Chinese run what pairs of characters it has in common."""
        return 1.0 if said.holds_any(self.forms) else _pairs_shared(self.text, said.folded)


def needle(text: str) -> Needle:
    """A word of a question with what is known of it."""
    said = Worded(text)
    known = [thing for thing in THINGS if said.holds_any((*thing.words, *thing.opposite))]
    named = [thing for thing in known if any(fold(text) == fold(w) for w in (*thing.words, *thing.opposite))] or known
    same = dict.fromkeys(word for thing in named for word in (*thing.words, *thing.opposite))
    return Needle(text, tuple(same), tuple(dict.fromkeys(kind for thing in named for kind in thing.kinds)))


@remembered(4096)
def mentions(text: str) -> frozenset[Mention]:
    """The things a text speaks of."""
    said = Worded(text)
    found: set[Mention] = set()
    for thing in THINGS:
        if said.holds_any(thing.opposite):
            found.add(Mention(thing.name, flipped=True))
        elif said.holds_any(thing.words):
            found.add(Mention(thing.name))
        found |= {Mention(thing.name, kind) for kind in thing.kinds if said.holds(kind)}
    return frozenset(found)


@remembered(4096)
def telling_words(text: str) -> frozenset[int]:
    """What two texts can share: words with a content, and pairs of characters, as one alone is in everything."""
    pairs = (gram for gram in grams(terms(text)) if PAIR_BIT <= gram < WORD_BIT)
    return frozenset((*pairs, *(term for term in content_terms(text) if isinstance(term, int))))


def related(kin: str, other: str) -> bool:
    """Is it the same relation: 妈 and "mother"?"""
    return any(_is_kin(kin, words) and _is_kin(other, words) for words in KIN.values())


def relation(word: str) -> str:
    return next((name for name, words in KIN.items() if _is_kin(word, words)), "")


def _is_kin(word: str, words: tuple[str, ...]) -> bool:
    plain = fold(word)
    return plain in words or (plain.isascii() and plain.split(" ")[-1].rstrip("s") in words)


def query(needles: Iterable[Needle], language: Language) -> str:
    """What to look for: the words asked for first, then the others, those of the question's language before."""
    words: list[str] = []
    for wanted in needles:
        others = sorted((f for f in wanted.forms[1:]), key=lambda form: language_of(form) != language)
        words += [wanted.text, *others[:_MOST_FORMS]]
    return " ".join(_plain(word) for word in dict.fromkeys(words))


def quoted(words: Iterable[str]) -> str:
    """Any of these, each as it stands."""
    return " OR ".join(f'"{_plain(word)}"' for word in dict.fromkeys(words) if _plain(word))


def _plain(word: str) -> str:
    """Nothing a search would take for an order."""
    return re.sub(r"[\"“”「」『』()!\-]+", " ", word).strip()


def _pairs_shared(text: str, folded: str) -> float:
    plain = fold(text)
    if plain.isascii() or len(plain) < 3:
        return 0.0
    pairs = [plain[i : i + 2] for i in range(len(plain) - 1)]
    return min(1.0, sum(pair in folded for pair in pairs) / min(len(pairs), _PAIRS_OF_A_WORD))
