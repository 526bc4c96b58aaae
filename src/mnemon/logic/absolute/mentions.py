"""The people, things and places a text names, for the words that point back to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from mnemon.contracts.claims import Language
from mnemon.logic import dates
from mnemon.logic.absolute.gate import Mark, findings, marks
from mnemon.logic.absolute.setting import FORMS, WORDS, Setting, Speaker

Gender = Literal["he", "she", ""]

_ZH, _EN = WORDS["reading"]["zh"], WORDS["reading"]["en"]
_OWNERS = ("me", "us", "you", "all_of_you", "he", "she", "they")
_QUOTE_MARKS = str.maketrans("", "", '“”‘’「」『』《》"`@')


class Mention(NamedTuple):
    """A name in the text; `owner` is the pronoun that says whose, as in 我妈 and "my boss"."""

    kind: Literal["person", "people", "thing", "place"]
    name: str
    start: int
    end: int
    gender: Gender = ""
    owner: Mark | None = None


def safe(name: str, language: Language) -> str:
    """A name as it can stand in any sentence: in quotes where it looks like words that point at something."""
    plain = bare(name)
    return FORMS[language]["quote"].format(plain) if findings(plain) else plain


def bare(name: str) -> str:
    return " ".join(name.translate(_QUOTE_MARKS).split())


def places_of(name: str, text: str) -> list[tuple[int, int]]:
    """Where a name stands; one in letters not within a longer word."""
    edge = "A-Za-z0-9_" if name.isascii() else ""
    pattern = rf"(?<![{edge}]){re.escape(name)}(?![{edge}])" if edge else re.escape(name)
    return [match.span() for match in re.finditer(pattern, text)] if name in text else []


def _gendered(words: dict[str, str]) -> str:
    return f"(?P<she>{words['roles_she']})|(?P<he>{words['roles_he']})|(?P<any>{words['roles']})"


_ROLE_ZH = re.compile(f"{_ZH['not_roles']}|{_gendered(_ZH)}")
_ROLE_EN = re.compile(
    rf"(?<![A-Za-z'’])(?P<whose>the|a|an|my|your|his|her|our|their|[A-Za-z]+['’]s)\s+(?P<noun>(?:[a-z]+\s+)?"
    rf"(?:{_gendered(_EN)}|(?P<many>{_EN['roles_many']})))(?![A-Za-z-])(?!\s+(?-i:[A-Z][a-z]))",
    re.IGNORECASE,
)
_NAME_ZH = re.compile(
    rf"{_ZH['before_name']}(?!{_ZH['not_names']})(?P<name>[{_ZH['short_before']}][{_ZH['surnames']}]"
    rf"|[{_ZH['surnames']}][\u4e00-\u9fff]{{1,2}}?){_ZH['after_name']}"
)
_CALLED_ZH = re.compile(r"(?:名叫|叫做|叫)(?P<name>[\u4e00-\u9fff]{2,3})(?=[，,。])")
_PLACE_ZH = re.compile(
    rf"(?P<known>{_ZH['places']})|{_ZH['place_before']}(?P<name>[\u4e00-\u9fff]{{2,3}}?){_ZH['place_after']}"
)
_NAME_EN = re.compile(r"(?<![A-Za-z0-9_.'’-])[A-Z][a-z]+(?:[A-Z]+[a-z]*)*(?![A-Za-z0-9_-])|[A-Z][a-z]*[A-Z]+[A-Za-z]*")
_NOT_NAMES_EN = frozenset(_EN["not_names"].split())
_PERSON_AFTER = re.compile(_EN["person_after"])
_KIN = f"{_EN['pets']}|{_EN['roles']}|{_EN['roles_she']}|{_EN['roles_he']}"
_PERSON_BEFORE = re.compile(rf"{_EN['person_before']}|\b(?:{_KIN})\s+(?:is\s+|named\s+)?$", re.IGNORECASE)
_PLACE_BEFORE = re.compile(_EN["place_before"])
_LATIN = re.compile(r"(?<![A-Za-z0-9_@])[A-Za-z][A-Za-z0-9_+-]+(?![A-Za-z0-9_])")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_SENTENCE_START = re.compile(r"(?:^|[.!?。！？;:\n]\s*)$")
_THING = re.compile(r"[`《].*|[^\s@]+\.[A-Za-z0-9]+", re.DOTALL)


def mentions(text: str, setting: Setting, speaker: Speaker) -> list[Mention]:
    """In order and not overlapping; of two at one place the surer one counts."""
    quoted = list(dates.QUOTED.finditer(text))
    plain = dates.QUOTED.sub(lambda match: "\0" * len(match.group()), text)
    listed = marks(text)
    pointing = [mark for mark in listed if mark.kind != "user"]
    found: list[Mention] = []
    for mention in chain(
        _known(plain, setting, speaker, listed), _quoted(quoted), _chinese(plain, listed), _english(plain, listed)
    ):
        if _apart(mention, found) and (mention.owner is not None or _apart(mention, pointing)):
            found.append(mention)
    speakers = {bare(setting.bot)} | ({bare(setting.sender)} if speaker == "sender" else set())
    return sorted((_whole(m, found, text) for m in found if m.name not in speakers), key=lambda mention: mention.start)


def _apart(mention: Mention, others: Sequence[Mention] | Sequence[Mark]) -> bool:
    return all(other.end <= mention.start or mention.end <= other.start for other in others)


def _whole(mention: Mention, found: list[Mention], text: str) -> Mention:
    """Null的女朋友 is one name, where both are mentioned."""
    if mention.owner is None and text[mention.start - 1 : mention.start] == "的":
        for other in found:
            if other.kind == "person" and other.end == mention.start - 1:
                return mention._replace(name=f"{other.name}的{mention.name}")
    return mention


def _known(text: str, setting: Setting, speaker: Speaker, listed: Sequence[Mark]) -> Iterator[Mention]:
    """People of the setting; the sender only in the bot's words, for in their own they are 我."""
    for name in (*setting.others, setting.sender, setting.bot):
        for start, end in places_of(name, text) if name else ():
            yield Mention("person", safe(name, "zh" if _HAN.search(name) else "en"), start, end)
    if speaker == "bot" and setting.sender:
        for mark in listed:
            if mark.kind == "user":
                yield Mention("person", safe(setting.sender, mark.language), mark.start, mark.end)


