"""The service as one ASGI application: routes, and what stands before them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from mnemon.contracts.errors import MnemonError
from mnemon.engine.config import ServiceConfig
from mnemon.engine.memory import AsyncMemory
from mnemon.surfaces.http.errors import on_http_error, on_invalid_request, on_our_error
from mnemon.surfaces.http.identity import Authentication, Gatekeeper
from mnemon.surfaces.http.journal import Journal
from mnemon.surfaces.http.limits import Bodies, Crowd, Deadline, Rate
from mnemon.surfaces.http.metrics import Metrics
from mnemon.surfaces.http.openapi import DESCRIPTION, EVERYWHERE, OPEN_PATHS, complete
from mnemon.surfaces.http.routes import (
    chats,
    claims,
    entries,
    graph,
    messages,
    nodes,
    ports,
    recall,
    retrieval,
    service,
    sessions,
)
from mnemon.surfaces.http.signatures import Signatures
from mnemon.surfaces.http.tracing import Tracing
from mnemon.surfaces.http.writes import Writes

# Those that are asked most come first: a request is compared with one after the other.
_ROUTERS = (retrieval, recall, chats, entries, sessions, messages, graph, claims, nodes, ports)


def create_app(memory: AsyncMemory, gatekeeper: Gatekeeper, settings: ServiceConfig | None = None) -> FastAPI:
    """The service for a memory, which is closed with it, after the last write that has begun."""
    writes = Writes()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await memory.start_worker()  # what was left to do is taken up before the first request
        yield
        await writes.finished()
        await memory.close()

    app = FastAPI(
        title="Mnemon Memory Service",
        version="1",
        description=DESCRIPTION,
        lifespan=lifespan,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=True,
        exception_handlers={
            MnemonError: on_our_error,
            HTTPException: on_http_error,
            RequestValidationError: on_invalid_request,
        },
    )
    app.state.memory, app.state.writes, app.state.metrics = memory, writes, Metrics()
    app.state.metrics.attend(memory.parts.watch, memory.parts.alerts)
    for routes in _ROUTERS:
        app.include_router(routes.router, responses=EVERYWHERE)
    app.include_router(service.router)
    complete(app)
    app.add_middleware(_guarded, gatekeeper=gatekeeper, settings=settings or ServiceConfig())
    app.add_middleware(Journal, metrics=app.state.metrics)
    return app


def _guarded(app: ASGIApp, gatekeeper: Gatekeeper, settings: ServiceConfig) -> ASGIApp:
    """Everything but what needs no token goes through these, the cheapest refusals first."""
    guarded: ASGIApp = Signatures(app, settings.signing_secret)
    guarded = Bodies(guarded, settings.body_limit)
    guarded = Crowd(guarded, settings.at_once, settings.waiting)
    guarded = Rate(guarded, settings.rate, settings.burst)
    guarded = Authentication(guarded, gatekeeper)
    guarded = Deadline(guarded, settings.timeout_s)
    if settings.tracing:
        guarded = Tracing(guarded)

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] != "http" or scope["path"] in OPEN_PATHS
        await (app if is_open else guarded)(scope, receive, send)

    return enter
