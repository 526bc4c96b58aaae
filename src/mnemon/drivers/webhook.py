"""An alert to an address on the web: posted as JSON, once, and never waited for."""

from __future__ import annotations

import asyncio
import logging

import httpx
from pydantic_core import to_json

from mnemon.contracts.chats import Alert
from mnemon.contracts.errors import InvalidArgument

_log = logging.getLogger(__name__)


class Webhook:
    """The address may hold a secret of its own, so it is in no log and no error: requests are handed to the transport
    itself, because a client would log where they go. Redirects are not followed."""

    def __init__(self, url: str, timeout_s: float = 5.0) -> None:
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            parsed = httpx.URL()
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InvalidArgument("a webhook is an address http(s)://…", field="cognitive.alerts.webhook")
        self._url = parsed
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"Webhook({self._url.host!r})"

    async def post(self, alert: Alert) -> None:
        """What goes wrong is noted here: there is nobody else to tell it to."""
        headers = {"Content-Type": "application/json"}
        request = httpx.Request("POST", self._url, content=to_json(alert), headers=headers)
        try:
            async with asyncio.timeout(self._timeout_s), httpx.AsyncHTTPTransport(trust_env=False) as transport:
                answer = await transport.handle_async_request(request)
                await answer.aclose()
        except (httpx.HTTPError, TimeoutError) as error:
            _log.warning("the webhook at %s does not answer (%s)", self._url.host, type(error).__name__)
            return
        if not answer.is_success:
            _log.warning("the webhook at %s answered %d", self._url.host, answer.status_code)
