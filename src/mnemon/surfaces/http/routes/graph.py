"""The temporal graph: who did what when, what held when, and why it is known."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from fastapi import APIRouter, Body
from fastapi import Query as InQuery
from pydantic import BaseModel, Field
from starlette.responses import Response

from mnemon.contracts.graph import Entity, Event, Evidence, GraphBatch, PendingEquiv, TimeSlice
from mnemon.contracts.graph_results import Explanation, GraphReceipt, HeldState, Resolution, StateChange
from mnemon.surfaces.http.forms import Items, Query
from mnemon.surfaces.http.openapi import documented
from mnemon.surfaces.http.reading import StrictRoute
from mnemon.surfaces.http.visit import Here, answer

router = APIRouter(prefix="/graph/v0", tags=["graph"], route_class=StrictRoute)

T = TypeVar("T")

_MOMENT = "ISO 8601, for instance 2026-01-31T08:00:00Z"
_COMMON = {"tenant_id": "acme", "user_id": ["u:ann"], "memory_domain": "dialog"}
_ENTITY = {"id": "ent-1", **_COMMON, "type": "person", "name": "Wei", "aliases": ["老魏"]}
_EVENT = {"id": "ev-1", **_COMMON, "summary": "Wei moved to Chengdu", "t_abs_start": "2026-01-31T08:00:00Z"}
_UTTERANCE = {"id": "utt-1", **_COMMON, "raw_text": "Wei moved to Chengdu.", "speaker": "Ann", "turn_id": "t1"}
_EVIDENCE = {"id": "evi-1", **_COMMON, "utterance_id": "utt-1", "span_start": 0, "span_end": 3, "text": "Wei"}
_SLICE = {
    "id": "day-1",
    **_COMMON,
    "kind": "day",
    "t_abs_start": "2026-01-31T00:00:00Z",
    "t_abs_end": "2026-02-01T00:00:00Z",
}
_STATE = {
    "id": "st-1",
    **_COMMON,
    "subject_id": "ent-1",
    "property": "residence",
    "value": "Chengdu",
    "valid_from": "2026-01-31T08:00:00Z",
}
_HELD = {"state": _STATE, "held_from": "2026-01-31T08:00:00Z", "held_to": None}
_CHANGE = {
    "subject_id": "ent-1",
    "property": "residence",
    "from_value": "上海",
    "to_value": "Chengdu",
    "changed_at": "2026-01-31T08:00:00Z",
    "learnt_at": "2026-02-02T09:00:00Z",
    "state_id": "st-1",
}
_EQUIV = {"id": "eq-1", **_COMMON, "entity_id": "ent-1", "candidate_id": "ent-2", "status": "pending"}
_QUOTED = {"utterance": _UTTERANCE, "quotes": [{"span_start": 0, "span_end": 20, "text_exact": "Wei moved to Chengdu"}]}
_WHY = {"knowledge": None, "events": [{"event": _EVENT, "utterances": [_QUOTED]}]}
_BATCH: dict[str, Any] = {"entities": [{**_ENTITY}], "events": [{**_EVENT}]}


class Page(BaseModel, Generic[T]):
    items: list[T]
    next_cursor: str | None = None


class Paged(Query):
    limit: int = Field(default=100, ge=1, le=500)
    cursor: str | None = Field(default=None, description="Where the page before ended (`next_cursor`).")


class During(Paged):
    since: str | None = Field(default=None, description=f"From this time on; {_MOMENT}.")
    until: str | None = Field(default=None, description=f"Before this time; {_MOMENT}.")


class Called(Paged):
    name: str | None = None


class Name(Query):
    name: str


class Slices(Paged):
    start_iso: str | None = Field(default=None, description=_MOMENT)
    end_iso: str | None = Field(default=None, description=_MOMENT)
    kind: str | None = Field(default=None, description="day or month")


class About(Query):
    subject: str = Field(description="An entity's id.")
    property: str | None = None


class Current(About):
    known_at: str | None = Field(default=None, description=f"Leave out what was learnt later; {_MOMENT}.")


class AtTime(Current):
    when: str = Field(description=f"At this moment; {_MOMENT}.")


class Changes(About):
    since: str | None = Field(default=None, description=_MOMENT)
    until: str | None = Field(default=None, description=_MOMENT)


@router.post(
    "/upsert",
    summary="Tell the graph something",
    response_model=GraphReceipt,
    responses=documented({"ok": True, "counts": {"entities": 1, "events": 1}}, 404, 409),
)
async def upsert(here: Here, batch: Annotated[GraphBatch, Body(examples=[_BATCH])]) -> Response:
    """Every item and edge carries `user_id` and `memory_domain`, all of them the same (`graph_scope_missing`,
    `graph_scope_mismatch`); the tenant is always the caller's. With a service token `user_id` may name the person."""
    door = here.graph(*(one.user_id for one in (*batch.items(), *batch.edges)))
    return answer(await here.write(door.upsert(batch)))


@router.get(
    "/events",
    summary="What happened",
    response_model=Page[Event],
    responses=documented({"items": [_EVENT], "next_cursor": None}),
)
async def events(here: Here, asked: Annotated[During, InQuery()]) -> Response:
    """Oldest first."""
    return answer(await here.graph().events(**dict(asked)))


