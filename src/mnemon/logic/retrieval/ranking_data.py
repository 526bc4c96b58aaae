"""What `dialog_v2` knows: the weights of its features, the sizes of its pools, the forms of words it goes by."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Pool:
    """How much is looked at; `hop_share` is what a claim reached over a shared entity has of the best one's score."""

    words: int
    meaning: int
    facts: int
    pages: int
    hop_from: int
    hop_share: float
    strong: int
    second_look: int


@dataclass(frozen=True, slots=True)
class Several:
    """What each turn already chosen costs another one of its session, and one right next to it."""

    same_session: float
    next_to: float


@dataclass(frozen=True, slots=True)
class Forms:
    """Forms of words, Chinese and English side by side."""

    length: int
    wants_date: re.Pattern[str]
    wants_several: re.Pattern[str]
    speaks_of_self: re.Pattern[str]
    speaks_to_other: re.Pattern[str]
    asks: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class RankingData:
    pool: Pool
    weights: dict[str, float]
    several: Several
    forms: Forms

    def with_weights(self, weights: dict[str, float]) -> RankingData:
        return replace(self, weights=weights)


@cache
def ranking_data() -> RankingData:
    text = resources.files("mnemon.logic").joinpath("data/dialog_v2.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    return RankingData(
        Pool(**table["pool"]), table["weights"], Several(**table["several"]), _forms(dict(table["forms"]))
    )


def _forms(table: dict[str, Any]) -> Forms:
    length = table.pop("length")
    return Forms(length, **{name: re.compile("|".join(forms), re.IGNORECASE) for name, forms in table.items()})
