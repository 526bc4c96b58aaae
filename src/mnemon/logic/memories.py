"""Entries, thought through: whose they are, which one is meant, which are the same, and what a change makes of one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import Any

from mnemon.contracts.errors import InvalidArgument, PermissionDenied
from mnemon.contracts.memories import EntryPatch, EntryState, MemoryEntry
from mnemon.contracts.scope import PUBLIC, Scope, checked_id
from mnemon.logic.entry_fields import fields_of, text_of
from mnemon.logic.graph.names import same
from mnemon.logic.ids import stable_id

DEDUP_SKIP = "dedup_skip"
# Somebody with very many principals names an entry of more than this many by the id it was stored under.
_LARGEST_AUDIENCE = 3
_VECTORS = ("text", "dense")


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry as it is to be stored. `name` is how the caller speaks of it: its id, or its position."""

    name: str
    given_id: bool
    merges: bool
    audience: tuple[str, ...]
    key: str
    state: EntryState


def drafted(scope: Scope, entry: MemoryEntry, position: int, model: str, dimension: int, now: datetime) -> Draft:
    """`InvalidArgument` where it cannot be stored, `PermissionDenied` where it is for somebody else."""
    where = f"entries[{position}]"
    metadata = _plain(entry.metadata, f"{where}.metadata")
    merges = not metadata.pop(DEDUP_SKIP, False)
    audience = _audience(scope, metadata, f"{where}.metadata")
    metadata |= {"tenant_id": scope.tenant_id, "user_id": list(audience)}
    _storable("".join(entry.contents), f"{where}.contents")
    _storable("".join(entry.vectors or ()), f"{where}.vectors")
    id = checked_id(f"{where}.id", entry.id) if entry.id is not None else _made_id(scope, audience, entry, metadata)
    state = EntryState(
        **{**entry.model_dump(), "id": id, "metadata": metadata, "contents": entry.contents},
        written_at=now,
        embedded_by=model if _usable(entry, model, dimension, where) else "",
    )
    _check(state, where)
    name = entry.id if entry.id is not None else str(position)
    return Draft(name, entry.id is not None, merges, audience, entry_key(scope.tenant_id, audience, id), state)


def entry_key(tenant_id: str, audience: Iterable[str], id: str) -> str:
    """What a row is stored under. The audience is part of it, so nobody can meet, and nobody can find out by trying,
    an id that somebody else has given."""
    return stable_id("entry", tenant_id, *sorted(set(audience)), id)


def keys_of(scope: Scope, id: str) -> Iterator[str]:
    """Every row an id may mean to somebody, the most particular audience first."""
    held = sorted(scope.principals)
    for size in range(min(len(held), _LARGEST_AUDIENCE), 0, -1):
        for audience in combinations(held, size):
            yield entry_key(scope.tenant_id, audience, id)


def folded(state: EntryState) -> str:
    """Two entries of one audience with the same say the same: words are compared in one spelling, full-width forms,
    case and spaces aside."""
    domain = str(state.metadata.get("memory_domain", ""))
    return stable_id("folded", state.kind, state.modality, domain, same(text_of(state)))


def merged(there: EntryState, new: EntryState) -> EntryState:
    """Said again: the words stay as they are, of the metadata the newest counts, and its life begins anew."""
    return there.model_copy(
        update={
            "metadata": {**there.metadata, **new.metadata},
            "published": new.published,
            "written_at": new.written_at,
            "deleted": False,
        }
    )


def patched(there: EntryState, patch: EntryPatch, now: datetime) -> EntryState:
    """Its life begins anew where its length is changed."""
    update: dict[str, Any] = {}
    if patch.metadata is not None:
        changes = _plain(patch.metadata, "patch.metadata")
        for fixed in ("user_id", "tenant_id"):
            if fixed in changes and changes[fixed] != there.metadata.get(fixed):
                raise InvalidArgument(
                    f"patch.metadata.{fixed}: who may see an entry is not changed; write it anew for them",
                    field=f"patch.metadata.{fixed}",
                )
        whole = {**there.metadata, **changes}
        update["metadata"] = {name: value for name, value in whole.items() if value is not None}
        if changes.keys() & {"ttl", "ttl_seconds", "expires_at"}:
            update["written_at"] = now
    _storable("".join(patch.contents or ()), "patch.contents")
    for name in ("contents", "modality", "published"):
        if (value := getattr(patch, name)) is not None:
            update[name] = value
    if "contents" in update and text_of(there) != next(iter(update["contents"]), ""):
        update["embedded_by"] = ""
    made = there.model_copy(update=update)
    _check(made, "patch")
    return made


