"""The same doors for programs without an event loop: written once, asynchronous, called through a background loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.ports import Clock
from mnemon.engine.bound import AsyncBoundMemory
from mnemon.engine.build import EmbedderChoice, Parts
from mnemon.engine.config import Config
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.models import LlmChoice

P = ParamSpec("P")
R = TypeVar("R")


async def _contained(work: Coroutine[Any, Any, R]) -> tuple[R | None, BaseException | None]:
    """What would end an event loop (Ctrl-C, sys.exit in a callback) is carried to the caller instead."""
    try:
        return await work, None
    except (KeyboardInterrupt, SystemExit) as stopped:
        return None, stopped


class _Loop:
    """One event loop in one thread, for as long as a memory is open."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mnemon", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        if self._loop.is_closed():
            work.close()
            raise InvalidArgument("this memory is closed", field="memory")
        future = asyncio.run_coroutine_threadsafe(_contained(work), self._loop)
        try:
            result, stopped = future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise
        if stopped is not None:
            raise stopped
        return cast(R, result)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _door(
    method: Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Memory, P], R]:
    @wraps(method)
    def call(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop.run(method(self._memory, *args, **kwargs))

    return call


def _bound_door(
    method: Callable[Concatenate[AsyncBoundMemory, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[BoundMemory, P], R]:
    @wraps(method)
    def call(self: BoundMemory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop.run(method(self._bound, *args, **kwargs))

    return call


class BoundMemory:
    """Memory bound to one person: the four message tools, with no way to name anybody else."""

    def __init__(self, loop: _Loop, bound: AsyncBoundMemory) -> None:
        self._loop = loop
        self._bound = bound
        self.scope = bound.scope

    messages_list = _bound_door(AsyncBoundMemory.messages_list)
    lexical_search = _bound_door(AsyncBoundMemory.lexical_search)
    semantic_search = _bound_door(AsyncBoundMemory.semantic_search)
    neighbors = _bound_door(AsyncBoundMemory.neighbors)
    attachment = _bound_door(AsyncBoundMemory.attachment)


class Memory:
    """Long-term memory in a folder. `Memory("./data")`; `":memory:"` for a test."""

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
        self._memory = AsyncMemory(
            place, llm=llm, embedder=embedder, config=config, clock=clock, for_rebuild=for_rebuild
        )
        self._loop = _Loop()

    @property
    def parts(self) -> Parts:
        return self._memory.parts

    session_write = _door(AsyncMemory.session_write)
    commit_session = _door(AsyncMemory.commit_session)
    retrieval = _door(AsyncMemory.retrieval)
    nodes = _door(AsyncMemory.nodes)
    node = _door(AsyncMemory.node)
    node_history = _door(AsyncMemory.node_history)
    move_node = _door(AsyncMemory.move_node)
    claims = _door(AsyncMemory.claims)
    claim = _door(AsyncMemory.claim)
    pending = _door(AsyncMemory.pending)
    confirm = _door(AsyncMemory.confirm)
    reject = _door(AsyncMemory.reject)
    correct = _door(AsyncMemory.correct)
    forget = _door(AsyncMemory.forget)
    sweep = _door(AsyncMemory.sweep)
    verify = _door(AsyncMemory.verify)
    repair = _door(AsyncMemory.repair)
    rebuild = _door(AsyncMemory.rebuild)
    export = _door(AsyncMemory.export)
    import_archive = _door(AsyncMemory.import_archive)
    run_jobs = _door(AsyncMemory.run_jobs)
    jobs = _door(AsyncMemory.jobs)
    retry_job = _door(AsyncMemory.retry_job)
    status = _door(AsyncMemory.status)

    def bind(
        self, tenant_id: str, user_id: str, product_id: str | None = None, group_id: str | None = None
    ) -> BoundMemory:
        """The message tools for one person: nothing they are asked can reach beyond this scope."""
        return BoundMemory(self._loop, self._memory.bind(tenant_id, user_id, product_id, group_id))

    def close(self) -> None:
        """Finish the job under way and let go of every file."""
        if not self._memory.closed:
            self._loop.run(self._memory.close())
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
