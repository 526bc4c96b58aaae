"""The queue contract, on every queue driver."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from queue_sharer import open_queue

from mnemon.contracts.jobs import JobStatus
from mnemon.drivers.queue.fs import FsQueue, waiting
from mnemon.drivers.queue.sqlite import SqliteQueue
from mnemon.testing.clock import FixedClock
from mnemon.testing.queue_suite import FAILED_KEPT, QueueContract, QueueFactory, ids, job

OPTIONS: dict[str, Any] = {"backoff_s": 1, "backoff_cap_s": 8, "failed_kept": FAILED_KEPT}


class TestFsQueue(QueueContract):
    @pytest.fixture
    def queue_factory(self, tmp_path: Path, clock: FixedClock) -> QueueFactory:
        return lambda: FsQueue(tmp_path / "queue", clock, **OPTIONS)


class TestSqliteQueue(QueueContract):
    @pytest.fixture
    def queue_factory(self, tmp_path: Path, clock: FixedClock) -> QueueFactory:
        return lambda: SqliteQueue(tmp_path / "queue.db", clock, **OPTIONS)


async def test_a_spoiled_file_does_not_stop_the_others(
    tmp_path: Path, clock: FixedClock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = FsQueue(tmp_path, clock)
    await queue.put([job("a"), job("b")])
    spoiled = min((tmp_path / "pending").iterdir())
    spoiled.write_text("{half")
    assert ids(await queue.claim("w")) == ["b"]
    assert "cannot be read" in caplog.text
    assert await queue.list(JobStatus.PENDING) == []
    assert await queue.damaged() == (str(spoiled),)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


async def test_a_long_queue_is_not_a_slow_queue(tmp_path: Path, clock: FixedClock) -> None:
    """Put does not look at the other jobs. Work is counted, not time: a busy machine may let anybody wait."""
    queue = FsQueue(tmp_path, clock)

    async def put_p50(prefix: str) -> float:
        times = []
        for n in range(60):
            start = time.process_time()
            await queue.put([job(f"{prefix}{n}")])
            times.append(time.process_time() - start)
        return statistics.median(times)

    empty = await put_p50("warm")
    empty = min(empty, await put_p50("empty"))
    for n in range(3000):
        (tmp_path / "pending" / f"{n + 1000:012d}.-.x{n}.json").touch()
    full = min(await put_p50("full"), await put_p50("again"))
    assert full < 4 * empty + 0.001


async def test_a_job_moved_by_hand_is_found(tmp_path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LOOK_AGAIN_S", 0.0)
    queue = FsQueue(tmp_path, clock)
    await queue.put([job("a"), job("b")])
    await queue.claim("w")
    await queue.fail("a", "no", retryable=False)
    (failed,) = (tmp_path / "failed").iterdir()
    failed.rename(tmp_path / "pending" / failed.name)
    assert ids(await queue.claim("w")) == ["a"]


async def test_a_long_log_of_arrivals_begins_anew(
    tmp_path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_LOG_LIMIT", 300)
    queue, other = FsQueue(tmp_path, clock), FsQueue(tmp_path, clock)
    taken: list[str] = []
    for n in range(40):
        await other.put([job(f"j{n}", lane=f"l{n % 3}")])
        if n % 5 == 0:
            for item in await queue.claim("w"):
                taken.append(item.job_id)
                await queue.done(item.job_id)
    while left := await queue.claim("w"):
        for item in left:
            taken.append(item.job_id)
            await queue.done(item.job_id)
    for lane in range(3):
        mine = [name for name in taken if int(name[1:]) % 3 == lane]
        assert mine == [f"j{n}" for n in range(lane, 40, 3)]
    assert (tmp_path / "arrivals.log").stat().st_size < 400


async def test_a_log_that_is_lost_or_cut_off_costs_nothing_but_a_look(tmp_path: Path, clock: FixedClock) -> None:
    queue, other = FsQueue(tmp_path, clock), FsQueue(tmp_path, clock)
    await queue.put([job("a"), job("b")])
    assert ids(await queue.claim("w", limit=1)) == ["a"]
    with (tmp_path / "arrivals.log").open("a") as log:
        log.write("\n000000000003.-.cut o")
    await other.put([job("c")])
    assert ids(await queue.claim("w")) == ["b", "c"]
    (tmp_path / "arrivals.log").unlink()
    await other.put([job("d")])
    assert ids(await queue.claim("w")) == ["d"]


async def test_a_forgotten_job_leaves_no_name_behind(tmp_path: Path, clock: FixedClock) -> None:
    queue = FsQueue(tmp_path, clock, failed_kept=0)
    await queue.put([job(f"lin-{n}", payload={"user": "lin"}) for n in range(3)])
    await queue.claim("w", limit=2)
    await queue.fail("lin-0", "x", retryable=False)
    assert await queue.drop("t1", {"user": "lin"}) == 3
    left = [path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()]
    assert not [path for path in left if "lin" in path.name or (path.is_file() and b"lin" in path.read_bytes())]


async def test_what_a_crash_left_half_done_is_cleared_away(tmp_path: Path, clock: FixedClock) -> None:
    def killed(step: str) -> None:
        if step == "queue.put.after_holder":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await FsQueue(tmp_path, clock, step=killed).put([job("a")], claim_by="w")
    queue = FsQueue(tmp_path, clock)
    await queue.put([job("b")], claim_by="w")
    assert len(list((tmp_path / "holders").iterdir())) == 2
    assert await queue.recover() == 0
    assert [path.name for path in (tmp_path / "holders").iterdir()] == ["000000000002.-.b.json"]
    assert list((tmp_path / "tmp").iterdir()) == []
    assert await queue.put([job("a")]) == 1


async def test_a_lost_link_is_made_again_by_the_claimer(tmp_path: Path, clock: FixedClock) -> None:
    queue = FsQueue(tmp_path, clock)
    await queue.put([job("a")])
    (tmp_path / "ids" / "a").unlink()
    assert ids(await queue.claim("w")) == ["a"]
    await queue.done("a")
    assert await queue.list() == []


async def test_a_job_that_a_crash_left_in_both_places_is_set_aside_once(tmp_path: Path, clock: FixedClock) -> None:
    def killed(step: str) -> None:
        if step == "queue.aside.after_add":
            raise KeyboardInterrupt

    queue = FsQueue(tmp_path, clock, failed_kept=0, step=killed)
    await queue.put([job("a"), job("b")])
    await queue.claim("w")
    with pytest.raises(KeyboardInterrupt):
        await queue.fail("b", "x", retryable=False)
    again = FsQueue(tmp_path, clock, failed_kept=0)
    assert ids(await again.list(JobStatus.FAILED)) == ids(await again.set_aside()) == ["b"]
    await again.fail("a", "x", retryable=False)
    assert ids(await again.list()) == []
    assert ids(await again.set_aside()) == ["b", "a"]


async def test_a_line_that_a_full_disk_cut_off_spoils_no_other(
    tmp_path: Path, clock: FixedClock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = FsQueue(tmp_path, clock, failed_kept=0)
    await queue.put([job("a"), job("b")])
    await queue.claim("w")
    await queue.fail("a", "x", retryable=False)
    with (tmp_path / "failed.jsonl").open("a") as file:
        file.write('{"job_id":"c')
    await queue.fail("b", "x", retryable=False)
    assert ids(await queue.set_aside()) == ["a", "b"]
    assert "cannot be read" in caplog.text


def work_off_together(driver: str, root: Path, count: int) -> list[str]:
    """Several processes at once; what was taken, in the order in which it was taken."""
    command = [sys.executable, str(Path(__file__).with_name("queue_sharer.py")), driver, str(root)]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=60)
        assert child.returncode == 0
    return (root / "taken").read_text().splitlines()


@pytest.mark.parametrize("driver", ["fs", "sqlite"])
async def test_processes_never_take_the_same_job_and_keep_the_lanes(driver: str, tmp_path: Path) -> None:
    queue = open_queue(driver, tmp_path)
    await queue.put([job(f"{lane}{n:02d}", lane=lane.strip()) for n in range(30) for lane in "abcd "])
    taken = work_off_together(driver, tmp_path, 3)
    assert len(taken) == len(set(taken)) == 150
    for lane in "abcd":
        assert [name for name in taken if name.startswith(lane)] == [f"{lane}{n:02d}" for n in range(30)]
    assert await queue.list() == []
    await queue.close()
