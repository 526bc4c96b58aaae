"""What Prometheus is told: requests by route, how long they took, and what waits behind them."""

from __future__ import annotations

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mnemon.contracts.jobs import QueueStats

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


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

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self, queue: QueueStats) -> bytes:
        self._waiting.set(queue.pending)
        self._claimed.set(queue.claimed)
        self._failed.set(queue.failed)
        oldest = queue.oldest_pending_at
        self._lag.set(max(0.0, (datetime.now(UTC) - oldest).total_seconds()) if oldest else 0.0)
        return generate_latest(self._registry)
