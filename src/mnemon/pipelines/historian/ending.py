"""The foreground of a bot's turn: a call that was checked becomes a durable job, and nothing else happens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mnemon.contracts.chats import EndCall, EndResult
from mnemon.contracts.errors import Conflict
from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.ports import Queue
from mnemon.logic.chats import has_its_own_time
from mnemon.logic.ids import stable_id


@dataclass(frozen=True, slots=True)
class Ender:
    queue: Queue
    max_retries: int

    async def end(self, tenant_id: str, call: EndCall) -> EndResult:
        """Durable on return. One turn is one job, however often it is told; told differently, it is a conflict."""
        job = replace(end_job(tenant_id, call), max_retries=self.max_retries)
        if await self.queue.put([job]):
            return EndResult("queued", call.event_id, job.job_id)
        there = await self.queue.get(job.job_id)
        if there is not None and _told(call_of(there)) != _told(call):
            raise Conflict(
                f"{call.event_id} waits already with other words; use the next end_seq", field="end_seq",
                event_id=call.event_id,
            )  # fmt: skip
        return EndResult("duplicate", call.event_id, job.job_id)


def end_job(tenant_id: str, call: EndCall) -> Job:
    """The jobs of one chat are done one after another, in the order they were told."""
    owner = call.owner
    whose = {"owner_kind": owner.kind.value, "owner_id": owner.id, "sender_id": call.sender_id}
    return Job(
        job_id=f"end-{stable_id('end', tenant_id, owner.space, call.event_id)}",
        kind=JobKind.END,
        tenant_id=tenant_id,
        payload={**whose, "call": call.model_dump(mode="json", exclude_defaults=True)},
        lane=f"{tenant_id}\n{owner.space}",
    )


def call_of(job: Job) -> EndCall:
    return EndCall.model_validate(job.payload["call"])


def _told(call: EndCall) -> dict[str, Any]:
    """Without what differs between two calls of the same turn and does not make them two."""
    passing = {"queued_at"} if has_its_own_time(call) else {"queued_at", "timestamp"}
    return call.model_dump(exclude=passing)
