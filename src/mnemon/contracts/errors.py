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
│   ├── StorageFailed             the disk, or the right to it; names the file and the cure
│   └── Busy                      another process holds the lock
└── Internal                      INTERNAL               500   1
    ├── Corrupt                   stored bytes do not match their seal
    └── SpanMismatch
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any, ClassVar, Self


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

    def __init__(
        self, message: str | None = None, phase: str = "", partial_results: Sequence[Any] = (), **facts: Any
    ) -> None:
        super().__init__(message, phase=phase or None, **facts)
        # What was written before it failed (004's `WriteResult`s); no part of the wire form.
        self.partial_results = tuple(partial_results)


_CURES = {
    errno.ENOSPC: "the disk is full: make room and call again; what was acknowledged is safe",
    errno.EDQUOT: "the disk quota is used up: make room or raise it, and call again",
    errno.EROFS: "the file system is read-only: mount it writable, or choose another home",
    errno.EACCES: "this process may not use it: give its user the right to (chown, chmod), or choose another home",
    errno.EPERM: "this process may not use it: give its user the right to (chown, chmod), or choose another home",
    errno.ENOTDIR: "something that is no folder stands where a folder belongs: move it away",
    errno.EISDIR: "a folder stands where a file belongs: move it away",
    errno.EEXIST: "something else stands in its place: move it away",
    errno.ENOENT: "it is gone: was the home moved or deleted while it was open?",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine: raise the limit (fs.file-max)",
    errno.EIO: "the disk cannot read or write it: check the disk, then run `mnemon verify`",
    errno.ENAMETOOLONG: "the path is too long: choose a home closer to the root",
}


class StorageFailed(Unavailable):
    """The disk did not take it, or did not give it."""

    @classmethod
    def of(cls, error: OSError, where: object = "") -> Self:
        """An error of the operating system: which file (`where`, if the system does not say), what, and what helps."""
        path = str(error.filename2 or error.filename or where)
        what = (error.strerror or str(error) or type(error).__name__).lower()
        cure = _CURES.get(error.errno or 0, "")
        told = f"{path}: {what}" if path else what
        return cls(f"{told}; {cure}" if cure else told, path=path or None, errno=errno.errorcode.get(error.errno or 0))


class Busy(Unavailable):
    """Another process is writing; try again."""


class Internal(MnemonError):
    """An internal promise was broken."""


class Corrupt(Internal):
    """Stored bytes do not match their seal; run `mnemon verify`."""


class SpanMismatch(Internal):
    """A span does not hold the words it quotes."""
