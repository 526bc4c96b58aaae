"""The worker: claim jobs, do them, and never lose one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from mnemon.contracts.errors import MnemonError, NotFound, Unavailable
from mnemon.contracts.jobs import Job, JobKind, JobStatus, Outcome, Settled
from mnemon.contracts.ports import Holds, Queue
from mnemon.contracts.reports import IndexBatchResult
from mnemon.logic import jobs as rules

LEASE = timedelta(minutes=5)
# Few at a time: what a worker holds when it dies has to wait for somebody to notice.
CLAIM_LIMIT = 10
CONCURRENCY = 4
# How long to wait before trying once more to write down what came of a job.
_PAUSES_S = (0.02, 0.1, 0.5, 2.0)

_log = logging.getLogger(__name__)


Handler = Callable[[Job], Awaitable[None]]


@asynccontextmanager
async def lease_kept(queue: Holds, worker: str, job_ids: Iterable[str]) -> AsyncIterator[set[str]]:
    """While this lasts the jobs stay the worker's, however long they take; take an id out when its job is settled."""
    held = set(job_ids)

    async def renew() -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            for job_id in list(held):
                try:
                    await queue.renew(job_id, worker, LEASE)
                except (MnemonError, OSError) as error:
                    _log.warning("could not renew the lease of job %s: %s; trying again", job_id, error)

    renewing = asyncio.create_task(renew())
    try:
        yield held
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing


class Worker:
    """Does jobs of the kinds it has handlers for, `concurrency` at a time; others wait for somebody who has.

    The queue gives out one job a lane, so what is done side by side is never of one lane. `tend` is done now and then
    when there is nothing else to do. `on_settled` hears how each try ended.
    """

    def __init__(
        self,
        queue: Queue,
        handlers: Mapping[JobKind, Handler],
        name: str,
        tend: Callable[[], Awaitable[object]] | None = None,
        tend_every_s: float = 3600.0,
        concurrency: int = CONCURRENCY,
        on_settled: Callable[[Settled], None] | None = None,
    ) -> None:
        self._queue = queue
        self._handlers = handlers
        self._tend = tend
        self._tend_every_s = tend_every_s
        self._tended = time.monotonic()
        self._concurrency = concurrency
        self._on_settled = on_settled
        self.name = name
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()

    async def run_once(self, limit: int = CLAIM_LIMIT) -> IndexBatchResult:
        """One round over what is due."""
        jobs = await self._claim(limit)
        hands = asyncio.Semaphore(self._concurrency)

        async def do(job: Job) -> bool:
            async with hands:
                return await self._do(job, held)

        async with lease_kept(self._queue, self.name, [job.job_id for job in jobs]) as held:
            results = await asyncio.gather(*map(do, jobs))
        return IndexBatchResult(len(jobs), sum(results), len(results) - sum(results))

    async def run(self, poll_s: float = 1.0) -> None:
        """Until `stop`: finish what is under way, then leave. Jobs of dead workers are taken over, at once and later.
        Whenever a hand is free it takes the next job; a long one keeps only its own lane waiting."""
        under_way: set[asyncio.Task[bool]] = set()

        def free_hand(task: asyncio.Task[bool]) -> None:
            under_way.discard(task)
            self.wake()

        async with lease_kept(self._queue, self.name, ()) as held, asyncio.TaskGroup() as hands:
            await self._recover()
            while not self._stopping.is_set():
                self._woken.clear()
                jobs = await self._claim_if_it_answers(self._concurrency - len(under_way))
                for job in jobs:
                    held.add(job.job_id)
                    task = hands.create_task(self._do(job, held))
                    under_way.add(task)
                    task.add_done_callback(free_hand)
                if not jobs and not await self._recover():
                    if not under_way:
                        await self._tend_if_due()
                    await self._rest(poll_s)

    async def _claim(self, limit: int) -> list[Job]:
        return await self._queue.claim(self.name, limit, LEASE, tuple(self._handlers))

    async def _claim_if_it_answers(self, limit: int) -> list[Job]:
        try:
            return await self._claim(limit) if limit else []
        except (MnemonError, OSError) as error:
            _log.warning("the queue does not answer: %s; trying again", error)
            return []

    async def _recover(self) -> int:
        try:
            return await self._queue.recover()
        except (MnemonError, OSError) as error:
            _log.warning("could not look for jobs of dead workers: %s; trying again", error)
            return 0

    async def _do(self, job: Job, held: set[str]) -> bool:
        """Done or failed, it is written down; only a stop of the program or a queue that is away leaves it claimed."""
        begun = time.monotonic()
        problem: Exception | None = None
        try:
            await self._handlers[job.kind](job)
        except Exception as error:  # noqa: BLE001  a job may fail in any way; it is listed, never swallowed
            _log.warning("job %s failed: %s", job.job_id, error)
            problem = error
        try:
            after = await self._write_down(job, problem)
        except NotFound:
            return False  # dropped meanwhile
        except (MnemonError, OSError) as error:
            _log.warning("what came of job %s could not be written down: %s", job.job_id, error)
            return False
        finally:
            held.discard(job.job_id)
        self._tell(job, after, time.monotonic() - begun)
        return problem is None

    async def _write_down(self, job: Job, problem: Exception | None) -> Job | None:
        """The job as it waits or failed; None when it is done. A disk that is full for a moment must not keep a whole
        lane waiting until a lease is over."""
        for pause in _PAUSES_S:
            try:
                return await self._written_down(job, problem)
            except (Unavailable, OSError) as error:
                _log.warning("could not write down what came of job %s: %s; trying again", job.job_id, error)
                await asyncio.sleep(pause)
        return await self._written_down(job, problem)

    async def _written_down(self, job: Job, problem: Exception | None) -> Job | None:
        if problem is None:
            await self._queue.done(job.job_id)
            return None
        return await self._queue.fail(job.job_id, f"{type(problem).__name__}: {problem}", rules.may_be_mended(problem))

    def _tell(self, job: Job, after: Job | None, seconds: float) -> None:
        if self._on_settled is None:
            return
        outcome: Outcome = "done" if after is None else "failed" if after.status is JobStatus.FAILED else "retry"
        settled = Settled(
            job_id=job.job_id,
            kind=job.kind,
            tenant_id=job.tenant_id,
            outcome=outcome,
            seconds=seconds,
            attempts=(after or job).attempts,
            waited_s=rules.waited(job, LEASE).total_seconds(),
            error=after.error if after else None,
        )
        try:
            self._on_settled(settled)
        except Exception:  # noqa: BLE001  whoever counts must not harm what is counted
            _log.exception("the hook for settled jobs failed")

    async def _rest(self, at_most_s: float) -> None:
        if not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), at_most_s)

    async def _tend_if_due(self) -> None:
        if self._tend is None or time.monotonic() - self._tended < self._tend_every_s:
            return
        self._tended = time.monotonic()
        try:
            await self._tend()
        except (MnemonError, OSError) as error:
            _log.warning("could not sweep: %s; trying again later", error)

    def wake(self) -> None:
        """There is work: do not wait for the next poll."""
        self._woken.set()

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()
