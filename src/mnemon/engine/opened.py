"""A memory that is open: its parts, its worker in the background, and how it is let go."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.ports import Clock
from mnemon.engine.build import EmbedderChoice, Parts, build
from mnemon.engine.config import Config
from mnemon.engine.models import LlmChoice
from mnemon.pipelines.index.worker import Worker


class OpenMemory:
    def __init__(
        self,
        place: str | Path = "./data",
        *,
        llm: LlmChoice | None = None,
        embedder: EmbedderChoice | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        for_rebuild: bool = False,
    ) -> None:
        """`llm` is `"rules"` (no model, deterministic), `"openai:gpt-4o-mini"`, `{provider, model, api_key, base_url}`
        or a model of your own; left out, the platform's. `for_rebuild` opens an index built with another embedding
        model, so that `rebuild` can replace it."""
        self._parts = build(place, config or Config.load(), embedder, llm, clock, for_rebuild)
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

    def _make_worker(self) -> Worker:
        """A worker for this memory's jobs, who also sweeps."""
        parts = self._parts
        every_s = parts.config.governance.sweep_interval_seconds
        return Worker(parts.queue, parts.handlers, parts.worker, parts.sweeper.sweep_all, every_s)

    def _open(self) -> Parts:
        if self._closed:
            raise InvalidArgument("this memory is closed", field="memory")
        parts = self._parts
        if self._working is None and parts.config.background_worker and not self._for_rebuild:
            self._worker = Worker(parts.queue, parts.handlers, parts.worker)
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
        await self._parts.models.close_all()
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
