"""Is a sentence for or against? Negations and words of aversion, counted; an even number cancels out."""

from __future__ import annotations

import re
import tomllib
from importlib import resources

from mnemon.logic.text import fold

_DATA = tomllib.loads(resources.files("mnemon.logic").joinpath("data/polarity.toml").read_text(encoding="utf-8"))


def _alternatives(words: list[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_TAKEN_OUT = re.compile(f"{_alternatives(_DATA['not_zh'])}|\\b(?:{_alternatives(_DATA['not_en'])})\\b")
_TURNS = re.compile(f"{_alternatives(_DATA['zh'])}|\\b(?:{_alternatives(_DATA['en'])}|\\w+n't)\\b")


def signs(text: str) -> int:
    """How often it is turned round."""
    return len(_TURNS.findall(_TAKEN_OUT.sub(" ", fold(text))))


def negative(text: str) -> bool:
    return signs(text) % 2 == 1