def _quoted(quoted: Sequence[re.Match[str]]) -> Iterator[Mention]:
    """@somebody, and things: code, titles, files."""
    for match in quoted:
        words = match.group()
        if words.startswith("@") and len(words) > 1:
            yield Mention("person", safe(words, "zh" if _HAN.search(words) else "en"), *match.span())
        elif _THING.fullmatch(words) and "://" not in words:
            yield Mention("thing", words, *match.span())


def _chinese(text: str, listed: Sequence[Mark]) -> Iterator[Mention]:
    if _HAN.search(text) is None:
        return
    owners = {mark.end: mark for mark in listed if mark.role in _OWNERS}
    for match in _ROLE_ZH.finditer(text):
        if match.lastgroup is not None:
            gender: Gender = "she" if match["she"] else "he" if match["he"] else ""
            start = match.start()
            owner = owners.get(start) or (owners.get(start - 1) if text[start - 1] == "的" else None)
            yield Mention("person", match.group(), *match.span(), gender, owner)
    for match in _NAME_ZH.finditer(text):
        yield Mention("person", match["name"], *match.span("name"))
    for match in _CALLED_ZH.finditer(text):
        yield Mention("thing", match["name"], *match.span("name"))
    for match in _PLACE_ZH.finditer(text):
        group = "known" if match["known"] else "name"
        yield Mention("place", match[group], *match.span(group))
    for match in _LATIN.finditer(text):
        beside = text[match.start() - 1 : match.start()] + text[match.end() : match.end() + 1]
        if _HAN.search(beside):
            yield Mention("thing", match.group(), *match.span())


def _english(text: str, listed: Sequence[Mark]) -> Iterator[Mention]:
    owners = {mark.start: mark for mark in listed if mark.role.endswith(("_own", "she_either"))}
    for match in _ROLE_EN.finditer(text):
        gender: Gender = "she" if match["she"] else "he" if match["he"] else ""
        kind: Literal["person", "people"] = "people" if match["many"] else "person"
        if (owner := owners.get(match.start())) is not None:
            yield Mention(kind, match["noun"], *match.span(), gender, owner)
        else:
            said = match["whose"] if match["whose"].endswith("s") else "the"
            yield Mention(kind, f"{said} {match['noun']}", *match.span(), gender)
    for match in _NAME_EN.finditer(text):
        start, end = match.span()
        if match.group() in _NOT_NAMES_EN:
            continue
        before = max(0, start - 30)
        if not match.group().istitle():
            yield Mention("thing", match.group(), start, end)
        elif _PERSON_AFTER.match(text, end) or _PERSON_BEFORE.search(text, before, start):
            yield Mention("person", match.group(), start, end)
        elif _PLACE_BEFORE.search(text, before, start):
            yield Mention("place", match.group(), start, end)
        elif not _SENTENCE_START.search(text, before, start):
            yield Mention("thing", match.group(), start, end)
