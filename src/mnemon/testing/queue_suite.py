"""What every queue must do, as tests: subclass `QueueContract` and give it a `queue_factory`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mnemon.contracts.errors import InvalidArgument, NotFound
from mnemon.contracts.jobs import Job, JobKind, JobStatus
from mnemon.contracts.ports import Queue
from mnemon.drivers.liveness import is_dead, worker_id
from mnemon.testing.clock import FixedClock

QueueFactory = Callable[[], Queue]

FAILED_KEPT = 30

ODD_IDS = (
    "a/b",
    "a:b",
    "..",
    ".",
    "../../etc/passwd",
    "用户:张三/会话",
    "emoji-😀",
    "Case",
    "case",
    "CASE",
    "x" * 2000,
    "x" * 2000 + "y",
    "线" * 700,
    "sp ace",
    "tab\tnew\nline",
    "con",
    "nul",
    "a.json",
    "a%2Fb",
    "a~2fb",
    "\"quote'",
)


def job(name: str, **values: Any) -> Job:
    return Job(job_id=name, **{"kind": JobKind.INDEX, "tenant_id": "t1", **values})


def ids(jobs: list[Job]) -> list[str]:
    return [item.job_id for item in jobs]


class QueueContract:
    """`queue_factory()` opens the same queue again each time; back-off is 1 s doubling up to 8 s, and `FAILED_KEPT`
    failed jobs are kept."""

    @pytest.fixture
    def clock(self) -> FixedClock:
        return FixedClock()

    @pytest.fixture
    def queue_factory(self, clock: FixedClock) -> QueueFactory:
        raise NotImplementedError("a contract test says how its queue is opened")

    @pytest.fixture
    def live_worker(self) -> str:
        return worker_id()

    @pytest.fixture
    def dead_worker(self) -> str:
        code = "from mnemon.drivers.liveness import worker_id; print(worker_id())"
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()

    async def test_jobs_come_out_in_the_order_they_were_put(self, queue_factory: QueueFactory) -> None:
        queue = queue_factory()
        names = [f"j{(i * 7) % 30}" for i in range(30)]
        assert await queue.put([job(n) for n in names[:10]]) == 10
        for name in names[10:]:
            await queue.put([job(name)])
        assert ids(await queue.claim("w", limit=4)) == names[:4]
        assert ids(await queue.claim("w", limit=100)) == names[4:]
        assert await queue.claim("w") == []
        await queue.close()

    async def test_a_job_comes_back_as_it_was_put(self, queue_factory: QueueFactory, clock: FixedClock) -> None:
        queue = queue_factory()
        payload = {"uri": "a/b", "n": 3, "deep": {"list": [1, None, "字", "half \ud83d"]}}
        await queue.put([job("j", payload=payload, lane="l", max_retries=7)])
        assert await queue.get("j") == job("j", payload=payload, lane="l", max_retries=7, created_at=clock.now())
        (claimed,) = await queue.claim("w", lease=timedelta(seconds=90))
        assert claimed == replace(
            job("j", payload=payload, lane="l", max_retries=7, created_at=clock.now()),
            status=JobStatus.CLAIMED,
            claimed_by="w",
            lease_until=clock.now() + timedelta(seconds=90),
        )
        assert await queue.get("j") == claimed
        assert await queue.get("nobody") is None
        await queue.close()

    async def test_put_is_idempotent_in_every_state(self, queue_factory: QueueFactory) -> None:
        queue = queue_factory()
        assert await queue.put([job("a"), job("a"), job("b")]) == 2
        assert await queue.put([job("a", payload={"other": 1})]) == 0
        await queue.claim("w", limit=1)
        assert await queue.put([job("a")]) == 0
        await queue.fail("a", "broken", retryable=False)
        assert await queue.put([job("a")]) == 0
        failed = await queue.get("a")
        assert failed is not None
        assert (failed.status, failed.payload) == (JobStatus.FAILED, {})
        assert (await queue.stats()).pending == 1
        await queue.close()

    async def test_a_job_that_is_done_is_gone_and_may_be_put_again(self, queue_factory: QueueFactory) -> None:
        queue = queue_factory()
        await queue.put([job("a")])
        await queue.claim("w")
        await queue.done("a")
        await queue.done("a")
        assert await queue.get("a") is None
        assert await queue.list() == []
        assert await queue.put([job("a")]) == 1
        assert ids(await queue.claim("w")) == ["a"]
        await queue.close()

    async def test_many_claimers_share_without_overlap(self, queue_factory: QueueFactory) -> None:
        queues = [queue_factory() for _ in range(4)]
        await queues[0].put([job(f"j{i}") for i in range(120)])

        async def work(n: int) -> list[str]:
            got: list[str] = []
            while taken := await queues[n % 4].claim(f"w{n}", limit=7):
                got += ids(taken)
            return got

        taken = await asyncio.gather(*(work(n) for n in range(12)))
        everything = [name for part in taken for name in part]
        assert len(everything) == 120
        assert set(everything) == {f"j{i}" for i in range(120)}
        for queue in queues:
            await queue.close()

    async def test_concurrent_puts_of_one_job_store_it_once(self, queue_factory: QueueFactory) -> None:
        queues = [queue_factory() for _ in range(4)]
        counts = await asyncio.gather(*(queues[n % 4].put([job("same"), job(f"own{n}")]) for n in range(12)))
        assert sum(counts) == 13
        assert (await queues[0].stats()).pending == 13
        for queue in queues:
            await queue.close()

    async def test_a_lease_that_is_over_gives_the_job_back(
        self, queue_factory: QueueFactory, clock: FixedClock
    ) -> None:
        queue = queue_factory()
        await queue.put([job("a")])
        await queue.claim("w1", lease=timedelta(seconds=10))
        clock.tick(seconds=9)
        assert await queue.recover() == 0
        clock.tick(seconds=1)
        assert await queue.recover() == 1
        (again,) = await queue.claim("w2")
        assert (again.job_id, again.lost, again.claimed_by) == ("a", 1, "w2")
        await queue.done("a")
        await queue.close()

    async def test_renewing_keeps_a_claim(self, queue_factory: QueueFactory, clock: FixedClock) -> None:
        queue = queue_factory()
        await queue.put([job("a")])
        await queue.claim("w1", lease=timedelta(seconds=10))
        clock.tick(seconds=9)
        assert await queue.renew("a", "w1", timedelta(seconds=10))
        assert not await queue.renew("a", "w2", timedelta(seconds=10))
        assert not await queue.renew("nobody", "w1", timedelta(seconds=10))
        clock.tick(seconds=9)
        assert await queue.recover() == 0
        clock.tick(seconds=1)
        assert await queue.recover() == 1
        assert not await queue.renew("a", "w1", timedelta(seconds=10))
        await queue.close()

    async def test_a_job_given_back_is_due_at_once_and_no_try_is_counted(
        self, queue_factory: QueueFactory, clock: FixedClock
    ) -> None:
        queue = queue_factory()
        await queue.put([job("a", lane="l", max_retries=0), job("b", lane="l")])
        await queue.claim("w")
        await queue.release("a")
        back = await queue.get("a")
        assert back == job("a", lane="l", max_retries=0, created_at=clock.now())
        assert ids(await queue.claim("w2")) == ["a"]
        await queue.fail("a", "x")
        await queue.release("a")
        await queue.release("nobody")
        assert ids(await queue.list(JobStatus.FAILED)) == ["a"]
        assert ids(await queue.claim("w2")) == ["b"]
        await queue.close()

    async def test_failures_wait_longer_each_time_and_then_end(
        self, queue_factory: QueueFactory, clock: FixedClock
    ) -> None:
        queue = queue_factory()
        await queue.put([job("a", max_retries=5)])
        waits: list[float] = []
        for attempt in range(1, 6):
            assert ids(await queue.claim("w")) == ["a"]
            back = await queue.fail("a", f"try {attempt}")
            assert (back.status, back.attempts, back.error) == (JobStatus.PENDING, attempt, f"try {attempt}")
            assert back.claimed_by is None
            assert back.lease_until is None
            assert back.not_before is not None
            waits.append((back.not_before - clock.now()).total_seconds())
            assert await queue.get("a") == back
            clock.tick(seconds=waits[-1] - 0.001)
            assert await queue.claim("w") == []
            clock.tick(seconds=0.002)
        assert all(0.75 * full <= wait <= full for wait, full in zip(waits, (1, 2, 4, 8, 8), strict=True))
        assert ids(await queue.claim("w")) == ["a"]
        last = await queue.fail("a", "try 6")
        assert (last.status, last.attempts, last.not_before) == (JobStatus.FAILED, 6, None)
        clock.tick(days=1)
        assert await queue.claim("w") == []
        await queue.close()

    async def test_failed_jobs_are_listed_and_can_be_tried_again(
        self, queue_factory: QueueFactory, clock: FixedClock
    ) -> None:
        queue = queue_factory()
        await queue.put([job("a"), job("b"), job("c")])
        await queue.claim("w", limit=2)
        await queue.fail("b", "no use", retryable=False)
        await queue.fail("a", "no use either", retryable=False)
        assert ids(await queue.list(JobStatus.FAILED)) == ["a", "b"]
        assert ids(await queue.list(JobStatus.FAILED, limit=1)) == ["a"]
        assert ids(await queue.list(JobStatus.PENDING)) == ["c"]
        assert ids(await queue.list()) == ["a", "b", "c"]
        again = await queue.retry("b")
        assert (again.status, again.attempts, again.error, again.not_before) == (JobStatus.PENDING, 0, None, None)
        assert ids(await queue.claim("w")) == ["b", "c"]
        assert ids(await queue.list(JobStatus.CLAIMED)) == ["b", "c"]
        assert (await queue.retry("c")).status is JobStatus.CLAIMED
        await queue.close()

    async def test_unknown_jobs_and_empty_ids_are_refused(self, queue_factory: QueueFactory) -> None:
        queue = queue_factory()
        with pytest.raises(NotFound):
            await queue.fail("nobody", "x")
        with pytest.raises(NotFound):
            await queue.retry("nobody")
        with pytest.raises(InvalidArgument):
            await queue.put([job("")])
        with pytest.raises(InvalidArgument):
            await queue.put([job("half \ud83d")])
        assert await queue.put([]) == 0
        await queue.close()

    async def test_a_failure_that_comes_too_late_is_not_counted_twice(
        self, queue_factory: QueueFactory, clock: FixedClock
    ) -> None:
        queue = queue_factory()
        await queue.put([job("a")])
        await queue.claim("w", lease=timedelta(seconds=1))
        clock.tick(seconds=2)
        await queue.recover()
        late = await queue.fail("a", "late")
        assert (late.status, late.attempts, late.lost) == (JobStatus.PENDING, 0, 1)
        await queue.done("a")
        assert await queue.list() == []
        await queue.close()

    async def test_jobs_of_dead_processes_come_back_before_their_lease_is_over(
        self, queue_factory: QueueFactory, dead_worker: str, live_worker: str
    ) -> None:
        host, pid, token = live_worker.rsplit(":", 2)
        assert not is_dead(live_worker)
        assert is_dead(dead_worker)
        assert not is_dead(f"elsewhere:{pid}:{token}")
        assert not is_dead("free text")
        assert not is_dead(f"{host}:{pid}:-")
        if len(token) > 1:  # this system tells when a process started, so a pid that is used again is another worker
            assert is_dead(f"{host}:{pid}:{token}0")
        queue = queue_factory()
        await queue.put([job("a"), job("b"), job("c")])
        await queue.claim(dead_worker, limit=1)
        await queue.claim(live_worker, limit=1)
        await queue.claim("somebody else's name", limit=1)
        assert await queue.recover() == 1
        assert ids(await queue.list(JobStatus.PENDING)) == ["a"]
        await queue.close()

    async def test_a_job_that_kills_its_workers_takes_no_other_with_it_and_is_tried_more_and_more_rarely(
        self, queue_factory: QueueFactory, clock: FixedClock
    ) -> None:
        queue = queue_factory()
        await queue.put([job(name) for name in ("a", "poison", "b")])
        deaths, gaps, died_at = 0, [], clock.now()
        while deaths < 20:
            claimed = ids(await queue.claim("w", limit=2, lease=timedelta(seconds=1)))
            if deaths:
                assert len(claimed) < 2 or "poison" not in claimed, "whoever died with a worker comes alone"
            if "poison" not in claimed:
                for name in claimed:
                    await queue.done(name)
                clock.tick(seconds=0 if claimed else 1)
                continue
            if deaths:
                gaps.append((clock.now() - died_at).total_seconds())
            clock.tick(seconds=2)
            assert await queue.recover() == len(claimed)
            deaths, died_at = deaths + 1, clock.now()
            if deaths < 3:
                await queue.put([job(f"later {deaths}")])
        (left,) = await queue.list()
        assert (left.job_id, left.status, left.attempts, left.lost) == ("poison", JobStatus.PENDING, 0, 20)
        assert left.error
        assert gaps[0] <= 1
        assert 1800 < gaps[-1] <= 3601, "at most once an hour in the end, and never given up"
        assert (await queue.stats()).suspected == 1
        await queue.close()

    async def test_what_awaits_a_model_waits_for_somebody_who_has_one(
        self, queue_factory: QueueFactory, clock: FixedClock
    ) -> None:
        queue = queue_factory()
        await queue.put([job("a"), job("b")])
        for _ in range(2):
            assert "a" in ids(await queue.claim("poor", limit=2))
            waits = await queue.wait("a", "no model", "model")
            assert (waits.status, waits.attempts, waits.awaits, waits.error) == (
                JobStatus.PENDING, 0, "model", "no model",
            )  # fmt: skip
            assert (await queue.stats()).awaiting_model == 1
            await queue.done("b")
            assert await queue.claim("poor") == []
            assert ids(await queue.claim("rich", offers=("model",))) == ["a"]
            await queue.wait("a", "not this one", "model", timedelta(seconds=30))
            assert await queue.claim("rich", offers=("model",)) == []
            clock.tick(seconds=31)
            assert ids(await queue.claim("rich", offers=("model",))) == ["a"]
            await queue.release("a")
            assert await queue.take(job("a"), "foreground"), "somebody who calls again takes it over"
            await queue.release("a")
            assert (await queue.stats()).awaiting_model == 0
        await queue.close()

    async def test_put_as_claimed(self, queue_factory: QueueFactory, clock: FixedClock) -> None:
        queue = queue_factory()
        assert await queue.put([job("a"), job("b")], claim_by="me", lease=timedelta(seconds=5)) == 2
        assert await queue.claim("w") == []
        mine = await queue.get("a")
        assert mine is not None
        assert (mine.status, mine.claimed_by) == (JobStatus.CLAIMED, "me")
        assert mine.lease_until == clock.now() + timedelta(seconds=5)
        assert await queue.renew("a", "me", timedelta(seconds=60))
        assert await queue.put([job("a")], claim_by="other") == 0
        clock.tick(seconds=6)
        assert await queue.recover() == 1
        assert ids(await queue.claim("w")) == ["b"]
        await queue.close()

    async def test_one_taker_holds_a_job_and_the_next_one_gets_it_when_it_is_free(
        self, queue_factory: QueueFactory, clock: FixedClock
    ) -> None:
        queue = queue_factory()
        lease = timedelta(minutes=5)
        assert await queue.take(job("one"), worker_id(), lease)
        assert not await queue.take(job("one"), worker_id(), lease), "held, also against oneself"
        assert await queue.claim("other") == []
        taken = await queue_factory().get("one")
        assert taken is not None
        assert (taken.status, taken.claimed_by) == (JobStatus.CLAIMED, worker_id())
        await queue.done("one")
        assert await queue.take(job("one"), worker_id(), lease)
        await queue.fail("one", "no luck")
        assert await queue.claim("other") == [], "it waits for its next try"
        assert await queue.take(job("one", payload={"again": True}), worker_id(), lease), "a taker does not wait"
        taken = await queue.get("one")
        assert taken is not None
        assert (taken.payload, taken.attempts) == ({"again": True}, 0)
        await queue.fail("one", "for good", retryable=False)
        assert await queue.take(job("one"), worker_id(), lease)
        clock.tick(minutes=10)
        assert await queue.take(job("one"), worker_id(), lease), "its lease is over"

    async def test_many_takers_of_one_job_take_turns(self, queue_factory: QueueFactory) -> None:
        queues = [queue_factory() for _ in range(4)]
        lease = timedelta(minutes=5)
        got = await asyncio.gather(*(q.take(job("one"), worker_id(), lease) for q in queues * 4))
        assert sum(got) == 1

    async def test_a_lane_yields_one_job_at_a_time(self, queue_factory: QueueFactory, clock: FixedClock) -> None:
        queue = queue_factory()
        await queue.put(
            [job("a1", lane="a"), job("b1", lane="b"), job("a2", lane="a"), job("free"), job("a3", lane="a")]
        )
        assert ids(await queue.claim("w")) == ["a1", "b1", "free"]
        assert await queue.claim("w") == []
        await queue.done("b1")
        assert await queue.claim("w") == []
        back = await queue.fail("a1", "later")
        assert await queue.claim("w") == []
        assert back.not_before is not None
        clock.tick(seconds=2)
        assert ids(await queue.claim("w")) == ["a1"]
        await queue.fail("a1", "never", retryable=False)
        assert ids(await queue.claim("w")) == ["a2"]
        await queue.retry("a1")
        assert await queue.claim("w") == []
        await queue.done("a2")
        assert ids(await queue.claim("w")) == ["a1"]
        await queue.done("a1")
        assert ids(await queue.claim("w")) == ["a3"]
        await queue.close()

    async def test_a_lane_waits_for_a_job_put_as_claimed(self, queue_factory: QueueFactory) -> None:
        queue = queue_factory()
        await queue.put([job("first", lane="a")])
        await queue.put([job("second", lane="a")], claim_by="me")
        assert await queue.claim("w") == []
        await queue.done("second")
        assert ids(await queue.claim("w")) == ["first"]
        await queue.close()

    async def test_concurrent_claimers_keep_lanes(self, queue_factory: QueueFactory) -> None:
        queues = [queue_factory() for _ in range(3)]
        await queues[0].put([job(f"{lane}{n:02d}", lane=lane) for n in range(8) for lane in "abc"])
        order: dict[str, list[str]] = {"a": [], "b": [], "c": []}
        running: set[str] = set()

        async def work(n: int) -> None:
            queue = queues[n % 3]
            while sum(map(len, order.values())) < 24:
                for item in await queue.claim(f"w{n}", limit=2):
                    assert item.lane not in running
                    running.add(item.lane)
                    order[item.lane].append(item.job_id)
                    await asyncio.sleep(0)
                    running.discard(item.lane)
                    await queue.done(item.job_id)

        await asyncio.wait_for(asyncio.gather(*(work(n) for n in range(6))), timeout=30)
        assert order == {lane: [f"{lane}{n:02d}" for n in range(8)] for lane in "abc"}
        for queue in queues:
            await queue.close()

    async def test_only_the_kinds_asked_for_are_claimed(self, queue_factory: QueueFactory) -> None:
        queue = queue_factory()
        await queue.put([job("m", kind=JobKind.MOVE), job("i"), job("e", kind=JobKind.END), job("i2")])
        assert await queue.claim("w", kinds=[JobKind.DIGEST]) == []
        assert await queue.claim("w", kinds=()) == []
        assert ids(await queue.claim("w", limit=1, kinds={JobKind.INDEX})) == ["i"]
        assert ids(await queue.claim("w", kinds=(JobKind.INDEX, JobKind.END))) == ["e", "i2"]
        left = await queue.get("m")
        assert left is not None
        assert (left.status, left.attempts, left.lost) == (JobStatus.PENDING, 0, 0)
        assert ids(await queue.claim("w", kinds=None)) == ["m"]
        await queue.close()

    async def test_a_lane_waits_for_its_first_job_whatever_its_kind(
        self, queue_factory: QueueFactory, clock: FixedClock
    ) -> None:
        queue, other = queue_factory(), queue_factory()
        await queue.put([job("e1", kind=JobKind.END, lane="a"), job("i2", lane="a"), job("i3", lane="b")])
        assert ids(await queue.claim("w", kinds=[JobKind.INDEX])) == ["i3"]
        assert await queue.claim("w", kinds=[JobKind.INDEX]) == []
        assert ids(await other.claim("w", kinds=[JobKind.END])) == ["e1"]
        assert await queue.claim("w", kinds=[JobKind.INDEX]) == []
        await other.fail("e1", "later")
        clock.tick(seconds=5)
        assert await queue.claim("w", kinds=[JobKind.INDEX]) == []
        assert ids(await other.claim("w", kinds=[JobKind.END])) == ["e1"]
        await other.done("e1")
        assert ids(await queue.claim("w", kinds=[JobKind.INDEX])) == ["i2"]
        await queue.close()
        await other.close()

    async def test_a_claimer_sees_at_once_what_others_bring_back(
        self, queue_factory: QueueFactory, clock: FixedClock
    ) -> None:
        queue, other = queue_factory(), queue_factory()
        await queue.put([job(f"a{n}", lane="a") for n in range(4)] + [job("b0", lane="b")])
        assert ids(await queue.claim("w")) == ["a0", "b0"]
        await other.put([job("c0", lane="c"), job("free")])
        await other.release("a0")
        await queue.done("b0")
        assert ids(await queue.claim("w")) == ["a0", "c0", "free"]
        await other.fail("a0", "no", retryable=False)
        assert ids(await queue.claim("w")) == ["a1"]
        await other.retry("a0")
        await queue.done("a1")
        assert ids(await queue.claim("w")) == ["a0"], "first come, first served, also after a retry"
        await other.fail("a0", "later")
        assert await queue.claim("w") == []
        clock.tick(seconds=2)
        assert ids(await other.claim("w")) == ["a0"]
        await other.done("a0")
        assert ids(await queue.claim("w")) == ["a2"]
        await queue.close()
        await other.close()

    async def test_jobs_are_listed_by_kind(self, queue_factory: QueueFactory) -> None:
        queue = queue_factory()
        await queue.put([job("i1"), job("e1", kind=JobKind.END), job("i2"), job("e2", kind=JobKind.END)])
        await queue.claim("w", limit=2)
        await queue.fail("e1", "x", retryable=False)
        assert ids(await queue.list(kinds=[JobKind.END])) == ["e1", "e2"]
        assert ids(await queue.list(limit=1, kinds=[JobKind.END])) == ["e1"]
        assert ids(await queue.list(JobStatus.PENDING, kinds=[JobKind.END])) == ["e2"]
        assert ids(await queue.list(JobStatus.FAILED, kinds=[JobKind.INDEX])) == []
        await queue.close()

    async def test_too_many_failed_jobs_are_set_aside_whole_and_oldest_first(
        self, queue_factory: QueueFactory, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue = queue_factory()
        names = [f"j{n}" for n in range(FAILED_KEPT + 3)]
        await queue.put([job(name, payload={"user": f"u{name}", "字": "half \ud83d"}) for name in names])
        await queue.claim("w", limit=1000)
        for name in reversed(names[:FAILED_KEPT]):
            await queue.fail(name, "no use", retryable=False)
        assert (await queue.stats()).set_aside == 0
        before = await queue.list(JobStatus.FAILED, limit=2)
        for name in names[FAILED_KEPT:]:
            await queue.fail(name, "no use", retryable=False)
        assert ids(await queue.list(JobStatus.FAILED)) == names[3:]
        assert ids(await queue.set_aside()) == names[:3]
        assert await queue.set_aside(limit=2) == before
        assert "j0" in caplog.text
        stats = await queue.stats()
        assert (stats.failed, stats.set_aside) == (FAILED_KEPT, 3)
        assert await queue.get("j0") is None
        assert await queue.put([job("j0")]) == 1, "what is set aside is not in the way"
        await queue.close()
        again = queue_factory()
        assert ids(await again.set_aside()) == names[:3]
        assert await again.drop("t1", {"user": "uj1"}) == 1
        assert ids(await again.set_aside()) == ["j0", "j2"]
        assert (await again.stats()).set_aside == 2
        await again.close()

    async def test_stats(self, queue_factory: QueueFactory, clock: FixedClock) -> None:
        queue = queue_factory()
        empty = await queue.stats()
        assert (empty.pending, empty.claimed, empty.failed, empty.oldest_pending_at) == (0, 0, 0, None)
        await queue.put([job("a"), job("b")])
        clock.tick(seconds=5)
        later = clock.now()
        await queue.put([job("c"), job("d")])
        await queue.claim("w", limit=2)
        await queue.fail("a", "x", retryable=False)
        full = await queue.stats()
        assert (full.pending, full.claimed, full.failed, full.oldest_pending_at) == (2, 1, 1, later)
        await queue.close()

    async def test_drop_removes_matching_jobs_in_every_state(self, queue_factory: QueueFactory) -> None:
        queue = queue_factory()
        mine = {"user": "u1"}
        await queue.put([job("failed", payload=mine), job("claimed", payload=mine | {"more": 1})])
        await queue.claim("w")
        await queue.fail("failed", "x", retryable=False)
        await queue.put(
            [
                job("pending", payload=mine),
                job("other user", payload={"user": "u2"}),
                job("no user"),
                job("other tenant", payload=mine, tenant_id="t2"),
                job("null", payload={"user": None}),
            ]
        )
        assert await queue.drop("t1", {"user": "u1"}) == 3
        assert ids(await queue.list()) == ["other user", "no user", "other tenant", "null"]
        assert await queue.drop("t1", {"user": "u1"}) == 0
        assert await queue.put([job("pending", payload=mine)]) == 1
        assert await queue.drop("t2", {}) == 1
        await queue.close()

    async def test_any_string_can_be_an_id(self, queue_factory: QueueFactory) -> None:
        queue = queue_factory()
        assert await queue.put([job(name, lane=name) for name in ODD_IDS]) == len(ODD_IDS)
        assert await queue.put([job(name) for name in ODD_IDS]) == 0
        assert ids(await queue.claim("w", limit=1000)) == list(ODD_IDS)
        for name in ODD_IDS[::2]:
            await queue.done(name)
        for name in ODD_IDS[1::2]:
            await queue.fail(name, "x", retryable=False)
        assert ids(await queue.list(JobStatus.FAILED)) == list(ODD_IDS[1::2])
        await queue.close()

    async def test_everything_is_there_after_reopening(self, queue_factory: QueueFactory) -> None:
        queue = queue_factory()
        await queue.put([job(f"j{i}") for i in range(6)])
        await queue.claim("w", limit=3)
        await queue.done("j0")
        await queue.fail("j1", "x", retryable=False)
        before = await queue.list()
        await queue.close()
        again = queue_factory()
        assert await again.list() == before
        await again.put([job("a-new-one")])
        assert ids(await again.claim("w")) == ["j3", "j4", "j5", "a-new-one"]
        await again.close()
