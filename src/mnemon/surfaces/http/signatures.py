"""Signed requests: a shared secret proves that nobody changed a body on its way, or sends it a second time."""

from __future__ import annotations

import hmac
import time
from collections import deque

from starlette.types import ASGIApp, Receive, Scope, Send

from mnemon.contracts.errors import Unauthenticated
from mnemon.logic.signing import sign
from mnemon.surfaces.http.errors import refusal

WINDOW_S = 300.0


class Signatures:
    """A signature counts once: the query is not under it, so a second use could ask for something else. Two equal
    requests differ by their time, which may have fractions."""

    def __init__(self, app: ASGIApp, secret: str) -> None:
        self._app = app
        self._secret = secret
        self._seen: set[str] = set()
        self._order: deque[tuple[float, str]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wrong = self._wrong(scope, time.time()) if self._secret else None
        if wrong is not None:
            await refusal(Unauthenticated(wrong, reason="signature"))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _wrong(self, scope: Scope, now: float) -> str | None:
        headers = dict(scope["headers"])
        moment = headers.get(b"x-signature-ts", b"").decode("latin-1")
        given = headers.get(b"x-signature", b"").decode("latin-1").lower()
        if not moment or not given:
            return "this service wants signed requests: send X-Signature-Ts and X-Signature"
        try:
            away = abs(float(moment) - now)
        except ValueError:
            return "X-Signature-Ts must be seconds since 1970"
        if not away <= WINDOW_S:
            return f"X-Signature-Ts is more than {WINDOW_S:g} s away from the time here"
        path = scope.get("raw_path") or scope["path"].encode()
        expected = sign(self._secret, moment, path.partition(b"?")[0], scope["state"]["body"])
        if not hmac.compare_digest(expected.encode(), given.encode()):
            return "X-Signature does not fit this request"
        return None if self._first(expected, now) else "this signature has been used; sign again with the present time"

    def _first(self, signature: str, now: float) -> bool:
        # A moment up to a window ahead of our clock is accepted for two windows from now.
        while self._order and self._order[0][0] < now - 2 * WINDOW_S:
            self._seen.discard(self._order.popleft()[1])
        if signature in self._seen:
            return False
        self._seen.add(signature)
        self._order.append((now, signature))
        return True
