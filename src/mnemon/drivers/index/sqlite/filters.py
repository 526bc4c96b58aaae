"""The filter tree as SQL over the `entry` table."""

from __future__ import annotations

from mnemon.contracts.filters import EVERYTHING, FIELDS, And, Eq, In, Missing, Not, Or, Range, Where, every

LISTS = tuple(name for name, kind in FIELDS.items() if kind is list)
COLUMNS = tuple(name for name in FIELDS if name not in ("id", "kind", *LISTS))

Sql = tuple[str, list[object]]


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
            return _one_of(name, (value,))
        case In(name, values):
            return _one_of(name, values)
        case Missing(name):
            if name in LISTS:
                return f"COALESCE(json_array_length(e.lists, '$.{name}'), 0) = 0", []
            return f"e.{name} IS NULL", []
        case Range(name, gte, gt, lte, lt):
            bounds = [(">=", gte), (">", gt), ("<=", lte), ("<", lt)]
            given = [(sign, bound) for sign, bound in bounds if bound is not None]
            column = "at" if name == "ts" else name  # where there is a ts, `at` equals it and has the index
            tests = "".join(f" AND e.{column} {sign} ?" for sign, _ in given)
            return f"(e.{name} IS NOT NULL{tests})", [bound for _, bound in given]


def _join(word: str, parts: tuple[Where, ...], nothing: str) -> Sql:
    if not parts:
        return nothing, []
    compiled = [compile_where(p) for p in parts]
    return "(" + word.join(sql for sql, _ in compiled) + ")", [v for _, values in compiled for v in values]


def _one_of(name: str, values: tuple[object, ...]) -> Sql:
    if not values:
        return "0", []
    marks = ", ".join("?" * len(values))
    if name in LISTS:
        return f"EXISTS (SELECT 1 FROM json_each(e.lists, '$.{name}') WHERE value IN ({marks}))", list(values)
    return f"(e.{name} IS NOT NULL AND e.{name} IN ({marks}))", list(values)


def split_kinds(where: Where) -> tuple[frozenset[str] | None, Where]:
    """The kinds a filter asks for at its top, and the rest of it; None where it asks for no kind."""
    parts = where.parts if isinstance(where, And) else (where,)
    kinds: frozenset[str] | None = None
    rest: list[Where] = []
    for part in parts:
        match part:
            case Eq("kind", value):
                asked = frozenset({str(value)})
            case In("kind", values):
                asked = frozenset(str(v) for v in values)
            case _:
                rest.append(part)
                continue
        kinds = asked if kinds is None else kinds & asked
    return kinds, every(*rest) if rest else EVERYTHING


def is_selective(where: Where) -> bool:
    """Does the filter name a time or a session, so that an index leads straight to few rows?"""
    parts = where.parts if isinstance(where, And) else (where,)
    return any(
        (isinstance(p, Range) and p.field == "ts") or (isinstance(p, Eq) and p.field in ("session_id", "id", "uri"))
        for p in parts
    )
