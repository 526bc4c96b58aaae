"""Entries: written, searched, changed, and rolled back."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import ConfigDict, Field, SkipValidation
from starlette.responses import Response

from mnemon.contracts.memories import (
    EntryPatch,
    EntryVersion,
    GraphParams,
    Link,
    MemoryEntry,
    SearchFilters,
    SearchResult,
    WriteReceipt,
)
from mnemon.engine.entries import MAX_REASON, MAX_TOPK
from mnemon.surfaces.http.forms import Form, Items
from mnemon.surfaces.http.openapi import documented
from mnemon.surfaces.http.reading import StrictRoute
from mnemon.surfaces.http.visit import Here, answer

router = APIRouter(tags=["entries"], route_class=StrictRoute)

_ENTRY: dict[str, Any] = {
    "id": "note-1",
    "kind": "semantic",
    "modality": "text",
    "contents": ["Ann does not eat spicy food."],
    "metadata": {"user_id": ["u:ann"], "memory_domain": "dialog", "source": "notes"},
}
_RECEIPT = {"version": 7, "value": "9f2c…", "created_at": "2026-01-31T08:00:00Z", "id_map": None}
_FOUND = {
    "hits": [{"id": "note-1", "score": 0.81, "entry": _ENTRY}],
    "neighbors": {},
    "hints": "",
    "trace": {
        "timings_ms": {"total": 2.1},
        "counts": {"hits": 1, "looked_at": 412, "left_out": 0},
        "routes": ["dense"],
    },
}
_VERSION = {
    "version": 7,
    "op": "write",
    "at": "2026-01-31T08:00:00Z",
    "by": ["u:ann"],
    "reason": "",
    "before": None,
    "after": _ENTRY,
}


class Reasoned(Form):
    reason: str = Field(default="", max_length=MAX_REASON, description="Why, for the trail.")


# What an entry, a link or a filter must be is checked in one place, by the engine: hence SkipValidation.
class WriteForm(Form):
    model_config = ConfigDict(json_schema_extra={"examples": [{"entries": [_ENTRY]}]})

    entries: SkipValidation[list[MemoryEntry]]
    links: SkipValidation[list[Link]] = Field(default_factory=list)
    upsert: bool = Field(default=True, description="False: an id that is there already is a CONFLICT.")
    return_id_map: bool = False


class SearchForm(Form):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "spicy food", "filters": {"memory_type": ["semantic"]}}]}
    )

    query: str
    topk: int = Field(default=10, ge=1, le=MAX_TOPK)
    expand_graph: bool = Field(default=True, description="Follow links from the hits: neighbours are told, not added.")
    threshold: float | None = None
    filters: SkipValidation[SearchFilters | None] = None
    graph_params: SkipValidation[GraphParams | None] = None


class UpdateForm(Reasoned):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "note-1", "patch": {"contents": ["Ann eats mild food."]}}]}
    )

    id: str
    patch: SkipValidation[EntryPatch]


class DeleteForm(Reasoned):
    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "note-1"}]})

    id: str
    soft: bool = Field(default=True, description="False erases it and all it ever was.")


class RollbackForm(Reasoned):
    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 7}]})

    version: int = Field(ge=1, le=2**53)


@router.post("/write", summary="Keep entries", response_model=WriteReceipt, responses=documented(_RECEIPT, 404, 409))
async def write(here: Here, form: WriteForm) -> Response:
    """Durable when the answer comes. `metadata.user_id` says who may see an entry; left out, the person who asks. With
    a service token it may also name the person, in place of `X-User-ID`. Another `metadata.tenant_id` is refused."""
    door = here.entries(*_audiences(form.entries))
    work = door.write(form.entries, form.links, upsert=form.upsert, return_id_map=form.return_id_map)
    return answer(await here.write(work))


@router.post("/search", summary="One question to the index", response_model=SearchResult, responses=documented(_FOUND))
async def search(here: Here, form: SearchForm) -> Response:
    """Entries, turns and claims near in meaning, best first. The tenant and what the caller may see are always in the
    filter; `filters.user_id` can only narrow it, or, with a service token and no `X-User-ID`, name the person."""
    found = await here.entries(_of(form.filters, "user_id")).search(**dict(form))
    return answer(found)


@router.post(
    "/update", summary="Change an entry", response_model=WriteReceipt, responses=documented(_RECEIPT, 404, 409)
)
async def update(here: Here, form: UpdateForm) -> Response:
    """A new version; the one before stays in its history."""
    return answer(await here.write(here.entries().update(form.id, form.patch, form.reason)))


@router.post(
    "/delete", summary="Take an entry away", response_model=WriteReceipt, responses=documented(_RECEIPT, 404, 409)
)
async def delete(here: Here, form: DeleteForm) -> Response:
    """Out of sight, and back with `/rollback`; or, with `soft: false`, for good."""
    return answer(await here.write(here.entries().delete(form.id, form.soft, form.reason)))


@router.post(
    "/rollback", summary="Undo a version", response_model=WriteReceipt, responses=documented(_RECEIPT, 404, 409)
)
async def rollback(here: Here, form: RollbackForm) -> Response:
    """As a new version; a CONFLICT where a later one changed the same."""
    return answer(await here.write(here.entries().rollback(form.version, form.reason)))


@router.get(
    "/v1/entries/{entry_id:path}/history",
    summary="Every version of an entry",
    response_model=Items[EntryVersion],
    responses=documented({"items": [_VERSION]}, 404, 409),
)
async def history(here: Here, entry_id: str) -> Response:
    """Newest first: who changed what, and why."""
    return answer({"items": await here.entries().history(entry_id)})


def _audiences(entries: object) -> list[object]:
    listed = entries if isinstance(entries, list) else []
    return [_of(_of(entry, "metadata"), "user_id") for entry in listed]


def _of(holder: object, name: str) -> object:
    return holder.get(name) if isinstance(holder, dict) else None
