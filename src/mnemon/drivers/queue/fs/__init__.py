"""A queue of plain files: one JSON file a job, in the folder that is its status."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mnemon.contracts.errors import Corrupt, NotFound
from mnemon.contracts.jobs import Awaited, Job, JobKind, JobStatus, QueueStats
from mnemon.contracts.ports import Clock
from mnemon.drivers.liveness import is_dead
from mnemon.drivers.os_errors import in_our_words
from mnemon.drivers.queue.fs.aside import Aside
from mnemon.drivers.queue.fs.durable import locked, sync_folder, write_synced
from mnemon.drivers.queue.fs.waiting import Place, Waiting, lane_of, names_in
from mnemon.logic import jobs as rules
from mnemon.logic.paths import escape

STEPS = (
    "queue.put.after_write",
    "queue.put.after_id",
    "queue.put.after_holder",
    "queue.put.after_announce",
    "queue.put.after_rename",
    "queue.put.after_sync",
    "queue.claim.after_rename",
    "queue.claim.after_holder",
    "queue.done.before_unlink",
    "queue.done.after_unlink",
    "queue.fail.after_holder",
    "queue.fail.after_write",
    "queue.fail.after_stamp",
    "queue.fail.after_announce",
    "queue.fail.after_rename",
    "queue.aside.after_add",
    "queue.aside.after_unlink",
    "queue.release.after_stamp",
    "queue.release.after_announce",
    "queue.release.after_rename",
    "queue.recover.after_stamp",
    "queue.recover.after_announce",
    "queue.recover.after_rename",
    "queue.retry.after_stamp",
    "queue.retry.after_announce",
    "queue.retry.after_rename",
)
"""Where a crash test may kill the process."""

# `list` is the name of a method below.
Jobs = list[Job]
Places = list[tuple[Place, Job]]
Line = list[Place]

_log = logging.getLogger(__name__)

_FOLDERS = {JobStatus.PENDING: "pending", JobStatus.CLAIMED: "processing", JobStatus.FAILED: "failed"}
_NO_LANE = "-"


def _no_step(_: str) -> None:
    return None


def _lane_tag(lane: str) -> str:
    # Two lanes with one tag would only wait for each other, so a short hash is enough.
    return hashlib.sha256(lane.encode()).hexdigest()[:16] if lane else _NO_LANE


@in_our_words
class FsQueue:
    """Files `{root}/{pending,processing,failed}/{number}.{lane}.{id}.json`.

    A job keeps its file name for life; the folder is its status and changes by one atomic rename. The name says what
    claiming has to know first: sorted names are put order, the second part is the lane.
    `ids/{id}` is a symbolic link that holds the name: putting a job finds out in one step that it is there. It is
    made before the job and removed after it, so a crash can only leave a link that leads nowhere, which means nothing.
    `holders/{name}` is another one, whose target is no path but says until when and by whom a claimed job is held. So
    claiming writes no content and waits for no disk: a claim that a power cut undoes is one whose worker is gone too.

    Two file locks, both lifted by the kernel when their holder dies: `moves` for every change to a job that is there,
    `lock` for what is new (ids, numbers, the log of what came to wait). Who needs both takes `moves` first. Putting
    needs only `lock`, which nobody holds for long: whoever puts never waits for the workers.
    More than `failed_kept` failed jobs: the oldest go to `failed.jsonl`, whole.
    """

    def __init__(
        self,
        root: Path,
        clock: Clock,
        *,
        backoff_s: float = 1.0,
        backoff_cap_s: float = 300.0,
        failed_kept: int = rules.FAILED_KEPT,
        step: Callable[[str], None] = _no_step,
    ) -> None:
        self._root = Path(root)
        self._clock = clock
        self._backoff = rules.Backoff(backoff_s, backoff_cap_s)
        self._failed_kept = failed_kept
        self._step = step
        self._knows_numbers = False
        self._dirs = {status: self._root / folder for status, folder in _FOLDERS.items()}
        self._ids = self._root / "ids"
        self._holders = self._root / "holders"
        self._tmp = self._root / "tmp"
        for folder in (*self._dirs.values(), self._ids, self._holders, self._tmp):
            folder.mkdir(parents=True, exist_ok=True)
        self._waiting = Waiting(self._dirs[JobStatus.PENDING], self._root / "arrivals.log", self._root / "lock")
        self._aside = Aside(self._root / "failed.jsonl")

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

    async def recover(self) -> int:
        return await asyncio.to_thread(self._recover)

    async def get(self, job_id: str) -> Job | None:
        return await asyncio.to_thread(self._get, job_id)

    async def list(
        self, status: JobStatus | None = None, limit: int = 100, kinds: Collection[JobKind] | None = None
    ) -> Jobs:
        return await asyncio.to_thread(self._list, status, limit, kinds)

    async def set_aside(self, limit: int = 100) -> Jobs:
        return await asyncio.to_thread(self._set_aside, limit)

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
        rest = list(jobs)
        with self._arriving() as numbers:
            while rest and self._knows_numbers and (entered := self._enter(numbers, rest[0])) is not None:
                new += entered
                del rest[0]
        if rest:
            with self._moving(), self._arriving() as numbers:
                new += sum(self._enter_for_sure(numbers, job) for job in rest)
        # Also when nothing was new: whoever wrote it may have died before it was safe. On most disks the links, made
        # before the jobs, are safe with them; where one is lost, claiming makes it again.
        for status in {job.status for job in jobs}:
            sync_folder(self._dirs[status])
        self._step("queue.put.after_sync")
        return new

    def _enter(self, numbers: int, job: Job) -> bool | None:
        """Whether it was new; None if that cannot be told while others may move jobs: its link leads nowhere now."""
        try:
            name = str((self._ids / escape(job.job_id)).readlink())
        except FileNotFoundError:
            self._write_new(numbers, job)
            return True
        return False if self._folder_of(name) else None

    def _enter_for_sure(self, numbers: int, job: Job) -> bool:
        if self._find(job.job_id):
            return False
        (self._ids / escape(job.job_id)).unlink(missing_ok=True)
        self._write_new(numbers, job)
        return True

    def _write_new(self, numbers: int, job: Job) -> None:
        name = f"{self._next_number(numbers):012d}.{_lane_tag(job.lane)}.{escape(job.job_id)}.json"
        tmp = self._write(name, job)
        self._step("queue.put.after_write")
        (self._ids / escape(job.job_id)).symlink_to(name)
        self._step("queue.put.after_id")
        if job.status is JobStatus.CLAIMED:
            self._hold(name, job)
            self._step("queue.put.after_holder")
        else:
            self._waiting.announce(name)
            self._step("queue.put.after_announce")
        tmp.rename(self._dirs[job.status] / name)
        self._step("queue.put.after_rename")

    def _claim(
        self, worker: str, limit: int, lease: timedelta, kinds: Collection[JobKind] | None, offers: Collection[str]
    ) -> Jobs:
        if limit < 1:
            return []
        with self._moving():
            now = self._clock.now()
            self._waiting.catch_up()
            due = self._due(now, limit, kinds, offers)
            if not due and self._waiting.look_again():
                due = self._due(now, limit, kinds, offers)
            given = rules.together([job for _, job in due])
            due = [(place, job) for place, job in due if job in given]
            taken: Jobs = []
            for place, job in due:
                try:
                    taken.append(self._claim_one(place.name, rules.claimed(job, worker, now + lease)))
                except OSError as error:
                    # This one is nobody's: `recover` puts it back. Those taken are the worker's, and it must hear of
                    # them; else all would wait for a lease to end.
                    self._let_go(place.name)
                    if not taken:
                        raise
                    _log.warning("could not claim all that is due: %s", error)
                    break
            self._waiting.remove([place for place, _ in due[: len(taken)]])
        return taken

    def _due(self, now: datetime, limit: int, kinds: Collection[JobKind] | None, offers: Collection[str]) -> Places:
        """The first of each free lane that is due and of these kinds."""
        found: Places = []
        gone: list[Place] = []
        busy = {lane_of(name) for name in names_in(self._dirs[JobStatus.CLAIMED])} - {_NO_LANE}
        for place in self._waiting:
            if place.lane in busy:
                continue
            suits = place.suits(now, kinds, offers)
            if not suits and place.lane == _NO_LANE:
                continue  # keeps nobody waiting, so it does not matter whether it is still there
            if not (self._dirs[JobStatus.PENDING] / place.name).exists():
                gone.append(place)
                continue
            if place.lane != _NO_LANE:
                busy.add(place.lane)  # taken, or waiting and to be waited for
            job = self._read_or_report(place.name, JobStatus.PENDING) if suits else None
            if job is None:
                continue
            place.learn(job)
            if place.suits(now, kinds, offers):
                found.append((place, job))
                if len(found) == limit:
                    break
        self._waiting.remove(gone)
        return found

    def _take(self, job: Job) -> bool:
        with self._moving(), self._arriving() as numbers:
            found = self._find(job.job_id)
            if found is None:
                self._enter_for_sure(numbers, job)
            else:
                status, name = found
                there = self._read_or_report(name, status)
                if status is JobStatus.CLAIMED and there and not self._is_abandoned(there):
                    return False
                self._move(name, status, job, "take")
            sync_folder(self._dirs[JobStatus.CLAIMED])
            self._step("queue.take.after_sync")
        return True

    def _is_abandoned(self, job: Job) -> bool:
        over = job.lease_until is None or job.lease_until <= self._clock.now()
        return over or (job.claimed_by is not None and is_dead(job.claimed_by))

    def _claim_one(self, name: str, job: Job) -> Job:
        (self._dirs[JobStatus.PENDING] / name).rename(self._dirs[JobStatus.CLAIMED] / name)
        self._step("queue.claim.after_rename")
        with suppress(FileExistsError):
            (self._ids / escape(job.job_id)).symlink_to(name)
        self._hold(name, job)
        self._step("queue.claim.after_holder")
        return job

    def _hold(self, name: str, job: Job) -> None:
        assert job.lease_until is not None
        self._let_go(name)
        (self._holders / name).symlink_to(f"{job.lease_until.isoformat()} {job.claimed_by}")

    def _let_go(self, name: str) -> None:
        (self._holders / name).unlink(missing_ok=True)

    def _done(self, job_id: str) -> None:
        with self._moving():
            found = self._find(job_id)
            if found:
                self._step("queue.done.before_unlink")
                # Not synced: after a power cut the job may come back and be done once more, which changes nothing.
                self._remove(*found, "done")

    def _remove(self, status: JobStatus, name: str, verb: str) -> None:
        (self._dirs[status] / name).unlink()
        self._step(f"queue.{verb}.after_unlink")
        self._let_go(name)
        (self._ids / name.split(".", 2)[2].removesuffix(".json")).unlink(missing_ok=True)

    def _fail(self, job_id: str, error: str, retryable: bool) -> Job:
        with self._moving():
            status, name = self._must_find(job_id)
            job = self._read(name, status)
            if status is not JobStatus.CLAIMED:
                return job  # its lease ran out before, and that was counted
            now = self._clock.now()
            after = rules.failed(job, error, retryable=retryable, now=now, backoff=self._backoff)
            self._move(name, status, after, "fail")
            if after.status is JobStatus.FAILED:
                self._make_room()
            return after

    def _make_room(self) -> None:
        """Failed jobs are kept, but not without end: the oldest go aside, written there before they go from here."""
        self._finish_setting_aside()
        names = sorted(names_in(self._dirs[JobStatus.FAILED]))
        for name in names[: max(len(names) - self._failed_kept, 0)]:
            job = self._read_or_report(name, JobStatus.FAILED)
            if job is None:
                continue
            self._aside.add(job)
            self._step("queue.aside.after_add")
            _log.warning("more than %d failed jobs: %s goes to failed.jsonl", self._failed_kept, job.job_id)
            self._remove(JobStatus.FAILED, name, "aside")

    def _finish_setting_aside(self) -> None:
        """A crash may have left the last one in both places."""
        last = self._aside.last()
        found = self._find(last.job_id) if last else None
        if found and found[0] is JobStatus.FAILED and self._read_or_report(found[1], JobStatus.FAILED) == last:
            self._remove(*found, "aside")

    def _renew(self, job_id: str, worker: str, lease: timedelta) -> bool:
        with self._moving():
            found = self._find(job_id)
            if not found or found[0] is not JobStatus.CLAIMED:
                return False
            job = self._read(found[1], JobStatus.CLAIMED)
            if job.claimed_by != worker:
                return False
            self._hold(found[1], rules.claimed(job, worker, self._clock.now() + lease))
            return True

    def _release(self, job_id: str) -> None:
        with self._moving():
            found = self._find(job_id)
            if found and found[0] is JobStatus.CLAIMED:
                job = self._read(found[1], found[0])
                self._move(found[1], found[0], rules.released(job), "release")

    def _wait(self, job_id: str, why: str, awaits: Awaited, pause: timedelta) -> Job:
        with self._moving():
            status, name = self._must_find(job_id)
            job = self._read(name, status)
            if status is not JobStatus.CLAIMED:
                return job
            after = rules.waiting(job, why, awaits, self._clock.now() + pause if pause else None)
            self._move(name, status, after, "wait")
            return after

    def _recover(self) -> int:
        back = 0
        with self._moving():
            self._finish_setting_aside()
            self._clear_away()
            for name in sorted(names_in(self._dirs[JobStatus.CLAIMED])):
                job = self._read_or_report(name, JobStatus.CLAIMED)
                if job is None:
                    continue
                if job.claimed_by is None:
                    # Cut off while it was moved: the file says where it belongs.
                    self._move(name, JobStatus.CLAIMED, self._read(name, None), "recover")
                    back += 1
                elif self._is_abandoned(job):
                    after = rules.abandoned(job, self._clock.now(), self._backoff)
                    self._move(name, JobStatus.CLAIMED, after, "recover")
                    back += 1
        return back

    def _clear_away(self) -> None:
        """What crashes left half done: nobody is writing while both locks are held."""
        with self._arriving():
            for left_over in (*self._tmp.iterdir(), *self._root.glob("*.new")):
                left_over.unlink()
            for name in {*names_in(self._holders)} - {*names_in(self._dirs[JobStatus.CLAIMED])}:
                self._let_go(name)

    def _get(self, job_id: str) -> Job | None:
        with self._moving():
            found = self._find(job_id)
            return self._read(found[1], found[0]) if found else None

    def _list(self, status: JobStatus | None, limit: int, kinds: Collection[JobKind] | None) -> Jobs:
        with self._moving():
            wanted = (status,) if status else tuple(JobStatus)
            places = sorted(chain.from_iterable(((n, s) for n in names_in(self._dirs[s])) for s in wanted))
            jobs = (job for name, s in places if (job := self._read_or_report(name, s)))
            return list(islice((job for job in jobs if kinds is None or job.kind in kinds), max(limit, 0)))

    def _set_aside(self, limit: int) -> Jobs:
        with self._moving():
            return list(islice(self._aside.jobs(), max(limit, 0)))

    def _retry(self, job_id: str) -> Job:
        with self._moving():
            status, name = self._must_find(job_id)
            job = self._read(name, status)
            if status is not JobStatus.FAILED:
                return job
            again = rules.restarted(job)
            self._move(name, status, again, "retry")
            return again

    def _drop(self, tenant_id: str, payload: dict[str, Any]) -> int:
        with self._moving():
            self._clear_away()  # what a full or failing disk left half written holds words too
            dropped = self._aside.drop(tenant_id, payload)
            for status, folder in self._dirs.items():
                for name in names_in(self._dirs[status]):
                    job = self._read_or_report(name, status)
                    if job is not None and rules.matches(job, tenant_id, payload):
                        self._remove(status, name, "drop")
                        dropped += 1
                sync_folder(folder)
            if dropped:
                with self._arriving():
                    self._waiting.forget_log()  # it holds ids
        return dropped

    def _stats(self) -> QueueStats:
        with self._moving():
            names = {status: names_in(self._dirs[status]) for status in JobStatus}
            readable = (self._read_or_report(name, JobStatus.PENDING) for name in sorted(names[JobStatus.PENDING]))
            oldest = next((job for job in readable if job is not None), None)
            waiting = self._known(set(names[JobStatus.PENDING]))
            return QueueStats(
                pending=len(names[JobStatus.PENDING]),
                claimed=len(names[JobStatus.CLAIMED]),
                failed=len(names[JobStatus.FAILED]),
                oldest_pending_at=oldest.created_at if oldest else None,
                set_aside=self._aside.count(),
                awaiting_model=sum(place.awaits == "model" for place in waiting),
                suspected=sum(place.lost > 0 for place in waiting),
            )

    def _known(self, there: set[str]) -> Line:
        """What waits, each read once however often it is counted."""
        self._waiting.catch_up()
        line = [place for place in self._waiting if place.name in there]
        for place in line:
            job = self._read_or_report(place.name, JobStatus.PENDING) if place.kind is None else None
            if job is not None:
                place.learn(job)
        return line

    @contextmanager
    def _moving(self) -> Iterator[None]:
        with locked(self._root / "moves"):
            yield

    @contextmanager
    def _arriving(self) -> Iterator[int]:
        with locked(self._root / "lock") as handle:
            yield handle

    def _next_number(self, numbers: int) -> int:
        """The lock file holds the last number given out. It is not synced, so after a power cut the names decide."""
        known = os.pread(numbers, 20, 0)
        last = int(known) if known.isdigit() else 0
        if not self._knows_numbers:
            names = chain.from_iterable(names_in(folder) for folder in self._dirs.values())
            last = max(last, max((int(name.split(".", 1)[0]) for name in names), default=0))
            self._knows_numbers = True
        os.pwrite(numbers, b"%020d" % (last + 1), 0)
        return last + 1

    def _find(self, job_id: str) -> tuple[JobStatus, str] | None:
        try:
            name = str((self._ids / escape(job_id)).readlink())
        except (FileNotFoundError, ValueError):
            return None
        status = self._folder_of(name)
        return (status, name) if status else None

    def _folder_of(self, name: str) -> JobStatus | None:
        return next((status for status, folder in self._dirs.items() if (folder / name).exists()), None)

    def _must_find(self, job_id: str) -> tuple[JobStatus, str]:
        found = self._find(job_id)
        if not found:
            raise NotFound(f"there is no job {job_id}", job_id=job_id)
        return found

    def _read(self, name: str, status: JobStatus | None) -> Job:
        """The folder tells the status; with None it is a claimed job's file as it was written."""
        path = self._dirs[status or JobStatus.CLAIMED] / name
        try:
            job = rules.from_json(path.read_bytes())
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt("a job file cannot be read", path=str(path)) from error
        if status is None:
            return job
        return self._held(name, job) if status is JobStatus.CLAIMED else replace(job, status=status)

    def _held(self, name: str, job: Job) -> Job:
        try:
            until, _, worker = str((self._holders / name).readlink()).partition(" ")
        except FileNotFoundError:
            return replace(job, status=JobStatus.CLAIMED, claimed_by=None, lease_until=None)
        return rules.claimed(job, worker, datetime.fromisoformat(until))

    async def damaged(self, aside: bool = False) -> tuple[str, ...]:
        return await asyncio.to_thread(self._damaged, aside)

    def _damaged(self, aside: bool) -> tuple[str, ...]:
        found = []
        for status, folder in self._dirs.items():
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                try:
                    self._read(path.name, status)
                except FileNotFoundError:
                    continue  # done meanwhile
                except (Corrupt, OSError):
                    found.append(str(path))
                    if aside:
                        place = folder.parent / "set-aside"
                        place.mkdir(exist_ok=True)
                        path.rename(place / path.name)
                        self._let_go(path.name)
                        sync_folder(place)
        return tuple(found)

    def _read_or_report(self, name: str, status: JobStatus) -> Job | None:
        """One file that somebody spoiled must not stop all others."""
        try:
            return self._read(name, status)
        except Corrupt as error:
            _log.error("%s: %s", error.message, error.path)
            return None

    def _write(self, name: str, job: Job) -> Path:
        """Being claimed is not for the file to say."""
        shown = rules.released(job) if job.status is JobStatus.CLAIMED else job
        return write_synced(self._tmp / name, rules.to_json(shown).encode())

    def _move(self, name: str, status: JobStatus, job: Job, verb: str) -> None:
        """The holder lets go, then comes the new content, then the rename: in between, the content already says where
        the job belongs."""
        self._let_go(name)
        self._step(f"queue.{verb}.after_holder")
        tmp = self._write(name, job)
        self._step(f"queue.{verb}.after_write")
        tmp.replace(self._dirs[status] / name)
        self._step(f"queue.{verb}.after_stamp")
        if job.status is JobStatus.CLAIMED:
            self._hold(name, job)
        elif job.status is JobStatus.PENDING:
            with self._arriving():
                self._waiting.announce(name)
            self._step(f"queue.{verb}.after_announce")
        (self._dirs[status] / name).rename(self._dirs[job.status] / name)
        self._step(f"queue.{verb}.after_rename")
        sync_folder(self._dirs[job.status])
        sync_folder(self._dirs[status])
