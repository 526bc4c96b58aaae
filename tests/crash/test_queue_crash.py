"""Queues under `kill -9`: nothing acknowledged is lost, nothing finished comes back, nothing is there twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mnemon.contracts.jobs import Job, JobStatus
from mnemon.contracts.ports import Queue
from mnemon.drivers.queue import fs, sqlite

WORKER = Path(__file__).with_name("queue_worker.py")
STEPS = {"fs": fs.STEPS, "sqlite": sqlite.STEPS}
KILLS = int(os.environ.get("MNEMON_CRASH_KILLS", "30"))
LONGEST_RUN_S = 120.0


class LaterClock:
    """An hour ahead: every back-off is over."""

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(hours=1)


def open_later(driver: str, root: Path) -> Queue:
    if driver == "fs":
        return fs.FsQueue(root / "queue", LaterClock())
    return sqlite.SqliteQueue(root / "queue.db", LaterClock())


@dataclass
class Said:
    """What the workers acknowledged before they died."""

    put: set[str] = field(default_factory=set)
    putting: set[str] = field(default_factory=set)
    finishing: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    back_from_the_dead: set[str] = field(default_factory=set)

    def hear(self, *at_once: str) -> None:
        """Processes that ran at once: nobody knows whose words came first, only what was finished before both."""
        before = frozenset(self.finished)
        for output in at_once:
            own: set[str] = set()
            for line in output.splitlines():
                verb, *names = line.split(" ")
                if verb == "claimed":
                    self.back_from_the_dead |= (before | own) & set(names)
                    continue
                getattr(self, verb).update(names)
                if verb == "finished":
                    own.update(names)


def start(driver: str, root: Path, run: str, step: str, hit: int, company: str) -> subprocess.Popen[bytes]:
    """A worker that is past its imports. Unbuffered: what a buffer read ahead would be lost to `communicate`."""
    args = [sys.executable, str(WORKER), driver, str(root), run, step, str(hit), company]
    child = subprocess.Popen(args, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def last_words(child: subprocess.Popen[bytes], first: str = "") -> str:
    try:
        output, _ = child.communicate(timeout=LONGEST_RUN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    assert child.returncode == -signal.SIGKILL
    return first + output.decode()


def kill_after(child: subprocess.Popen[bytes], lines: int) -> str:
    """What it said until it was killed, some time after so many lines: a slow machine gets as far as a fast one."""
    assert child.stdout is not None
    said = b"".join(child.stdout.readline() for _ in range(lines))
    child.kill()
    return said.decode()


def run_until_killed(driver: str, root: Path, run: str, step: str, hit: int, lines: int) -> str:
    child = start(driver, root, run, step, hit, "alone")
    return last_words(child, "" if step else kill_after(child, lines))


def run_two(driver: str, root: Path, run: str, lines: int) -> list[str]:
    pair = [start(driver, root, f"{who}{run}", "", 1, "shared") for who in "ab"]
    heard = [kill_after(child, wait) for child, wait in zip(pair, (lines, 20), strict=True)]
    return [last_words(child, first) for child, first in zip(pair, heard, strict=True)]


async def check(driver: str, root: Path, said: Said) -> None:
    queue = open_later(driver, root)
    await queue.recover()
    listed = [job.job_id for job in await queue.list(limit=10**6)]
    assert len(listed) == len(set(listed)), "a job is there twice"
    there = set(listed)
    aside = {job.job_id for job in await queue.set_aside(10**6)}
    assert said.put - said.finishing <= there | aside, "an acknowledged job is lost"
    assert not said.finished & there, "a finished job came back"
    assert not said.back_from_the_dead, "a finished job was claimed again"
    assert there <= said.putting, "a job nobody put"
    assert not await queue.list(JobStatus.CLAIMED), "a dead worker keeps its jobs"
    stats = await queue.stats()
    assert stats.pending + stats.failed == len(listed)
    await queue.close()


async def drain(driver: str, root: Path) -> None:
    """What is left can be claimed, each job once, each lane in its order."""
    queue = open_later(driver, root)
    for job in await queue.list(JobStatus.FAILED, limit=10**6):
        await queue.retry(job.job_id)
    expected = await queue.list(limit=10**6)
    got: list[Job] = []
    while taken := await queue.claim("drain", limit=50):
        for job in taken:
            got.append(job)
            await queue.done(job.job_id)
    assert sorted(job.job_id for job in got) == sorted(job.job_id for job in expected)
    for lane in {job.lane for job in expected} - {""}:
        assert [j.job_id for j in got if j.lane == lane] == [j.job_id for j in expected if j.lane == lane]
    assert await queue.list() == []
    await queue.close()


@pytest.mark.crash
@pytest.mark.parametrize("driver", ["fs", "sqlite"])
async def test_killed_at_every_step_and_at_random_times(driver: str, tmp_path: Path) -> None:
    chance = random.Random(20260101)
    said = Said()
    steps = STEPS[driver]
    kills = max(KILLS // 2, len(steps))
    for n in range(kills):
        step = steps[n] if n < len(steps) else ""
        hit = chance.randint(1, 3)
        lines = chance.randint(0, 60)
        said.hear(run_until_killed(driver, tmp_path, f"r{n}", step, hit, lines))
        await check(driver, tmp_path, said)
    assert said.put
    assert said.finished
    await drain(driver, tmp_path)


@pytest.mark.crash
@pytest.mark.parametrize("driver", ["fs", "sqlite"])
async def test_two_processes_at_once_and_one_is_killed(driver: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    said = Said()
    for n in range(max(KILLS // 20, 1)):
        said.hear(*run_two(driver, tmp_path, str(n), chance.randint(10, 60)))
        await check(driver, tmp_path, said)
    await drain(driver, tmp_path)
