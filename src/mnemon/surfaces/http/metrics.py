"""What Prometheus is told: requests by route, how long they took, what waits behind them, how the historian does."""

from __future__ import annotations

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mnemon.contracts.chats import Alert
from mnemon.contracts.jobs import JobKind, QueueStats, Settled
from mnemon.pipelines.historian.alerting import Alerts
from mnemon.pipelines.historian.watching import Watch

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LATENCY = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)


class Metrics:
    """One registry for each service, so that two in one process do not count each other's requests."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "mnemon_requests", "Requests answered.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "mnemon_request_seconds",
            "From the first byte to the last.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.in_flight = Gauge("mnemon_requests_in_flight", "Requests under way.", registry=self._registry)
        self._waiting = Gauge("mnemon_jobs_waiting", "Jobs nobody has begun.", registry=self._registry)
        self._claimed = Gauge("mnemon_jobs_under_way", "Jobs somebody works on.", registry=self._registry)
        self._failed = Gauge("mnemon_jobs_failed", "Jobs that were given up.", registry=self._registry)
        self._lag = Gauge("mnemon_index_lag_seconds", "How long the oldest job waits.", registry=self._registry)
        self._historian = _Historian(self._registry)

    def attend(self, watch: Watch, alerts: Alerts) -> None:
        """Count what the historian does from now on."""
        watch.listen(self._historian.settled)
        alerts.count(self._historian.alerted)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self, queue: QueueStats, historian_age_s: float = 0.0, failure_rate: float = 0.0) -> bytes:
        self._historian.stands(historian_age_s, failure_rate)
        self._waiting.set(queue.pending)
        self._claimed.set(queue.claimed)
        self._failed.set(queue.failed)
        oldest = queue.oldest_pending_at
        self._lag.set(max(0.0, (datetime.now(UTC) - oldest).total_seconds()) if oldest else 0.0)
        return generate_latest(self._registry)


class _Historian:
    """How the turns of chats become memories."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "mnemon_historian_events", "Turns of chats, by what came of them.", ("outcome",), registry=registry
        )
        self._retries = Counter(
            "mnemon_historian_retries", "Tries that went wrong and are made again.", registry=registry
        )
        self._latency = Histogram(
            "mnemon_historian_latency_seconds",
            "From the end of a turn to its memory.",
            buckets=_LATENCY,
            registry=registry,
        )
        self._not_absolute = Counter(
            "mnemon_historian_not_absolute", "Events kept with words only the moment explains.", registry=registry
        )
        self._age = Gauge("mnemon_historian_queue_age_seconds", "How long the oldest turn waits.", registry=registry)
        self._rate = Gauge("mnemon_historian_failure_rate", "Of the latest turns, given up.", registry=registry)

    def settled(self, job: Settled) -> None:
        if job.kind is not JobKind.END:
            return
        if job.outcome not in ("done", "failed"):
            self._retries.inc()
            return
        self._events.labels(job.outcome).inc()
        if job.outcome == "done":
            self._latency.observe(job.waited_s + job.seconds)

    def alerted(self, alert: Alert) -> None:
        if alert.kind == "not_absolute":
            self._not_absolute.inc()

    def stands(self, age_s: float, failure_rate: float) -> None:
        self._age.set(age_s)
        self._rate.set(failure_rate)
