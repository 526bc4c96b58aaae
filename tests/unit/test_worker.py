"""The worker: leases are kept while work lasts, a queue that is away is waited for, and stopping finishes the round."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config
from mnemon.contracts.entries import EmbeddingVector
from mnemon.contracts.errors import Busy
from mnemon.contracts.jobs import Job, JobKind
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.pipelines.index import worker as workers
from mnemon.pipelines.index.worker import Worker

QUIET = Config(background_worker=False)


class SlowEmbedder(HashEmbedder):
    async def embed_texts(self, texts: Sequence[str], purpose: Any = "document") -> list[EmbeddingVector]:
        await asyncio.sleep(2.5)
        return await super().embed_texts(texts, purpose)


def turns(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "text": text} for text in texts]


@pytest.mark.parametrize("wait", ["indexed", "archived"])
async def test_a_long_job_keeps_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: Any) -> None:
    monkeypatch.setattr(workers, "LEASE", timedelta(seconds=1))
    monkeypatch.setattr("mnemon.pipelines.write.session.LEASE", timedelta(seconds=1))
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


async def test_a_queue_that_is_away_does_not_end_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncMemory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        await memory.session_write("t", "u", "s", turns=turns("花生"), extract=False, wait="archived")
        queue, calls = memory.parts.queue, 0
        claim = queue.claim

        async def sometimes(*args: Any) -> list[Job]:
            nonlocal calls
            calls += 1
            if calls < 3:
                raise Busy
            return await claim(*args)

        monkeypatch.setattr(queue, "claim", sometimes)
        worker = Worker(queue, memory.parts.handlers, "w")
        running = asyncio.create_task(worker.run(0.01, on_round=lambda _: worker.stop()))
        await asyncio.wait_for(running, 5)
        assert calls >= 3
        assert (await memory.bind("t", "u").lexical_search("花生")).items


async def test_jobs_of_a_dead_worker_are_taken_over(tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        await memory.session_write("t", "u", "s", turns=turns("花生"), extract=False, wait="archived")
        queue = memory.parts.queue
        assert len(await queue.claim("somebody", lease=timedelta(0))) == 1
        worker = Worker(queue, memory.parts.handlers, "w")
        await asyncio.wait_for(worker.run(0.01, on_round=lambda _: worker.stop()), 5)
        assert (await memory.bind("t", "u").lexical_search("花生")).items


async def test_a_job_nobody_knows_is_listed_as_failed(tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        await memory.parts.queue.put([Job("x", JobKind.MOVE, "t", max_retries=0)])
        assert (await Worker(memory.parts.queue, {}, "w").run_once()).failed == 1
        (job,) = await memory.jobs("failed")
        assert "move" in str(job.error)
