"""Does a sentence speak of what was asked? Meaning, words and the area of life, weighed together.

No one of them is enough: an embedder finds near what only sounds alike, words miss what was put otherwise, and the
tables of areas know only so much. The weights are learnt from questions labelled by hand; those of the tables are held
down, because a table fits the questions it was written for better than others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from mnemon.logic.recall.tables import load

_DATA = load("relevance")
_WEIGHTS: dict[str, float] = _DATA["weights"]
ENOUGH: float = _DATA["enough"]
# Of the most relevant one, what another needs to be meant too.
BESIDE: float = _DATA["beside"]
# … and so where one value is asked for, which may have been another before.
BESIDE_VALUE: float = _DATA["beside_value"]
# What another needs that says the same matter otherwise.
LINKED: float = _DATA["linked"]
# What the nearest of somebody's standing orders needs where the question refers to them.
ORDERED: float = _DATA["ordered"]


@dataclass(frozen=True, slots=True)
class Signs:
    """What is known of one sentence beside one question. `stands_out` and `score` are how near it is by meaning,
    `of_best` its share of the nearest, `lead` how far behind the next one is, `words` its share of the best match by
    words; `covers` is the share of what the question names, `named` that some of it is there. The areas: `area` fits,
    `single` one that holds one value, `elsewhere` it is in none of those asked about,
    `order` it is said as a standing order where such are asked for."""

    stands_out: float = 0.0
    score: float = 0.0
    of_best: float = 0.0
    lead: float = 0.0
    words: float = 0.0
    covers: float = 0.0
    named: float = 0.0
    area: float = 0.0
    single: float = 0.0
    elsewhere: float = 0.0
    turned: float = 0.0
    order: float = 0.0
    unnamed: float = 0.0


_NAMES = tuple(sign.name for sign in fields(Signs))


def relevance(signs: Signs) -> float:
    """How likely it is that the sentence is meant, from 0 to 1."""
    total = _WEIGHTS["base"] + sum(_WEIGHTS[name] * getattr(signs, name) for name in _NAMES)
    return 1.0 / (1.0 + math.exp(-total))
