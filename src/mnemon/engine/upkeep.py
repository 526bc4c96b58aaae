"""Upkeep: prove, repair, rebuild, move, work off, and say how things stand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mnemon.contracts.chats import HistorianStatus
from mnemon.contracts.errors import NotFound, StorageFailed
from mnemon.contracts.filters import EVERYTHING, Eq, every
from mnemon.contracts.jobs import Job, JobKind, JobStatus, QueueStats
from mnemon.contracts.reports import Degraded, IndexBatchResult, VerifyReport
from mnemon.contracts.results import ExportResult, ImportResult, RebuildResult, RepairResult, Status
from mnemon.contracts.scope import Owner, Scope, checked_id
from mnemon.engine.addressing import one_of
from mnemon.engine.opened import OpenMemory
from mnemon.logic.jobs import held_up
from mnemon.pipelines.ask import Rules
from mnemon.pipelines.govern import mending, moving, proof
from mnemon.pipelines.govern.arrears import reissue
from mnemon.pipelines.govern.filing import Filer
from mnemon.pipelines.graph.rebuild import rebuild_graph
from mnemon.pipelines.historian.alerting import Hook
from mnemon.pipelines.historian.watching import historian_status
from mnemon.pipelines.index import rebuild as rebuilding
from mnemon.pipelines.index.projection import CHUNK, CLAIM


def _kinds(kind: JobKind | str | None) -> tuple[JobKind, ...] | None:
    if kind is None:
        return None
    one_of("kind", str(kind), [k.value for k in JobKind])
    return (JobKind(kind),)


def _unforgotten(count: int) -> tuple[str, ...]:
    told = f"{count} forgettings were cut off, or found something left; `mnemon repair` finishes them or says why not"
    return (told,) if count else ()


class Upkeep(OpenMemory):
    async def verify(self, tenant_id: str | None = None, check_index: bool = True) -> VerifyReport:
        """Prove every hash, chain and pointer, and compare index and graph with the words. Whatever is damaged is
        named; nothing stops the rest from being proven."""
        parts = self._open()
        return await proof.verify(parts.archive, parts.replicas if check_index else None, parts.queue, tenant_id)

    async def repair(self, tenant_id: str | None = None) -> RepairResult:
        """Finish what a crash cut off, make whole what is damaged, and bring the replicas up. What cannot be mended is
        set aside, never deleted, and said."""
        parts = self._open()
        await parts.forgetter.finish()  # first: what is to be forgotten must not be indexed again
        result = await mending.repair(parts.archive, parts.replicas, parts.queue, tenant_id, parts.clock.now())
        repairs = list(result.repairs)
        for tenant in [tenant_id] if tenant_id else [t async for t in parts.archive.tenants()]:
            repairs += await reissue(parts.archive, parts.queue, tenant, parts.asker() is not None)
        await self.run_jobs()
        return replace(result, repairs=tuple(repairs))

    async def rebuild(self, *, restart: bool = False, progress: rebuilding.Progress | None = None) -> RebuildResult:
        """Make the index anew from the archive, with the embedder of this memory, and the graph."""
        parts = self._open()
        for tenant in [t async for t in parts.archive.tenants()]:
            # The old index may be the last to remember what is damaged in the archive.
            if (await parts.archive.verify(Scope.steward_of(tenant))).damaged:
                await mending.mend_archive(parts.archive, parts.replicas, tenant, parts.clock.now())
        result = await rebuilding.rebuild(parts.archive, parts.index, parts.embedder, parts.graph, progress, restart)
        for tenant in [t async for t in parts.archive.tenants()]:
            await rebuild_graph(parts.archive, parts.replicas.grapher, tenant)
        if parts.standing is not None:
            parts.standing.brought_up()
        return result

    async def export(
        self, path: str | Path, *, tenant_id: str | None = None, user_id: str | None = None
    ) -> ExportResult:
        """Everything, one tenant, or one person, as one portable file; also a consistent backup while others write."""
        parts = self._open()
        owner = Owner.user(checked_id("user_id", user_id)) if user_id is not None else None
        try:
            return await moving.export(parts.archive, Path(path), tenant_id, owner, parts.clock.now())
        except OSError as error:
            raise StorageFailed.of(error, path) from error

    async def import_archive(self, path: str | Path) -> ImportResult:
        """Take over an export, and file what comes in: claims meet those that are here as if all had been said here.
        What is here already is kept; words that differ are named, never overwritten."""
        parts = self._open()
        filer = Filer(parts.archive, parts.sweeper.clock)
        try:
            tenants, report = await moving.load(parts.archive, filer, Path(path))
        except OSError as error:
            raise StorageFailed.of(error, path) from error
        queued = 0
        for tenant in tenants:
            await parts.entries.follower.catch_up(tenant)
            queued += (await mending.queue_stale(parts.archive, parts.replicas, parts.queue, tenant))[0]
        await self.run_jobs()
        return ImportResult(
            tuple(tenants), report.added, report.already_there, report.sessions, tuple(report.conflicts), queued
        )

    async def run_jobs(self) -> IndexBatchResult:
        """Do every job that is due, now, those of dead workers among them, and say what came of them."""
        parts = self._open()
        await parts.recover()
        await parts.forgetter.finish()
        worker = self._make_worker()
        claimed = succeeded = failed = 0
        while (result := await worker.run_once()).claimed:
            claimed += result.claimed
            succeeded += result.succeeded
            failed += result.failed
        return IndexBatchResult(claimed, succeeded, failed)

    async def jobs(
        self, status: JobStatus | str | None = None, limit: int = 100, kind: JobKind | str | None = None
    ) -> list[Job]:
        """What waits, what is being done, what failed and why, in the order it was put."""
        if status is not None:
            one_of("status", str(status), [s.value for s in JobStatus])
        return await self._open().queue.list(JobStatus(status) if status else None, limit, _kinds(kind))

    async def job(self, job_id: str) -> Job:
        """One job, wherever it is."""
        found = await self._open().queue.get(job_id)
        if found is None:
            raise NotFound(f"there is no job {job_id}", job_id=job_id)
        return found

    async def job_stats(self) -> QueueStats:
        """How many jobs wait, are under way, failed, or are set aside because too many failed."""
        return await self._open().queue.stats()

    async def retry_job(self, job_id: str) -> Job:
        """A failed job, once more from the start."""
        return await self._open().queue.retry(job_id)

    async def retry_jobs(self, kind: JobKind | str | None = None) -> int:
        """Every failed job, or those of one kind, once more from the start; says how many there were."""
        queue, again = self._open().queue, 0
        for job in await queue.list(JobStatus.FAILED, sys.maxsize, _kinds(kind)):
            with suppress(NotFound):  # dropped meanwhile
                await queue.retry(job.job_id)
                again += 1
        return again

    async def status(self, tenant_id: str | None = None) -> Status:
        """What there is, of all tenants or of one, how it is found, and what waits."""
        parts = self._open()
        tenants = [t async for t in parts.archive.tenants()] if tenant_id is None else [tenant_id]
        sessions = turns = damaged = 0
        for tenant in tenants:
            async for record in parts.archive.sessions(Scope.steward_of(tenant)):
                sessions += 1
                turns += record.turn_count
                damaged += record.version == 0  # no page that was ever written has this version
        degraded: dict[Degraded, None] = {}
        for tenant in tenants:
            _, found = await parts.answered(Scope.steward_of(tenant), parts.index.info)
            degraded |= dict.fromkeys(found)
        info = await parts.index.info()
        queue = await parts.queue.stats()
        doubt = filter(None, [parts.sweeper.clock.doubt()])
        warnings = (*parts.warnings, *(parts.standing.news if parts.standing else ()), *doubt, *held_up(queue))
        warnings = (*warnings, *_unforgotten(await parts.forgetter.unfinished()))
        if damaged:
            warnings = (*warnings, f"{damaged} sessions are damaged: `mnemon verify` names each, `mnemon repair` mends")
        return Status(
            home=str(parts.home),
            tenants=len(tenants),
            sessions=sessions,
            turns=turns,
            entries=info.entries if tenant_id is None else await self._entries_of(tenant_id),
            claims=await self._counted(tenants, CLAIM),
            nodes=await self._counted(tenants, CHUNK),
            index=parts.config.index_url.partition("://")[0],
            index_model=info.model,
            embedder=parts.embedder.model,
            semantic=parts.embedder.semantic,
            queue=queue,
            building=info.building,
            warnings=warnings,
            historian=await self._historian(tenant_id, tenants),
            degraded=tuple(degraded),
        )

    def on_alert(self, hook: Hook) -> None:
        """Be told what a person should know: a function, or a coroutine function. It is called where jobs are done, in
        the loop of this memory; the same kind of alert comes again after `cognitive.alerts.repeat_seconds`."""
        self._parts.alerts.on(hook)

    async def _historian(self, tenant_id: str | None, tenants: Sequence[str]) -> HistorianStatus:
        parts = self._parts
        asker = parts.asker()
        found = await historian_status(parts.queue, parts.index, parts.clock, tenants, tenant_id)
        provider = asker.llm_used["provider"] if asker else Rules().provider
        return replace(found, enabled=parts.config.cognitive.enabled, provider=provider)

    async def _entries_of(self, tenant_id: str) -> int:
        return await self._parts.index.count(Scope.steward_of(tenant_id), EVERYTHING)

    async def _counted(self, tenants: Sequence[str], kind: str) -> int:
        where = every(Eq("kind", kind), Eq("level", 0)) if kind == CHUNK else Eq("kind", kind)
        return sum([await self._parts.index.count(Scope.steward_of(t), where) for t in tenants])
