"""What a filter tree says, for drivers that compile it."""

from __future__ import annotations

from mnemon.contracts.filters import EVERYTHING, FIELDS, And, Eq, In, Scalar, Where, every


def comparable(field: str, values: tuple[Scalar, ...]) -> list[Scalar]:
    """The values a field can have at all, in the field's own type: `5` is no name and `"5"` is no number."""
    kind = FIELDS[field]
    if kind in (str, list):
        return [v for v in values if isinstance(v, str)]
    numbers = [v for v in values if not isinstance(v, str)]
    if kind is float:
        return [float(v) for v in numbers if -1e308 <= v <= 1e308]
    if kind is bool:
        return [bool(v) for v in numbers if v in (0, 1)]
    return [int(v) for v in numbers if -(1 << 63) <= v < 1 << 63 and v == int(v)]


def split_kinds(where: Where) -> tuple[frozenset[str] | None, Where]:
    """The kinds a filter asks for at its top, and the rest of it; None where it asks for no kind.

    A kind is a collection of its own: the words of markers say nothing about how rare a word is in turns."""
    parts = where.parts if isinstance(where, And) else (where,)
    kinds: frozenset[str] | None = None
    rest: list[Where] = []
    for part in parts:
        match part:
            case Eq("kind", value):
                asked = frozenset(map(str, comparable("kind", (value,))))
            case In("kind", values):
                asked = frozenset(map(str, comparable("kind", values)))
            case _:
                rest.append(part)
                continue
        kinds = asked if kinds is None else kinds & asked
    return kinds, every(*rest) if rest else EVERYTHING
