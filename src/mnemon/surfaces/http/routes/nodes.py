"""The readable memories."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi import Query as InQuery
from pydantic import ConfigDict, Field
from starlette.responses import Response

from mnemon.contracts.nodes import Node, NodeSummary, Revision, Shelf
from mnemon.surfaces.http.forms import Form, Items, Query
from mnemon.surfaces.http.openapi import documented
from mnemon.surfaces.http.reading import StrictRoute
from mnemon.surfaces.http.visit import Here, answer

router = APIRouter(prefix="/v1/nodes", tags=["nodes"], route_class=StrictRoute)

_URI = "ctx://acme/users/ann/memories/preferences/food"
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
