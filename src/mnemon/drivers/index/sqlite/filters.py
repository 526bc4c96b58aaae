"""The filter tree as SQL over the `entry` table."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from mnemon.contracts.filters import FIELDS, And, Eq, In, Missing, Not, Or, Range, Where
from mnemon.logic.filtering import comparable

LISTS = tuple(name for name, kind in FIELDS.items() if kind is list)
COLUMNS = tuple(name for name in FIELDS if name not in ("id", "kind", *LISTS))

Sql = tuple[str, list[object]]
_MANY = 500  # values that are bound one by one; more go in as one list


def compile_where(where: Where) -> Sql:
    """A condition that is always 0 or 1, never NULL, and its values."""
    match where:
        case And(parts):
            return _join(" AND ", parts, "1")
        case Or(parts):
            return _join(" OR ", parts, "0")
        case Not(part):
            sql, values = compile_where(part)
            return f"NOT ({sql})", values
        case Eq(name, value):
            return _one_of(name, comparable(name, (value,)))
        case In(name, values):
            return _one_of(name, comparable(name, values))
        case Missing(name):
            if name in LISTS:
                return f"COALESCE(json_array_length(e.lists, '$.{name}'), 0) = 0", []
            return f"e.{name} IS NULL", []
        case Range(name, gte, gt, lte, lt):
            bounds = [(">=", gte), (">", gt), ("<=", lte), ("<", lt)]
            given = [(sign, bound) for sign, bound in bounds if bound is not None]
            column = "at" if name == "ts" else name  # where there is a ts, `at` equals it and has the index
            tests = "".join(f" AND e.{column} {sign} ?" for sign, _ in given)
            return f"(e.{name} IS NOT NULL{tests})", [_bound(bound) for _, bound in given]


def _join(word: str, parts: tuple[Where, ...], nothing: str) -> Sql:
    if not parts:
        return nothing, []
    if len(parts) == 1:
        return compile_where(parts[0])
    # In halves: SQLite refuses a chain of a thousand links.
    half = len(parts) // 2
    (left, before), (right, behind) = _join(word, parts[:half], nothing), _join(word, parts[half:], nothing)
    return f"({left}{word}{right})", before + behind


def _bound(bound: float) -> float:
    """SQLite's integers end at 64 bits; what lies beyond is beyond everything it holds."""
    return bound if -(1 << 63) <= bound < 1 << 63 else math.copysign(math.inf, bound)


def _one_of(name: str, values: Sequence[object]) -> Sql:
    if not values:
        return "0", []
    marks = ", ".join("?" * len(values))
    if len(values) > _MANY:
        marks, values = "SELECT value FROM json_each(?)", [json.dumps(values)]
    if name in LISTS:
        return f"EXISTS (SELECT 1 FROM json_each(e.lists, '$.{name}') WHERE value IN ({marks}))", list(values)
    return f"(e.{name} IS NOT NULL AND e.{name} IN ({marks}))", list(values)


def is_selective(where: Where) -> bool:
    """Does the filter name a time or a session, so that an index leads straight to few rows?"""
    parts = where.parts if isinstance(where, And) else (where,)
    return any(
        (isinstance(p, Range) and p.field == "ts") or (isinstance(p, Eq) and p.field in ("session_id", "id", "uri"))
        for p in parts
    )


def names_address(where: Where) -> bool:
    """Does the filter say of which session or node?"""
    parts = where.parts if isinstance(where, And) else (where,)
    return any(isinstance(p, Eq | In) and p.field == "uri" for p in parts)
