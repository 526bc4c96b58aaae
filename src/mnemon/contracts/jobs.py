"""A job is durable work, done at least once; running it again changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

MAX_LOST = 10


class JobKind(StrEnum):
    DIGEST = "digest"
    INDEX = "index"
    RELATION = "relation"
    DELETE = "delete"
    MOVE = "move"


class JobStatus(StrEnum):
    PENDING = "pending"
    CLAIMED = "claimed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Job:
    """`lane` keeps order: jobs of one lane are claimed one after another, in the order they were put.

    `attempts` counts tries that went wrong, `lost` workers that died with the job in hand: most of those deaths are
    not the job's doing, so it survives more of them (`MAX_LOST`).
    """

    job_id: str
    kind: JobKind
    tenant_id: str
    payload: dict[str, Any] = field(default_factory=dict)
    lane: str = ""
    status: JobStatus = JobStatus.PENDING
    attempts: int = 0
    max_retries: int = 3
    lost: int = 0
    created_at: datetime | None = None
    not_before: datetime | None = None
    claimed_by: str | None = None
    lease_until: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class QueueStats:
    pending: int
    claimed: int
    failed: int
    oldest_pending_at: datetime | None = None
