"""Which names are the same, and which may be: equal ones join, likely ones are for a person to judge."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

from mnemon.contracts.graph import Entity

_DATA = tomllib.loads(resources.files("mnemon.logic").joinpath("data/names.toml").read_text(encoding="utf-8"))
_SURNAMES = frozenset("".join(_DATA["surnames"].split()))
_LONG_SURNAMES = frozenset(_DATA["long_surnames"])
_BEFORE = frozenset(_DATA["before"])
_TITLES_ZH = sorted(_DATA["titles_zh"], key=len, reverse=True)
_TITLES_EN = frozenset(_DATA["titles_en"])
_SIMPLIFIED = str.maketrans({pair[0]: pair[1] for pair in _DATA["variants"].split()})
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]+")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_LEAST_LETTERS = 5  # shorter names differ by one letter too often by chance
_MOST = 5  # a short form that fits more than so many fits nobody in particular


def same(name: str) -> str:
    """One spelling for every way of writing a name: full-width forms, case, spaces."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def likely(a: str, b: str) -> str | None:
    """Why two different names may be of one; None where nothing speaks for it."""
    one, two = _Name(same(a)), _Name(same(b))
    if one.folded == two.folded:
        return None
    return _reason(one, two) or _reason(two, one)


def likely_pairs(entities: Iterable[Entity]) -> list[tuple[Entity, Entity, str]]:
    """Entities seen by the same people that may be one, each pair once, and why. Names are compared only where they
    share something: thousands of names are no millions of pairs."""
    audiences: dict[frozenset[str], list[Entity]] = defaultdict(list)
    for entity in entities:
        audiences[frozenset(entity.user_id)].append(entity)
    found: dict[tuple[str, str], tuple[Entity, Entity, str]] = {}
    for group in audiences.values():
        for one, two, reason in _pairs_of(group):
            first, second = sorted((one, two), key=lambda entity: entity.id)
            found.setdefault((first.id, second.id), (first, second, reason))
    return [found[key] for key in sorted(found)]


def _pairs_of(entities: Sequence[Entity]) -> Iterator[tuple[Entity, Entity, str]]:
    names = [(_Name(folded), entity) for entity in entities for folded in names_of(entity)]
    shelves: dict[str, list[tuple[_Name, Entity]]] = defaultdict(list)
    for name, entity in names:
        for key in name.found_by:
            shelves[key].append((name, entity))
    for name, entity in names:
        fitting: dict[str, tuple[Entity, str]] = {}
        for key in name.looks_under(lambda key: len(shelves.get(key, ()))):
            for other, candidate in shelves.get(key, ()):
                if candidate.id not in fitting and _may_meet(entity, candidate) and (why := _reason(name, other)):
                    fitting[candidate.id] = (candidate, why)
        if len(fitting) <= _MOST:
            yield from ((entity, candidate, why) for candidate, why in fitting.values())


def names_of(entity: Entity) -> set[str]:
    """Everything it is called, as `same` writes it."""
    return {same(name) for name in (entity.name, *entity.aliases)}


def _may_meet(one: Entity, two: Entity) -> bool:
    """Not one with itself, not where they are one already, not a person with a place."""
    types = {one.type, two.type} - {"thing"}
    return one.id != two.id and len(types) < 2 and not names_of(one) & names_of(two)


