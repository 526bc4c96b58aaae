"""What the front door answers: every result says what was done, what was skipped and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mnemon.contracts.chats import HistorianStatus
from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import Rejected, WriteResult
from mnemon.contracts.forgetting import What
from mnemon.contracts.jobs import QueueStats
from mnemon.contracts.reports import Degraded, Repair
from mnemon.contracts.tags import ValueTag

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
    tags: tuple[ValueTag, ...] = ()
    claims: tuple[Claim, ...] = ()
    superseded: tuple[Claim, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    nodes: tuple[WriteResult, ...] = ()
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
    """`degraded` where the index is behind: what is not indexed yet is not listed."""

    items: tuple[Message, ...]
    next_cursor: str | None = None
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageHitPage:
    items: tuple[MessageHit, ...]
    next_cursor: str | None = None
    degraded: tuple[Degraded, ...] = ()


class MessageHits(tuple[MessageHit, ...]):
    """Hits of a search by meaning, best first; `degraded` where the index is behind."""

    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimPage:
    items: tuple[Claim, ...]
    next_cursor: str | None = None
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What was taken away, how much of what, and what is left of it: nothing, or the receipt says what.

    `scanned` is the look that came last: how many files and bytes, for how many pieces of the words, and how many of
    those somebody else said too. Without it nothing is complete."""

    what: What
    id: str
    at: str
    removed: dict[str, int]
    nodes_rewritten: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    scanned: dict[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return bool(self.scanned) and not self.left


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What was over: taken out of sight now, or taken away for good after its time of grace. `put_off` says why nothing
    was: the clock jumped. Claims a wrong clock took out of sight are restored."""

    claims_excluded: int = 0
    claims_removed: int = 0
    entries_removed: int = 0
    claims_restored: int = 0
    put_off: str = ""


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
    reindexed_nodes: int = 0


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
class SkippedSummary:
    """A record that was left out: which one (the first is 1), why, and how it begins."""

    number: int
    why: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class SummariesResult:
    """What came of an older bot's summaries; of a dry run, what would. `chats` counts the records of each chat, `first`
    shows the first of them. `already_there` is known only where the memory was asked."""

    records: int
    queued: int
    already_there: int
    skipped: tuple[SkippedSummary, ...]
    chats: dict[str, int]
    first: tuple[str, ...]
    dry_run: bool = False


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
    claims: int = 0
    nodes: int = 0
    building: str | None = None
    warnings: tuple[str, ...] = ()
    historian: HistorianStatus | None = None
    degraded: tuple[Degraded, ...] = ()
