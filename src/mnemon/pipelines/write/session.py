"""One conversation into the archive and its replica: intent, page, words, page, index."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from mnemon.contracts.errors import MnemonError, VersionConflict
from mnemon.contracts.jobs import Job
from mnemon.contracts.ports import Archive, Clock, Queue
from mnemon.contracts.reports import Degraded
from mnemon.contracts.results import SessionWriteResult
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord, SessionStatus, StoredTurn
from mnemon.contracts.turns import Turn
from mnemon.pipelines.index.indexing import BATCH, Indexer
from mnemon.pipelines.index.worker import LEASE, index_job, lease_kept
from mnemon.pipelines.write.intake import LISTED, Intake

Mode = Literal["once", "append"]
Wait = Literal["indexed", "archived"]

_APPEND = 2_000


@dataclass(slots=True)
class _Steps:
    """What happened so far, for the result."""

    degraded: list[Degraded] = field(default_factory=list)
    latency_ms: dict[str, float] = field(default_factory=dict)

    def timed(self, name: str, begun: float) -> None:
        self.latency_ms[name] = round((time.perf_counter() - begun) * 1000, 3)


@dataclass(frozen=True, slots=True)
class _Appended:
    written: int
    already_there: int
    turn_count: int
    chain_head: str
    fresh: list[StoredTurn]


@dataclass(frozen=True, slots=True)
class SessionWriter:
    archive: Archive
    queue: Queue
    indexer: Indexer
    clock: Clock
    worker: str

    async def write(
        self, scope: Scope, key: SessionKey, principals: tuple[str, ...], intake: Intake, mode: Mode, wait: Wait
    ) -> SessionWriteResult:
        begun = time.perf_counter()
        steps = _Steps()
        record = await self.archive.read_session(scope, key)
        if record is not None and record.status is SessionStatus.COMPLETED and mode == "once":
            return await self._skipped(scope, record, intake)
        # Intent first: from here on a crash leaves a job behind that brings the replica up to the archive.
        job = await self._announce(key, steps)
        record = await self._open(scope, key, principals, record)
        appended = await self._append(scope, key, intake)
        record = await self._complete(scope, record, appended)
        steps.timed("archive_ms", begun)
        indexed = await self._index(record, job, appended.fresh, wait, steps)
        steps.timed("total_ms", begun)
        counts: dict[str, Any] = {
            "events_written": appended.written,
            "facts_written": 0,
            "turns_already_there": appended.already_there,
            "turns_dropped": intake.dropped_count,
            "turns_in_session": appended.turn_count,
            "turns_indexed": indexed,
            "masked": intake.masked_count,
        }
        return _result("ok", record, counts, intake, steps)

    async def _skipped(self, scope: Scope, record: SessionRecord, intake: Intake) -> SessionWriteResult:
        """Completed already: nothing is written, and turns it has not seen are named, not swallowed."""
        there = {t.turn.turn_id for t in await self.archive.read_turns(scope, record.key)}
        there |= {t.turn_id for t in await self.archive.read_tombstones(scope, record.key)}
        unseen = [t.turn_id for t in intake.spool.turns() if t.turn_id not in there]
        steps = _Steps()
        if unseen:
            some = ", ".join(unseen[:5]) + (", …" if len(unseen) > 5 else "")
            why = f"{len(unseen)} turns are not in the completed session ({some}); write them with mode='append'"
            steps.degraded.append(Degraded("unseen_turns", why))
        counts = {"events_written": 0, "facts_written": 0, "turns_in_session": len(there), "turns_unseen": len(unseen)}
        return _result("skipped_existing", record, counts, intake, steps)

    async def _announce(self, key: SessionKey, steps: _Steps) -> Job | None:
        job = index_job(f"index-{uuid.uuid4().hex}", key)
        try:
            await self.queue.put([job], claim_by=self.worker, lease=LEASE)
        except MnemonError as error:
            steps.degraded.append(
                Degraded("queue", f"the index job could not be stored ({error}); repair will find it")
            )
            return None
        return job

    async def _open(
        self, scope: Scope, key: SessionKey, principals: tuple[str, ...], record: SessionRecord | None
    ) -> SessionRecord:
        """The session's page, made if it is new; two who make it at once share it."""
        if record is not None and set(record.principals) == set(principals):
            return record
        now = self.clock.now()
        fresh = SessionRecord(
            tenant_id=key.tenant_id,
            owner_kind=key.owner.kind,
            owner_id=key.owner.id,
            session_id=key.session_id,
            principals=principals,
            created_at=now,
            updated_at=now,
        )
        try:
            return await self.archive.write_session(scope, fresh, record.version if record else 0)
        except VersionConflict:
            there = await self.archive.read_session(scope, key)
            if there is None or set(there.principals) != set(principals):
                raise
            return there

    async def _append(self, scope: Scope, key: SessionKey, intake: Intake) -> _Appended:
        for blob in intake.spool.blobs():
            await self.archive.put_blob(scope, blob)
        fresh: list[StoredTurn] = []
        written = already = count = 0
        head = ""

        for batch in _batches(intake.spool.turns()):
            result = await self.archive.append_turns(scope, key, batch)
            written += len(result.appended)
            already += result.already_there
            count, head = result.turn_count, result.chain_head
            # A long session is read back from the archive a page at a time instead of being held in memory.
            fresh = [*fresh, *result.appended] if written <= BATCH else []
        return _Appended(written, already, count, head, fresh)

    async def _complete(self, scope: Scope, record: SessionRecord, appended: _Appended) -> SessionRecord:
        """The page names the last turn it vouches for; whoever writes it last vouches for all."""
        while True:
            if record.status is SessionStatus.COMPLETED and record.turn_count >= appended.turn_count:
                return record
            done = record.model_copy(
                update={
                    "status": SessionStatus.COMPLETED,
                    "turn_count": appended.turn_count,
                    "chain_head": appended.chain_head,
                    "counts": {"events": appended.turn_count},
                }
            )
            try:
                return await self.archive.write_session(scope, done, record.version)
            except VersionConflict:
                newer = await self.archive.read_session(scope, record.key)
                if newer is None:
                    raise
                record = newer

    async def _index(
        self, record: SessionRecord, job: Job | None, fresh: list[StoredTurn], wait: Wait, steps: _Steps
    ) -> int:
        """Read your writes, or leave it to the worker. A replica that fails is lag, not loss."""
        begun = time.perf_counter()
        if wait == "archived":
            if job is not None:
                await self.queue.release(job.job_id)
            steps.degraded.append(Degraded("index_pending", "the worker indexes it; wait='archived' was asked for"))
            return 0
        try:
            async with lease_kept(self.queue, self.worker, [job.job_id] if job else []):
                indexed = await self.indexer.index_fresh(record, fresh)
        except MnemonError as error:
            steps.degraded.append(Degraded("index_pending", f"{error}; the worker will try again"))
            if job is not None:
                await self.queue.fail(job.job_id, str(error))
            return 0
        if job is not None:
            await self.queue.done(job.job_id)
        steps.timed("index_ms", begun)
        return indexed


def _batches(turns: Iterator[Turn]) -> Iterator[list[Turn]]:
    while batch := list(islice(turns, _APPEND)):
        yield batch


def _result(
    status: Literal["ok", "skipped_existing"],
    record: SessionRecord,
    counts: dict[str, Any],
    intake: Intake,
    steps: _Steps,
) -> SessionWriteResult:
    if intake.dropped_count > LISTED:
        steps.degraded.append(
            Degraded("dropped_list", f"{intake.dropped_count} turns were dropped, {LISTED} are listed")
        )
    return SessionWriteResult(
        status=status,
        session_id=record.session_id,
        uri=record.key.uri,
        version=record.version,
        counts=counts,
        degraded=tuple(steps.degraded),
        dropped=tuple(intake.dropped),
        redacted=tuple(intake.masked),
        debug={"llm_used": None, "latency_ms": steps.latency_ms},
    )
