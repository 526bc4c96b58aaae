"""The whole write path under SIGKILL: what was acknowledged is there once, found, and made a memory of where that was
asked for, whoever reads meanwhile without a model and whatever becomes of the queue."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))

from forkserver import Forks
from memory_writer import drink, words

from mnemon import AsyncMemory, Config, Scope
from mnemon.contracts.filters import Eq
from mnemon.contracts.scope import Owner, SessionKey
from mnemon.surfaces.cli import cli

pytestmark = pytest.mark.crash

LONG = bool(os.environ.get("MNEMON_LONG"))
KILLS = int(os.environ.get("MNEMON_CRASH_KILLS", "1000" if LONG else "40"))
READS = 100 if KILLS >= 300 else 6
SCOPE = Scope.of("t", "u")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks(Path(__file__).with_name("memory_writer.py"))
    yield made
    made.close()


class Trial:
    """One home that lives through many kills."""

    def __init__(self, forks: Forks, home: Path, queue: str, known: float = 0.4) -> None:
        """`known` is the share of writes from which memories are asked for."""
        self._forks = forks
        self._home = home
        self._queue = queue
        self._share = known
        self._said = home.with_suffix(".said")
        self._runs = 0
        self.acknowledged: dict[str, list[str]] = {}
        self.known: set[tuple[str, str]] = set()
        self.steps: set[str] = set()

    def kill(self, kill_at: str = "", lines: int | None = None, moment_s: float = 0.0) -> int:
        """Start a writer, let it die, and take down what it had acknowledged by then."""
        self._runs += 1
        self._said.unlink(missing_ok=True)
        task = {"home": str(self._home), "run": f"r{self._runs}", "kill_at": kill_at, "said": str(self._said)}
        pid = self._forks.start({**task, "queue": self._queue, "known": self._share})
        if lines is not None:
            self._forks.kill(pid, self._said, lines, moment_s)
        ended = self._forks.wait()
        for line in self._said.read_text(encoding="utf-8").splitlines():
            verb, *rest = line.split()
            assert verb != "error", line
            if verb == "written":
                self.acknowledged.setdefault(rest[1], []).extend(rest[2:])
                self.known |= {(rest[1], turn_id) for turn_id in rest[2:] if rest[0] == "known"}
            elif verb == "step":
                self.steps.add(rest[0])
        return ended

    async def check(self, whole: bool) -> None:
        """After a restart: jobs are taken over and done, and everything acknowledged is there once."""
        config = Config(background_worker=False, queue_url=self._queue)
        embedder = {"provider": "hash", "cache": False}
        async with AsyncMemory(self._home, llm="rules", embedder=embedder, config=config) as memory:
            await memory.parts.queue.recover()
            await memory.run_jobs()
            stats = await memory.parts.queue.stats()
            assert (stats.pending, stats.claimed, stats.failed) == (0, 0, 0)
            for session, ids in self.acknowledged.items():
                await self._check_session(memory, session, ids)
            if whole:
                await self._check_found(memory)
                report = await memory.verify()
                assert report.defects == []
                assert [n for n in report.notes if n.kind.startswith("index")] == []

    async def _check_found(self, memory: AsyncMemory) -> None:
        """Every turn by its word and by its meaning, and a claim for every one that was to be remembered."""
        bound = memory.bind("t", "u")
        for session, ids in self.acknowledged.items():
            key = SessionKey("t", Owner.user("u"), session)
            claims = await memory.parts.archive.read_claims(SCOPE, key)
            cited = {turn_id for claim in claims for turn_id in claim.source_turn_ids}
            assert {i for i in ids if (session, i) in self.known} <= cited, session
            shown = {claim.claim_id for claim in (await memory.claims("t", "u", session_id=session, limit=500)).items}
            assert {claim.claim_id for claim in claims if claim.state == "active"} <= shown
            for turn_id in ids:
                (hit,) = (await bound.lexical_search(drink(turn_id))).items
                assert hit.message.content == words(turn_id)
                alike = await bound.semantic_search(words(turn_id), filter={"session_id": session}, top_k=5)
                assert words(turn_id) in {found.message.content for found in alike}

    def read(self, number: int) -> None:
        """A command that only reads, without a model."""
        who = ("--tenant", "t", "--user", "u")
        reads = (
            ("messages", "list", *who),
            ("messages", "lexical", "tea", *who),
            ("claims", "list", *who),
            ("retrieve", "what do I like?", *who),
            ("status",),
            ("jobs", "list"),
        )
        self._command(*reads[number % len(reads)])

    def lose_the_queue(self) -> None:
        for path in [*self._home.glob("queue.db*"), *self._home.glob("queue")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def repair(self) -> None:
        self._command("repair", "--llm", "rules")

    def _command(self, *arguments: str) -> None:
        place = ("--home", str(self._home), "--embedder", "hash")
        result = CliRunner().invoke(cli, [*arguments, *place], env={"MNEMON_QUEUE_URL": self._queue})
        assert result.exit_code == 0, result.output

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
    # What happens on the way to memories has a story of its own: see test_pipeline_crash.
    scout = Trial(forks, tmp_path / "scout", queue, known=0.0)
    scout.kill(lines=150)
    steps = sorted(scout.steps)
    assert len(steps) >= 10
    trial = Trial(forks, tmp_path / "home", queue, known=0.0)
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
    """With commands that read and have no model in between, and at the end of each home a queue that is lost: one
    repair makes good whatever was acknowledged. All of it with MNEMON_LONG=1."""
    rng = random.Random(queue)
    kills, trial = KILLS // 2, Trial(forks, tmp_path / "home0", queue)
    for number in range(kills):
        assert trial.kill(lines=rng.randint(0, 40), moment_s=rng.uniform(0, 0.02)) == -signal.SIGKILL
        if rng.random() < READS / 2 / kills:
            trial.read(rng.randrange(100))
        if number % 20 == 19 or number == kills - 1:
            trial.lose_the_queue()
            trial.repair()
            asyncio.run(trial.check(whole=True))
            trial = Trial(forks, tmp_path / f"home{number}", queue)
