"""Every request has an id, a line in the log and a measurement, and none ends without an answer."""

from __future__ import annotations

import logging
import re
import time
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mnemon.contracts.errors import Internal
from mnemon.surfaces.http.errors import refusal
from mnemon.surfaces.http.metrics import Metrics
from mnemon.surfaces.http.notes import note, request_id

_SANE = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class Journal:
    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        mine = _given_id(scope) or uuid4().hex
        request_id.set(mine)
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", mine.encode())]
            await send(message)

        begun = time.perf_counter()
        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001  the last place where anything can still become an answer
            # The words of an error can be the words of a user: the log gets its kind and its place.
            note("unexpected_error", logging.ERROR, error=type(error).__name__, where=_where(error))
            if status == 0:
                await refusal(Internal())(scope, receive, sending)
        finally:
            self._metrics.in_flight.dec()
            seconds = time.perf_counter() - begun
            route = getattr(scope.get("route"), "path", "unmatched")
            self._metrics.observe(scope["method"], route, status, seconds)
            note(
                "request",
                logging.INFO,
                method=scope["method"],
                route=route,
                status=status,
                ms=round(seconds * 1000, 2),
                token=state.get("token", ""),
            )


def _given_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            return value.decode() if _SANE.fullmatch(value) else ""
    return ""


def _where(error: BaseException) -> list[str]:
    """Its frames, innermost last."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return frames[-12:]
