"""What went wrong with a request to a model, in our own words: a vendor's error may quote the key or the prompt."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
)

# The first that fits.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ModelAuthenticationError, "the key was refused"),
    (ModelQuotaExceededError, "the quota is used up"),
    (ModelRateLimitError, "too many requests"),
    (ModelUnavailableError, "the service is unavailable"),
    (ModelServerError, "the service failed"),
    (ModelNotFoundError, "there is no such model, or base_url is wrong"),
    (ModelContextWindowExceededError, "the text is too long for this model"),
    (ModelRequestRejectedError, "the request was refused"),
    (ModelRequestTimeout, "no answer in time"),
    (ModelTimeoutError, "no answer in time"),
    (ModelConnectionError, "the connection failed"),
    (ModelHTTPError, "the request failed"),
)
_UNREADABLE = "the answer cannot be read"
_NEVER_SENT = frozenset({"pool", "connect"})
_PASSING = frozenset({408, 409, 425, 429})
_ABOUT_THE_FORM = frozenset({400, 415, 422, 501})
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,59}")


@dataclass(frozen=True, slots=True)
class Failure:
    """`wait_s` is how long the service asked to wait; `form_refused` when asking for JSON in another way may help."""

    reason: str
    status: int | None = None
    passing: bool = False
    wait_s: float | None = None
    form_refused: bool = False

    def __str__(self) -> str:
        return self.reason if self.status is None else f"HTTP {self.status}, {self.reason}"


def failure(error: Exception, secret: str) -> Failure:
    if not isinstance(error, ModelAPIError):
        return Failure(f"{_UNREADABLE} ({type(error).__name__})", passing=True)
    reason = next((words for kind, words in _REASONS if isinstance(error, kind)), _UNREADABLE)
    codes = [c for c in (error.provider_error_code, _param(error.body)) if _is_code(c, secret)]
    if codes:
        reason += f" ({', '.join(map(str, codes))})"
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    hopeless = isinstance(error, ModelQuotaExceededError | ModelContextWindowExceededError)
    return Failure(
        reason,
        status,
        passing=not hopeless and _is_passing(error, status),
        wait_s=error.retry_after,
        form_refused=not hopeless and status in _ABOUT_THE_FORM,
    )


def _is_passing(error: ModelAPIError, status: int | None) -> bool:
    """A model that was at work when time ran out is not asked again: it would be paid twice."""
    if status is not None:
        return status in _PASSING or status >= 500
    if isinstance(error, ModelTimeoutError):
        return error.phase in _NEVER_SENT
    return not isinstance(error, ModelRequestTimeout | ModelRequestRejectedError)


def _param(body: object) -> object:
    """The name of the parameter that was refused, where a service says it."""
    inner = body.get("error", body) if isinstance(body, dict) else None
    return inner.get("param") if isinstance(inner, dict) else None


def _is_code(value: object, secret: str) -> bool:
    """A word of the service's own: never a sentence, which could hold anything."""
    return isinstance(value, str) and bool(_CODE.fullmatch(value)) and not (secret and secret in value)
