"""Words that say how somebody stands to something: within a sense they may be swapped, between senses never."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from typing import Any

from mnemon.logic.memo import remembered
from mnemon.logic.text import fold, pieces, word_number


def _load() -> dict[str, dict[str, Any]]:
    text = resources.files("mnemon.logic").joinpath("data/senses.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_DATA = _load()
_OTHERWISE: frozenset[str] = frozenset(_DATA.pop("not")["zh"])
_ENGLISH: dict[int, frozenset[str]] = {}
_EXACT = {word: name for name, row in _DATA.items() for word in row.get("exact", [])}
_CHINESE: dict[str, frozenset[str]] = {word: frozenset() for word in _OTHERWISE}
for _name, _row in _DATA.items():
    for _word in _row["en"]:
        _ENGLISH[word_number(_word)] = _ENGLISH.get(word_number(_word), frozenset()) | {_name}
    for _word in _row["zh"]:
        _CHINESE[_word] = _CHINESE.get(_word, frozenset()) | {_name}
_RUNS = re.compile("|".join(sorted(map(re.escape, _CHINESE), key=len, reverse=True)))
_SAYS = {name: _any(row["says"]) for name, row in _DATA.items() if "says" in row}
_CUES = {name: _any(row["cues"]) for name, row in _DATA.items()}

SENSE_WORDS = frozenset(_ENGLISH)
SENSE_RUNS = frozenset(word for word, names in _CHINESE.items() if names)


@remembered(8192)
def senses(text: str) -> frozenset[str]:
    """What the words of a statement say."""
    found: set[str] = set()
    for run, word in pieces(fold(text)):
        if run:
            found.update(*(_CHINESE[said] for said in _RUNS.findall(run)))
        else:
            found.update(_ENGLISH.get(word_number(word), ()))
            found.update({_EXACT[word]} if word in _EXACT else ())
    return frozenset(found | {name for name, patterns in _SAYS.items() if patterns.search(text)})


@remembered(8192)
def carried(text: str) -> frozenset[str]:
    """What words that were said can bear in other words."""
    plain = text.replace("’", "'")
    return senses(text) | {name for name, cues in _CUES.items() if cues.search(plain)}
