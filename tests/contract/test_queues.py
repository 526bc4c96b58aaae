"""The queue contract, on every queue driver."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pytest

from mnemon.contracts.errors import Corrupt
from mnemon.contracts.jobs import JobStatus
from mnemon.drivers.queue.fs import FsQueue
from mnemon.drivers.queue.sqlite import SqliteQueue
from mnemon.testing.clock import FixedClock
from mnemon.testing.queue_suite import QueueContract, QueueFactory, ids, job


class TestFsQueue(QueueContract):
    @pytest.fixture
    def queue_factory(self, tmp_path: Path, clock: FixedClock) -> QueueFactory:
        return lambda: FsQueue(tmp_path / "queue", clock, backoff_s=1, backoff_cap_s=8)


class TestSqliteQueue(QueueContract):
    @pytest.fixture
    def queue_factory(self, tmp_path: Path, clock: FixedClock) -> QueueFactory:
        return lambda: SqliteQueue(tmp_path / "queue.db", clock, backoff_s=1, backoff_cap_s=8)


async def test_a_spoiled_file_does_not_stop_the_others(
    tmp_path: Path, clock: FixedClock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = FsQueue(tmp_path, clock)
    await queue.put([job("a"), job("b")])
    spoiled = min((tmp_path / "pending").iterdir())
    spoiled.write_text("{half")
    os.utime(spoiled, (0, 0))
    assert ids(await queue.claim("w")) == ["b"]
    assert "cannot be read" in caplog.text
    with pytest.raises(Corrupt):
        await queue.list(JobStatus.PENDING)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


async def test_a_long_queue_is_not_a_slow_queue(tmp_path: Path, clock: FixedClock) -> None:
    """Put does not look at the other jobs. The bound is loose: this machine does other things too."""
    queue = FsQueue(tmp_path, clock)

    async def put_p50(prefix: str) -> float:
        times = []
        for n in range(60):
            start = time.perf_counter()
            await queue.put([job(f"{prefix}{n}")])
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    empty = await put_p50("warm")
    empty = min(empty, await put_p50("empty"))
    for n in range(3000):
        (tmp_path / "pending" / f"{n + 1000:012d}.-.x{n}.json").touch()
    full = min(await put_p50("full"), await put_p50("again"))
    assert full < 4 * empty + 0.001
