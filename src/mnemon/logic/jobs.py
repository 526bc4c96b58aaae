"""What happens to a job: every queue driver asks here, so that all of them count, wait and give up alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mnemon.contracts.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    SpanMismatch,
    VersionConflict,
)
from mnemon.contracts.jobs import Awaited, Job, JobKind, JobStatus, QueueStats

DEFAULT_LEASE = timedelta(minutes=5)
WORKER_LOST = "the worker died or let its lease run out"
FAILED_KEPT = 10_000
# A job whose workers die goes on being tried, but not so often that nothing else gets done.
LOST_CAP_S = 3600.0

_HOPELESS = (InvalidArgument, Conflict, PermissionDenied, NotFound, SpanMismatch)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds to wait after the n-th failure: doubling from `base_s`, at most `cap_s`, spread by up to a quarter."""

    base_s: float = 1.0
    cap_s: float = 300.0

    def delay(self, job_id: str, attempts: int) -> timedelta:
        # The spread comes from the id and not from chance: a test can foresee it, and jobs that failed together
        # still come back apart.
        digest = hashlib.sha256(f"{job_id}\0{attempts}".encode()).digest()
        spread = 0.75 + 0.25 * digest[0] / 255
        seconds: float = self.base_s * 2 ** min(attempts - 1, 60)
        return timedelta(seconds=min(seconds, self.cap_s) * spread)


def arrived(job: Job, now: datetime, claim_by: str | None, lease: timedelta | None) -> Job:
    """A job as it is stored first: pending, or claimed from the start."""
    if not job.job_id:
        raise InvalidArgument("a job needs an id", field="job_id")
    for name in ("job_id", "tenant_id", "lane"):
        if not _is_sound(getattr(job, name)):
            raise InvalidArgument("half a character cannot be part of a name", field=name)
    fresh = replace(
        job,
        status=JobStatus.PENDING,
        created_at=job.created_at or now,
        claimed_by=None,
        lease_until=None,
    )
    return fresh if claim_by is None else claimed(fresh, claim_by, now + (DEFAULT_LEASE if lease is None else lease))


def claimed(job: Job, worker: str, until: datetime) -> Job:
    return replace(job, status=JobStatus.CLAIMED, claimed_by=worker, lease_until=until, not_before=None)


def failed(job: Job, error: str, *, retryable: bool, now: datetime, backoff: Backoff) -> Job:
    """`attempts` counts tries that went wrong; the first try is not a retry."""
    attempts = job.attempts + 1
    gone = replace(job, attempts=attempts, error=error, claimed_by=None, lease_until=None, not_before=None)
    if not retryable or attempts > job.max_retries:
        return replace(gone, status=JobStatus.FAILED)
    return replace(gone, status=JobStatus.PENDING, not_before=now + backoff.delay(job.job_id, attempts))


def abandoned(job: Job, now: datetime, backoff: Backoff) -> Job:
    """A claimed job without a living worker: back to the others, and from the second death on, when it was the only
    one in hand, after a growing delay. It never fails of it: what killed the worker may have been anything."""
    lost = job.lost + 1
    delay = replace(backoff, cap_s=LOST_CAP_S).delay(job.job_id, lost - 1) if lost > 1 else timedelta(0)
    return replace(released(job), lost=lost, error=WORKER_LOST, not_before=now + delay if delay else None)


def waiting(job: Job, why: str, awaits: Awaited, until: datetime | None) -> Job:
    """Put back because something is missing that it cannot go on without: no try is counted. `until` is for who has
    what it awaits and cannot serve this one."""
    return replace(released(job), awaits=awaits, error=why, not_before=until)


def together(due: Sequence[Job]) -> list[Job]:
    """Which of those that are due, in their order, are given out at once: the first by itself if a worker has died
    with it, so that the next death tells who is to blame; else all with which nobody has."""
    if due and due[0].lost:
        return [due[0]]
    return [job for job in due if not job.lost]


def released(job: Job) -> Job:
    """Given back unharmed: no try is counted."""
    return replace(job, status=JobStatus.PENDING, claimed_by=None, lease_until=None, not_before=None)


def restarted(job: Job) -> Job:
    return replace(
        job,
        status=JobStatus.PENDING,
        attempts=0,
        lost=0,
        awaits="",
        error=None,
        claimed_by=None,
        lease_until=None,
        not_before=None,
    )


def may_be_mended(error: Exception) -> bool:
    """Whether trying again can help: not where the job itself asks for what cannot be."""
    return isinstance(error, VersionConflict) or not isinstance(error, _HOPELESS)


def waited(job: Job, lease: timedelta) -> timedelta:
    """From put to claim, by the clock of the queue that stamped both."""
    if job.created_at is None or job.lease_until is None:
        return timedelta(0)
    return job.lease_until - lease - job.created_at


def held_up(stats: QueueStats) -> tuple[str, ...]:
    """What somebody should know of what waits and will not be done by waiting alone."""
    told = []
    if stats.awaiting_model:
        told.append(
            f"{stats.awaiting_model} jobs wait for a language model: their words are kept and found; memories are made "
            "of them once a worker has a model (`mnemon worker --llm …`, or a memory opened with llm=…)"
        )
    if stats.suspected:
        told.append(f"with {stats.suspected} jobs in hand a worker has died: they are tried again, one at a time")
    if stats.failed:
        told.append(f"{stats.failed} jobs failed: `mnemon jobs list --status failed` says why, `mnemon repair` retries")
    return tuple(told)


def matches(job: Job, tenant_id: str, payload: dict[str, Any]) -> bool:
    """The payload holds all of these values, and the job is that tenant's."""
    missing = object()
    return job.tenant_id == tenant_id and all(job.payload.get(k, missing) == v for k, v in payload.items())


_TIMES: Sequence[str] = ("created_at", "not_before", "lease_until")


def to_json(job: Job) -> str:
    body: dict[str, Any] = {name: getattr(job, name) for name in Job.__dataclass_fields__}
    for name in _TIMES:
        moment = body[name]
        body[name] = moment.isoformat() if moment else None
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text if _is_sound(text) else json.dumps(body, separators=(",", ":"))


def _is_sound(text: str) -> bool:
    """False for text with lone surrogates, which no file or database takes as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def from_json(text: str | bytes) -> Job:
    body = json.loads(text)
    for name in _TIMES:
        moment = body[name]
        body[name] = datetime.fromisoformat(moment) if moment else None
    return Job(**{**body, "kind": JobKind(body["kind"]), "status": JobStatus(body["status"])})
