"""A chat bot's door: the end of a turn, a piece of prompt for the next, and the chat tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi import Query as InQuery
from pydantic import BaseModel, ConfigDict, Field, JsonValue, SkipValidation
from starlette.responses import Response

from mnemon.contracts.chats import (
    ChatContext,
    EndResult,
    EventHit,
    Profile,
    ProfileDiff,
    ProfileHit,
    ProfileVersion,
    Said,
)
from mnemon.engine.cognitive import MAX_TOP_K
from mnemon.surfaces.http.forms import Form, Items, Query, ToolForm, ToolQuery
from mnemon.surfaces.http.openapi import documented
from mnemon.surfaces.http.reading import StrictRoute
from mnemon.surfaces.http.visit import Here, answer
from mnemon.surfaces.tools import Form as ToolsForm
from mnemon.surfaces.tools import Language, prompt_text, tool_definitions

router = APIRouter(prefix="/v1", tags=["chats"], route_class=StrictRoute)

Entity = Literal["user", "group"]
_OF = "/cognitive/profiles/{entity_type}/{entity_id:path}"
_PRIVATE = "In a group: the person's own memories as well."
_MOST = 2**31 - 1
_URI = "ctx://acme/users/ann/memories/profile/profile"

_SAID: JsonValue = {
    "message_id": "m1",
    "sender_id": "ann",
    "sender_name": "Ann",
    "text": "I move to Munich next month.",
    "time": "2026-02-21T14:29:50+08:00",
}
_TURN: JsonValue = {
    "request_id": "req-1",
    "end_seq": 1,
    "action_summary": "Answered Ann's question about moving companies",
    "new_info": "Ann moves to Munich next month",
    "messages": [_SAID],
    "timestamp": "2026-02-21T14:30:00+08:00",
    "timezone": "Asia/Shanghai",
}
_ENDED = {"status": "queued", "event_id": "req-1:1", "job_id": "end-0d0b2f6e-6c0e-5d0a-9d55-7a3b8f0c2a41"}
_EVENT = {
    "id": "req-1:1",
    "text": "2026-02-21 14:30 Ann: Ann moves to Munich in March 2026",
    "score": 0.71,
    "claim_id": "1c9d3a52-7e0b-5f5f-8a43-2f6f1f6f0a11",
    "ts": "2026-02-21T14:30:00+08:00",
    "evidence_level": "S0_user_claim",
    "metadata": {"request_id": "req-1", "end_seq": 1, "request_type": "private", "user_id": "ann"},
    "evidence": [
        {
            "id": "0d0b2f6e-6c0e-5d0a-9d55-7a3b8f0c2a41",
            "session_id": "chat-2026-02-21T14",
            "turn_id": "m1",
            "start": 0,
            "end": 28,
            "text": "I move to Munich next month.",
        }
    ],
}
_TEXT = '---\nentity_type: user\nentity_id: "ann"\nname: "Ann"\n---\n# Ann\n* Ann moves to Munich in March 2026'
_PROFILE: dict[str, Any] = {
    "id": "user:ann",
    "entity_type": "user",
    "entity_id": "ann",
    "name": "Ann",
    "tags": ["Munich"],
    "updated_at": "2026-02-21T14:30:05+08:00",
    "source_event_id": "req-1:1",
    "text": _TEXT,
    "body": "* Ann moves to Munich in March 2026",
    "overview": "Ann moves to Munich in March 2026",
    "versions": {_URI: 1},
    "nodes": [],
}
_CONTEXT = {"text": "…", "tokens": 120, "profile": _PROFILE, "group_profile": None, "events": [_EVENT]}
_HIT = {
    "id": "user:ann",
    "entity_type": "user",
    "entity_id": "ann",
    "score": 0.66,
    "text": "Ann moves to Munich in March 2026",
    "updated_at": "2026-02-21T14:30:05+08:00",
    "tags": ["Munich"],
    "uri": _URI,
}
_VERSION = {
    "uri": _URI,
    "version": 2,
    "saved_at": "2026-02-21T14:30:05+08:00",
    "reason": "learnt in req-1:1",
    "text": _TEXT,
    "current": True,
}
_DIFF = {
    "uri": _URI,
    "from_version": 1,
    "to_version": 2,
    "text": "-* Ann lives in Berlin\n+* Ann lives in Munich",
    "added": ["Ann lives in Munich"],
    "removed": ["Ann lives in Berlin"],
}


class EndForm(Form):
    model_config = ConfigDict(json_schema_extra={"examples": [_TURN]})

    request_id: str = Field(description="The host's name for the request this turn answers.")
    end_seq: int = Field(ge=0, le=_MOST, description="Which `end` of the request this is.")
    action_summary: str = Field(default="", description="What the bot did, in a short sentence.")
    new_info: str = Field(default="", description="One new thing the message told, or nothing.")
    force: bool = Field(default=False, description="Also where nothing is said, or no message was sent.")
    user_id: str | None = Field(default=None, description="Whom the bot talks with, where no header says it.")
    group_id: str | None = Field(default=None, description="The group it talks in, where no header says it.")
    sender_id: str | None = Field(default=None, description="Who spoke; left out, the person.")
    sender_name: str = ""
    group_name: str = ""
    bot_name: str = ""
    message_ids: list[str] = Field(default_factory=list)
    # What a message must be is checked in one place, by the engine.
    messages: list[SkipValidation[Said]] = Field(default_factory=list, description="The batch, word for word.")
    message_sent: bool | None = Field(default=None, description="Has the bot said something in this turn?")
    timestamp: str | float | None = Field(default=None, description="When; left out, now.")
    timezone: str | None = Field(default=None, description="Asia/Shanghai, or +08:00.")
    location: str = ""
    request_type: Literal["group", "private"] | None = None
    summary: str | None = Field(default=None, description="Deprecated: say action_summary.")


class ChatForm(ToolForm):
    include_private: bool = Field(default=False, description=_PRIVATE)


class ContextForm(ChatForm):
    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "Where does Ann live?"}]})

    query: str
    top_k: int | None = Field(default=None, ge=1, le=MAX_TOP_K, description="How many events; left out, 3.")
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000, description="How long it may be; left out, 800.")


class EventsForm(ChatForm):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "Munich", "time_from": "2026-02-01T00:00:00Z"}]}
    )

    query: str
    target_user_id: str | None = Field(default=None, description="Only what concerns this person.")
    target_group_id: str | None = Field(default=None, description="Only what happened in this group.")
    top_k: int | None = Field(default=None, ge=1, le=MAX_TOP_K, description="How many; left out, 12.")
    time_from: str | None = Field(default=None, description="From this time on; ISO 8601.")
    time_to: str | None = Field(default=None, description="Before this time; ISO 8601.")


class ProfilesForm(ChatForm):
    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "who moves house?", "entity_type": "user"}]})

    query: str
    entity_type: Entity | None = None
    entity_id: str | None = None
    top_k: int | None = Field(default=None, ge=1, le=MAX_TOP_K, description="How many; left out, 8.")


class RollbackForm(ChatForm):
    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 1}]})

    version: int = Field(ge=1, le=_MOST)


class Asked(ToolQuery):
    include_private: bool = Field(default=False, description=_PRIVATE)


class Between(Asked):
    from_version: int = Field(ge=1, le=_MOST)
    to_version: int | None = Field(default=None, ge=1, le=_MOST, description="Left out, the newest.")


class ToolsQuery(Query):
    form: ToolsForm = "openai"
    language: Language = "zh"


class Tools(BaseModel):
    tools: list[dict[str, Any]]
    prompt: str


def _given(form: ChatForm) -> dict[str, Any]:
    return form.model_dump(exclude={"user_id", "include_private"})


@router.post("/end", summary="End a bot's turn", response_model=EndResult, responses=documented(_ENDED, 409))
async def end(here: Here, form: EndForm) -> Response:
    """Durable when the answer comes; what is remembered of it is worked out afterwards. The same `request_id` and
    `end_seq` are the same turn, however often it is sent.

    A user token ends turns of its own person, in its own groups. A service names the person and the group by the
    headers or in the body; where both do, they agree."""
    said = {name: value for name, value in form if name not in ("user_id", "group_id", "sender_id")}
    who = here.caller.chat_of(form.user_id, form.group_id, form.sender_id)
    return answer(await here.write(here.memory.end(**who, **said)))


@router.post(
    "/cognitive/context",
    summary="A piece of prompt for a bot's turn",
    response_model=ChatContext,
    responses=documented(_CONTEXT),
)
async def context(here: Here, form: ContextForm) -> Response:
    """The person's profile, the group's where `X-Group-ID` names one, and the events nearest to the query. In a group
    only what belongs to the group is in it."""
    here.caller.named()
    return answer(await here.chat(form.include_private).context(**_given(form)))


@router.post(
    "/cognitive/search_events",
    summary="What happened in a chat",
    response_model=Items[EventHit],
    responses=documented({"items": [_EVENT]}),
)
async def search_events(here: Here, form: EventsForm) -> Response:
    """Best first, each with the words it rests on. The targets narrow what the caller may see, and never widen it."""
    return answer({"items": await here.chat(form.include_private).search_events(**_given(form))})


@router.post(
    "/cognitive/search_profiles",
    summary="Whose profile fits",
    response_model=Items[ProfileHit],
    responses=documented({"items": [_HIT]}),
)
async def search_profiles(here: Here, form: ProfilesForm) -> Response:
    """Best first."""
    return answer({"items": await here.chat(form.include_private).search_profiles(**_given(form))})


@router.get(
    f"{_OF}/history",
    summary="The versions of a profile",
    response_model=Items[ProfileVersion],
    responses=documented({"items": [_VERSION]}, 404),
)
async def history(here: Here, entity_type: Entity, entity_id: str, asked: Annotated[Asked, InQuery()]) -> Response:
    """Newest first, and why each was made."""
    return answer({"items": await here.chat(asked.include_private).profile_history(entity_type, entity_id)})


@router.get(
    f"{_OF}/diff",
    summary="What changed between two versions of a profile",
    response_model=ProfileDiff,
    responses=documented(_DIFF, 404),
)
async def diff(here: Here, entity_type: Entity, entity_id: str, asked: Annotated[Between, InQuery()]) -> Response:
    """Line by line."""
    door = here.chat(asked.include_private)
    return answer(await door.profile_diff(entity_type, entity_id, asked.from_version, asked.to_version))


@router.post(
    f"{_OF}/rollback",
    summary="A profile as it was",
    response_model=Profile,
    responses=documented(_PROFILE, 404, 409),
)
async def rollback(here: Here, entity_type: Entity, entity_id: str, form: RollbackForm) -> Response:
    """As a new version; what was learnt since is no longer known, and the words it was learnt from stay."""
    door = here.chat(form.include_private)
    return answer(await here.write(door.rollback_profile(entity_type, entity_id, form.version)))


@router.get(
    _OF, summary="What is known of somebody or of a group", response_model=Profile, responses=documented(_PROFILE, 404)
)
async def profile(here: Here, entity_type: Entity, entity_id: str, asked: Annotated[Asked, InQuery()]) -> Response:
    """As Markdown with its front matter, as far as it may be shown in this chat."""
    return answer(await here.chat(asked.include_private).get_profile(entity_type, entity_id))


@router.get(
    "/tools",
    summary="The chat tools for a bot's model",
    response_model=Tools,
    responses=documented({"tools": tool_definitions("openai", "en")[:1], "prompt": "## Long-term memory …"}),
)
async def tools(here: Here, asked: Annotated[ToolsQuery, InQuery()]) -> Response:
    """Their definitions in the form a provider takes, and the text that belongs into the bot's system prompt."""
    return answer({"tools": tool_definitions(asked.form, asked.language), "prompt": prompt_text(asked.language)})
