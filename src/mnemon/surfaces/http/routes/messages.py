"""The message tools: what was said, word for word, by time, by words, by meaning, and around a message."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi import Query as InQuery
from pydantic import ConfigDict, Field
from starlette.responses import Response

from mnemon.contracts.reports import Degraded
from mnemon.contracts.results import Message, MessageHit, MessageHitPage, MessagePage
from mnemon.surfaces.http.forms import Form, Items, ToolForm, ToolQuery
from mnemon.surfaces.http.openapi import documented
from mnemon.surfaces.http.reading import StrictRoute
from mnemon.surfaces.http.visit import Here, answer

router = APIRouter(prefix="/v1/messages", tags=["messages"], route_class=StrictRoute)

Role = Literal["user", "assistant", "tool", "system"]
_MOMENT = "ISO 8601, for instance 2026-01-31T08:00:00Z"
_MESSAGE = {
    "message_id": "5a1b6f0e-3d0f-5c35-9a3e-0f7f5a1c2b3d",
    "ts": "2026-01-31T08:00:00.000Z",
    "role": "user",
    "content": "I don't eat spicy food any more.",
    "session_id": "s1",
    "speaker": "Ann",
    "meta": {"turn_id": "t0001", "seq": 1, "uri": "ctx://acme/users/ann/sessions/s1"},
}
_HIT = {"message": _MESSAGE, "score": 0.83, "highlights": [[12, 22]]}


class Listing(ToolQuery):
    since: str | None = Field(default=None, description=f"From this time on; {_MOMENT}.")
    until: str | None = Field(default=None, description=f"Before this time; {_MOMENT}.")
    role: Role | None = None
    page_size: int = Field(default=50, ge=1, le=200)
    cursor: str | None = Field(default=None, description="Where the page before ended (`next_cursor`).")
    session_id: str | None = None


class Around(ToolQuery):
    before: int = Field(default=20, ge=0, le=200, description="How many messages before it.")
    after: int = Field(default=0, ge=0, le=200, description="How many messages after it.")


class Span(Form):
    since: str | None = Field(default=None, description=_MOMENT)
    until: str | None = Field(default=None, description=_MOMENT)


class Filter(Form):
    role: Role | None = None
    time_range: Span | None = None
    session_id: str | None = None


class Lexical(ToolForm):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query_text": '"spicy food" OR 香菜', "filter": {"role": "user"}}]}
    )

    query_text: str = Field(description='Words, "phrases", AND, OR, -not, brackets. 中文词一两个字也能找到。')
    filter: Filter | None = None
    page_size: int = Field(default=20, ge=1, le=200)
    cursor: str | None = None


class Semantic(ToolForm):
    model_config = ConfigDict(json_schema_extra={"examples": [{"query_text": "what should we not order", "top_k": 5}]})

    query_text: str | None = None
    query_embedding: list[float] | None = Field(default=None, description="Instead of words: a vector of the index.")
    filter: Filter | None = None
    top_k: int = Field(default=20, ge=1, le=200)
    min_score: float | None = None


class ByMeaning(Items[MessageHit]):
    degraded: list[Degraded] = Field(default=[], description="What the index does not hold yet, and why.")


def _given(filter_: Filter | None) -> dict[str, Any] | None:
    return filter_.model_dump(exclude_none=True) if filter_ is not None else None


@router.get(
    "",
    summary="Messages, newest first",
    response_model=MessagePage,
    responses=documented({"items": [_MESSAGE], "next_cursor": None}),
)
async def listed(here: Here, asked: Annotated[Listing, InQuery()]) -> Response:
    """Every turn of the caller's scope, page by page. `since` counts, `until` does not."""
    return answer(await here.messages.messages_list(**asked.model_dump(exclude={"user_id"})))


@router.post(
    "/lexical_search",
    summary="Find words",
    response_model=MessageHitPage,
    responses=documented({"items": [_HIT], "next_cursor": None}),
)
async def lexical(here: Here, asked: Lexical) -> Response:
    """Best first, with the places where the words stand."""
    found = await here.messages.lexical_search(asked.query_text, _given(asked.filter), asked.page_size, asked.cursor)
    return answer(found)


@router.post(
    "/semantic_search",
    summary="Find by meaning",
    response_model=ByMeaning,
    responses=documented({"items": [_HIT], "degraded": []}),
)
async def semantic(here: Here, asked: Semantic) -> Response:
    """What means the same, in either language, best first."""
    found = await here.messages.semantic_search(
        asked.query_text, asked.query_embedding, _given(asked.filter), asked.top_k, asked.min_score
    )
    return answer({"items": found, "degraded": found.degraded})


@router.get(
    "/{message_id}/neighbors",
    summary="A message and what was said around it",
    response_model=Items[Message],
    responses=documented({"items": [_MESSAGE]}, 404),
)
async def neighbors(here: Here, message_id: str, asked: Annotated[Around, InQuery()]) -> Response:
    """In the order it was said."""
    return answer({"items": await here.messages.neighbors(message_id, asked.before, asked.after)})


@router.get(
    "/{message_id}/attachments/{sha256}",
    summary="The whole of what a message carries",
    response_class=Response,
    responses=documented("…", 404, media_type="application/octet-stream"),
)
async def attachment(here: Here, message_id: str, sha256: str) -> Response:
    """For instance a tool output that was cut. `meta.attachments` of a message lists them by their hash."""
    data = await here.messages.attachment(message_id, sha256)
    headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
    return Response(data, headers=headers, media_type="application/octet-stream")
