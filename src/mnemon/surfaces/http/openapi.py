"""The description of the service for programs and people: what every operation has in common is said here, once."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from mnemon.contracts.errors import (
    Internal,
    InvalidArgument,
    MnemonError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    VersionConflict,
)
from mnemon.surfaces.http.errors import BROKEN, ErrorEnvelope

LINES = "application/x-ndjson"
EVENTS = "text/event-stream"
OPEN_PATHS = ("/health", "/ready", "/metrics", "/docs", "/openapi.json")
DESCRIPTION = """
Long-term memory that can always prove itself, over HTTP.

**Who asks** is said by a token (`Authorization: Bearer …` or `X-API-Token`). A *user token* is one person of one
tenant. With a *service token* each request names the person by `X-User-ID`. Ids in headers are UTF-8. Where the service
has no token it listens to its own machine only, and `X-Tenant-ID` and `X-User-ID` name the caller.

**Errors** have one form, `{"error": {"code", "message", "details"?}}`; `details.field` names what was wrong with a
request and `details.reason` says in a word what it was. Every answer carries `X-Request-ID`.
"""

_HEADERS = {
    "X-Tenant-ID": "The tenant. With a token it may be left out; it must agree with the token's.",
    "X-User-ID": "The person, for a service token. A user token already is one person.",
    "X-Product-ID": "The product the person speaks through.",
    "X-Group-ID": "The group the person speaks in. A user token must hold it.",
    "X-Agent-ID": "The agent that is spoken to.",
    "X-Signature-Ts": "Seconds since 1970, where the service wants signed requests.",
    "X-Signature": "Hex HMAC-SHA256 over `{ts}.{path}.{raw body}`.",
    "X-Request-ID": "An id of the caller's own for this request; one is made where there is none.",
}
_EXAMPLES: dict[int, MnemonError] = {
    401: Unauthenticated("send a valid token: Authorization: Bearer … or X-API-Token: …", reason="token"),
    403: PermissionDenied("X-Tenant-ID is not the tenant of this token", field="X-Tenant-ID", reason="tenant"),
    404: NotFound("there is no such thing in this scope"),
    409: VersionConflict(),
    413: ResourceExhausted("the body is larger than 8388608 bytes", field="body", reason="too_large", limit=8388608),
    422: InvalidArgument("topk: Input should be a valid integer", field="topk", reason="int_type"),
    429: ResourceExhausted("more than 50 requests a second", reason="rate", retry_after_s=1),
    500: Internal(BROKEN),
    503: Unavailable("the service is busy; try again", reason="busy", retry_after_s=1),
    504: Unavailable("this took longer than 60 s; a write goes on to its end", reason="timeout"),
}
_EVERYWHERE = (401, 403, 413, 422, 429, 500, 503, 504)


def documented(
    example: Any, *statuses: int, media_type: str = "application/json", events: str = ""
) -> dict[int | str, dict[str, Any]]:
    """What an operation answers, by example, and which errors it has beyond those every operation can give. `events` is
    an example of the same told as it happens."""
    content: dict[str, Any] = {media_type: {"example": example}}
    if events:
        content[EVENTS] = {"example": events, "schema": {"type": "string"}}
    said: dict[int | str, dict[str, Any]] = {200: {"content": content}}
    return said | {status: _refused(status) for status in statuses}


def _refused(status: int) -> dict[str, Any]:
    return {
        "model": ErrorEnvelope,
        "description": f"{_EXAMPLES[status].code}",
        "content": {"application/json": {"example": _EXAMPLES[status].envelope()}},
    }


EVERYWHERE: dict[int | str, dict[str, Any]] = {status: _refused(status) for status in _EVERYWHERE}


def complete(app: FastAPI) -> None:
    """Add to the description what the routes do not say each for itself: credentials and headers."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = described()
            parts = document["components"]
            parts["securitySchemes"] = {
                "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer …`"},
                "apiToken": {"type": "apiKey", "in": "header", "name": "X-API-Token"},
            }
            parts["parameters"] = {name: _header(name) for name in _HEADERS}
            for path, operations in document["paths"].items():
                if path in OPEN_PATHS:
                    continue
                for operation in operations.values():
                    content = operation["responses"]["200"].get("content", {})
                    if LINES in content:  # what comes line by line does not come as a whole too
                        content.pop("application/json", None)
                    operation["security"] = [{"bearer": []}, {"apiToken": []}]
                    headers = [{"$ref": f"#/components/parameters/{name}"} for name in _HEADERS]
                    operation["parameters"] = [*operation.get("parameters", []), *headers]
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _header(name: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": _HEADERS[name], "schema": {"type": "string", "maxLength": 512}}
