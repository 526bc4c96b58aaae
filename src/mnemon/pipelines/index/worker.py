"""The worker that keeps replicas up: claim jobs, do them, and never lose one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from mnemon.contracts.errors import MnemonError, NotFound
from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.ports import Queue
from mnemon.contracts.reports import IndexBatchResult
from mnemon.contracts.scope import Owner, OwnerKind, SessionKey
from mnemon.pipelines.index.indexing import Indexer

LEASE = timedelta(minutes=5)
# Few at a time: what a worker holds when it dies has to wait for somebody to notice.
CLAIM_LIMIT = 10

_log = logging.getLogger(__name__)


def index_job(job_id: str, key: SessionKey) -> Job:
    """The intent to bring one session's replica up to date."""
    payload = {"owner_kind": key.owner.kind.value, "owner_id": key.owner.id, "session_id": key.session_id}
    return Job(job_id=job_id, kind=JobKind.INDEX, tenant_id=key.tenant_id, payload=payload)


def session_of(job: Job) -> SessionKey:
    owner = Owner(OwnerKind(job.payload["owner_kind"]), job.payload["owner_id"])
    return SessionKey(job.tenant_id, owner, job.payload["session_id"])


@asynccontextmanager
async def lease_kept(queue: Queue, worker: str, job_ids: Iterable[str]) -> AsyncIterator[set[str]]:
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
    def __init__(self, queue: Queue, indexer: Indexer, name: str) -> None:
        self._queue = queue
        self._indexer = indexer
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
        if job.kind is not JobKind.INDEX:
            raise MnemonError(f"no worker knows jobs of kind {job.kind}")
        await self._indexer.index_session(session_of(job))

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
                self._woken.clear()
                if not self._stopping.is_set():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._woken.wait(), poll_s)

    def wake(self) -> None:
        """There is work: do not wait for the next poll."""
        self._woken.set()

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()
