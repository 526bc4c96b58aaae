"""Arrears: what the archive says is still to be done, put into the queue again where nobody has been told to do it."""

from __future__ import annotations

import sys
from contextlib import suppress

from mnemon.contracts.errors import NotFound
from mnemon.contracts.jobs import JobStatus
from mnemon.contracts.ports import Archive, Queue
from mnemon.contracts.reports import Repair
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import SessionRecord, SessionStatus
from mnemon.pipelines.jobs import digest_job
from mnemon.pipelines.write.order import WriteOrder


async def reissue(archive: Archive, queue: Queue, tenant_id: str, has_model: bool) -> list[Repair]:
    """Also after the whole queue was lost: a page says what is asked of its session until it is done. What failed is
    tried once more; `has_model` says whether it is worth trying what a model failed at."""
    found: list[Repair] = []
    for job in await queue.list(JobStatus.FAILED, sys.maxsize):
        if job.tenant_id == tenant_id:
            with suppress(NotFound):  # dropped meanwhile
                await queue.retry(job.job_id)
                found.append(Repair(job.job_id, f"tried again; it had failed: {job.error}"))
    async for record in archive.sessions(Scope.steward_of(tenant_id)):
        if _is_in_arrears(record, has_model):
            order = record.order or WriteOrder().to_payload()
            # A writer that is alive holds this very job.
            if await queue.put([digest_job(record.key, order)]):
                found.append(Repair(record.key.uri, "taken up again: it was not finished"))
    return found


def _is_in_arrears(record: SessionRecord, has_model: bool) -> bool:
    """Begun and not finished; or without the memories a model failed to make, where there is one now. One that its
    writer has to write again asks for nothing."""
    if record.status is SessionStatus.IN_PROGRESS:
        return True
    return has_model and record.order is not None
