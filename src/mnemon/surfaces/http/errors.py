"""Whatever goes wrong leaves the service in one form: `{"error": {"code", "message", "details"?}}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mnemon.contracts.errors import Internal, InvalidArgument, MnemonError, NotFound
from mnemon.surfaces.http.notes import note
from mnemon.surfaces.wire import as_json

Code = Literal[
    "INVALID_ARGUMENT",
    "MODEL_NOT_CONFIGURED",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "NOT_FOUND",
    "CONFLICT",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "INTERNAL",
]
_PARTS = ("body", "query", "path", "header")
_PROBLEMS_SHOWN = 20
BROKEN = "something went wrong here; the log has it under this request id"


class Problem(BaseModel):
    code: Code
    message: str
    details: dict[str, Any] | None = None


class ErrorEnvelope(BaseModel):
    """`details.field` names what was wrong with the request, `details.reason` says in a word what it was."""

    error: Problem


def refusal(error: MnemonError, status: int | None = None) -> Response:
    """An error as an answer. What broke inside is for the log, not for the caller."""
    shown = _shown(error)
    headers = {"X-Error-Type": type(shown).__name__}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if "retry_after_s" in error.details:
        headers["Retry-After"] = str(error.details["retry_after_s"])
    return Response(as_json(shown.envelope()), status or error.status, headers, "application/json")


def _shown(error: MnemonError) -> MnemonError:
    if error.status == 500:
        return Internal(BROKEN)
    if "errno" in error.details:  # of the disk; which file it was is for the log
        known = {name: value for name, value in error.details.items() if name != "path"}
        return type(error)(error.message.replace(f"{error.details.get('path')}: ", "", 1), **known)
    if isinstance(error, InvalidArgument) and "reason" not in error.details:
        reason = re.sub(r"(?<!^)([A-Z])", r"_\1", type(error).__name__).lower()
        return InvalidArgument(error.message, **error.details, reason=reason)
    return error


def noted(error: MnemonError) -> MnemonError:
    """An error as the caller is told of it; what broke inside is told to the log."""
    if error.status == 500:
        note("internal_error", error=type(error).__name__, message=error.message)
    elif "errno" in error.details:
        note("storage_failed", path=error.details.get("path", ""), errno=error.details["errno"])
    return _shown(error)


async def on_our_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, MnemonError)
    noted(error)
    return refusal(error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """No such path, no such method, or a body that cannot even be taken apart."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return refusal(NotFound("there is no such path; /docs lists all"))
    if error.status_code == 405:
        answer = refusal(InvalidArgument("this path does not take that method", reason="method"), 405)
        answer.headers.update(error.headers or {})
        return answer
    return refusal(InvalidArgument(f"body: {error.detail}", field="body", reason="json_invalid"))


async def on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [_problem(row) for row in error.errors()]
    if not _sends_json(request) and found[0]["field"] == "body":
        found = [{"field": "body", "reason": "content_type", "message": "send it with Content-Type: application/json"}]
    first = found[0]
    facts: dict[str, Any] = {"field": first["field"], "reason": first["reason"]}
    if len(found) > 1:
        facts["problems"] = found[:_PROBLEMS_SHOWN]
    return refusal(InvalidArgument(f"{first['field']}: {first['message']}", **facts))


def _sends_json(request: Request) -> bool:
    return "json" in request.headers.get("content-type", "")


def _problem(row: Mapping[str, Any]) -> dict[str, str]:
    """Never what was sent: it may be a secret."""
    place: Sequence[Any] = row["loc"]
    inner = place[1:] if place and place[0] in _PARTS else place
    said = row.get("ctx", {}).get("field")
    field = said or _dotted(inner) or str(place[0] if place else "body")
    return {"field": field, "reason": row["type"], "message": row["msg"].removeprefix("Value error, ")}


def _dotted(place: Sequence[Any]) -> str:
    """`entries[0].kind`, as the engine says it."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
