"""What a scope sees, a filter keeps and a query may match, as Qdrant conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qdrant_client import models

from mnemon.contracts.filters import FIELDS, And, Eq, In, Missing, Not, Or, Range, Scalar, Where
from mnemon.contracts.scope import Scope
from mnemon.logic import lexical
from mnemon.logic.filtering import comparable
from mnemon.logic.lexical import AllOf, AnyOf, Leaf, Query

TENANT = "_tenant"
PRINCIPALS = "_principals"
PRINCIPALS_COUNT = "_principals_count"
GRAMS = "_grams"

Condition = models.Condition

NOTHING: Condition = models.HasIdCondition(has_id=[])
EVERY_ROW: Condition = models.Filter(must_not=[NOTHING])
_FARTHEST = 1e300


def all_of(conditions: Iterable[Condition]) -> models.Filter:
    return models.Filter(must=list(conditions))


def _some_of(conditions: Sequence[Condition]) -> Condition:
    return models.Filter(should=list(conditions)) if conditions else NOTHING


def _is(key: str, value: str | int | bool) -> Condition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _any(key: str, values: list[str] | list[int]) -> Condition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=values)) if values else NOTHING


def visible(scope: Scope) -> list[Condition]:
    """Exactly what `Scope.sees` says."""
    conditions = [_is(TENANT, scope.tenant_id)]
    if not scope.steward:
        conditions.append(_within(sorted(scope.principals)))
    narrow = sorted(scope.narrow)
    if scope.match == "any":
        conditions.append(_any(PRINCIPALS, narrow))
    elif scope.match == "all":
        conditions += [_is(PRINCIPALS, p) for p in narrow] or [NOTHING]
    return conditions


def _within(principals: list[str]) -> Condition:
    """A row is within when as many of the caller's principals are in it as it has principals at all."""
    held = [_is(PRINCIPALS, p) for p in principals]
    return _some_of(
        [
            models.Filter(
                must=[_is(PRINCIPALS_COUNT, count)],
                min_should=models.MinShould(conditions=held, min_count=count),
            )
            for count in range(1, len(held) + 1)
        ]
    )


def of_kinds(kinds: frozenset[str] | None) -> list[Condition]:
    return [] if kinds is None else [_any("kind", sorted(kinds))]


def compile_where(where: Where) -> Condition:
    """Exactly what `contracts.filters.matches` says."""
    match where:
        case And(parts):
            return all_of(map(compile_where, parts)) if parts else EVERY_ROW
        case Or(parts):
            return _some_of([compile_where(p) for p in parts])
        case Not(part):
            return models.Filter(must_not=[compile_where(part)])
        case Eq(name, value):
            return _one_of(name, comparable(name, (value,)))
        case In(name, values):
            return _one_of(name, comparable(name, values))
        case Missing(name):
            return models.IsEmptyCondition(is_empty=models.PayloadField(key=name))
        case Range(name, gte, gt, lte, lt):
            bounds = {"gte": gte, "gt": gt, "lte": lte, "lt": lt}
            given = {side: _near(bound) for side, bound in bounds.items() if bound is not None}
            if not given:
                return models.Filter(must_not=[compile_where(Missing(name))])
            return models.FieldCondition(key=name, range=models.Range(**given))


def _near(bound: float) -> float:
    """JSON has no infinity."""
    return float(min(max(bound, -_FARTHEST), _FARTHEST))


def _one_of(name: str, values: list[Scalar]) -> Condition:
    kind = FIELDS[name]
    if kind is float:  # Qdrant matches no floats; a range of one number does
        numbers = [float(v) for v in values]
        return _some_of([models.FieldCondition(key=name, range=models.Range(gte=v, lte=v)) for v in numbers])
    if kind is bool:
        return _some_of([_is(name, bool(v)) for v in values])
    if kind is int:
        return _any(name, [int(v) for v in values])
    return _any(name, [str(v) for v in values])


def gram_key(gram: int) -> str:
    return f"{gram:x}"


def holding(gram: int) -> Condition:
    return _is(GRAMS, gram_key(gram))


def may_match(query: Query) -> Condition:
    """Every row that matches, and perhaps others: whether words stand side by side only the text itself tells."""
    match query:
        case Leaf(_, strict):
            grams = query.grams
            return all_of(map(holding, grams)) if strict else _any(GRAMS, [gram_key(g) for g in grams])
        case AllOf(parts):
            return all_of(map(may_match, parts))
        case AnyOf(parts, without):
            exact = [may_match(p) for p in without if lexical.is_ranked(p)]
            return models.Filter(must=[_some_of([may_match(p) for p in parts])], must_not=exact)
