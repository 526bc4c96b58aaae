"""Asking a Memory Service: one request, one answer, and its errors as the errors they are."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from mnemon.contracts import errors
from mnemon.contracts.errors import MnemonError, Unavailable
from mnemon.logic.signing import sign

_BY_CODE: dict[str, type[MnemonError]] = {
    kind.code: kind
    for kind in (
        errors.Internal,
        errors.InvalidArgument,
        errors.ModelNotConfigured,
        errors.Unauthenticated,
        errors.PermissionDenied,
        errors.NotFound,
        errors.Conflict,
        errors.ResourceExhausted,
        errors.Unavailable,
    )
}


class ServiceClient:
    """Opened when first used. The token and the secret never leave it but in the headers of a request to its own
    service: redirects are not followed."""

    def __init__(
        self,
        base_url: str,
        token: str = "",
        *,
        signing_secret: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.has_token = bool(token)
        self._secret = signing_secret
        self._headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        self._timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, 10.0))
        self._transport = transport
        self._http: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"ServiceClient({self.base_url!r})"

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        request = self._request(method, path, body, params, headers)
        try:
            answer = await self._open().send(request)
        except httpx.HTTPError as error:
            raise self._away(error) from None
        if answer.is_success:
            return answer.content
        raise _error(answer)

    async def lines(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> AsyncIterator[str]:
        """An answer that comes line by line."""
        request = self._request("POST", path, body, None, headers)
        try:
            answer = await self._open().send(request, stream=True)
            try:
                if not answer.is_success:
                    await answer.aread()
                    raise _error(answer)
                async for line in answer.aiter_lines():
                    if line:
                        yield line
            finally:
                await answer.aclose()
        except httpx.HTTPError as error:
            raise self._away(error) from None

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    def _open(self) -> httpx.AsyncClient:
        if self._http is None:
            self._http = httpx.AsyncClient(timeout=self._timeout, trust_env=False, transport=self._transport)
        return self._http

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> httpx.Request:
        sent = {**self._headers, **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        encoded = [(name.encode(), value.encode()) for name, value in sent.items()]
        request = httpx.Request(method, self.base_url + path, content=body, params=params, headers=encoded)
        if self._secret:
            moment = f"{time.time():.6f}"
            request.headers["X-Signature-Ts"] = moment
            target = request.url.raw_path.partition(b"?")[0]
            request.headers["X-Signature"] = sign(self._secret, moment, target, body or b"")
        return request

    def _away(self, error: httpx.HTTPError) -> Unavailable:
        """Without what was sent: a request's headers hold the token."""
        return Unavailable(f"the service at {self.base_url} does not answer ({type(error).__name__})", field="place")


def _error(answer: httpx.Response) -> MnemonError:
    """The error a service tells of, as if it had happened here."""
    try:
        told = answer.json()["error"]
        code, message, details = str(told["code"]), str(told["message"]), dict(told.get("details") or {})
    except (ValueError, KeyError, TypeError):
        return Unavailable(f"the service answered {answer.status_code} without saying why", status=answer.status_code)
    kind = getattr(errors, answer.headers.get("X-Error-Type", ""), None)
    if not (isinstance(kind, type) and issubclass(kind, MnemonError)):
        kind = _BY_CODE.get(code, errors.Internal)
    if issubclass(kind, errors.CommitError):
        return kind(message, phase=details.pop("phase", ""), **details)
    return kind(message, **details)
