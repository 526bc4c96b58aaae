"""Asking memory."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import ConfigDict, Field
from starlette.responses import Response

from mnemon.contracts.retrieval import RetrievalResult
from mnemon.engine.recollection import MAX_TOPK
from mnemon.surfaces.http.forms import Form, KeylessForm
from mnemon.surfaces.http.openapi import documented
from mnemon.surfaces.http.reading import StrictRoute
from mnemon.surfaces.http.visit import Here, answer

router = APIRouter(prefix="/v1/retrieval", tags=["retrieval"], route_class=StrictRoute)

_FOUND = {
    "strategy": "dialog_v2",
    "query": "What should we not order for Ann?",
    "hits": [
        {
            "id": "0d0b2f6e-6c0e-5d0a-9d55-7a3b8f0c2a41",
            "score": 0.71,
            "final_score": 0.71,
            "source": "event_search",
            "entry": {
                "id": "0d0b2f6e-6c0e-5d0a-9d55-7a3b8f0c2a41",
                "kind": "episodic",
                "modality": "text",
                "contents": ["I don't eat spicy food any more."],
                "metadata": {"user_id": ["u:ann"], "run_id": "s1", "turn_id": "t1"},
                "published": True,
            },
            "evidence": [
                {
                    "id": "0d0b2f6e-6c0e-5d0a-9d55-7a3b8f0c2a41",
                    "session_id": "s1",
                    "turn_id": "t1",
                    "start": 0,
                    "end": 32,
                    "text": "I don't eat spicy food any more.",
                }
            ],
        }
    ],
    "debug": {
        "strategy": "dialog_v2",
        "plan": {"latency_ms": 4.1, "retrieval_latency_ms": 4.1, "total_latency_ms": 4.1},
        "executed_calls": [{"api": "event_search", "count": 1, "latency_ms": 3.2}],
        "evidence_count": 1,
    },
    "looked": {"turns": 412, "left_out": {"outside_time_range": 37}},
}


class Bounds(Form):
    """ISO 8601."""

    gte: str | None = None
    gt: str | None = None
    lte: str | None = None
    lt: str | None = None


class RetrievalForm(KeylessForm):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "What should we not order for Ann?", "strategy": "dialog_v2"}]}
    )

    query: str
    strategy: str = Field(
        default="dialog_v1", description="dialog_v1 (fixed for ever), dialog_v2, auto_v1 or video_v1."
    )
    topk: int = Field(default=30, ge=1, le=MAX_TOPK)
    include_private: bool = Field(default=False, description="In a group: the person's own memories as well.")
    time_range: Bounds | None = None
    modality: list[str] | None = Field(default=None, description="For video_v1.")
    with_answer: bool = Field(default=False, description="Let the service's model answer from the evidence.")
    task: str = "GENERAL"
    rerank: dict[str, Any] | None = Field(default=None, description="`{enabled, model?, top_n?}`")
    budget: dict[str, Any] | None = Field(default=None, description="For auto_v1: `{top_k?, max_tokens?}`")
    llm_policy: Literal["require", "best_effort"] = "best_effort"


@router.post(
    "",
    summary="What is remembered that bears on a question",
    response_model=RetrievalResult,
    responses=documented(_FOUND),
)
async def retrieve(here: Here, form: RetrievalForm) -> Response:
    """Best first, each hit with the words that prove it, and how it was found."""
    given = dict(form)
    given["time_range"] = form.time_range.model_dump(exclude_none=True) if form.time_range else None
    return answer(await here.memory.retrieval(**here.person(), **given))
