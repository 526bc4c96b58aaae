"""A queue in one SQLite file: every change is one transaction, also between processes."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mnemon.contracts.errors import Busy, NotFound, Unavailable
from mnemon.contracts.jobs import Awaited, Job, JobKind, JobStatus, QueueStats
from mnemon.contracts.ports import Clock
from mnemon.drivers.liveness import is_dead
from mnemon.drivers.sqlite_file import BUSY_S, open_file
from mnemon.logic import jobs as rules

STEPS = (
    "queue.put.before_commit",
    "queue.put.after_commit",
    "queue.claim.before_commit",
    "queue.claim.after_commit",
    "queue.done.before_commit",
    "queue.done.after_commit",
    "queue.fail.before_commit",
    "queue.fail.after_commit",
    "queue.release.before_commit",
    "queue.release.after_commit",
    "queue.recover.before_commit",
    "queue.recover.after_commit",
)
"""Where a crash test may kill the process."""

# `body` is the job; the other columns repeat what is looked for. `due` is in microseconds since 1970.
SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id  TEXT NOT NULL UNIQUE,
    tenant  TEXT NOT NULL,
    lane    TEXT NOT NULL,
    status  TEXT NOT NULL CHECK (status IN ('pending', 'claimed', 'failed')),
    due     INTEGER NOT NULL,
    body    TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS jobs_by_status ON jobs (status, number);
CREATE INDEX IF NOT EXISTS jobs_by_tenant ON jobs (tenant);
CREATE INDEX IF NOT EXISTS jobs_open_by_lane ON jobs (lane, number) WHERE lane <> '' AND status <> 'failed';
CREATE INDEX IF NOT EXISTS jobs_without_lane ON jobs (number) WHERE lane = '' AND status = 'pending';
CREATE INDEX IF NOT EXISTS jobs_claimed_by_lane ON jobs (lane) WHERE lane <> '' AND status = 'claimed';
CREATE TABLE IF NOT EXISTS set_aside (
    number  INTEGER PRIMARY KEY,
    tenant  TEXT NOT NULL,
    body    TEXT NOT NULL
);
"""

PUT = """
INSERT INTO jobs (job_id, tenant, lane, status, due, body) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id) DO NOTHING
"""

_OF_KIND = "(:kinds IS NULL OR json_extract(body, '$.kind') IN (SELECT value FROM json_each(:kinds)))"
_CAN_BE_DONE = (
    """coalesce(json_extract(body, '$.awaits'), '') IN (SELECT '' UNION SELECT value FROM json_each(:offers))"""
)
_LANE_IS_FREE = """NOT EXISTS (
    SELECT 1 FROM jobs AS taken WHERE taken.lane = job.lane AND taken.lane <> '' AND taken.status = 'claimed')"""

# A lane yields its first open job, and only while none of its jobs is claimed: that one may be a later job, put as
# claimed from the start. FIND goes through all that waits and keeps nobody from writing; STILL_DUE looks once more, as
# the only writer, at the few that were found.
FIND = f"""
WITH RECURSIVE lanes (lane) AS (
    SELECT min(lane) FROM jobs WHERE lane <> '' AND status <> 'failed'
    UNION ALL
    SELECT (SELECT min(lane) FROM jobs WHERE lane > lanes.lane AND lane <> '' AND status <> 'failed')
    FROM lanes WHERE lane IS NOT NULL),
heads (number) AS (
    SELECT (SELECT min(number) FROM jobs WHERE lane = lanes.lane AND lane <> '' AND status <> 'failed')
    FROM lanes WHERE lane IS NOT NULL),
free (number) AS (
    SELECT number FROM jobs INDEXED BY jobs_without_lane
    WHERE lane = '' AND status = 'pending' AND due <= :now AND {_OF_KIND} AND {_CAN_BE_DONE}
    ORDER BY number LIMIT :limit)
SELECT number FROM free
UNION ALL
SELECT number FROM heads JOIN jobs AS job USING (number)
WHERE status = 'pending' AND due <= :now AND {_OF_KIND} AND {_CAN_BE_DONE} AND {_LANE_IS_FREE}
ORDER BY number LIMIT :limit
"""
STILL_DUE = f"""
SELECT body FROM jobs AS job
WHERE number IN (SELECT value FROM json_each(:found)) AND status = 'pending' AND due <= :now
  AND (lane = '' OR ({_LANE_IS_FREE} AND NOT EXISTS (
    SELECT 1 FROM jobs AS ahead
    WHERE ahead.lane = job.lane AND ahead.lane <> '' AND ahead.status <> 'failed' AND ahead.number < job.number)))
ORDER BY number
"""

