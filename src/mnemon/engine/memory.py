"""The front door, asynchronous: each method checks what it is given, tells one story, and says what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

from mnemon.contracts.errors import InvalidArgument, ModelNotConfigured
from mnemon.contracts.jobs import Job, JobStatus
from mnemon.contracts.ports import Clock
from mnemon.contracts.reports import Degraded, IndexBatchResult, VerifyReport
from mnemon.contracts.results import (
    ExportResult,
    ImportResult,
    RebuildResult,
    RepairResult,
    SessionWriteResult,
    Status,
)
from mnemon.contracts.scope import PUBLIC, Owner, Scope, SessionKey, checked_id
from mnemon.contracts.turns import InputFormat, Turn
from mnemon.engine.bound import AsyncBoundMemory
from mnemon.engine.build import EmbedderChoice, Parts, build, redactor
from mnemon.engine.config import Config
from mnemon.pipelines.govern import mending, moving, proof
from mnemon.pipelines.index import rebuild as rebuilding
from mnemon.pipelines.index.worker import Worker
from mnemon.pipelines.write.intake import take_in
from mnemon.pipelines.write.session import Mode, Wait
from mnemon.pipelines.write.source import Raw

Visibility = Literal["private", "product", "public", "group"]
Stages = Literal["full", "off"]
LlmPolicy = Literal["require", "best_effort"]


class AsyncMemory:
    """Long-term memory in a folder. `AsyncMemory("./data")`; `":memory:"` for a test."""

    def __init__(
        self,
        place: str | Path = "./data",
        *,
        embedder: EmbedderChoice | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        for_rebuild: bool = False,
    ) -> None:
        """`for_rebuild` opens an index built with another embedding model, so that `rebuild` can replace it."""
        self._parts = build(place, config or Config.load(), embedder, clock, for_rebuild)
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None
        self._for_rebuild = for_rebuild
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def parts(self) -> Parts:
        """The drivers behind this memory, for those who extend it."""
        return self._parts

    # --- writing

    async def session_write(
        self,
        tenant_id: str,
        user_id: str,
        session_id: str,
        *,
        turns: Sequence[Turn | Mapping[str, Any]] | None = None,
        raw: Raw | None = None,
        input_format: str | InputFormat | None = None,
        product_id: str | None = None,
        group_id: str | None = None,
        visibility: Visibility = "private",
        extract: bool = True,
        stages: Stages = "full",
        mode: Mode = "once",
        llm_policy: LlmPolicy = "require",
        redact: bool | None = None,
        wait: Wait = "indexed",
    ) -> SessionWriteResult:
        """Keep a conversation word for word and make it findable.

        `turns` are canonical turns; anything else comes as `raw` (text, bytes, a `Path`, an open file, parsed data)
        with its `input_format`. `stages="off"` keeps every turn as it is; `"full"` denoises first. A session that is
        complete is not written again: `mode="append"` adds the turns it has not seen.
        """
        key, principals, scope = _addressed(tenant_id, user_id, session_id, product_id, group_id, visibility)
        for name, value, kind in (
            ("stages", stages, Stages),
            ("mode", mode, Mode),
            ("wait", wait, Wait),
            ("llm_policy", llm_policy, LlmPolicy),
        ):
            _one_of(name, value, get_args(kind))
        if extract and llm_policy == "require":
            raise ModelNotConfigured(
                "extract=True needs a language model and none is configured; "
                "pass extract=False to keep the words only, or llm_policy='best_effort'",
                field="extract",
            )
        source, form = _source(turns, raw, input_format)
        parts = self._open()
        mask = redactor(parts.config) if (parts.config.redact if redact is None else redact) else None
        rules = parts.config.denoise if stages == "full" else None
        intake = await asyncio.to_thread(take_in, source, form, rules, mask)
        try:
            result = await parts.writer.write(scope, key, principals, intake, mode, wait)
        finally:
            intake.spool.close()
        if wait == "archived" and self._worker is not None:
            self._worker.wake()
        return _with_notices(result, extract, parts)

    # --- reading

    def bind(
        self, tenant_id: str, user_id: str, product_id: str | None = None, group_id: str | None = None
    ) -> AsyncBoundMemory:
        """The message tools for one person: nothing they are asked can reach beyond this scope."""
        return AsyncBoundMemory(self._open, Scope.of(tenant_id, user_id, product_id, group_id))

    # --- upkeep

    async def verify(self, tenant_id: str | None = None, check_index: bool = True) -> VerifyReport:
        """Prove every hash, chain and pointer, and compare the index with the words."""
        parts = self._open()
        return await proof.verify(parts.archive, parts.index if check_index else None, tenant_id)

    async def repair(self, tenant_id: str | None = None) -> RepairResult:
        """Finish what a crash cut off, and index what the index lacks."""
        parts = self._open()
        result = await mending.repair(parts.archive, parts.index, parts.queue, tenant_id)
        await self.run_jobs()
        return result

    async def rebuild(self, *, restart: bool = False, progress: rebuilding.Progress | None = None) -> RebuildResult:
        """Make the index anew from the archive, with the embedder of this memory."""
        parts = self._open()
        return await rebuilding.rebuild(parts.archive, parts.index, parts.embedder, progress, restart)

    async def export(
        self, path: str | Path, *, tenant_id: str | None = None, user_id: str | None = None
    ) -> ExportResult:
        """Everything, one tenant, or one person, as one portable file; also a consistent backup while others write."""
        parts = self._open()
        owner = Owner.user(checked_id("user_id", user_id)) if user_id is not None else None
        return await moving.export(parts.archive, Path(path), tenant_id, owner, parts.clock.now())

    async def import_archive(self, path: str | Path) -> ImportResult:
        """Take over an export. What is here already is kept; what differs is named, never overwritten."""
        parts = self._open()
        tenants, report = await moving.load(parts.archive, Path(path))
        queued = 0
        for tenant in tenants:
            queued += await mending.queue_stale(parts.archive, parts.index, parts.queue, tenant)
        await self.run_jobs()
        return ImportResult(
            tuple(tenants), report.added, report.already_there, report.sessions, tuple(report.conflicts), queued
        )

    async def run_jobs(self) -> IndexBatchResult:
        """Do every job that is due, now, and say what came of them."""
        parts = self._open()
        worker = Worker(parts.queue, parts.indexer, parts.worker)
        claimed = succeeded = failed = 0
        while (result := await worker.run_once()).claimed:
            claimed += result.claimed
            succeeded += result.succeeded
            failed += result.failed
        return IndexBatchResult(claimed, succeeded, failed)

    async def jobs(self, status: JobStatus | str | None = None, limit: int = 100) -> list[Job]:
        """What waits, what is being done, what failed and why."""
        if status is not None:
            _one_of("status", str(status), [s.value for s in JobStatus])
        return await self._open().queue.list(JobStatus(status) if status else None, limit)

    async def retry_job(self, job_id: str) -> Job:
        """A failed job, once more from the start."""
        return await self._open().queue.retry(job_id)

    async def status(self) -> Status:
        """What there is, how it is found, and what waits."""
        parts = self._open()
        tenants = [t async for t in parts.archive.tenants()]
        sessions = turns = 0
        for tenant in tenants:
            async for record in parts.archive.sessions(Scope.steward_of(tenant)):
                sessions += 1
                turns += record.turn_count
        info = await parts.index.info()
        return Status(
            home=str(parts.home),
            tenants=len(tenants),
            sessions=sessions,
            turns=turns,
            entries=info.entries,
            index=parts.config.index_url.partition("://")[0],
            index_model=info.model,
            embedder=parts.embedder.model,
            semantic=parts.embedder.semantic,
            queue=await parts.queue.stats(),
            building=info.building,
            warnings=parts.warnings,
        )

    # --- coming and going

    def _open(self) -> Parts:
        if self._closed:
            raise InvalidArgument("this memory is closed", field="memory")
        parts = self._parts
        if self._working is None and parts.config.background_worker and not self._for_rebuild:
            self._worker = Worker(parts.queue, parts.indexer, parts.worker)
            self._working = asyncio.create_task(self._worker.run(parts.config.poll_interval_seconds))
        return parts

    async def close(self) -> None:
        """Finish the job under way and let go of every file."""
        if self._closed:
            return
        self._closed = True
        if self._worker is not None and self._working is not None:
            self._worker.stop()
            with suppress(asyncio.CancelledError):
                await self._working
        for part in (self._parts.queue, self._parts.index, self._parts.embedder, self._parts.archive):
            await part.close()
        if self._parts.temporary is not None:
            self._parts.temporary.cleanup()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _addressed(
    tenant_id: str, user_id: str, session_id: str, product_id: str | None, group_id: str | None, visibility: str
) -> tuple[SessionKey, tuple[str, ...], Scope]:
    """Where a session lies, who may see it, and the scope it is written in."""
    scope = Scope.of(tenant_id, user_id, product_id, group_id)
    checked_id("session_id", session_id)
    owner = Owner.user(user_id)
    match visibility:
        case "private":
            principals = [owner.principal] + ([f"p:{product_id}"] if product_id is not None else [])
        case "product":
            principals = [f"p:{_needed('product_id', product_id, visibility)}"]
        case "group":
            owner = Owner.group(_needed("group_id", group_id, visibility))
            principals = [owner.principal]
        case "public":
            principals = [PUBLIC]
        case _:
            _one_of("visibility", visibility, get_args(Visibility))
            raise AssertionError
    return SessionKey(tenant_id, owner, session_id), tuple(sorted(principals)), scope


def _needed(name: str, value: str | None, visibility: str) -> str:
    if value is None:
        raise InvalidArgument(f"visibility={visibility!r} needs {name}", field=name)
    return value


def _one_of(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise InvalidArgument(f"{name} must be one of {', '.join(known)}, not {value!r}", field=name)


def _source(
    turns: Sequence[Turn | Mapping[str, Any]] | None, raw: Raw | None, input_format: str | InputFormat | None
) -> tuple[Raw, str | InputFormat | None]:
    if (turns is None) == (raw is None):
        raise InvalidArgument("give either turns or raw", field="turns")
    if turns is None:
        assert raw is not None
        return raw, input_format
    if input_format not in (None, InputFormat.CANONICAL_TURNS):
        raise InvalidArgument(f"turns are canonical turns; pass {input_format} as raw", field="input_format")
    if isinstance(turns, str | bytes | Mapping):
        raise InvalidArgument("turns must be a list of turns; pass text or files as raw", field="turns")
    rows: list[Any] = [t.model_dump(mode="json", exclude_defaults=True) if isinstance(t, Turn) else t for t in turns]
    return rows, InputFormat.CANONICAL_TURNS


def _with_notices(result: SessionWriteResult, extract: bool, parts: Parts) -> SessionWriteResult:
    """What a caller should know beyond what was done."""
    notices = list(result.degraded)
    if extract and result.status == "ok":
        result.counts["facts_skipped_reason"] = "llm_missing"
        notices.append(Degraded("facts", "no language model is configured; only the words were kept"))
    if not parts.embedder.semantic:
        notices.append(Degraded("embedder", "this embedder is not semantic; see `mnemon doctor`"))
    return SessionWriteResult(
        **{name: getattr(result, name) for name in result.__dataclass_fields__ if name != "degraded"},
        degraded=tuple(notices),
    )
