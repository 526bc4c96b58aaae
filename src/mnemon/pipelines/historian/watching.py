"""How the historian does: what came of the latest jobs, how long the oldest waits, and when somebody should know."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mnemon.contracts.chats import Alert, HistorianStatus
from mnemon.contracts.claims import Claim
from mnemon.contracts.cognitive import AlertsConfig
from mnemon.contracts.filters import Eq, Missing, Not, every
from mnemon.contracts.jobs import Job, JobKind, JobStatus, Settled
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.ports import Clock, Index, Queue
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import parse_time
from mnemon.pipelines.historian.alerting import Alerts
from mnemon.pipelines.index.projection import CLAIM, claim_of

LATEST = 200
# Of fewer jobs a share says little; that one failed is told anyway.
ENOUGH = 20
LOOK_EVERY_S = 15.0
_MANY = 1_000_000
_OF_CHATS = every(Eq("kind", CLAIM), Eq("shelf", Shelf.EVENTS.value), Not(Missing("tags")))


@dataclass(slots=True)
class Watch:
    """Hears how every job ends, and raises an alarm where the settings ask for one."""

    queue: Queue
    clock: Clock
    alerts: Alerts
    limits: AlertsConfig
    _listeners: list[Callable[[Settled], None]] = field(default_factory=list)
    _latest: deque[bool] = field(default_factory=lambda: deque(maxlen=LATEST))

    def listen(self, listener: Callable[[Settled], None]) -> None:
        self._listeners.append(listener)

    @property
    def failure_rate(self) -> float:
        """The share of the latest turns that were given up."""
        return self._latest.count(False) / len(self._latest) if self._latest else 0.0

    def settled(self, job: Settled) -> None:
        for listener in self._listeners:
            listener(job)
        if job.outcome == "failed":
            # The error's own words may quote what was said: only its name leaves the house.
            error = (job.error or "").partition(":")[0]
            facts = {"job_id": job.job_id, "kind": job.kind.value, "tenant_id": job.tenant_id, "error": error}
            self._tell("job_failed", f"job {job.job_id} failed for good", {**facts, "attempts": job.attempts})
        if job.kind is not JobKind.END:
            return
        self._check_age(job.waited_s)
        if job.outcome in ("done", "failed"):
            self._latest.append(job.outcome == "done")
            self._check_rate()

    async def look(self) -> None:
        """Now and then: does anything wait that nobody takes up?"""
        self._check_age(await self.oldest_waiting_s())
        self.alerts.catch_up()

    async def oldest_waiting_s(self) -> float:
        return _age(await self.queue.list(JobStatus.PENDING, 1, [JobKind.END]), self.clock.now())

    def _check_age(self, seconds: float) -> None:
        limit = self.limits.queue_age_seconds
        if seconds > limit:
            said = f"the oldest turn of a chat waits for {seconds:.0f} s, longer than {limit:.0f} s"
            self._tell("queue_age", said, {"seconds": round(seconds, 1), "limit": limit})

    def _check_rate(self) -> None:
        rate, limit = self.failure_rate, self.limits.failure_rate
        if len(self._latest) >= ENOUGH and rate > limit:
            said = f"{rate:.1%} of the latest {len(self._latest)} turns failed, more than {limit:.1%}"
            self._tell("failure_rate", said, {"rate": round(rate, 4), "of": len(self._latest), "limit": limit})

    def _tell(self, kind: str, message: str, facts: dict[str, object]) -> None:
        self.alerts.tell(Alert(kind, message, self.clock.now().isoformat(), facts))  # type: ignore[arg-type]


async def historian_status(
    queue: Queue, index: Index, clock: Clock, tenants: Sequence[str], tenant_id: str | None = None
) -> HistorianStatus:
    """From what is there: the jobs of the queue, everybody's or those of one tenant, and the latest events."""
    jobs = {status: await queue.list(status, _MANY, [JobKind.END]) for status in JobStatus}
    if tenant_id is not None:
        jobs = {status: [job for job in found if job.tenant_id == tenant_id] for status, found in jobs.items()}
    events = sum([await index.count(Scope.steward_of(tenant), _OF_CHATS) for tenant in tenants])
    latest = await _latest_events(index, tenants)
    waits = sorted(_latency(claim) for claim in latest)
    since = min((claim.recorded_at for claim in latest), default=None) if len(latest) >= LATEST else None
    failed = [job for job in jobs[JobStatus.FAILED] if since is None or not job.created_at or job.created_at >= since]
    tried = len(failed) + len(latest)
    return HistorianStatus(
        waiting=len(jobs[JobStatus.PENDING]),
        under_way=len(jobs[JobStatus.CLAIMED]),
        failed=len(jobs[JobStatus.FAILED]),
        retrying=sum(job.attempts > 0 for job in jobs[JobStatus.PENDING]),
        oldest_waiting_s=_age(jobs[JobStatus.PENDING][:1], clock.now()),
        events=events,
        failure_rate=len(failed) / tried if tried else 0.0,
        not_absolute=sum(not claim.occasion.is_absolute for claim in latest if claim.occasion),
        rewrites=sum(claim.occasion.rewrites for claim in latest if claim.occasion),
        latency_p50_s=_quantile(waits, 0.5),
        latency_p95_s=_quantile(waits, 0.95),
    )


async def _latest_events(index: Index, tenants: Sequence[str]) -> list[Claim]:
    """One for each turn, however many perspectives it has."""
    found: dict[tuple[str, str], Claim] = {}
    for tenant in tenants:
        page = await index.scroll(Scope.steward_of(tenant), _OF_CHATS, "newest", 2 * LATEST)
        for claim in map(claim_of, page.entries):
            if claim.occasion is not None:
                found.setdefault((claim.session.uri, claim.occasion.event_id), claim)
    return sorted(found.values(), key=lambda claim: claim.recorded_at, reverse=True)[:LATEST]


def _latency(claim: Claim) -> float:
    at = claim.occasion
    return max(0.0, (claim.recorded_at - parse_time(at.queued_at)).total_seconds()) if at and at.queued_at else 0.0


def _age(oldest: Sequence[Job], now: datetime) -> float:
    since = oldest[0].created_at if oldest else None
    return max(0.0, (now - since).total_seconds()) if since else 0.0


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that this share of them does not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
