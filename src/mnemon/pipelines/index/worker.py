"""The worker: claim jobs, do them, and never lose one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from mnemon.contracts.errors import MnemonError, ModelNotConfigured, NotFound, Unavailable
from mnemon.contracts.jobs import Job, JobKind, JobStatus, Outcome, Settled
from mnemon.contracts.ports import Holds, Queue
from mnemon.contracts.reports import IndexBatchResult
from mnemon.logic import jobs as rules
from mnemon.pipelines.jobs import trace_of

LEASE = timedelta(minutes=5)
CONCURRENCY = 4
# How long a job waits that a worker could not do although it has a model: the model was lent for other jobs.
_NOT_MINE = timedelta(seconds=30)
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

    The queue gives out one job a lane, so what is done side by side is never of one lane. Nothing is claimed before
    there is a hand free for it, and while a job is done with which a worker has died nothing else is begun: so what a
    dead worker held is what it was doing. `offers` says what this worker has that jobs wait for; one that lacks it
    waits and has not failed. `recover` takes over what the dead left and says how many jobs that was. `tend` is done
    now and then when there is nothing else to do. `on_settled` hears how each try ended.
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
        offers: Callable[[], Collection[str]] = tuple,
        recover: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self._queue = queue
        self._take_over = recover or queue.recover
        self._handlers = handlers
        self._tend = tend
        self._tend_every_s = tend_every_s
        self._tended = time.monotonic()
        self._concurrency = concurrency
        self._on_settled = on_settled
        self._offers = offers
        self.name = name
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()

    async def run_once(self) -> IndexBatchResult:
        """One round over what is due: as many jobs as there are hands. One that waits counts as neither done nor
        failed."""
        jobs = await self._claim(self._concurrency)
        async with lease_kept(self._queue, self.name, [job.job_id for job in jobs]) as held:
            results = await asyncio.gather(*(self._do(job, held) for job in jobs))
        done, waits = results.count("done"), results.count("waits")
        return IndexBatchResult(len(jobs), done, len(jobs) - done - waits)

    async def run(self, poll_s: float = 1.0) -> None:
        """Until `stop`: finish what is under way, then leave. Jobs of dead workers are taken over, at once and later.
        Whenever a hand is free it takes the next job; a long one keeps only its own lane waiting."""
        under_way: set[asyncio.Task[Outcome]] = set()
        alone = False

        def free_hand(task: asyncio.Task[Outcome]) -> None:
            under_way.discard(task)
            self.wake()

        async with lease_kept(self._queue, self.name, ()) as held, asyncio.TaskGroup() as hands:
            await self._recover()
            while not self._stopping.is_set():
                self._woken.clear()
                alone = alone and bool(under_way)
                jobs = [] if alone else await self._claim_if_it_answers(self._concurrency - len(under_way))
                for job in jobs:
                    alone = job.lost > 0
                    held.add(job.job_id)
                    task = hands.create_task(self._do(job, held))
                    under_way.add(task)
                    task.add_done_callback(free_hand)
                if not jobs and not await self._recover():
                    if not under_way:
                        await self._tend_if_due()
                    await self._rest(poll_s)

    async def _claim(self, limit: int) -> list[Job]:
        return await self._queue.claim(self.name, limit, LEASE, tuple(self._handlers), self._offers())

    async def _claim_if_it_answers(self, limit: int) -> list[Job]:
        try:
            return await self._claim(limit) if limit else []
        except (MnemonError, OSError) as error:
            _log.warning("the queue does not answer: %s; trying again", error)
            return []

    async def _recover(self) -> int:
        try:
            return await self._take_over()
        except (MnemonError, OSError) as error:
            _log.warning("could not look for jobs of dead workers: %s; trying again", error)
            return 0

    async def _do(self, job: Job, held: set[str]) -> Outcome:
        """Done or failed, it is written down; only a stop of the program or a queue that is away leaves it claimed."""
        begun = time.monotonic()
        problem: Exception | None = None
        try:
            await self._handlers[job.kind](job)
        except ModelNotConfigured as error:
            _log.info("job %s waits: %s", job.job_id, error)
            problem = error
        except Exception as error:  # noqa: BLE001  a job may fail in any way; it is listed, never swallowed
            _log.warning("job %s failed: %s%s", job.job_id, error, trace_of(job))
            problem = error
        try:
            after = await self._write_down(job, problem)
        except NotFound:
            return "failed"  # dropped meanwhile
        except (MnemonError, OSError) as error:
            _log.warning("what came of job %s could not be written down: %s", job.job_id, error)
            return "failed"
        finally:
            held.discard(job.job_id)
        outcome = _outcome(after)
        self._tell(job, after, outcome, time.monotonic() - begun)
        return outcome

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
        if isinstance(problem, ModelNotConfigured):
            pause = _NOT_MINE if "model" in self._offers() else timedelta(0)
            return await self._queue.wait(job.job_id, str(problem), "model", pause)
        return await self._queue.fail(job.job_id, f"{type(problem).__name__}: {problem}", rules.may_be_mended(problem))

    def _tell(self, job: Job, after: Job | None, outcome: Outcome, seconds: float) -> None:
        if self._on_settled is None:
            return
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


def _outcome(after: Job | None) -> Outcome:
    if after is None:
        return "done"
    if after.status is JobStatus.FAILED:
        return "failed"
    return "waits" if after.awaits else "retry"
