"""The service itself: is it alive, can it be used, how is it doing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.responses import Response

from mnemon.contracts.chats import HistorianStatus
from mnemon.contracts.jobs import QueueStats
from mnemon.engine.readiness import readiness
from mnemon.surfaces.http.openapi import EVERYWHERE, documented
from mnemon.surfaces.http.visit import Here, answer
from mnemon.surfaces.wire import as_json

router = APIRouter(tags=["service"])


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """Each part is `ok`, or says what is wrong with it."""

    ready: bool
    archive: str
    index: str
    embedder: str


class TenantStatus(BaseModel):
    """What there is of one tenant; the queue is everybody's."""

    sessions: int
    turns: int
    entries: int
    claims: int
    nodes: int
    index: str
    index_model: str
    embedder: str
    semantic: bool
    queue: QueueStats
    historian: HistorianStatus | None = None


_READY = {"ready": True, "archive": "ok", "index": "ok", "embedder": "ok"}
_STATUS = {
    "sessions": 12,
    "turns": 480,
    "entries": 730,
    "claims": 95,
    "nodes": 31,
    "index": "sqlite",
    "index_model": "all-MiniLM-L6-v2",
    "embedder": "all-MiniLM-L6-v2",
    "semantic": True,
    "queue": {"pending": 0, "claimed": 0, "failed": 0},
    "historian": {"enabled": True, "provider": "rules", "waiting": 0, "events": 214, "failure_rate": 0.0},
}


@router.get("/health", summary="Alive?", response_model=Alive, responses=documented({"status": "ok"}))
async def health() -> Response:
    """Answers as long as the process does; needs no token."""
    return answer(Alive())


@router.get(
    "/ready",
    summary="Ready?",
    response_model=Ready,
    responses={
        **documented(_READY),
        503: {"model": Ready, "content": {"application/json": {"example": {**_READY, "ready": False, "index": "…"}}}},
    },
)
async def ready(request: Request) -> Response:
    """Can the archive be written to, does the index answer, is the embedder loaded? Needs no token."""
    found = await readiness(request.app.state.memory.parts)
    body = as_json({"ready": found.ready, **asdict(found)})
    return Response(body, 200 if found.ready else 503, media_type="application/json")


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses=documented(
        'mnemon_requests_total{method="POST",route="/search",status="200"} 1.0', media_type="text/plain"
    ),
)
async def metrics(request: Request) -> Response:
    """Requests by route and status, how long they took, jobs that wait or failed, how the historian does: turns by
    outcome, retries, latency, how long the oldest waits. Needs no token, names nobody."""
    service = request.app.state
    parts = service.memory.parts
    text = service.metrics.text(
        await parts.queue.stats(), await parts.watch.oldest_waiting_s(), parts.watch.failure_rate
    )
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@router.get(
    "/v1/status",
    summary="What there is of this tenant",
    response_model=TenantStatus,
    responses=documented(_STATUS) | EVERYWHERE,
)
async def status(here: Here) -> Response:
    """For service tokens."""
    here.caller.needs_service("the status of a tenant")
    return answer(TenantStatus.model_validate(await here.memory.status(here.caller.tenant_id), from_attributes=True))
