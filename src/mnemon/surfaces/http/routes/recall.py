"""Recalling what somebody said: one answer, or its rounds as they happen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header
from pydantic import ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from mnemon.contracts.errors import MnemonError
from mnemon.contracts.recall import RecallResult, Round
from mnemon.engine.recalling import MAX_QUESTION
from mnemon.surfaces.http.errors import noted
from mnemon.surfaces.http.forms import Form, KeylessForm, ToolForm
from mnemon.surfaces.http.openapi import EVENTS, documented
from mnemon.surfaces.http.reading import StrictRoute
from mnemon.surfaces.http.routes.messages import Role, Span
from mnemon.surfaces.http.visit import Here, answer
from mnemon.surfaces.wire import as_json

router = APIRouter(prefix="/v1/recall", tags=["recall"], route_class=StrictRoute)

Accept = Annotated[str, Header(include_in_schema=False)]
_QUESTION = "What can't I eat?"
_ID = "5a1b6f0e-3d0f-5c35-9a3e-0f7f5a1c2b3d"
_ROUND = {
    "number": 1,
    "hypotheses": [{"statement": "a dislike or an allergy", "proof": "the user's own words", "shelf": "preferences"}],
    "tool": "semantic_search",
    "arguments": {"query_text": "cannot eat, allergic, avoid", "filter": {"role": "user"}},
    "why": "it can be said in many ways",
    "found": 3,
    "reflection": ["one of them answers the question"],
    "decision": "enough",
}
_RECALLED: dict[str, Any] = {
    "question": _QUESTION,
    "answer": "The user doesn't eat spicy food any more.",
    "memory_view": {
        "preferences": [
            {
                "statement": "The user doesn't eat spicy food any more.",
                "status": "settled",
                "confidence": 0.9,
                "evidence": [_ID],
                "against": [],
                "reason": "",
                "note": "",
                "since": "2026-01-31T08:00:00.000Z",
                "topic": "food",
            }
        ],
        "profile": [],
        "constraints": [],
    },
    "evidence": [
        {
            "message_id": _ID,
            "session_id": "s1",
            "ts": "2026-01-31T08:00:00.000Z",
            "role": "user",
            "speaker": "Ann",
            "content": "I don't eat spicy food any more.",
            "start": 0,
            "end": 32,
            "why": "for: The user doesn't eat spicy food any more.",
            "neighbors": [],
        }
    ],
    "limits": {
        "time_range": {"since": "2026-01-01T00:00:00+00:00", "until": ""},
        "role": "user",
        "messages_considered": 3,
        "messages_in_scope": 412,
        "routes": ["semantic_search"],
        "rounds": 1,
        "calls": 1,
        "truncated": False,
    },
    "trace": [_ROUND],
    "degraded": [],
    "planner": "rules",
    "llm_used": None,
}


class Context(Form):
    time_range: Span | None = None
    role_pref: Role | Literal["any"] | None = Field(default=None, description="Whose words count; `any`: everybody's.")


class RecallForm(ToolForm, KeylessForm):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"question": _QUESTION, "context": {"role_pref": "user"}}]}
    )

    question: str = Field(min_length=1, max_length=MAX_QUESTION)
    context: Context | None = None
    skill: Literal["recall", "recall-zh", "recall-en"] = Field(
        default="recall", description="One that comes with the service; `recall` is in the language of the question."
    )
    planner: Literal["auto", "rules"] = Field(default="auto", description="`rules`: without the service's model.")
    llm_policy: Literal["require", "best_effort"] = "best_effort"
    stream: bool = Field(default=False, description="The rounds as server-sent events, and the result as the last.")


@router.post(
    "",
    summary="What somebody's messages say to a question",
    response_model=RecallResult,
    responses=documented(_RECALLED, events=f"event: round\ndata: {as_json(_ROUND).decode()}\n\n"),
)
async def recall(here: Here, form: RecallForm, accept: Accept = "") -> Response:
    """A view in which every point carries the person's own words, and how far was looked.

    With `stream`, or where `text/event-stream` is accepted, it comes as server-sent events: `round` for each round as
    it ends, then `result`, or `error` in the documented form. Who hangs up ends it."""
    asked: dict[str, Any] = {
        "question": form.question,
        "context": form.context.model_dump(exclude_none=True) if form.context else None,
        "skill": form.skill,
        "llm": "rules" if form.planner == "rules" else None,
        "llm_policy": form.llm_policy,
    }
    if form.stream or EVENTS in accept:
        rounds = here.memory.recall_rounds(**here.caller.named(), **asked)
        return StreamingResponse(_events(rounds), media_type=EVENTS, headers={"Cache-Control": "no-store"})
    return answer(await here.memory.recall(**here.caller.named(), **asked))


async def _events(rounds: AsyncGenerator[Round | RecallResult, None]) -> AsyncIterator[bytes]:
    try:
        async for made in rounds:
            yield _event("result" if isinstance(made, RecallResult) else "round", made)
    except MnemonError as error:  # too late for a status of its own
        yield _event("error", noted(error).envelope())
    finally:
        await rounds.aclose()


def _event(name: str, told: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), as_json(told))