def given_vector(state: EntryState, model: str) -> tuple[float, ...] | None:
    """The vector that came with it, where it is of this model."""
    if not state.embedded_by or state.embedded_by != model:
        return None
    vectors = state.vectors or {}
    return next((vectors[name] for name in (model, *_VECTORS) if name in vectors), None)


def _usable(entry: MemoryEntry, model: str, dimension: int, where: str) -> bool:
    names = [name for name in (model, *_VECTORS) if name in (entry.vectors or {})]
    for name in names:
        found = len((entry.vectors or {})[name])
        if found != dimension:
            raise InvalidArgument(
                f"{where}.vectors.{name} has {found} numbers; vectors of {model} have {dimension}",
                field=f"{where}.vectors.{name}",
            )
    return bool(names)


def _audience(scope: Scope, metadata: Mapping[str, Any], where: str) -> tuple[str, ...]:
    tenant = metadata.get("tenant_id", scope.tenant_id)
    if tenant != scope.tenant_id:
        raise PermissionDenied(f"{where}.tenant_id is not the tenant of these credentials", field=f"{where}.tenant_id")
    given = metadata.get("user_id")
    if given is None:
        return own_audience(scope, where)
    if not isinstance(given, list) or not given or not all(isinstance(name, str) for name in given):
        raise InvalidArgument(f"{where}.user_id must be a list of principals such as u:ann", field=f"{where}.user_id")
    for name in given:  # the prefix is ours: an id is as long as people chose it
        checked_id(f"{where}.user_id", name.partition(":")[2] or name)
    audience = tuple(sorted(set(given)))
    if not scope.sees(audience):
        raise PermissionDenied(f"{where}.user_id holds principals beyond these credentials", field=f"{where}.user_id")
    return audience


def own_audience(scope: Scope, where: str) -> tuple[str, ...]:
    """For the caller alone: the user, through the product they speak through; else the group."""
    held = {kind: sorted(p for p in scope.principals if p.startswith(f"{kind}:")) for kind in "upg"}
    if len(held["u"]) == 1:
        return tuple(sorted([*held["u"], *(held["p"] if len(held["p"]) == 1 else [])]))
    if len(held["g"]) == 1:
        return tuple(held["g"])
    raise InvalidArgument(f"{where}.user_id must say who may see it", field=f"{where}.user_id")


def _made_id(scope: Scope, audience: tuple[str, ...], entry: MemoryEntry, metadata: Mapping[str, Any]) -> str:
    place = [str(metadata.get(name, "")) for name in ("memory_domain", "run_id", "turn_id")]
    said = json.dumps(entry.contents, ensure_ascii=False)
    return stable_id("memory", scope.tenant_id, json.dumps(audience), *place, entry.kind, entry.modality, said)


def _plain(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """As JSON would give it back."""
    try:
        written = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False)
        written.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"{where} holds what JSON cannot: {str(error)!a}", field=where) from None
    plain: dict[str, Any] = json.loads(written)
    return plain


def _check(state: EntryState, where: str) -> None:
    """Has it words where it needs them, and can every field be filtered by?"""
    if state.modality == "text" and not text_of(state).strip():
        raise InvalidArgument(f"{where}.contents must hold a text", field=f"{where}.contents")
    fields_of(state, where)


def _storable(text: str, where: str) -> None:
    """Half a surrogate pair can be kept nowhere."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{where} cannot be stored: {str(error)!a}", field=where) from None


def link_audience(ends: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """A link is for those who see both of its ends; what everybody sees takes nobody away."""
    principals = {principal for end in ends for principal in end}
    return tuple(sorted(principals - {PUBLIC} or principals))
