"""What an index takes and what it can be asked: the same checks for every driver, before it does anything."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import numpy as np

from mnemon.contracts.entries import Ask, Entry, Vector
from mnemon.contracts.errors import InvalidArgument, PermissionDenied
from mnemon.contracts.filters import FIELDS
from mnemon.contracts.scope import Scope
from mnemon.logic.exact import units

_ENTRY_FIELDS = {name: kind for name, kind in FIELDS.items() if name not in ("id", "kind")}
_LARGEST = 1 << 63


def check_entries(scope: Scope, entries: Iterable[Entry], dimension: int) -> None:
    """Refuse everything when one entry cannot be taken, and say which and why."""
    allowed: set[tuple[str, ...]] = set()
    for entry in entries:
        if entry.principals not in allowed:
            if not entry.principals or not scope.sees(entry.principals):
                raise refused(entry)
            allowed.add(entry.principals)
        for name, value in entry.fields.items():
            if not _is_usual(_ENTRY_FIELDS.get(name), value):
                _check_field(entry, name, value)
        if entry.vector is not None:
            _check_vector(f"entry {entry.id}", entry.vector, dimension)
        _check_stored(entry)


def refused(entry: Entry) -> PermissionDenied:
    return PermissionDenied(f"entry {entry.id} is for {sorted(entry.principals)}, outside this scope")


def check_ask(ask: Ask, dimension: int) -> None:
    if (ask.vector is None) == (ask.text is None):
        raise InvalidArgument("a search has either a vector or a text", field="ask")
    check_limit(ask.limit)
    if ask.vector is not None:
        _check_vector("the question", ask.vector, dimension)


def check_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidArgument("limit must be at least 1", field="limit")


def unit(vector: Vector) -> Vector:
    """As `units`, of one."""
    row: Vector = units(np.asarray(vector, dtype=np.float32)[None])[0]
    return row


def _check_field(entry: Entry, name: str, value: object) -> None:
    kind = _ENTRY_FIELDS.get(name)
    if kind is None:
        known = ", ".join(_ENTRY_FIELDS)
        raise InvalidArgument(f"entry {entry.id} has an unknown field {name!r}; known: {known}", field=name)
    if value is not None and not _fits(kind, value):
        raise InvalidArgument(f"entry {entry.id}: {name} is {value!r}, not {kind.__name__}", field=name)
    try:
        "".join(value if isinstance(value, list | tuple) else [str(value)]).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"entry {entry.id!a}: {name} cannot be stored: {str(error)!a}", field=name) from None


def _fits(kind: type, value: object) -> bool:
    if kind is list:
        return isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
    if isinstance(value, bool) or kind not in (int, float):
        return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
    if isinstance(value, int):
        return -_LARGEST <= value < _LARGEST
    return kind is float and isinstance(value, float) and math.isfinite(value)


def _check_vector(whose: str, vector: Vector, dimension: int) -> None:
    if vector.shape != (dimension,):
        raise InvalidArgument(f"{whose} has a vector of shape {vector.shape}, not ({dimension},)", field="vector")
    if not math.isfinite(float(vector @ vector)):
        raise InvalidArgument(f"{whose} has a vector with a number that is not finite", field="vector")


def _is_usual(kind: type | None, value: object) -> bool:
    """Exactly of its kind and nothing odd about it: what almost every field is, seen at a glance."""
    if type(value) is not kind:
        return False
    if kind is str:
        return value.isascii()  # type: ignore[attr-defined, no-any-return]
    return kind is bool or (kind is int and -_LARGEST <= value < _LARGEST)  # type: ignore[operator]


def _check_stored(entry: Entry) -> None:
    """Text that is no Unicode (half a surrogate pair) or metadata that is no JSON can be kept nowhere."""
    try:
        for text in (entry.id, entry.kind, entry.text, *entry.principals):
            text.isascii() or text.encode()
        if not _is_plain(entry.metadata):
            json.dumps(entry.metadata, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"entry {entry.id!a} cannot be stored: {str(error)!a}", field="entry") from None


def _is_plain(metadata: dict[str, object]) -> bool:
    """Nothing but ASCII strings and None: certainly JSON, and much faster to see than to write out."""
    for key, value in metadata.items():
        if type(key) is not str or not key.isascii():
            return False
        if value is not None and (type(value) is not str or not value.isascii()):
            return False
    return True