UPDATE = "UPDATE jobs SET status = ?, due = ?, body = ? WHERE job_id = ?"
GET = "SELECT body FROM jobs WHERE job_id = :job_id"
DELETE = "DELETE FROM jobs WHERE job_id = ?"
LIST = f"""
SELECT body FROM jobs WHERE status IN (SELECT value FROM json_each(:statuses)) AND {_OF_KIND}
ORDER BY number LIMIT :limit
"""
CLAIMED = "SELECT body FROM jobs WHERE status = 'claimed' ORDER BY number"
OF_TENANT = "SELECT body FROM jobs WHERE tenant = ?"
COUNT = "SELECT status, count(*) FROM jobs GROUP BY status"
HELD_UP = """
SELECT coalesce(sum(json_extract(body, '$.awaits') = 'model'), 0), coalesce(sum(json_extract(body, '$.lost') > 0), 0)
FROM jobs WHERE status = 'pending'
"""
FAILED = "SELECT count(*) FROM jobs WHERE status = 'failed'"
SET_ASIDE = """
INSERT INTO set_aside (number, tenant, body)
SELECT number, tenant, body FROM jobs WHERE status = 'failed' ORDER BY number LIMIT :count
"""
GONE_ASIDE = "DELETE FROM jobs WHERE number IN (SELECT number FROM set_aside) RETURNING job_id"
LIST_ASIDE = "SELECT body FROM set_aside ORDER BY number LIMIT :limit"
OF_TENANT_ASIDE = "SELECT number, body FROM set_aside WHERE tenant = ?"
DELETE_ASIDE = "DELETE FROM set_aside WHERE number = ?"
COUNT_ASIDE = "SELECT count(*) FROM set_aside"
OLDEST = "SELECT body FROM jobs WHERE status = 'pending' ORDER BY number LIMIT 1"

# `list` is the name of a method below.
Jobs = list[Job]
Numbers = list[int]

_log = logging.getLogger(__name__)

_PAUSE_S = 0.0005
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _no_step(_: str) -> None:
    return None


def _micros(moment: datetime | None) -> int:
    return 0 if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _listed(kinds: Collection[JobKind] | None) -> str | None:
    return None if kinds is None else json.dumps(list(kinds))


