"""The worker that keeps replicas up: claim jobs, do them, and never lose one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from mnemon.contracts.errors import MnemonError
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
        results = [await self._settle(job, self._do(job)) for job in jobs]
        return IndexBatchResult(len(jobs), sum(results), len(results) - sum(results))

    async def _do(self, job: Job) -> None:
        if job.kind is not JobKind.INDEX:
            raise MnemonError(f"no worker knows jobs of kind {job.kind}")
        await self._indexer.index_session(session_of(job))

    async def _settle(self, job: Job, work: Awaitable[None]) -> bool:
        """Done or failed, it is written down; only a stop of the program leaves a job claimed."""
        try:
            await work
        except Exception as error:  # noqa: BLE001  a job may fail in any way; it is listed, never swallowed
            _log.warning("job %s failed: %s", job.job_id, error)
            await self._queue.fail(job.job_id, f"{type(error).__name__}: {error}")
            return False
        await self._queue.done(job.job_id)
        return True

    async def run(self, poll_s: float = 1.0, on_round: Callable[[IndexBatchResult], None] | None = None) -> None:
        """Until `stop`: finish the round under way, then leave. Jobs of dead workers are taken over first."""
        await self._queue.recover()
        while not self._stopping.is_set():
            result = await self.run_once()
            if on_round and result.claimed:
                on_round(result)
            if not result.claimed:
                self._woken.clear()
                try:
                    await asyncio.wait_for(self._woken.wait(), poll_s)
                except TimeoutError:
                    await self._queue.recover()

    def wake(self) -> None:
        """There is work: do not wait for the next poll."""
        self._woken.set()

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()
