"""A memory that is open: its parts, its worker in the background, and how it is let go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mnemon.contracts.errors import InvalidArgument, MnemonError
from mnemon.contracts.ports import Clock
from mnemon.engine.build import EmbedderChoice, build
from mnemon.engine.config import Config
from mnemon.engine.models import LlmChoice
from mnemon.engine.parts import Parts
from mnemon.engine.remote import Service, build_remote
from mnemon.engine.rounds import Rounds
from mnemon.logic.hints import hint
from mnemon.pipelines.historian.watching import LOOK_EVERY_S
from mnemon.pipelines.index.worker import Worker

_log = logging.getLogger(__name__)


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
        token: str = "",
        signing_secret: str = "",
        auth_headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        """`place` is a folder, `":memory:"`, or a Memory Service (`"http://host:8700"`, entered with `token`).
        `llm` is `"rules"` (no model, deterministic), `"openai:gpt-4o-mini"`, `{provider, model, api_key, base_url}`
        or a model of your own; left out, the platform's. `for_rebuild` opens an index built with another embedding
        model, so that `rebuild` can replace it."""
        config = config or Config.load()
        if str(place).startswith(("http://", "https://")):
            if embedder is not None or for_rebuild:
                raise InvalidArgument("a service embeds and rebuilds for itself", field="embedder")
            service = Service(str(place), token, signing_secret, auth_headers, timeout_s)
            self._parts = build_remote(service, config, llm, clock)
        else:
            self._parts = build(place, config, embedder, llm, clock, for_rebuild)
        self._services: dict[tuple[str, tuple[tuple[str, str], ...], float], Self] = {}
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
        """A worker for this memory's jobs, who also makes its rounds."""
        parts = self._parts
        settings = parts.config
        return Worker(
            parts.queue,
            parts.handlers,
            parts.worker,
            Rounds(parts).go,
            min(LOOK_EVERY_S, settings.governance.sweep_interval_seconds),
            settings.cognitive.historian.concurrency,
            parts.watch.settled,
            parts.offers,
            parts.recover,
        )

    def _open(self) -> Parts:
        """For whoever looks: reading takes up no work."""
        if self._closed:
            raise InvalidArgument("this memory is closed", field="memory")
        if self._parts.standing is not None:
            self._parts.standing.heal()
        return self._parts

    async def start_worker(self) -> None:
        """Do jobs in the background from now on, and not only from the first write: for a process that is there to
        work, such as a service. Nothing happens where `background_worker` is off."""
        self._at_work()

    def _at_work(self) -> Parts:
        """For whoever leaves work behind: somebody is there to do it."""
        parts = self._open()
        if self._working is None and parts.config.background_worker and not self._for_rebuild:
            self._worker = self._make_worker()
            pause = min(parts.config.poll_interval_seconds, parts.config.cognitive.historian.poll_interval_seconds)
            self._working = asyncio.create_task(self._work(self._worker, pause))
        return parts

    async def _work(self, worker: Worker, pause: float) -> None:
        """What was promised to be forgotten and was cut off comes first; then whatever waits."""
        try:
            await self._parts.forgetter.finish()
        except (MnemonError, OSError) as error:
            _log.warning("could not take up what was to be forgotten: %s; trying again later", error)
        await worker.run(pause)

    def _elsewhere(self, memory_api: Mapping[str, Any]) -> Self:
        """The service one call names (`{base_url, auth_headers?, timeout_s?}`), with this memory's model."""
        known = ("base_url", "auth_headers", "timeout_s")
        for name in memory_api:
            if name not in known:
                raise InvalidArgument(f"memory_api has no field {name!r}{hint(str(name), known)}", field="memory_api")
        if "base_url" not in memory_api:
            raise InvalidArgument("memory_api needs base_url", field="memory_api.base_url")
        headers = tuple(sorted((memory_api.get("auth_headers") or {}).items()))
        key = (str(memory_api["base_url"]), headers, float(memory_api.get("timeout_s") or 60.0))
        if key not in self._services:
            self._services[key] = type(self)(
                key[0],
                llm=self._parts.llm,
                config=self._parts.config,
                clock=self._parts.clock,
                auth_headers=dict(headers),
                timeout_s=key[2],
            )
        return self._services[key]

    async def close(self) -> None:
        """Finish the job under way and let go of every file."""
        if self._closed:
            return
        self._closed = True
        for other in self._services.values():
            await other.close()
        if self._worker is not None and self._working is not None:
            self._worker.stop()
            with suppress(asyncio.CancelledError):
                await self._working
        await self._parts.models.close_all()
        parts = self._parts
        if parts.standing is not None:
            await parts.standing.stop()
        if parts.service is None:
            await parts.replicas.presence.leave()
        for part in (parts.alerts, parts.queue, parts.index, parts.graph, parts.embedder, parts.archive):
            await part.close()
        if parts.standing is not None:
            parts.standing.close()
        if self._parts.service is not None:
            await self._parts.service.close()
        if self._parts.temporary is not None:
            self._parts.temporary.cleanup()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