class SqliteQueue:
    """The same promises as the queue of files; `path` may be `:memory:` for a test."""

    def __init__(
        self,
        path: Path | str,
        clock: Clock,
        *,
        backoff_s: float = 1.0,
        backoff_cap_s: float = 300.0,
        failed_kept: int = rules.FAILED_KEPT,
        step: Callable[[str], None] = _no_step,
    ) -> None:
        self._clock = clock
        self._backoff = rules.Backoff(backoff_s, backoff_cap_s)
        self._failed_kept = failed_kept
        self._step = step
        self._guard = threading.Lock()
        if str(path) != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._db = open_file(path)
        with self._transaction():
            for statement in SCHEMA.split(";"):
                self._db.execute(statement)

    async def put(self, jobs: Sequence[Job], claim_by: str | None = None, lease: timedelta | None = None) -> int:
        now = self._clock.now()
        fresh = [rules.arrived(job, now, claim_by, lease) for job in jobs]
        return await asyncio.to_thread(self._put, fresh) if fresh else 0

    async def claim(
        self,
        worker: str,
        limit: int = 100,
        lease: timedelta = rules.DEFAULT_LEASE,
        kinds: Collection[JobKind] | None = None,
        offers: Collection[str] = (),
    ) -> Jobs:
        return await asyncio.to_thread(self._claim, worker, limit, lease, kinds, offers)

    async def take(self, job: Job, worker: str, lease: timedelta = rules.DEFAULT_LEASE) -> bool:
        return await asyncio.to_thread(self._take, rules.arrived(job, self._clock.now(), worker, lease))

    async def done(self, job_id: str) -> None:
        await asyncio.to_thread(self._done, job_id)

    async def fail(self, job_id: str, error: str, retryable: bool = True) -> Job:
        return await asyncio.to_thread(self._fail, job_id, error, retryable)

    async def renew(self, job_id: str, worker: str, lease: timedelta) -> bool:
        return await asyncio.to_thread(self._renew, job_id, worker, lease)

    async def release(self, job_id: str) -> None:
        await asyncio.to_thread(self._release, job_id)

    async def wait(self, job_id: str, why: str, awaits: Awaited, pause: timedelta = timedelta(0)) -> Job:
        return await asyncio.to_thread(self._wait, job_id, why, awaits, pause)

    async def damaged(self, aside: bool = False) -> tuple[str, ...]:
        """A row is whole or the file is not one."""
        return ()

    async def recover(self) -> int:
        return await asyncio.to_thread(self._recover)

    async def get(self, job_id: str) -> Job | None:
        return next(iter(await asyncio.to_thread(self._select, GET, {"job_id": job_id})), None)

    async def list(
        self, status: JobStatus | None = None, limit: int = 100, kinds: Collection[JobKind] | None = None
    ) -> Jobs:
        statuses = json.dumps([status] if status else [*JobStatus])
        values = {"statuses": statuses, "kinds": _listed(kinds), "limit": max(limit, 0)}
        return await asyncio.to_thread(self._select, LIST, values)

    async def set_aside(self, limit: int = 100) -> Jobs:
        return await asyncio.to_thread(self._select, LIST_ASIDE, {"limit": max(limit, 0)})

    async def retry(self, job_id: str) -> Job:
        return await asyncio.to_thread(self._retry, job_id)

    async def drop(self, tenant_id: str, payload: dict[str, Any]) -> int:
        return await asyncio.to_thread(self._drop, tenant_id, payload)

    async def stats(self) -> QueueStats:
        return await asyncio.to_thread(self._stats)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _put(self, jobs: Sequence[Job]) -> int:
        with self._transaction("put"):
            return sum(map(self._put_one, jobs))

    def _put_one(self, job: Job) -> int:
        row = (job.job_id, job.tenant_id, job.lane, job.status.value, _micros(job.not_before), rules.to_json(job))
        return self._db.execute(PUT, row).rowcount

    def _take(self, job: Job) -> bool:
        with self._transaction("take"):
            row = self._db.execute(GET, {"job_id": job.job_id}).fetchone()
            there = rules.from_json(row[0]) if row else None
            if there and there.status is JobStatus.CLAIMED and not self._is_abandoned(there):
                return False
            if there:
                self._store(job)
            else:
                self._put_one(job)
            return True

    def _claim(
        self, worker: str, limit: int, lease: timedelta, kinds: Collection[JobKind] | None, offers: Collection[str]
    ) -> Jobs:
        now = self._clock.now()
        offered = json.dumps(list(offers))
        values = {"now": _micros(now), "kinds": _listed(kinds), "limit": max(limit, 0), "offers": offered}
        while found := self._find(values):
            with self._transaction("claim"):
                still_due = {"found": json.dumps(found), "now": values["now"]}
                rows = self._db.execute(STILL_DUE, still_due).fetchall()
                due = rules.together([rules.from_json(body) for (body,) in rows])
                taken = [rules.claimed(job, worker, now + lease) for job in due]
                for job in taken:
                    self._store(job)
            if taken:
                return taken
        return []

    def _find(self, values: dict[str, Any]) -> Numbers:
        with self._alone():
            return [number for (number,) in self._db.execute(FIND, values)]

    def _done(self, job_id: str) -> None:
        with self._transaction("done"):
            self._db.execute(DELETE, (job_id,))

    def _fail(self, job_id: str, error: str, retryable: bool) -> Job:
        with self._transaction("fail"):
            job = self._must_find(job_id)
            if job.status is not JobStatus.CLAIMED:
                return job  # its lease ran out before, and that was counted
            now = self._clock.now()
            after = self._store(rules.failed(job, error, retryable=retryable, now=now, backoff=self._backoff))
            if after.status is JobStatus.FAILED:
                self._make_room()
            return after

    def _make_room(self) -> None:
        """Failed jobs are kept, but not without end: the oldest go aside."""
        too_many = self._db.execute(FAILED).fetchone()[0] - self._failed_kept
        if too_many > 0:
            self._db.execute(SET_ASIDE, {"count": too_many})
            for (job_id,) in self._db.execute(GONE_ASIDE).fetchall():
                _log.warning("more than %d failed jobs: %s is set aside", self._failed_kept, job_id)

    def _renew(self, job_id: str, worker: str, lease: timedelta) -> bool:
        with self._transaction():
            row = self._db.execute(GET, {"job_id": job_id}).fetchone()
            job = rules.from_json(row[0]) if row else None
            if job is None or job.status is not JobStatus.CLAIMED or job.claimed_by != worker:
                return False
            self._store(rules.claimed(job, worker, self._clock.now() + lease))
            return True

    def _release(self, job_id: str) -> None:
        with self._transaction("release"):
            row = self._db.execute(GET, {"job_id": job_id}).fetchone()
            if row and (job := rules.from_json(row[0])).status is JobStatus.CLAIMED:
                self._store(rules.released(job))

    def _wait(self, job_id: str, why: str, awaits: Awaited, pause: timedelta) -> Job:
        with self._transaction("wait"):
            job = self._must_find(job_id)
            if job.status is not JobStatus.CLAIMED:
                return job
            return self._store(rules.waiting(job, why, awaits, self._clock.now() + pause if pause else None))

    def _recover(self) -> int:
        with self._transaction("recover"):
            claimed = [rules.from_json(body) for (body,) in self._db.execute(CLAIMED)]
            lost = [job for job in claimed if self._is_abandoned(job)]
            for job in lost:
                self._store(rules.abandoned(job, self._clock.now(), self._backoff))
            return len(lost)

    def _retry(self, job_id: str) -> Job:
        with self._transaction():
            job = self._must_find(job_id)
            return self._store(rules.restarted(job)) if job.status is JobStatus.FAILED else job

    def _drop(self, tenant_id: str, payload: dict[str, Any]) -> int:
        with self._transaction():
            jobs = [rules.from_json(body) for (body,) in self._db.execute(OF_TENANT, (tenant_id,))]
            gone = [job.job_id for job in jobs if rules.matches(job, tenant_id, payload)]
            self._db.executemany(DELETE, [(job_id,) for job_id in gone])
            rows = self._db.execute(OF_TENANT_ASIDE, (tenant_id,)).fetchall()
            aside = [number for number, body in rows if rules.matches(rules.from_json(body), tenant_id, payload)]
            self._db.executemany(DELETE_ASIDE, [(number,) for number in aside])
            return len(gone) + len(aside)

    def _stats(self) -> QueueStats:
        with self._alone(), self._reading():
            counts = dict(self._db.execute(COUNT).fetchall())
            oldest = self._db.execute(OLDEST).fetchone()
            (aside,) = self._db.execute(COUNT_ASIDE).fetchone()
            awaiting, suspected = self._db.execute(HELD_UP).fetchone()
        return QueueStats(
            pending=counts.get("pending", 0),
            claimed=counts.get("claimed", 0),
            failed=counts.get("failed", 0),
            oldest_pending_at=rules.from_json(oldest[0]).created_at if oldest else None,
            set_aside=aside,
            awaiting_model=awaiting,
            suspected=suspected,
        )

    def _close(self) -> None:
        with self._guard:
            self._db.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time; a disk that is full or away is an error of ours."""
        with self._guard:
            try:
                yield
            except sqlite3.OperationalError as error:
                raise Unavailable(f"the queue cannot be used: {error}") from error

    @contextmanager
    def _transaction(self, verb: str = "") -> Iterator[None]:
        with self._alone():
            self._begin()
            try:
                yield
                if verb:
                    self._step(f"queue.{verb}.before_commit")
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            if verb:
                self._step(f"queue.{verb}.after_commit")

    def _begin(self) -> None:
        """Waits for other writers in short steps: SQLite's own are long next to a transaction of one job."""
        give_up = time.monotonic() + BUSY_S
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    self._db.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                        raise
                    if time.monotonic() > give_up:
                        raise Busy("the queue is locked by another process") from error
                time.sleep(_PAUSE_S)
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000}")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Several questions answered from one moment."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def _select(self, statement: str, values: dict[str, Any]) -> Jobs:
        with self._alone():
            return [rules.from_json(body) for (body,) in self._db.execute(statement, values)]

    def _must_find(self, job_id: str) -> Job:
        row = self._db.execute(GET, {"job_id": job_id}).fetchone()
        if row is None:
            raise NotFound(f"there is no job {job_id}", job_id=job_id)
        return rules.from_json(row[0])

    def _store(self, job: Job) -> Job:
        self._db.execute(UPDATE, (job.status.value, _micros(job.not_before), rules.to_json(job), job.job_id))
        return job

    def _is_abandoned(self, job: Job) -> bool:
        over = job.lease_until is None or job.lease_until <= self._clock.now()
        return over or (job.claimed_by is not None and is_dead(job.claimed_by))
