"""What handing over a job costs, also while many wait and a worker is busy. `python benchmarks/jobs.py`"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.ports import Queue
from mnemon.drivers.liveness import worker_id
from mnemon.drivers.queue.fs import FsQueue
from mnemon.drivers.queue.sqlite import SqliteQueue
from mnemon.engine.clock import SystemClock
from report import alternate, beside, crash_safe_write, milliseconds, p50, p95, table, verdict

LIMIT_MS = 5.0
LIMIT_RATIO = 10.0
# Less than a job of any kind takes; what else it writes is its own matter.
JOB_S = 0.005
PAYLOAD = {"action_summary": "帮林小满查了周六的天气", "new_info": "林小满周六要去青城山爬山", "chat": "x" * 200}


def open_queue(driver: str, home: Path) -> Queue:
    return FsQueue(home, SystemClock()) if driver == "fs" else SqliteQueue(home / "queue.db", SystemClock())


def job(name: str, lane: str) -> Job:
    return Job(name, JobKind.DIGEST, "bench", PAYLOAD, lane=lane)


async def fill(queue: Queue, count: int, lanes: int) -> None:
    for start in range(0, count, 1000):
        numbers = range(start, min(start + 1000, count))
        await queue.put([job(f"wait-{n}", f"lane-{n % lanes}") for n in numbers])


async def work(driver: str, home: Path, job_s: float) -> None:
    """Claim and finish, with some thinking in between, until killed."""
    queue = open_queue(driver, home)
    print("ready", flush=True)
    while True:
        for taken in await queue.claim(worker_id(), 10):
            begun = time.perf_counter()
            while time.perf_counter() - begun < job_s:
                pass
            await queue.done(taken.job_id)


async def put_times(driver: str, home: Path, waiting: int, lanes: int, job_s: float | None, rounds: int) -> list[str]:
    queue = open_queue(driver, home)
    await fill(queue, waiting, lanes)
    content = b"x" * 600
    folder = home / "bare"
    folder.mkdir()

    async def bare(i: int) -> None:
        crash_safe_write(folder, str(i), content)

    async def ours(i: int) -> None:
        await queue.put([job(f"new-{i}", f"lane-{i % lanes}")])

    await queue.put([job("first", "")])
    worker = (__file__, "--work", driver, "--dir", str(home), "--job-s", str(job_s))
    with nullcontext() if job_s is None else beside(*worker):
        base, mine = await alternate(rounds, bare, ours)
    done = waiting + rounds + 1 - (await queue.stats()).pending
    await queue.close()
    figures = [milliseconds(t) for t in (p50(base), p95(base), p50(mine), p95(mine))]
    if job_s != 0:  # flat out, the disk is the worker's, and there is only the ratio to judge by
        figures[-1] += f" (≤ {LIMIT_MS:g}) {'ok' if p95(mine) * 1000 <= LIMIT_MS else 'MISSED'}"
    busy = "none" if job_s is None else f"{job_s * 1000:g} ms a job, {done / sum(base + mine):.0f} jobs/s"
    return [driver, f"{waiting:,}", f"{lanes:,}", busy, *figures, verdict(p95(mine) / p95(base), LIMIT_RATIO)]


async def rate(driver: str, home: Path, waiting: int, lanes: int, count: int) -> list[str]:
    """One job after another, as a worker with one pair of hands does them, and ten at a time."""
    queue = open_queue(driver, home)
    await fill(queue, waiting, lanes)
    found = [driver, f"{waiting:,}", f"{lanes:,}"]
    for limit in (1, 10):
        begun = time.perf_counter()
        done = 0
        while done < count:
            for taken in await queue.claim(worker_id(), limit):
                await queue.done(taken.job_id)
                done += 1
        found.append(f"{done / (time.perf_counter() - begun):,.0f}")
    await queue.close()
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--drivers", nargs="+", default=["fs", "sqlite"], choices=["fs", "sqlite"])
    parser.add_argument("--dir", type=Path, help="a folder on the disk to measure; default: the current one")
    parser.add_argument("--job-s", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--work", choices=["fs", "sqlite"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        await work(options.work, options.dir, options.job_s)
        return
    with tempfile.TemporaryDirectory(dir=options.dir or Path.cwd(), prefix="mnemon-bench-") as folder:
        homes = (Path(folder) / str(n) for n in itertools.count())
        puts, rates = [], []
        for driver in options.drivers:
            for waiting, lanes, job_s in (
                (0, 50, None),
                (options.waiting, 500, None),
                (options.waiting, 500, JOB_S),
                (options.waiting, 1, JOB_S),
                (options.waiting, 500, 0.0),
            ):
                home = next(homes)
                home.mkdir()
                puts.append(await put_times(driver, home, waiting, lanes, job_s, options.rounds))
            for lanes in (1, 500):
                home = next(homes)
                home.mkdir()
                rates.append(await rate(driver, home, options.waiting, lanes, options.rounds))
        columns = [
            "queue",
            "waiting",
            "lanes",
            "worker",
            "bare p50 ms",
            "bare p95 ms",
            "put p50 ms",
            "put p95 ms",
            "p95 to p95",
        ]
        table("Putting one job, next to one crash-safe file write", columns, puts)
        columns = ["queue", "waiting", "lanes", "one at a time, jobs/s", "ten at a time, jobs/s"]
        table("Claiming and finishing", columns, rates)


if __name__ == "__main__":
    asyncio.run(main())
