"""The worker: claim jobs, do them, and never lose one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from mnemon.contracts.errors import MnemonError, NotFound
from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.ports import Holds, Queue
from mnemon.contracts.reports import IndexBatchResult

LEASE = timedelta(minutes=5)
# Few at a time: what a worker holds when it dies has to wait for somebody to notice.
CLAIM_LIMIT = 10

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
                await queue.renew(job_id, worker, LEASE)

    renewing = asyncio.create_task(renew())
    try:
        yield held
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing


class Worker:
    """`tend` is done now and then when there is nothing else to do."""

    def __init__(
        self,
        queue: Queue,
        handlers: Mapping[JobKind, Handler],
        name: str,
        tend: Callable[[], Awaitable[object]] | None = None,
        tend_every_s: float = 3600.0,
    ) -> None:
        self._queue = queue
        self._handlers = handlers
        self._tend = tend
        self._tend_every_s = tend_every_s
        self._tended = time.monotonic()
        self.name = name
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()

    async def run_once(self, limit: int = CLAIM_LIMIT) -> IndexBatchResult:
        """One round over what is due."""
        jobs = await self._queue.claim(self.name, limit, LEASE)
        results: list[bool] = []
        async with lease_kept(self._queue, self.name, [job.job_id for job in jobs]) as held:
            for job in jobs:
                results.append(await self._settle(job))
                held.discard(job.job_id)
        return IndexBatchResult(len(jobs), sum(results), len(results) - sum(results))

    async def _do(self, job: Job) -> None:
        handler = self._handlers.get(job.kind)
        if handler is None:
            raise MnemonError(f"no worker knows jobs of kind {job.kind}")
        await handler(job)

    async def _settle(self, job: Job) -> bool:
        """Done or failed, it is written down; only a stop of the program leaves a job claimed."""
        try:
            await self._do(job)
        except Exception as error:  # noqa: BLE001  a job may fail in any way; it is listed, never swallowed
            _log.warning("job %s failed: %s", job.job_id, error)
            with suppress(NotFound):  # dropped meanwhile
                await self._queue.fail(job.job_id, f"{type(error).__name__}: {error}")
            return False
        await self._queue.done(job.job_id)
        return True

    async def run(self, poll_s: float = 1.0, on_round: Callable[[IndexBatchResult], None] | None = None) -> None:
        """Until `stop`: finish the round under way, then leave. Jobs of dead workers are taken over."""
        while not self._stopping.is_set():
            try:
                result = await self.run_once()
                if not result.claimed and await self._queue.recover():
                    continue
            except (MnemonError, OSError) as error:
                _log.warning("the queue does not answer: %s; trying again", error)
                result = IndexBatchResult(0, 0, 0)
            if on_round and result.claimed:
                on_round(result)
            if not result.claimed:
                await self._tend_if_due()
                self._woken.clear()
                if not self._stopping.is_set():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._woken.wait(), poll_s)

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
