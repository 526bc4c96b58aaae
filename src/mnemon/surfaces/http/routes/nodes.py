"""The readable memories."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi import Query as InQuery
from pydantic import ConfigDict, Field
from starlette.responses import Response

from mnemon.contracts.nodes import Edge, Node, NodeSummary, Revision, Shelf
from mnemon.surfaces.http.forms import Form, Items, Query
from mnemon.surfaces.http.openapi import documented
from mnemon.surfaces.http.reading import StrictRoute
from mnemon.surfaces.http.visit import Here, answer

router = APIRouter(prefix="/v1/nodes", tags=["nodes"], route_class=StrictRoute)

_URI = "ctx://acme/users/ann/memories/preferences/food"
_TO = "ctx://acme/users/ann/memories/entities/wok"
_EDGE = {
    "from_uri": _URI,
    "to_uri": _TO,
    "relation_type": "related_to",
    "reason": "one kitchen",
    "weight": 1.0,
    "created_at": "2026-02-01T00:00:00Z",
}
RelationType = Literal["related_to", "derived_from", "part_of", "references"]
_SUMMARY = {"uri": _URI, "name": "food", "is_dir": False, "has_children": False, "category": "preferences"}
_NODE = {
    "key": {"tenant_id": "acme", "owner": {"kind": "users", "id": "ann"}, "shelf": "preferences", "slug": "food"},
    "principals": ["u:ann"],
    "abstract": "Ann does not eat spicy food.",
    "content": "* Ann does not eat spicy food any more.",
    "version": 1,
}


class Listing(Query):
    shelf: Shelf | None = None


class Address(Query):
    uri: str = Field(description="The address a listing gives: ctx://…/memories/{shelf}/{name}.")


class Following(Address):
    relation_type: RelationType | None = None
    hops: int = Field(default=1, ge=1, le=3)


class Relation(Form):
    model_config = ConfigDict(json_schema_extra={"examples": [{"uri": _URI, "to_uri": _TO, "reason": "one kitchen"}]})

    uri: str
    to_uri: str = Field(description="A memory of the same person, or of the same group.")
    relation_type: RelationType = "related_to"
    reason: str = ""
    weight: float = Field(default=1.0, ge=0, le=1)


class Unrelation(Form):
    model_config = ConfigDict(json_schema_extra={"examples": [{"uri": _URI, "to_uri": _TO}]})

    uri: str
    to_uri: str | None = None
    relation_type: RelationType | None = None


class Removed(Form):
    removed: int


class Move(Form):
    model_config = ConfigDict(json_schema_extra={"examples": [{"uri": _URI, "name": "what-ann-eats"}]})

    uri: str
    name: str = Field(description="Its name on the same shelf from now on.")


@router.get(
    "",
    summary="The memories on their shelves",
    response_model=Items[NodeSummary],
    responses=documented({"items": [_SUMMARY]}),
)
async def listed(here: Here, asked: Annotated[Listing, InQuery()]) -> Response:
    """Of the person, or of the group where one is named by `X-Group-ID`."""
    return answer({"items": await here.memory.nodes(**here.person(), shelf=asked.shelf)})


@router.get("/one", summary="One memory in its three levels", response_model=Node, responses=documented(_NODE, 404))
async def one(here: Here, asked: Annotated[Address, InQuery()]) -> Response:
    """With its claims and their words."""
    return answer(await here.memory.node(**here.person(), uri=asked.uri))


@router.get(
    "/history",
    summary="Its earlier versions",
    response_model=Items[Revision],
    responses=documented(
        {"items": [{"node": _NODE, "reason": "s2 said more", "saved_at": "2026-02-01T00:00:00Z"}]}, 404
    ),
)
async def history(here: Here, asked: Annotated[Address, InQuery()]) -> Response:
    """Newest first, and why each was made."""
    return answer({"items": await here.memory.node_history(**here.person(), uri=asked.uri)})


@router.post("/move", summary="Give it another name", response_model=Node, responses=documented(_NODE, 404, 409))
async def move(here: Here, form: Move) -> Response:
    """Its claims and its index follow."""
    return answer(await here.write(here.memory.move_node(**here.person(), uri=form.uri, name=form.name)))


@router.get(
    "/relations",
    summary="What it has to do with others",
    response_model=Items[Edge],
    responses=documented({"items": [_EDGE]}, 404),
)
async def relations(here: Here, asked: Annotated[Following, InQuery()]) -> Response:
    """Both ways; with `hops` also what those have to do with others, the nearest first."""
    return answer({"items": await here.memory.relations(**here.person(), **dict(asked))})


@router.post("/relate", summary="Relate it to another", response_model=Edge, responses=documented(_EDGE, 404))
async def relate(here: Here, form: Relation) -> Response:
    """One edge a target and type: the newer takes the place of the older."""
    return answer(await here.write(here.memory.relate(**here.person(), **dict(form))))


@router.post(
    "/unrelate", summary="Take relations away", response_model=Removed, responses=documented({"removed": 1}, 404)
)
async def unrelate(here: Here, form: Unrelation) -> Response:
    """To one other, of one type, or all of them."""
    return answer({"removed": await here.write(here.memory.unrelate(**here.person(), **dict(form)))})
