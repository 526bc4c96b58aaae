"""The same doors for programs without an event loop: written once, asynchronous, called through a background loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.ports import Clock
from mnemon.contracts.scope import Scope
from mnemon.engine.bound import AsyncBoundMemory
from mnemon.engine.build import EmbedderChoice
from mnemon.engine.cognitive import AsyncCognitive
from mnemon.engine.config import Config
from mnemon.engine.entries import AsyncEntries
from mnemon.engine.graph import AsyncGraphView
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.models import LlmChoice
from mnemon.engine.parts import Parts
from mnemon.pipelines.historian.alerting import Hook

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")


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

    def each(self, begin: Callable[[], AsyncGenerator[R, None]]) -> Iterator[R]:
        """One after the other, as they come; who stops early ends the work behind them."""

        async def begun() -> AsyncGenerator[R, None]:
            return begin()

        return self._following(self.run(begun()))

    def _following(self, items: AsyncGenerator[R, None]) -> Iterator[R]:
        try:
            while found := self.run(_next(items)):
                yield found[0]
        finally:
            if not self._loop.is_closed():
                self.run(_close(items))

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next(items: AsyncGenerator[R, None]) -> tuple[R, ...]:
    """The next one, or none."""
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return ()


async def _close(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()


def _door(
    method: Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Memory, P], R]:
    @wraps(method)
    def call(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop.run(method(self._memory, *args, **kwargs))

    return call


def _stream(
    method: Callable[Concatenate[AsyncMemory, P], AsyncGenerator[R, None]],
) -> Callable[Concatenate[Memory, P], Iterator[R]]:
    @wraps(method)
    def call(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return self._loop.each(lambda: method(self._memory, *args, **kwargs))

    return call


class _Bound(Generic[D]):
    """A door bound to one person."""

    def __init__(self, loop: _Loop, door: D, scope: Scope) -> None:
        self._loop = loop
        self._door = door
        self.scope = scope


def _bound_door(
    method: Callable[Concatenate[D, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[_Bound[D], P], R]:
    @wraps(method)
    def call(self: _Bound[D], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop.run(method(self._door, *args, **kwargs))

    return call


class BoundMemory(_Bound[AsyncBoundMemory]):
    """Memory bound to one person: the four message tools, with no way to name anybody else."""

    messages_list = _bound_door(AsyncBoundMemory.messages_list)
    lexical_search = _bound_door(AsyncBoundMemory.lexical_search)
    semantic_search = _bound_door(AsyncBoundMemory.semantic_search)
    neighbors = _bound_door(AsyncBoundMemory.neighbors)
    attachment = _bound_door(AsyncBoundMemory.attachment)


class GraphView(_Bound[AsyncGraphView]):
    """Everything is asked and told within the scope; `since` and `start` count, `until` and `end` do not."""

    upsert = _bound_door(AsyncGraphView.upsert)
    events = _bound_door(AsyncGraphView.events)
    event = _bound_door(AsyncGraphView.event)
    entities = _bound_door(AsyncGraphView.entities)
    resolve = _bound_door(AsyncGraphView.resolve)
    timeline = _bound_door(AsyncGraphView.timeline)
    evidences = _bound_door(AsyncGraphView.evidences)
    timeslices = _bound_door(AsyncGraphView.timeslices)
    explain_event = _bound_door(AsyncGraphView.explain_event)
    explain_knowledge = _bound_door(AsyncGraphView.explain_knowledge)
    states_current = _bound_door(AsyncGraphView.states_current)
    states_at = _bound_door(AsyncGraphView.states_at)
    states_changes = _bound_door(AsyncGraphView.states_changes)
    pending_equivs = _bound_door(AsyncGraphView.pending_equivs)
    approve = _bound_door(AsyncGraphView.approve)
    reject = _bound_door(AsyncGraphView.reject)


class BoundEntries(_Bound[AsyncEntries]):
    """Entries within one scope, with no way to name anybody beyond it."""

    write = _bound_door(AsyncEntries.write)
    search = _bound_door(AsyncEntries.search)
    update = _bound_door(AsyncEntries.update)
    delete = _bound_door(AsyncEntries.delete)
    rollback = _bound_door(AsyncEntries.rollback)
    history = _bound_door(AsyncEntries.history)


class Cognitive(_Bound[AsyncCognitive]):
    """The chat tools of one person or one group: nothing they are asked can reach beyond it. In a group only what
    belongs to the group is seen, unless `include_private` was asked for."""

    context = _bound_door(AsyncCognitive.context)
    search_events = _bound_door(AsyncCognitive.search_events)
    get_profile = _bound_door(AsyncCognitive.get_profile)
    search_profiles = _bound_door(AsyncCognitive.search_profiles)
    profile_history = _bound_door(AsyncCognitive.profile_history)
    profile_diff = _bound_door(AsyncCognitive.profile_diff)
    rollback_profile = _bound_door(AsyncCognitive.rollback_profile)


@dataclass(frozen=True, slots=True)
class BoundDoors:
    """The bound doors of one scope: nothing they are asked can reach beyond it."""

    messages: BoundMemory
    entries: BoundEntries
    graph: GraphView


class Memory:
    """Long-term memory. `Memory("./data")`; `":memory:"` for a test; `Memory("http://host:8700", token=…)` for one that
    a Memory Service keeps."""

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
        self._memory = AsyncMemory(
            place,
            llm=llm,
            embedder=embedder,
            config=config,
            clock=clock,
            for_rebuild=for_rebuild,
            token=token,
            signing_secret=signing_secret,
            auth_headers=auth_headers,
            timeout_s=timeout_s,
        )
        self._loop = _Loop()

    @property
    def parts(self) -> Parts:
        return self._memory.parts

    session_write = _door(AsyncMemory.session_write)
    commit_session = _door(AsyncMemory.commit_session)
    retrieval = _door(AsyncMemory.retrieval)
    recall = _door(AsyncMemory.recall)
    recall_rounds = _stream(AsyncMemory.recall_rounds)
    write = _door(AsyncMemory.write)
    search = _door(AsyncMemory.search)
    update = _door(AsyncMemory.update)
    delete = _door(AsyncMemory.delete)
    rollback = _door(AsyncMemory.rollback)
    history = _door(AsyncMemory.history)
    nodes = _door(AsyncMemory.nodes)
    node = _door(AsyncMemory.node)
    node_history = _door(AsyncMemory.node_history)
    move_node = _door(AsyncMemory.move_node)
    relations = _door(AsyncMemory.relations)
    relate = _door(AsyncMemory.relate)
    unrelate = _door(AsyncMemory.unrelate)
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
    start_worker = _door(AsyncMemory.start_worker)
    jobs = _door(AsyncMemory.jobs)
    job = _door(AsyncMemory.job)
    job_stats = _door(AsyncMemory.job_stats)
    retry_job = _door(AsyncMemory.retry_job)
    retry_jobs = _door(AsyncMemory.retry_jobs)
    status = _door(AsyncMemory.status)

    end = _door(AsyncMemory.end)
    chat_context = _door(AsyncMemory.chat_context)
    search_events = _door(AsyncMemory.search_events)
    get_profile = _door(AsyncMemory.get_profile)
    search_profiles = _door(AsyncMemory.search_profiles)
    profile_history = _door(AsyncMemory.profile_history)
    profile_diff = _door(AsyncMemory.profile_diff)
    rollback_profile = _door(AsyncMemory.rollback_profile)
    import_end_summaries = _door(AsyncMemory.import_end_summaries)

    def on_alert(self, hook: Hook) -> None:
        """Be told what a person should know: a function, or a coroutine function. It is called where jobs are done, in
        the loop of this memory; the same kind of alert comes again after `cognitive.alerts.repeat_seconds`."""
        self._memory.on_alert(hook)

    def cognitive(
        self, tenant_id: str, user_id: str | None, group_id: str | None = None, *, include_private: bool = False
    ) -> Cognitive:
        """The chat tools for one chat: a person's, or, with `group_id`, a group's."""
        door = self._memory.cognitive(tenant_id, user_id, group_id, include_private=include_private)
        return Cognitive(self._loop, door, door.scope)

    def bind(
        self, tenant_id: str, user_id: str, product_id: str | None = None, group_id: str | None = None
    ) -> BoundMemory:
        """The message tools for one person: nothing they are asked can reach beyond this scope."""
        bound = self._memory.bind(tenant_id, user_id, product_id, group_id)
        return BoundMemory(self._loop, bound, bound.scope)

    graph_upsert = _door(AsyncMemory.graph_upsert)

    def graph(
        self,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> GraphView:
        """The temporal graph for one person: nothing it is asked can reach beyond this scope."""
        view = self._memory.graph(tenant_id, user_id, product_id, group_id, agent_id)
        return GraphView(self._loop, view, view.scope)

    def doors(self, scope: Scope) -> BoundDoors:
        """Everything a scope may do, for a surface that has one of its own."""
        doors = self._memory.doors(scope)
        return BoundDoors(
            BoundMemory(self._loop, doors.messages, scope),
            BoundEntries(self._loop, doors.entries, scope),
            GraphView(self._loop, doors.graph, scope),
        )

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