@router.get("/events/{event_id:path}", summary="One event", response_model=Event, responses=documented(_EVENT, 404))
async def event(here: Here, event_id: str) -> Response:
    """By its id."""
    return answer(await here.graph().event(event_id))


@router.get(
    "/entities",
    summary="People and things",
    response_model=Page[Entity],
    responses=documented({"items": [_ENTITY], "next_cursor": None}),
)
async def entities(here: Here, asked: Annotated[Called, InQuery()]) -> Response:
    """All of them, or those called so."""
    return answer(await here.graph().entities(**dict(asked)))


@router.get(
    "/entities/resolve",
    summary="Whom a name means",
    response_model=Resolution,
    responses=documented({"name": "Wei", "entity": _ENTITY, "same_as": [], "candidates": []}),
)
async def resolve(here: Here, asked: Annotated[Name, InQuery()]) -> Response:
    """And whom it may mean, as long as nobody has decided."""
    return answer(await here.graph().resolve(asked.name))


@router.get(
    "/entities/{entity_id:path}/timeline",
    summary="The events somebody takes part in",
    response_model=Page[Event],
    responses=documented({"items": [_EVENT], "next_cursor": None}, 404),
)
async def timeline(here: Here, entity_id: str, asked: Annotated[During, InQuery()]) -> Response:
    """Oldest first."""
    return answer(await here.graph().timeline(entity_id, **dict(asked)))


@router.get(
    "/entities/{entity_id:path}/evidences",
    summary="The exact words that speak of somebody",
    response_model=Page[Evidence],
    responses=documented({"items": [_EVIDENCE], "next_cursor": None}, 404),
)
async def evidences(here: Here, entity_id: str, asked: Annotated[Paged, InQuery()]) -> Response:
    """Oldest first; `limit` counts utterances."""
    return answer(await here.graph().evidences(entity_id, **dict(asked)))


@router.get(
    "/timeslices/range",
    summary="The days and months something happened in",
    response_model=Page[TimeSlice],
    responses=documented({"items": [_SLICE], "next_cursor": None}),
)
async def timeslices(here: Here, asked: Annotated[Slices, InQuery()]) -> Response:
    """`start_iso` counts, `end_iso` does not."""
    return answer(await here.graph().timeslices(asked.start_iso, asked.end_iso, asked.kind, asked.limit, asked.cursor))


@router.get(
    "/explain/event/{event_id:path}",
    summary="What was said of an event",
    response_model=Explanation,
    responses=documented(_WHY, 404),
)
async def explain_event(here: Here, event_id: str) -> Response:
    """Word for word, and what was derived from it."""
    return answer(await here.graph().explain_event(event_id))


@router.get(
    "/explain/knowledge/{knowledge_id:path}",
    summary="Why something is known",
    response_model=Explanation,
    responses=documented(_WHY, 404),
)
async def explain_knowledge(here: Here, knowledge_id: str) -> Response:
    """The events it was derived from, the utterances, the exact words."""
    return answer(await here.graph().explain_knowledge(knowledge_id))


@router.get(
    "/states/current",
    summary="What holds now",
    response_model=Items[HeldState],
    responses=documented({"items": [_HELD]}, 404),
)
async def states_current(here: Here, asked: Annotated[Current, InQuery()]) -> Response:
    """Of a subject; `known_at` leaves out what was learnt later."""
    return answer({"items": await here.graph().states_current(**dict(asked))})


@router.get(
    "/states/at_time",
    summary="What held at a moment",
    response_model=Items[HeldState],
    responses=documented({"items": [_HELD]}, 404),
)
async def states_at(here: Here, asked: Annotated[AtTime, InQuery()]) -> Response:
    """Of a subject, as it was known then or, without `known_at`, as it is known now."""
    return answer({"items": await here.graph().states_at(**dict(asked))})


@router.get(
    "/states/changes",
    summary="What changed when",
    response_model=Items[StateChange],
    responses=documented({"items": [_CHANGE]}, 404),
)
async def states_changes(here: Here, asked: Annotated[Changes, InQuery()]) -> Response:
    """From what to what, and when we learnt it."""
    return answer({"items": await here.graph().states_changes(**dict(asked))})


@router.get(
    "/pending_equivs",
    summary="Entities that may be one",
    response_model=Items[PendingEquiv],
    responses=documented({"items": [_EQUIV]}),
)
async def pending_equivs(here: Here) -> Response:
    """And that nobody has decided."""
    return answer({"items": await here.graph().pending_equivs()})


@router.post(
    "/pending_equivs/{equiv_id:path}/approve",
    summary="They are one",
    response_model=PendingEquiv,
    responses=documented({**_EQUIV, "status": "approved"}, 404, 409),
)
async def approve(here: Here, equiv_id: str) -> Response:
    """From now on, until it is rejected."""
    return answer(await here.write(here.graph().approve(equiv_id)))


@router.post(
    "/pending_equivs/{equiv_id:path}/reject",
    summary="They are not one",
    response_model=PendingEquiv,
    responses=documented({**_EQUIV, "status": "rejected"}, 404, 409),
)
async def reject(here: Here, equiv_id: str) -> Response:
    """Whatever their names."""
    return answer(await here.write(here.graph().reject(equiv_id)))
