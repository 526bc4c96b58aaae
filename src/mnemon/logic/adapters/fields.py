"""Typed reading of one field of an element; a wrong kind is an error that names its path."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from mnemon.logic.adapters.place import Place

Data = dict[str, Any]


def as_object(value: object, place: Place) -> Data:
    if not isinstance(value, dict):
        raise place.wrong(value, "an object")
    return value


def as_text(value: object, place: Place) -> str:
    if not isinstance(value, str):
        raise place.wrong(value, "text")
    return value


def text(data: Data, key: str, place: Place) -> str:
    """A text that must be there."""
    if key not in data:
        raise place.error(f"the field `{key}` is missing", f"`{key}`: text")
    value = data[key]
    if not isinstance(value, str):
        raise place.key(key).wrong(value, "text")
    return value


def optional_text(data: Data, key: str, place: Place) -> str | None:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        raise place.key(key).wrong(value, "text, or null")
    return value


def optional_id(data: Data, key: str, place: Place) -> str | None:
    """Ids come as text or as a whole number; both become text."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise place.key(key).wrong(value, "text or a whole number")
    if value == "":
        raise place.key(key).wrong(value, "text or a whole number")
    if isinstance(value, int) and value.bit_length() > 256:
        raise place.key(key).wrong(value, "an id of ordinary length")
    return str(value)


def optional_bool(data: Data, key: str, place: Place) -> bool | None:
    value = data.get(key)
    if value is not None and not isinstance(value, bool):
        raise place.key(key).wrong(value, "true or false")
    return value


def optional_amount(data: Data, key: str, place: Place) -> float | int | None:
    """A number of something: not negative."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise place.key(key).wrong(value, "a number, not negative")
    return value


def optional_object(data: Data, key: str, place: Place) -> Data | None:
    value = data.get(key)
    if value is not None and not isinstance(value, dict):
        raise place.key(key).wrong(value, "an object, or null")
    return value


def optional_list(data: Data, key: str, place: Place) -> list[Any] | None:
    value = data.get(key)
    if value is not None and not isinstance(value, list):
        raise place.key(key).wrong(value, "an array, or null")
    return value


def one_of(data: Data, key: str, allowed: Collection[str], place: Place) -> str:
    value = data.get(key)
    if not isinstance(value, str) or value not in allowed:
        expected = "one of " + ", ".join(allowed)
        if key not in data:
            raise place.error(f"the field `{key}` is missing", f"`{key}`: {expected}")
        raise place.key(key).wrong(value, expected)
    return value


def only(data: Data, known: Collection[str], place: Place) -> None:
    """Refuse a field the format does not have, naming the nearest one."""
    for key in data:
        if key not in known:
            raise place.unknown(key, known)


def as_written(value: object) -> str:
    """Text unchanged; anything else as compact, deterministic JSON in the order it was written."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
