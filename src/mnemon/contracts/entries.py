"""What an index holds, what it is asked and what it answers: one shape for every driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.contracts.filters import EVERYTHING, Where

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbeddingVector:
    """One embedded text."""

    dense_vector: Vector
    sparse_vector: dict[int, float] | None = None
    model: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of a replica. `fields` holds what it can be filtered by (names and types in `filters.FIELDS`);
    `metadata` travels along untouched."""

    id: str
    principals: tuple[str, ...]
    text: str
    kind: str = "turn"
    fields: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    vector: Vector | None = None

    def values(self) -> dict[str, object]:
        """Everything a filter may ask about."""
        return {"id": self.id, "kind": self.kind, **self.fields}


class Hit(NamedTuple):
    """An entry and how close it is; higher is always closer."""

    entry: Entry
    score: float


@dataclass(frozen=True, slots=True)
class Ask:
    """One search: a vector, or words, never both (fusing them is a strategy's business).

    `after` is the score and id of the last hit of the page before."""

    vector: Vector | None = None
    text: str | None = None
    where: Where = EVERYTHING
    limit: int = 10
    after: tuple[float, str] | None = None
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class Page:
    entries: tuple[Entry, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a driver can do; pipelines ask for these, never for a vendor."""

    dense: bool = False
    lexical: bool = False
    transactional: bool = False
    rebuild_beside: bool = False


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """Which model an index was built with, and how much it holds."""

    model: str
    dimension: int
    entries: int
    building: str | None = None
