"""A reading as a sentence in the third person, in the language of the words and in hardly any other words."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial

from mnemon.contracts.claims import Language
from mnemon.contracts.turns import Turn
from mnemon.logic import dates
from mnemon.logic.rules.reading import Reading
from mnemon.logic.rules.tables import MASK, WORDING

_NOBODY = frozenset(WORDING["nobody"])
_DEFAULT: dict[Language, str] = WORDING["who"]
_SPACES = re.compile(r" {2,}")
_ADVERBS = re.compile(WORDING["adverbs"])
_POLITE = re.compile(WORDING["polite"])
_WORD = re.compile(r"[\w'’-]+")
_AUXILIARIES: dict[str, str] = WORDING["auxiliaries"]
_SHORT = ("'s", "'re", "'ve got", "'ll")
_PAST = frozenset(WORDING["past"])
_BARE_AFTER = frozenset(WORDING["inflect_after"])


_WORD_END: dict[Language, str] = {"zh": "", "en": r"\b"}


def _swaps(language: Language, pronouns: dict[str, str]) -> re.Pattern[str]:
    words = "|".join(map(re.escape, sorted(pronouns, key=len, reverse=True)))
    return re.compile(rf"{WORDING['not_pronouns'][language]}(?:{words}){_WORD_END[language]}", re.IGNORECASE)


_PRONOUNS: dict[Language, dict[str, dict[str, str]]] = WORDING["pronouns"]
_SWAPS = {
    (language, role): (_swaps(language, pronouns), pronouns)
    for language, roles in _PRONOUNS.items()
    for role, pronouns in roles.items()
}


def name_of(speaker: str, language: Language) -> str:
    """How the speaker is called in a statement: by name where there is one."""
    return _DEFAULT[language] if speaker.casefold() in _NOBODY or ":" in speaker else speaker


def statement(reading: Reading, turn: Turn, speaker: str, said_at: datetime, of_you: bool = False) -> str:
    language = reading.book.language
    name = name_of(speaker, language)
    quote = turn.text[reading.start : reading.end]
    parts = {
        key: _swapped(quote if MASK in value else value, reading, name, of_you) for key, value in reading.parts.items()
    }
    if reading.pattern.template:
        said = _swapped(_POLITE.sub("", reading.said), reading, name, of_you)
        to_x = _infinitive(parts.get("x") or parts.get("y") or "")
        text = reading.pattern.template.format(who=name, said=said, to_x=to_x, **{"before": "", "x": "", **parts})
    elif language == "zh":
        # 昨天我的车坏了: what is the speaker's stays theirs, the day goes before it.
        owned = reading.said.lstrip().startswith("的")
        before, after = (reading.prefix, reading.said) if owned else ("", reading.prefix + reading.said)
        text = f"{before}{_whose(reading, name)}{_swapped(after, reading, name, of_you)}"
    else:
        text = _english(reading, name, of_you)
    text = _SPACES.sub(" ", text).strip(" ,，")
    return dates.absolutise(text[:1].upper() + text[1:], said_at, turn.text[slice(*reading.around)])


def _whose(reading: Reading, name: str) -> str:
    who = reading.who
    if not who.kin:
        return name
    if reading.book.language == "zh":
        return f"{name}的{who.kin}{who.name}"
    return f"{name}'s {who.kin}{f' {who.name}' if who.name else ''}"


def _english(reading: Reading, name: str, of_you: bool) -> str:
    start, end = reading.verb
    before, verb, rest = reading.said[:start], reading.said[start:end], reading.said[end:]
    if not verb:
        adverbs = _ADVERBS.match(reading.said)
        before = adverbs.group() if adverbs else ""
        word = _WORD.match(reading.said, len(before))
        verb, rest = (word.group(), reading.said[word.end() :]) if word else ("", reading.said[len(before) :])
    if verb in _BARE_AFTER and (word := _WORD.search(rest)):
        rest = rest[: word.start()] + (word.group() if reading.who.kin else third(word.group())) + rest[word.end() :]
    whose = f"{name}'s" if reading.mine else _whose(reading, name)
    if reading.mine or reading.who.kin:
        verb = _AUXILIARIES.get(verb.strip(), verb.strip()) if verb.strip() in _SHORT else verb.strip()
    elif before.split()[-1:] == ["do"]:
        before = f"{before.rstrip()[:-2]}does"
    else:
        verb = third(verb)
    tail = f" {reading.prefix[:1].lower()}{reading.prefix[1:]}" if reading.prefix.strip() else ""
    said = _swapped(f"{before} {verb}{rest}{tail}", reading, name, of_you)
    return f"{whose} {said.lstrip()}".replace(" 's ", "'s ")


def third(verb: str) -> str:
    """`live` → `lives`, `'m` → `is`, `have decided` → `has decided`; what is over stays."""
    first, *rest = verb.split(" ")
    if verb in _AUXILIARIES or first in _AUXILIARIES:
        return _AUXILIARIES.get(verb) or " ".join([_AUXILIARIES[first], *rest])
    *before, last = verb.split(" ")
    if first in _PAST or last in _PAST or last.endswith(("ed", "ing")):
        return verb
    if last.endswith(("ss", "x", "z", "ch", "sh", "o")):
        last += "es"
    elif last.endswith("y") and last[-2:-1] not in "aeiou":
        last = f"{last[:-1]}ies"
    elif not last.endswith("s"):
        last += "s"
    return " ".join([*before, last])


def _infinitive(order: str) -> str:
    """`always answer` → `to always answer`, `never use` → `never to use`, `don't use` → `not to use`."""
    for opening, turned in (("never ", "never to "), ("don't ", "not to "), ("do not ", "not to ")):
        if order.startswith(opening):
            return turned + order[len(opening) :]
    return f"to {order}"


def _swapped(text: str, reading: Reading, name: str, of_you: bool) -> str:
    """First persons become the speaker and second persons the assistant; in the assistant's words, the other way."""
    for role in ("told",) if of_you else ("speaker", "hearer"):
        pattern, pronouns = _SWAPS[reading.book.language, role]
        text = pattern.sub(partial(_pronoun, pronouns=pronouns, name=name), text)
    return text


def _pronoun(match: re.Match[str], pronouns: dict[str, str], name: str) -> str:
    word = match.group()
    is_country = word == "US"
    return word if is_country else pronouns[word.lower()].replace("@", name)
