"""One small filter tree. Each index driver compiles it; nothing else decides what a filter means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mnemon.contracts.errors import InvalidArgument

Scalar = str | int | float | bool

# What an entry can be filtered by, and the type of each. A filter on anything else is an error that names it.
FIELDS: dict[str, type] = {
    "id": str,
    "kind": str,
    "session_id": str,
    "seq": int,
    "ts": int,
    "role": str,
    "speaker": str,
    "turn_id": str,
    "uri": str,
    "shelf": str,
    "level": int,
    "domain": str,
    "source": str,
    "modality": str,
    "status": str,
    "fact_type": str,
    "state": str,
    "node": str,
    "importance": float,
    "published": bool,
    "kept": bool,
    "expires_at": int,
    "tags": list,
    "entities": list,
    "topic_path": list,
    "keywords": list,
    "time_bucket": list,
    "ttl": int,
    "memory_scope": str,
    "folded": str,
}


def _checked(field: str) -> type:
    try:
        return FIELDS[field]
    except KeyError:
        raise InvalidArgument(
            f"unknown filter field {field!r}; known: {', '.join(sorted(FIELDS))}", field=field
        ) from None


@dataclass(frozen=True, slots=True)
class Eq:
    """The field has this value; a list field holds it."""

    field: str
    value: Scalar

    def __post_init__(self) -> None:
        _checked(self.field)


@dataclass(frozen=True, slots=True)
class In:
    """The field has one of these values; a list field holds one of them. No values: nothing matches."""

    field: str
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        _checked(self.field)


@dataclass(frozen=True, slots=True)
class Range:
    """A number between bounds, each optional. A field without a value is outside every range."""

    field: str
    gte: float | None = None
    gt: float | None = None
    lte: float | None = None
    lt: float | None = None

    def __post_init__(self) -> None:
        if _checked(self.field) not in (int, float):
            raise InvalidArgument(f"{self.field} is not a number; a range does not apply", field=self.field)


@dataclass(frozen=True, slots=True)
class Missing:
    """The field has no value."""

    field: str

    def __post_init__(self) -> None:
        _checked(self.field)


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Where


Where = Eq | In | Range | Missing | And | Or | Not
EVERYTHING = And(())

OrderBy = Literal["newest", "oldest", "position", "position_desc"]


def every(*parts: Where | None) -> Where:
    """The conjunction of what is given, conjunctions within it laid open; `None` parts are left out."""
    kept = tuple(p for part in parts if part is not None for p in (part.parts if isinstance(part, And) else (part,)))
    return kept[0] if len(kept) == 1 else And(kept)


def matches(where: Where, values: dict[str, object]) -> bool:
    """What the tree means, said once in Python; drivers are tested against it."""
    match where:
        case And(parts):
            return all(matches(p, values) for p in parts)
        case Or(parts):
            return any(matches(p, values) for p in parts)
        case Not(part):
            return not matches(part, values)
        case Missing(name):
            return values.get(name) in (None, [], ())
        case Eq(name, value):
            held = values.get(name)
            return value in held if isinstance(held, list | tuple) else held is not None and held == value
        case In(name, wanted):
            held = values.get(name)
            if isinstance(held, list | tuple):
                return any(v in held for v in wanted)
            return held is not None and held in wanted
        case Range(name, gte, gt, lte, lt):
            n = values.get(name)
            if not isinstance(n, int | float) or isinstance(n, bool):
                return False
            return (
                (gte is None or n >= gte)
                and (gt is None or n > gt)
                and (lte is None or n <= lte)
                and (lt is None or n < lt)
            )
