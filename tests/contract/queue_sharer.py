"""A process that works off a queue together with others, and writes down what it took before it is done with it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mnemon.contracts.ports import Queue
from mnemon.drivers.liveness import worker_id
from mnemon.drivers.queue.fs import FsQueue
from mnemon.drivers.queue.sqlite import SqliteQueue
from mnemon.testing.clock import FixedClock


def open_queue(driver: str, root: Path) -> Queue:
    clock = FixedClock()
    return FsQueue(root / "queue", clock) if driver == "fs" else SqliteQueue(root / "queue.db", clock)


async def share(driver: str, root: Path) -> None:
    queue = open_queue(driver, root)
    taken = os.open(root / "taken", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    print("ready", flush=True)
    sys.stdin.readline()
    while (await queue.stats()).pending:
        for job in await queue.claim(worker_id(), limit=3):
            os.write(taken, f"{job.job_id}\n".encode())
            await queue.done(job.job_id)
    await queue.close()


if __name__ == "__main__":
    asyncio.run(share(sys.argv[1], Path(sys.argv[2])))
