"""How much the service lets itself be asked: how fast, how many at once, how long, how large."""

from __future__ import annotations

import asyncio
import math
import time

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mnemon.contracts.errors import ResourceExhausted, Unavailable
from mnemon.surfaces.http.errors import refusal

_EVENTS = b"text/event-stream"


class Deadline:
    """A request that takes too long is answered; a write it began goes on to its end (see `writes`). What is told as it
    happens may take its time: whoever listens can hang up."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start" and _told_as_it_happens(message):
                limit.reschedule(None)
            await send(message)

        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                await self._app(scope, receive, sending)
        except TimeoutError:
            if begun or not limit.expired():
                raise
            error = Unavailable(
                f"this took longer than {self._seconds:g} s; a write goes on to its end, "
                "and can be sent again with the same id",
                reason="timeout",
            )
            await refusal(error, 504)(scope, receive, send)


def _told_as_it_happens(start: Message) -> bool:
    return any(name == b"content-type" and value.startswith(_EVENTS) for name, value in start["headers"])


class Crowd:
    """So many requests are worked on at once; so many more wait for their turn."""

    def __init__(self, app: ASGIApp, at_once: int, waiting: int) -> None:
        self._app = app
        self._places = asyncio.Semaphore(at_once)
        self._free = waiting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._places.locked() and self._free <= 0:
            error = Unavailable("the service is busy; try again", reason="busy", retry_after_s=1)
            await refusal(error)(scope, receive, send)
            return
        self._free -= 1
        try:
            await self._places.acquire()
        finally:
            self._free += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._places.release()


class Rate:
    """So many requests a second for each token, and a burst of them at once: a bucket that fills up again."""

    def __init__(self, app: ASGIApp, rate: float, burst: int) -> None:
        self._app = app
        self._rate = rate
        self._burst = float(max(burst, 1))
        self._buckets: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait = self._taken(scope["state"]["token"], time.monotonic()) if self._rate > 0 else 0.0
        if wait > 0:
            error = ResourceExhausted(
                f"more than {self._rate:g} requests a second", reason="rate", retry_after_s=math.ceil(wait)
            )
            await refusal(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _taken(self, who: str, now: float) -> float:
        """Take one from the bucket, or say how long until there is one."""
        level, at = self._buckets.get(who, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        if level < 1.0:
            self._buckets[who] = (level, now)
            return (1.0 - level) / self._rate
        self._buckets[who] = (level - 1.0, now)
        return 0.0


class Bodies:
    """Reads a body whole, counting as it comes, whatever its header promises; what is behind gets it in one piece."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._read(receive) if _announced(scope) <= self._limit else None
        except ClientDisconnect:
            return  # half a request is none, and nobody is left to be told
        if body is None:
            error = ResourceExhausted(
                f"the body is larger than {self._limit} bytes", field="body", reason="too_large", limit=self._limit
            )
            await refusal(error, 413)(scope, receive, send)
            return
        scope["state"]["body"] = body
        told = False

        async def receiving() -> Message:
            nonlocal told
            if told:
                return await receive()
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receiving, send)

    async def _read(self, receive: Receive) -> bytes | None:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part = message.get("body", b"")
            size += len(part)
            if size > self._limit:
                return None
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


def _announced(scope: Scope) -> int:
    """How large the body says it is; 0 where only its end will tell."""
    return next((int(v) for name, v in scope["headers"] if name == b"content-length" and v.isdigit()), 0)
