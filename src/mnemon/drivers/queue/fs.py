"""A queue of plain files: one JSON file a job, in the folder that is its status."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from mnemon.contracts.errors import Busy, Corrupt, NotFound
from mnemon.contracts.jobs import Job, JobStatus, QueueStats
from mnemon.contracts.ports import Clock
from mnemon.drivers.liveness import is_dead
from mnemon.logic import jobs as rules
from mnemon.logic.paths import escape

STEPS = (
    "queue.put.after_write",
    "queue.put.after_id",
    "queue.put.after_rename",
    "queue.put.after_sync",
    "queue.claim.after_write",
    "queue.claim.after_rename",
    "queue.claim.after_stamp",
    "queue.claim.after_sync",
    "queue.done.before_unlink",
    "queue.done.after_unlink",
    "queue.fail.after_write",
    "queue.fail.after_stamp",
    "queue.fail.after_rename",
    "queue.release.after_stamp",
    "queue.release.after_rename",
    "queue.recover.after_stamp",
    "queue.recover.after_rename",
    "queue.retry.after_stamp",
    "queue.retry.after_rename",
)
"""Where a crash test may kill the process."""

# `list` is the name of a method below.
Jobs = list[Job]
Names = list[str]

_log = logging.getLogger(__name__)

_FOLDERS = {JobStatus.PENDING: "pending", JobStatus.CLAIMED: "processing", JobStatus.FAILED: "failed"}
_NO_LANE = "-"
_LOCK_WAIT_S = 30.0


def _no_step(_: str) -> None:
    return None


def _lane_tag(lane: str) -> str:
    # Two lanes with one tag would only wait for each other, so a short hash is enough.
    return hashlib.sha256(lane.encode()).hexdigest()[:16] if lane else _NO_LANE


def _lane_of(name: str) -> str:
    return name.split(".", 2)[1]


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FsQueue:
    """Files `{root}/{pending,processing,failed}/{number}.{lane}.{id}.json`.

    A job keeps its file name for life; the folder is its status and changes by one atomic rename. The name says all
    that claiming has to know: sorted names are put order, the second part is the lane. A file's modification time
    says when the job is due, as a hint that saves opening it; the content is what counts.
    `ids/{id}` is a symbolic link that holds the name: putting a job finds out in one step that it is there. It is
    made before the job and removed after it, so a crash can only leave a link that leads nowhere, which means nothing.
    All changes happen under one file lock, which the kernel lifts when its holder dies.
    """

    def __init__(
        self,
        root: Path,
        clock: Clock,
        *,
        backoff_s: float = 1.0,
        backoff_cap_s: float = 300.0,
        step: Callable[[str], None] = _no_step,
    ) -> None:
        self._root = Path(root)
        self._clock = clock
        self._backoff = rules.Backoff(backoff_s, backoff_cap_s)
        self._step = step
        self._number: int | None = None
        self._dirs = {status: self._root / folder for status, folder in _FOLDERS.items()}
        self._ids = self._root / "ids"
        self._tmp = self._root / "tmp"
        for folder in (*self._dirs.values(), self._ids, self._tmp):
            folder.mkdir(parents=True, exist_ok=True)

    async def put(self, jobs: Sequence[Job], claim_by: str | None = None, lease: timedelta | None = None) -> int:
        now = self._clock.now()
        fresh = [rules.arrived(job, now, claim_by, lease) for job in jobs]
        return await asyncio.to_thread(self._put, fresh) if fresh else 0

    async def claim(self, worker: str, limit: int = 100, lease: timedelta = rules.DEFAULT_LEASE) -> Jobs:
        return await asyncio.to_thread(self._claim, worker, limit, lease)

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

    async def recover(self) -> int:
        return await asyncio.to_thread(self._recover)

    async def get(self, job_id: str) -> Job | None:
        return await asyncio.to_thread(self._get, job_id)

    async def list(self, status: JobStatus | None = None, limit: int = 100) -> Jobs:
        return await asyncio.to_thread(self._list, status, limit)

    async def retry(self, job_id: str) -> Job:
        return await asyncio.to_thread(self._retry, job_id)

    async def drop(self, tenant_id: str, payload: dict[str, Any]) -> int:
        return await asyncio.to_thread(self._drop, tenant_id, payload)

    async def stats(self) -> QueueStats:
        return await asyncio.to_thread(self._stats)

    async def close(self) -> None:
        return None

    def _put(self, jobs: Sequence[Job]) -> int:
        new = 0
        with self._locked() as lock:
            for job in jobs:
                new += self._put_one(lock, job)
            # Also when nothing was new: whoever wrote it may have died before it was safe.
            _sync_folder(self._ids)
            for status in {job.status for job in jobs}:
                _sync_folder(self._dirs[status])
            self._step("queue.put.after_sync")
        return new

    def _put_one(self, lock: int, job: Job) -> bool:
        if self._find(job.job_id):
            return False
        name = f"{self._next_number(lock):012d}.{_lane_tag(job.lane)}.{escape(job.job_id)}.json"
        tmp = self._write(job)
        self._step("queue.put.after_write")
        link = self._ids / escape(job.job_id)
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        self._step("queue.put.after_id")
        tmp.rename(self._dirs[job.status] / name)
        self._step("queue.put.after_rename")
        return True

    def _claim(self, worker: str, limit: int, lease: timedelta) -> Jobs:
        taken: Jobs = []
        if limit < 1:
            return taken
        with self._locked():
            now = self._clock.now()
            busy = {_lane_of(name) for name in self._names(JobStatus.CLAIMED)} - {_NO_LANE}
            for name in sorted(self._names(JobStatus.PENDING)):
                lane = _lane_of(name)
                if lane in busy:
                    continue
                if lane != _NO_LANE:
                    busy.add(lane)  # taken, or waiting and to be waited for
                job = self._due(name, now)
                if job is None:
                    continue
                taken.append(self._claim_one(name, rules.claimed(job, worker, now + lease)))
                if len(taken) == limit:
                    break
            if taken:
                _sync_folder(self._dirs[JobStatus.CLAIMED])
                _sync_folder(self._dirs[JobStatus.PENDING])
                self._step("queue.claim.after_sync")
        return taken

    def _take(self, job: Job) -> bool:
        with self._locked() as lock:
            found = self._find(job.job_id)
            if found is None:
                self._put_one(lock, job)
                _sync_folder(self._ids)
            else:
                status, name = found
                there = self._read_or_report(self._dirs[status] / name, status)
                if status is JobStatus.CLAIMED and there and not self._is_abandoned(there):
                    return False
                self._move(name, status, job, "take")
            _sync_folder(self._dirs[JobStatus.CLAIMED])
            self._step("queue.take.after_sync")
        return True

    def _is_abandoned(self, job: Job) -> bool:
        over = job.lease_until is None or job.lease_until <= self._clock.now()
        return over or (job.claimed_by is not None and is_dead(job.claimed_by))

    def _due(self, name: str, now: datetime) -> Job | None:
        path = self._dirs[JobStatus.PENDING] / name
        if path.stat().st_mtime > now.timestamp():
            return None
        job = self._read_or_report(path, JobStatus.PENDING)
        return None if job is None or (job.not_before and job.not_before > now) else job

    def _claim_one(self, name: str, job: Job) -> Job:
        tmp = self._write(job)
        self._step("queue.claim.after_write")
        place = self._dirs[JobStatus.CLAIMED] / name
        (self._dirs[JobStatus.PENDING] / name).rename(place)
        self._step("queue.claim.after_rename")
        tmp.replace(place)
        self._step("queue.claim.after_stamp")
        return job

    def _done(self, job_id: str) -> None:
        with self._locked():
            found = self._find(job_id)
            if found:
                self._step("queue.done.before_unlink")
                # Not synced: after a power cut the job may come back and be done once more, which changes nothing.
                self._remove(*found)

    def _remove(self, status: JobStatus, name: str) -> None:
        (self._dirs[status] / name).unlink()
        self._step("queue.done.after_unlink")
        (self._ids / name.split(".", 2)[2].removesuffix(".json")).unlink(missing_ok=True)

    def _fail(self, job_id: str, error: str, retryable: bool) -> Job:
        with self._locked():
            status, name = self._must_find(job_id)
            job = self._read(self._dirs[status] / name, status)
            if status is not JobStatus.CLAIMED:
                return job  # its lease ran out before, and that was counted
            now = self._clock.now()
            after = rules.failed(job, error, retryable=retryable, now=now, backoff=self._backoff)
            self._move(name, status, after, "fail")
            return after

    def _renew(self, job_id: str, worker: str, lease: timedelta) -> bool:
        with self._locked():
            found = self._find(job_id)
            if not found or found[0] is not JobStatus.CLAIMED:
                return False
            place = self._dirs[JobStatus.CLAIMED] / found[1]
            job = self._read(place, JobStatus.CLAIMED)
            if job.claimed_by != worker:
                return False
            self._write(rules.claimed(job, worker, self._clock.now() + lease)).replace(place)
            return True

    def _release(self, job_id: str) -> None:
        with self._locked():
            found = self._find(job_id)
            if found and found[0] is JobStatus.CLAIMED:
                job = self._read(self._dirs[found[0]] / found[1], found[0])
                self._move(found[1], found[0], rules.released(job), "release")

    def _recover(self) -> int:
        back = 0
        with self._locked():
            for left_over in self._tmp.iterdir():
                left_over.unlink()
            for name in sorted(self._names(JobStatus.CLAIMED)):
                # Read as written: a move that a crash cut in two has its outcome in the file already.
                job = self._read_or_report(self._dirs[JobStatus.CLAIMED] / name, None)
                if job is None:
                    continue
                if job.claimed_by is None:
                    self._move(name, JobStatus.CLAIMED, job, "recover")
                    back += 1
                elif self._is_abandoned(job):
                    self._move(name, JobStatus.CLAIMED, rules.abandoned(job), "recover")
                    back += 1
        return back

    def _get(self, job_id: str) -> Job | None:
        with self._locked():
            found = self._find(job_id)
            return self._read(self._dirs[found[0]] / found[1], found[0]) if found else None

    def _list(self, status: JobStatus | None, limit: int) -> Jobs:
        with self._locked():
            wanted = (status,) if status else tuple(JobStatus)
            places = sorted(chain.from_iterable(((n, s) for n in self._names(s)) for s in wanted))
            return [self._read(self._dirs[s] / name, s) for name, s in places[: max(limit, 0)]]

    def _retry(self, job_id: str) -> Job:
        with self._locked():
            status, name = self._must_find(job_id)
            job = self._read(self._dirs[status] / name, status)
            if status is not JobStatus.FAILED:
                return job
            again = rules.restarted(job)
            self._move(name, status, again, "retry")
            return again

    def _drop(self, tenant_id: str, payload: dict[str, Any]) -> int:
        dropped = 0
        with self._locked():
            for status, folder in self._dirs.items():
                for name in self._names(status):
                    if rules.matches(self._read(folder / name, status), tenant_id, payload):
                        self._remove(status, name)
                        dropped += 1
                _sync_folder(folder)
        return dropped

    def _stats(self) -> QueueStats:
        with self._locked():
            names = {status: self._names(status) for status in JobStatus}
            first = min(names[JobStatus.PENDING], default=None)
            oldest = self._read(self._dirs[JobStatus.PENDING] / first, JobStatus.PENDING) if first else None
            return QueueStats(
                pending=len(names[JobStatus.PENDING]),
                claimed=len(names[JobStatus.CLAIMED]),
                failed=len(names[JobStatus.FAILED]),
                oldest_pending_at=oldest.created_at if oldest else None,
            )

    @contextmanager
    def _locked(self) -> Iterator[int]:
        handle = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            give_up = time.monotonic() + _LOCK_WAIT_S
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > give_up:
                        raise Busy("another process holds the queue", path=str(self._root)) from None
                    time.sleep(0.001)
            yield handle
        finally:
            os.close(handle)

    def _next_number(self, lock: int) -> int:
        """The lock file holds the last number given out. It is not synced, so after a power cut the names decide."""
        known = os.pread(lock, 20, 0)
        last = int(known) if known.isdigit() else 0
        if self._number is None:
            names = chain.from_iterable(self._names(status) for status in JobStatus)
            last = max(last, max((int(name.split(".", 1)[0]) for name in names), default=0))
        self._number = last + 1
        os.pwrite(lock, b"%020d" % self._number, 0)
        return self._number

    def _names(self, status: JobStatus) -> Names:
        with os.scandir(self._dirs[status]) as entries:
            return [entry.name for entry in entries if entry.name.endswith(".json")]

    def _find(self, job_id: str) -> tuple[JobStatus, str] | None:
        try:
            name = str((self._ids / escape(job_id)).readlink())
        except (FileNotFoundError, ValueError):
            return None
        for status, folder in self._dirs.items():
            if (folder / name).exists():
                return status, name
        return None

    def _must_find(self, job_id: str) -> tuple[JobStatus, str]:
        found = self._find(job_id)
        if not found:
            raise NotFound("there is no such job", job_id=job_id)
        return found

    def _read(self, path: Path, status: JobStatus | None) -> Job:
        """The folder tells the status; with None it is read as it was written."""
        try:
            job = rules.from_json(path.read_bytes())
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt("a job file cannot be read", path=str(path)) from error
        return job if status is None else replace(job, status=status)

    def _read_or_report(self, path: Path, status: JobStatus | None) -> Job | None:
        """One file that somebody spoiled must not stop all others."""
        try:
            return self._read(path, status)
        except Corrupt as error:
            _log.error("%s: %s", error.message, path)
            return None

    def _write(self, job: Job) -> Path:
        tmp = self._tmp / hashlib.sha256(job.job_id.encode()).hexdigest()
        content = rules.to_json(job).encode()
        with tmp.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # Whole seconds, rounded down: the hint may only be too early. Without a delay: due since ever.
        due = int(job.not_before.timestamp()) if job.not_before else 0
        os.utime(tmp, (due, due))
        return tmp

    def _move(self, name: str, status: JobStatus, job: Job, verb: str) -> None:
        """New content first, then the rename: in between the content already says where the job belongs."""
        tmp = self._write(job)
        if verb == "fail":
            self._step("queue.fail.after_write")
        tmp.replace(self._dirs[status] / name)
        self._step(f"queue.{verb}.after_stamp")
        (self._dirs[status] / name).rename(self._dirs[job.status] / name)
        self._step(f"queue.{verb}.after_rename")
        _sync_folder(self._dirs[job.status])
        _sync_folder(self._dirs[status])
