"""Which collection holds the index, and which one is being built beside it: one small record, replaced at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from qdrant_client import AsyncQdrantClient, models

from mnemon.contracts.filters import FIELDS
from mnemon.drivers.index.qdrant.filters import GRAMS, PRINCIPALS, PRINCIPALS_COUNT, TENANT
from mnemon.drivers.index.qdrant.place import Place, is_missing, is_there_already
from mnemon.drivers.index.qdrant.points import AT, DENSE, POSITION, WORDS

_POINT = 0
_CLIENT_ERRORS = (models.ApiException, ValueError) if hasattr(models, "ApiException") else (ValueError,)


@dataclass(frozen=True, slots=True)
class Generation:
    """One build of the index with one embedding model."""

    collection: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Record:
    """`made` counts collections, so that no name is ever used twice."""

    active: Generation
    building: Generation | None
    made: int
