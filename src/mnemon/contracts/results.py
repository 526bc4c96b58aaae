"""What the front door answers: every result says what was done, what was skipped and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mnemon.contracts.jobs import QueueStats
from mnemon.contracts.reports import Degraded, Repair

SessionWriteStatus = Literal["ok", "skipped_existing", "failed"]


@dataclass(frozen=True, slots=True)
class DroppedTurn:
    """A turn stage 1 left out: which one, where it stood in the export, and by which rule."""

    turn_id: str
    reason: str
    raw_path: str


@dataclass(frozen=True, slots=True)
class MaskedText:
    """What redaction masked: how often which pattern in which turn, never the text itself."""

    turn_id: str
    pattern: str
    count: int


@dataclass(frozen=True, slots=True)
class SessionWriteResult:
    status: SessionWriteStatus
    session_id: str
    uri: str
    version: int
    counts: dict[str, Any]
    degraded: tuple[Degraded, ...] = ()
    dropped: tuple[DroppedTurn, ...] = ()
    redacted: tuple[MaskedText, ...] = ()
    error_reason: str | None = None
    debug: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One verbatim turn and its place: the session, the turn, its number there, and when it was said."""

    message_id: str
    ts: str
    role: str
    content: str
    session_id: str
    speaker: str
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessageHit:
    """A message, how well it fits, and where in its content the words asked for stand."""

    message: Message
    score: float
    highlights: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MessagePage:
    items: tuple[Message, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class MessageHitPage:
    items: tuple[MessageHit, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class RebuildResult:
    model: str
    sessions: int
    entries: int
    resumed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RepairResult:
    repairs: tuple[Repair, ...]
    reindexed_sessions: int
    recovered_jobs: int


@dataclass(frozen=True, slots=True)
class ExportResult:
    path: str
    tenants: tuple[str, ...]
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ImportResult:
    tenants: tuple[str, ...]
    added: int
    already_there: int
    sessions: int
    conflicts: tuple[str, ...]
    reindexed_sessions: int


@dataclass(frozen=True, slots=True)
class Status:
    home: str
    tenants: int
    sessions: int
    turns: int
    entries: int
    index: str
    index_model: str
    embedder: str
    semantic: bool
    queue: QueueStats
    building: str | None = None
    warnings: tuple[str, ...] = ()
