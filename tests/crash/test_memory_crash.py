"""The whole write path under SIGKILL: what was acknowledged is there once, verify passes, no job is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from forkserver import Forks
from memory_writer import words

from mnemon import AsyncMemory, Config, Scope
from mnemon.contracts.filters import Eq
from mnemon.contracts.scope import Owner, SessionKey

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("MNEMON_CRASH_KILLS", "64"))
SCOPE = Scope.of("t", "u")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks(Path(__file__).with_name("memory_writer.py"))
    yield made
    made.close()


class Trial:
    """One home that lives through many kills."""

    def __init__(self, forks: Forks, home: Path, queue: str) -> None:
        self._forks = forks
        self._home = home
        self._queue = queue
        self._said = home.with_suffix(".said")
        self._runs = 0
        self.acknowledged: dict[str, list[str]] = {}
        self.steps: set[str] = set()

    def kill(self, kill_at: str = "", lines: int | None = None, moment_s: float = 0.0) -> int:
        """Start a writer, let it die, and take down what it had acknowledged by then."""
        self._runs += 1
        self._said.unlink(missing_ok=True)
        task = {"home": str(self._home), "run": f"r{self._runs}", "kill_at": kill_at, "said": str(self._said)}
        pid = self._forks.start({**task, "queue": self._queue})
        if lines is not None:
            self._forks.kill(pid, self._said, lines, moment_s)
        ended = self._forks.wait()
        for line in self._said.read_text(encoding="utf-8").splitlines():
            verb, *rest = line.split()
            assert verb != "error", line
            if verb == "written":
                self.acknowledged.setdefault(rest[1], []).extend(rest[2:])
            elif verb == "step":
                self.steps.add(rest[0])
        return ended

    async def check(self, whole: bool) -> None:
        """After a restart: jobs are taken over and done, and everything acknowledged is there once."""
        config = Config(background_worker=False, queue_url=self._queue)
        async with AsyncMemory(self._home, embedder={"provider": "hash", "cache": False}, config=config) as memory:
            await memory.parts.queue.recover()
            await memory.run_jobs()
            stats = await memory.parts.queue.stats()
            assert (stats.pending, stats.claimed, stats.failed) == (0, 0, 0)
            for session, ids in self.acknowledged.items():
                await self._check_session(memory, session, ids)
            if whole:
                report = await memory.verify()
                assert report.defects == []
                assert [n for n in report.notes if n.kind.startswith("index")] == []

    async def _check_session(self, memory: AsyncMemory, session: str, ids: list[str]) -> None:
        key = SessionKey("t", Owner.user("u"), session)
        kept = [t.turn for t in await memory.parts.archive.read_turns(SCOPE, key)]
        assert all(t.text == words(t.turn_id) for t in kept)
        order = [t.turn_id for t in kept]
        assert len(order) == len(set(order))
        acknowledged = set(ids)
        assert [i for i in order if i in acknowledged] == ids
        page = await memory.parts.index.scroll(SCOPE, Eq("uri", key.uri), "position", 10_000)
        assert [e.fields["turn_id"] for e in page.entries if e.kind == "turn"] == order


@pytest.mark.parametrize("queue", ["fs", "sqlite"])
def test_a_kill_at_every_step(forks: Forks, tmp_path: Path, queue: str) -> None:
    scout = Trial(forks, tmp_path / "scout", queue)
    scout.kill(lines=150)
    steps = sorted(scout.steps)
    assert len(steps) >= 10
    trial = Trial(forks, tmp_path / "home", queue)
    for number, step in enumerate(steps):
        # A restart recovers once; everything else comes again and again.
        hits = (1,) if ".recover." in step else (1 + number % 3,) if KILLS < 300 else (1, 2, 5)
        for hit in hits:
            assert trial.kill(f"{step}:{hit}") == -signal.SIGKILL, step
        if number % 5 == 4:
            asyncio.run(trial.check(whole=False))
    asyncio.run(trial.check(whole=True))
    assert sum(map(len, trial.acknowledged.values())) > len(steps)


@pytest.mark.parametrize("queue", ["fs", "sqlite"])
def test_kills_at_random_times(forks: Forks, tmp_path: Path, queue: str) -> None:
    rng = random.Random(queue)
    trial = Trial(forks, tmp_path / "home0", queue)
    for number in range(KILLS // 2):
        assert trial.kill(lines=rng.randint(0, 40), moment_s=rng.uniform(0, 0.02)) == -signal.SIGKILL
        if number % 10 == 9:
            asyncio.run(trial.check(whole=True))
        if number % 40 == 39:
            trial = Trial(forks, tmp_path / f"home{number}", queue)
    asyncio.run(trial.check(whole=True))