@dataclass(frozen=True)
class _Name:
    """A name as `same` writes it, taken apart when asked."""

    folded: str

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Without titles and dots: Dr. Smith is Smith."""
        words = tuple(_WORD.findall(self.folded))
        return tuple(word for word in words if word not in _TITLES_EN) or words

    @cached_property
    def full(self) -> tuple[str, str] | None:
        """Family and given name of a whole Chinese name."""
        name = self.simplified
        if not _HAN.fullmatch(name) or self.short or self.titled:
            return None
        for length, known in ((2, _LONG_SURNAMES), (1, _SURNAMES)):
            if name[:length] in known and 1 <= len(name) - length <= 2:
                return name[:length], name[length:]
        return None

    @cached_property
    def short(self) -> str:
        """The character in 小王 or 阿明."""
        name = self.simplified
        return name[1] if len(name) == 2 and name[0] in _BEFORE and _HAN.fullmatch(name) else ""

    @cached_property
    def titled(self) -> str:
        """The family name in 张老师."""
        name = self.simplified
        for title in _TITLES_ZH:
            surname = name.removesuffix(title)
            if surname != name and (surname in _SURNAMES or surname in _LONG_SURNAMES):
                return surname
        return ""

    @cached_property
    def simplified(self) -> str:
        return self.folded.translate(_SIMPLIFIED)

    @cached_property
    def initials(self) -> str:
        return "".join(word[0] for word in self.words) if len(self.words) > 1 else ""

    @cached_property
    def letters(self) -> str:
        """The name as far as its spelling can be compared; nothing where a digit makes the difference."""
        plain = "".join(self.words)
        long_enough = len(plain) >= _LEAST_LETTERS and not _HAN.search(plain)
        return plain if long_enough and not any(c.isdigit() for c in plain) else ""

    @cached_property
    def found_by(self) -> set[str]:
        """Under what this name lies for others to find it."""
        keys = {f"word {word}" for word in self.words} | {f"simplified {self.simplified}"}
        keys |= {f"initials {self.initials}"} if self.initials else set()
        keys |= {f"spelt {spelling}" for spelling in _spellings(self.letters)}
        if self.full is not None:
            family, given = self.full
            keys |= {f"family {family}", f"given {given}", *(f"character {c}" for c in given)}
        return keys

    def looks_under(self, size: Callable[[str], int]) -> set[str]:
        """Where those lie that this one may be short for; of its words only the rarest, which they all hold."""
        keys = {f"simplified {self.simplified}", f"given {self.simplified}", f"initials {''.join(self.words)}"}
        keys |= {f"spelt {spelling}" for spelling in _spellings(self.letters)}
        whole = [word for word in self.words if len(word) > 1]
        if whole:
            keys.add(f"word {min(whole, key=lambda word: (size(f'word {word}'), word))}")
        if self.short:
            keys |= {f"family {self.short}", f"character {self.short}"}
        if self.titled:
            keys.add(f"family {self.titled}")
        return keys


def _reason(a: _Name, b: _Name) -> str | None:
    """Why `a` may be another way of saying `b`."""
    if a.simplified == b.simplified:
        return "the same in simplified characters"
    if b.full is not None:
        family, given = b.full
        if a.titled == family:
            return "the family name with a title"
        if a.short and (a.short == family or a.short in given):
            return "a short form of the name"
        if a.simplified == given and len(given) > 1:
            return "the given name alone"
    if _is_part(a.words, b.words):
        return "part of the other name"
    if (len(a.words) == 1 and a.words[0] == b.initials) or _is_abbreviated(a.words, b.words):
        return "initials of the other name"
    if a.letters and b.letters and _one_apart(a.letters, b.letters):
        return "spelt almost alike"
    return None


def _is_part(a: Sequence[str], b: Sequence[str]) -> bool:
    return bool(a) and set(a) < set(b) and any(len(word) > 1 for word in a)


def _is_abbreviated(a: Sequence[str], b: Sequence[str]) -> bool:
    """T. Smith for Tom Smith: word by word the same or its first letter, one at least written out."""
    if len(a) != len(b) or len(a) < 2 or a == b:
        return False
    return all(x == y or (len(x) == 1 and y.startswith(x)) for x, y in zip(a, b, strict=True)) and any(
        len(x) > 1 for x in a
    )


def _spellings(letters: str) -> set[str]:
    """The word and what is left of it without one letter: two that are one letter apart share one of these."""
    return {letters, *(letters[:i] + letters[i + 1 :] for i in range(len(letters)))} if letters else set()


def _one_apart(a: str, b: str) -> bool:
    """By one letter more, less, other, or by two that changed places."""
    if abs(len(a) - len(b)) > 1 or a == b:
        return False
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rest, other = a[at:], b[at:]
    return (
        rest[1:] == other[1:]
        or rest[1:] == other
        or rest == other[1:]
        or (rest[:2] == other[1::-1] and rest[2:] == other[2:])
    )
