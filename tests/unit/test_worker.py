"""The worker: leases are kept, lanes keep their order, what cannot be mended is not tried again, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config
from mnemon.contracts.entries import EmbeddingVector
from mnemon.contracts.errors import (
    Busy,
    Conflict,
    EmbedderFailed,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    SpanMismatch,
    VersionConflict,
)
from mnemon.contracts.jobs import Job, JobKind, JobStatus, Settled
from mnemon.contracts.ports import Queue
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.queue.fs import FsQueue
from mnemon.pipelines.index import worker as workers
from mnemon.pipelines.index.worker import Handler, Worker
from mnemon.testing.clock import FixedClock
from mnemon.testing.queue_suite import ids, job

QUIET = Config(background_worker=False)


class SlowEmbedder(HashEmbedder):
    """Takes longer than the lease it is given."""

    async def embed_texts(self, texts: Sequence[str], purpose: Any = "document") -> list[EmbeddingVector]:
        await asyncio.sleep(1.2 * workers.LEASE.total_seconds())
        return await super().embed_texts(texts, purpose)


def turns(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "text": text} for text in texts]


@pytest.mark.parametrize("wait", ["indexed", "archived"])
async def test_a_long_job_keeps_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: Any) -> None:
    # Renewed at a third of it: two seconds and more in which a busy machine may do something else.
    monkeypatch.setattr(workers, "LEASE", timedelta(seconds=3))
    monkeypatch.setattr("mnemon.pipelines.write.session.LEASE", timedelta(seconds=3))
    async with AsyncMemory(tmp_path, embedder=SlowEmbedder(), config=QUIET) as memory:
        writing = asyncio.create_task(
            memory.session_write("t", "u", "s", turns=turns("花生"), extract=False, wait=wait)
        )
        if wait == "archived":
            await writing
            writing = asyncio.create_task(memory.run_jobs())
        taken = 0
        while not writing.done():
            taken += await memory.parts.queue.recover()
            await asyncio.sleep(0.02)
        await writing
        assert taken == 0
        assert await memory.jobs() == []
        assert (await memory.bind("t", "u").lexical_search("花生")).items


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
async def queue(tmp_path: Path, clock: FixedClock) -> AsyncIterator[FsQueue]:
    queue = FsQueue(tmp_path / "queue", clock, backoff_s=1, backoff_cap_s=8)
    yield queue
    await queue.close()


def does(work: Callable[[Job], Awaitable[None]]) -> dict[JobKind, Handler]:
    return {JobKind.INDEX: work}


async def nothing(_: Job) -> None:
    return None


def raises(error: Exception) -> dict[JobKind, Handler]:
    async def fail(_: Job) -> None:
        raise error

    return does(fail)


async def run_until_settled(queue: Queue, handlers: Mapping[JobKind, Handler], count: int, hands: int) -> list[Settled]:
    """Let a worker run until so many tries have ended."""
    settled: list[Settled] = []

    def hear(one: Settled) -> None:
        settled.append(one)
        if len(settled) == count:
            worker.stop()

    worker = Worker(queue, handlers, "w", concurrency=hands, on_settled=hear)
    await asyncio.wait_for(worker.run(0.01), 20)
    return settled


async def test_a_queue_that_is_away_does_not_end_the_worker(queue: FsQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    await queue.put([job("a")])
    claim, recover, calls = queue.claim, queue.recover, 0

    async def sometimes(*args: Any) -> list[Job]:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise Busy
        return await claim(*args)

    async def rarely() -> int:
        if calls < 3:
            raise OSError("no disk")
        return await recover()

    monkeypatch.setattr(queue, "claim", sometimes)
    monkeypatch.setattr(queue, "recover", rarely)
    (settled,) = await run_until_settled(queue, does(nothing), 1, hands=4)
    assert calls >= 3
    assert settled.outcome == "done"


async def test_stale_jobs_are_taken_over_at_the_start(queue: FsQueue) -> None:
    await queue.put([job("stale"), job("fresh")])
    await queue.claim("somebody who is gone", limit=1, lease=timedelta(0))
    settled = await run_until_settled(queue, does(nothing), 2, hands=1)
    assert [s.job_id for s in settled] == ["stale", "fresh"]
    assert await queue.list() == []


async def test_a_kind_nobody_does_here_waits_unharmed(queue: FsQueue) -> None:
    await queue.put([Job("other", JobKind.MOVE, "t", lane="l", max_retries=0), job("later", lane="l"), job("mine")])
    result = await Worker(queue, does(nothing), "w").run_once()
    assert (result.claimed, result.succeeded, result.failed) == (1, 1, 0)
    waiting = await queue.list(JobStatus.PENDING)
    assert [(item.job_id, item.attempts, item.lost) for item in waiting] == [("other", 0, 0), ("later", 0, 0)]


@pytest.mark.parametrize("once", [True, False])
async def test_lanes_run_side_by_side_and_each_in_order(queue: FsQueue, once: bool) -> None:
    await queue.put([job(f"{lane}{n}", lane=lane) for n in range(4) for lane in "abcdef"])
    running: set[str] = set()
    most = 0
    order: dict[str, list[str]] = {lane: [] for lane in "abcdef"}

    async def work(item: Job) -> None:
        nonlocal most
        assert item.lane not in running
        running.add(item.lane)
        most = max(most, len(running))
        await asyncio.sleep(0.001)
        order[item.lane].append(item.job_id)
        running.remove(item.lane)

    if once:
        worker = Worker(queue, does(work), "w", concurrency=3)
        while (await worker.run_once()).claimed:
            pass
    else:
        await run_until_settled(queue, does(work), 24, hands=3)
    assert order == {lane: [f"{lane}{n}" for n in range(4)] for lane in "abcdef"}
    assert most == 3
    assert await queue.list() == []


async def test_a_long_job_keeps_only_its_own_lane_waiting(queue: FsQueue) -> None:
    await queue.put([job("long", lane="a"), job("after", lane="a"), *(job(f"b{n}", lane="b") for n in range(5))])
    gate = asyncio.Event()

    async def work(item: Job) -> None:
        if item.job_id == "long":
            await gate.wait()
        elif item.job_id == "b4":
            gate.set()

    settled = [s.job_id for s in await run_until_settled(queue, does(work), 7, hands=2)]
    assert settled[:4] == [f"b{n}" for n in range(4)]
    assert settled.index("long") < settled.index("after")


@pytest.mark.parametrize(
    "error",
    [InvalidArgument(), Conflict(), PermissionDenied(), NotFound(), SpanMismatch()],
    ids=lambda error: type(error).__name__,
)
async def test_what_trying_again_cannot_mend_fails_at_once(queue: FsQueue, error: Exception) -> None:
    await queue.put([job("a", max_retries=5)])
    assert (await Worker(queue, raises(error), "w").run_once()).failed == 1
    (failed,) = await queue.list(JobStatus.FAILED)
    assert failed.attempts == 1
    assert str(failed.error).startswith(type(error).__name__)


@pytest.mark.parametrize("error", [VersionConflict(), EmbedderFailed(), Busy(), OSError("disk full"), KeyError("x")])
async def test_other_errors_are_tried_again_later_each_time(
    queue: FsQueue, clock: FixedClock, error: Exception
) -> None:
    await queue.put([job("a", max_retries=2)])
    settled: list[Settled] = []
    worker = Worker(queue, raises(error), "w", on_settled=settled.append)
    waits: list[float] = []
    for _ in range(2):
        assert (await worker.run_once()).failed == 1
        assert (await worker.run_once()).claimed == 0
        (waiting,) = await queue.list(JobStatus.PENDING)
        assert waiting.not_before is not None
        waits.append((waiting.not_before - clock.now()).total_seconds())
        clock.tick(seconds=waits[-1])
    await worker.run_once()
    assert [0.75 * full <= wait <= full for wait, full in zip(waits, (1, 2), strict=True)] == [True, True]
    assert [(s.outcome, s.attempts) for s in settled] == [("retry", 1), ("retry", 2), ("failed", 3)]
    assert ids(await queue.list(JobStatus.FAILED)) == ["a"]


async def test_whoever_counts_hears_how_each_try_ended(queue: FsQueue, clock: FixedClock) -> None:
    await queue.put([job("good", tenant_id="t7"), job("bad")])
    clock.tick(seconds=40)

    async def work(item: Job) -> None:
        if item.job_id == "bad":
            raise InvalidArgument("no chat")

    settled: list[Settled] = []
    worker = Worker(queue, does(work), "w", concurrency=1, on_settled=settled.append)
    while (await worker.run_once()).claimed:
        pass
    good, bad = settled
    assert (good.job_id, good.kind, good.tenant_id, good.outcome) == ("good", JobKind.INDEX, "t7", "done")
    assert (good.attempts, good.waited_s, good.error) == (0, 40.0, None)
    assert (bad.outcome, bad.attempts, bad.error) == ("failed", 1, "InvalidArgument: no chat")
    assert all(s.seconds >= 0 for s in settled)


async def test_a_hook_that_breaks_harms_no_job(queue: FsQueue, caplog: pytest.LogCaptureFixture) -> None:
    await queue.put([job("a"), job("b")])

    def broken(_: Settled) -> None:
        raise RuntimeError("the counter is full")

    assert (await Worker(queue, does(nothing), "w", on_settled=broken).run_once()).succeeded == 2
    assert await queue.list() == []
    assert "the counter is full" in caplog.text


async def test_a_job_dropped_while_it_is_done_is_no_error(queue: FsQueue) -> None:
    await queue.put([job("a", payload={"user": "u"})])

    async def dropped(item: Job) -> None:
        await queue.drop(item.tenant_id, {"user": "u"})
        raise EmbedderFailed

    settled: list[Settled] = []
    assert (await Worker(queue, does(dropped), "w", on_settled=settled.append).run_once()).failed == 1
    assert settled == []
    assert await queue.list() == []


async def test_stopping_finishes_what_is_under_way(queue: FsQueue) -> None:
    await queue.put([job("a"), job("b"), job("c")])
    begun, gate = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def work(item: Job) -> None:
        begun.set()
        await gate.wait()
        done.append(item.job_id)

    worker = Worker(queue, does(work), "w", concurrency=2)
    running = asyncio.create_task(worker.run(0.01))
    async with asyncio.timeout(20):
        await begun.wait()
        worker.stop()
        gate.set()
        await running
    assert done == ["a", "b"]
    assert ids(await queue.list()) == ["c"]


async def test_the_queue_of_a_memory_is_worked_off_after_a_crash(tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        await memory.session_write("t", "u", "s", turns=turns("花生"), extract=False, wait="archived")
        parts = memory.parts
        assert len(await parts.queue.claim("somebody", lease=timedelta(0))) == 1
        await run_until_settled(parts.queue, parts.handlers, 1, hands=4)
        assert (await memory.bind("t", "u").lexical_search("花生")).items
