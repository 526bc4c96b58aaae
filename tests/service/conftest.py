"""A service in this process and its tokens, for tests that knock at its door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from mnemon import AsyncMemory, Config
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.config import ServiceConfig
from mnemon.engine.tokens import Tokens
from mnemon.surfaces.http.app import create_app
from mnemon.surfaces.http.identity import Gatekeeper

TURNS = [
    {
        "turn_id": "t1",
        "role": "user",
        "timestamp_iso": "2026-01-31T08:00:00Z",
        "text": "I don't eat spicy food any more.",
    },
    {"turn_id": "t2", "role": "assistant", "timestamp_iso": "2026-01-31T08:00:10Z", "text": "好的，我记下了。"},
    {"turn_id": "t3", "role": "user", "timestamp_iso": "2026-01-31T08:01:00Z", "text": "我妹妹住在成都。"},
]


@dataclass(frozen=True, slots=True)
class Service:
    """A service, the memory behind it, and a client that comes without credentials."""

    app: FastAPI
    memory: AsyncMemory
    tokens: Tokens
    client: httpx.AsyncClient

    def token(self, tenant: str, user: str | None = None, **more: Any) -> dict[str, str]:
        """The headers of somebody with a token."""
        return {"Authorization": f"Bearer {self.tokens.create(tenant, user, service=user is None, **more)[1]}"}

    async def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return await self.client.post(path, json=body, headers=headers)

    async def get(self, path: str, headers: Mapping[str, str] | None = None, **query: Any) -> httpx.Response:
        return await self.client.get(path, params=query, headers=headers)


Start = Callable[..., Any]


@asynccontextmanager
async def service_at(home: Path, settings: ServiceConfig | None = None, local: bool = True) -> AsyncIterator[Service]:
    memory = AsyncMemory(home, llm="rules", embedder=HashEmbedder(), config=Config(background_worker=False))
    tokens = Tokens(home)
    app = create_app(memory, Gatekeeper(tokens, local), settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
    ):
        yield Service(app, memory, tokens, client)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start a service with settings of one's own."""
    async with AsyncExitStack() as stack:

        async def begin(local: bool = True, **settings: Any) -> Service:
            return await stack.enter_async_context(service_at(tmp_path, ServiceConfig(**settings), local))

        yield begin


@pytest.fixture
async def service(start: Start) -> Service:
    made: Service = await start()
    return made


def refused(answer: httpx.Response, status: int, code: str, field: str | None = None) -> dict[str, Any]:
    """It is an error in the documented form; its inner part."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    body = answer.json()
    assert body.keys() == {"error"}
    error: dict[str, Any] = body["error"]
    assert {"code", "message"} <= error.keys() <= {"code", "message", "details"}
    assert error["code"] == code
    assert error["message"]
    if field is not None:
        assert error["details"]["field"] == field
    return error
