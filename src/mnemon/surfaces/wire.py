"""Results as JSON, the same at every door."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json


def as_json(value: Any, indent: int | None = None) -> bytes:
    """Dataclasses, models, times and all: UTF-8, and no number that JSON does not have."""
    return to_json(value, indent=indent, inf_nan_mode="null")
