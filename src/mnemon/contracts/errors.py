"""One tree of errors; each knows its wire code, its HTTP status and its exit code, and carries facts as attributes.

MnemonError
├── InvalidArgument               INVALID_ARGUMENT       422   2   the caller can fix it; names the field
│   ├── UnknownInputFormat
│   ├── MalformedInput            says where (line, path) and what was expected
│   ├── NoUsableContent
│   ├── BadQuery
│   └── BadCursor
├── ModelNotConfigured            MODEL_NOT_CONFIGURED   422   2
├── Unauthenticated               UNAUTHENTICATED        401   3
├── PermissionDenied              PERMISSION_DENIED      403   3
├── NotFound                      NOT_FOUND              404   4
├── Conflict                      CONFLICT               409   5
│   ├── VersionConflict           somebody else wrote first
│   └── EmbedderMismatch          the index was built with another embedding model
├── ResourceExhausted             RESOURCE_EXHAUSTED     429   6
├── Unavailable                   UNAVAILABLE            503   7
│   ├── MissingExtra              says what to install
│   ├── EmbedderFailed
│   ├── ModelFailed               the language model did not answer
│   │   └── BadAnswer             it answered, but not with a JSON object
│   ├── CommitError               names the phase; nothing of phases 1 to 3 was stored
│   └── Busy                      another process holds the lock
└── Internal                      INTERNAL               500   1
    ├── Corrupt                   stored bytes do not match their seal
    └── SpanMismatch
"""

from __future__ import annotations

from typing import Any, ClassVar


class MnemonError(Exception):
    """Something went wrong in Mnemon."""

    code: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str | None = None, **facts: Any) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.details: dict[str, Any] = {k: v for k, v in facts.items() if v is not None}
        super().__init__(self.message)

    def __getattr__(self, name: str) -> Any:
        """Facts are attributes: `error.field`, `error.line`."""
        try:
            return self.__dict__["details"][name]
        except KeyError:
            raise AttributeError(name) from None

    def envelope(self) -> dict[str, Any]:
        """The wire form, the same everywhere: `{"error": {"code", "message", "details"?}}`."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = self.details
        return {"error": error}


class InvalidArgument(MnemonError):
    """An argument is not valid."""

    code = "INVALID_ARGUMENT"
    status = 422
    exit_code = 2


class UnknownInputFormat(InvalidArgument):
    """`input_format` is missing or unknown."""


class MalformedInput(InvalidArgument):
    """The input does not have the form its `input_format` promises."""


class NoUsableContent(InvalidArgument):
    """The input holds no turn with text."""


class BadQuery(InvalidArgument):
    """The search text cannot be read."""


class BadCursor(InvalidArgument):
    """The cursor does not belong to this listing."""


class ModelNotConfigured(MnemonError):
    """No language model is configured."""

    code = "MODEL_NOT_CONFIGURED"
    status = 422
    exit_code = 2


class Unauthenticated(MnemonError):
    """The request carries no valid credentials."""

    code = "UNAUTHENTICATED"
    status = 401
    exit_code = 3


class PermissionDenied(MnemonError):
    """The credentials do not allow this."""

    code = "PERMISSION_DENIED"
    status = 403
    exit_code = 3


class NotFound(MnemonError):
    """There is no such thing in this scope."""

    code = "NOT_FOUND"
    status = 404
    exit_code = 4


class Conflict(MnemonError):
    """What is stored does not agree with what was sent."""

    code = "CONFLICT"
    status = 409
    exit_code = 5


class VersionConflict(Conflict):
    """Somebody else wrote a newer version first; read it and try again."""


class EmbedderMismatch(Conflict):
    """The index was built with another embedding model; run `mnemon rebuild`."""


class ResourceExhausted(MnemonError):
    """A limit was reached."""

    code = "RESOURCE_EXHAUSTED"
    status = 429
    exit_code = 6


class Unavailable(MnemonError):
    """A part this needs is not available."""

    code = "UNAVAILABLE"
    status = 503
    exit_code = 7


class MissingExtra(Unavailable):
    """An optional package is not installed."""


class EmbedderFailed(Unavailable):
    """The embedding service did not answer."""


class ModelFailed(Unavailable):
    """The language model did not answer."""


class BadAnswer(ModelFailed):
    """The language model answered, but not with a JSON object."""


class CommitError(Unavailable):
    """A commit could not be carried out; it can be tried again."""

    def __init__(self, message: str | None = None, phase: str = "", **facts: Any) -> None:
        super().__init__(message, phase=phase or None, **facts)


class Busy(Unavailable):
    """Another process is writing; try again."""


class Internal(MnemonError):
    """An internal promise was broken."""


class Corrupt(Internal):
    """Stored bytes do not match their seal; run `mnemon verify`."""


class SpanMismatch(Internal):
    """A span does not hold the words it quotes."""
