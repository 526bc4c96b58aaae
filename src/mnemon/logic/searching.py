"""What a search asks for: filters of the wire as one filter tree, within a scope they can only narrow."""

from __future__ import annotations

from collections.abc import Mapping

from mnemon.contracts.errors import PermissionDenied
from mnemon.contracts.filters import Eq, In, Range, Where, every
from mnemon.contracts.memories import NumberRange, SearchFilters, TimeRange
from mnemon.contracts.scope import Scope
from mnemon.logic.moments import moment_ms

# The name on the wire, and the field of the index it asks about.
_ONE = {"memory_domain": "domain", "run_id": "session_id", "memory_scope": "memory_scope"}
_SEVERAL = ("modality", "source", "fact_type", "status", "entities", "topic_path", "tags", "keywords", "time_bucket")
_NUMBERS = {"importance_range": "importance", "ttl_range": "ttl"}


def narrowed(scope: Scope, filters: SearchFilters) -> Scope:
    """`user_id` takes rows away; another tenant is refused."""
    if filters.tenant_id is not None and filters.tenant_id != scope.tenant_id:
        raise PermissionDenied("filters.tenant_id is not the tenant of these credentials", field="filters.tenant_id")
    return scope if filters.user_id is None else scope.narrowed(filters.user_match, filters.user_id)


def compiled(filters: SearchFilters, kinds: Mapping[str, tuple[str, ...]], usual: tuple[str, ...]) -> Where:
    """`kinds` says which rows each `memory_type` is made of; `usual` are the types where none is named."""
    types = usual if filters.memory_type is None else filters.memory_type
    parts: list[Where] = [In("kind", tuple(kind for name in types for kind in kinds[name]))]
    for name, field in _ONE.items():
        if (value := getattr(filters, name)) is not None:
            parts.append(Eq(field, value))
    for name in _SEVERAL:
        if (values := getattr(filters, name)) is not None:
            parts.append(In(name, tuple(values)))
    for name, field in _NUMBERS.items():
        if (bounds := getattr(filters, name)) is not None:
            parts.append(_between(field, bounds))
    if filters.time_range is not None:
        parts.append(_when(filters.time_range))
    return every(*parts)


def _between(field: str, bounds: NumberRange) -> Range:
    return Range(field, **bounds.model_dump())


def _when(bounds: TimeRange) -> Range:
    sides = TimeRange.model_fields
    return Range("ts", **{side: moment_ms(f"filters.time_range.{side}", getattr(bounds, side)) for side in sides})
