"""From which score on two memories may be the same one: a matter of the embedding model."""

from __future__ import annotations

import tomllib
from importlib import resources

_DATA = tomllib.loads(resources.files("mnemon.logic").joinpath("data/dedup.toml").read_text(encoding="utf-8"))


def threshold(model: str) -> float:
    """The measured one, or the seed's where nobody has measured."""
    known = (row["threshold"] for row in _DATA["model"] if model.startswith(row["starts"]))
    return float(next(known, _DATA["default"]))
