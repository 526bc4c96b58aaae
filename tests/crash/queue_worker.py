"""A process that puts, claims, finishes and fails jobs, saying each thing it has done, until it is killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mnemon.contracts.errors import NotFound
from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.ports import Queue
from mnemon.drivers.liveness import worker_id
from mnemon.drivers.queue.fs import FsQueue
from mnemon.drivers.queue.sqlite import SqliteQueue


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def open_queue(driver: str, root: Path, step: Callable[[str], None]) -> Queue:
    options: dict[str, Any] = {"backoff_s": 0.01, "backoff_cap_s": 0.05, "failed_kept": 2, "step": step}
    if driver == "fs":
        return FsQueue(root / "queue", SystemClock(), **options)
    return SqliteQueue(root / "queue.db", SystemClock(), **options)


def killer(step: str, hit: int) -> Callable[[str], None]:
    left = hit

    def on_step(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return on_step


def say(*words: str) -> None:
    # One write a line: a kill cannot leave half of one.
    os.write(1, (" ".join(words) + "\n").encode())


async def work(driver: str, root: Path, run: str, step: str, hit: int, alone: bool) -> None:
    chance = random.Random(run)
    queue = open_queue(driver, root, killer(step, hit))
    worker = worker_id()
    say("ready")
    await queue.recover()
    for number in range(10_000):
        names = [f"{run}-{number}-{n}" for n in range(chance.choice((1, 1, 3)))]
        jobs = [
            Job(job_id=name, kind=JobKind.INDEX, tenant_id="t", lane=chance.choice(("", "l1", "l2")), max_retries=10**6)
            for name in names
        ]
        as_claimed = chance.random() < 0.2
        say("putting", *names)
        await queue.put(jobs, claim_by=worker if as_claimed else None)
        say("put", *names)
        if alone or as_claimed:  # else somebody may have finished it, and putting it once more is a new job
            await queue.put(jobs)
        claimed = await queue.claim(worker, limit=3)
        say("claimed", *(job.job_id for job in claimed))
        for job_id in [*(job.job_id for job in claimed), *(names if as_claimed else ())]:
            if chance.random() < 0.1:
                await queue.release(job_id)
            elif chance.random() < 0.3:
                failed = await queue.fail(job_id, "by chance", retryable=chance.random() < 0.7)
                if failed.status == "failed" and chance.random() < 0.7:
                    with suppress(NotFound):  # set aside
                        await queue.retry(job_id)
            else:
                say("finishing", job_id)
                await queue.done(job_id)
                say("finished", job_id)
        if chance.random() < 0.2:
            lost = [f"{run}-{number}-lost{n}" for n in range(2)]
            say("putting", *lost)
            await queue.put(
                [Job(job_id=name, kind=JobKind.INDEX, tenant_id="t", max_retries=10**6) for name in lost],
                claim_by="a worker whose lease is over",
                lease=timedelta(0),
            )
            say("put", *lost)
            await queue.recover()


if __name__ == "__main__":
    asyncio.run(
        work(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6] == "alone")
    )
