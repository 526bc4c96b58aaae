"""A job is durable work, done at least once; running it again changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

Outcome = Literal["done", "retry", "waits", "failed"]
# What a job may have to wait for.
Awaited = Literal["", "model"]


class JobKind(StrEnum):
    DIGEST = "digest"
    END = "end"
    INDEX = "index"
    RELATION = "relation"
    DELETE = "delete"
    MOVE = "move"
    CATCH_UP = "catch_up"


class JobStatus(StrEnum):
    PENDING = "pending"
    CLAIMED = "claimed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Job:
    """`lane` keeps order: jobs of one lane are claimed one after another, in the order they were put.

    `attempts` counts tries that went wrong, `lost` workers that died with the job in hand. A death makes no job fail,
    for who is to blame cannot be known: such a job is next given out alone, and later and later if that ends the same
    way. `awaits` is what it cannot go on without; only who offers it is given the job.
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
    awaits: Awaited = ""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """`set_aside`: failed jobs beyond those the queue keeps at hand; whole, but out of the way. Of the pending ones,
    `awaiting_model` wait until somebody comes with a language model, and with `suspected` a worker has died."""

    pending: int
    claimed: int
    failed: int
    oldest_pending_at: datetime | None = None
    set_aside: int = 0
    awaiting_model: int = 0
    suspected: int = 0


@dataclass(frozen=True, slots=True)
class Settled:
    """How one try at a job ended, for whoever counts or raises an alarm.

    `attempts` are the tries that went wrong, this one included; `waited_s` is the time from put to claim.
    """

    job_id: str
    kind: JobKind
    tenant_id: str
    outcome: Outcome
    seconds: float
    attempts: int
    waited_s: float
    error: str | None = None
