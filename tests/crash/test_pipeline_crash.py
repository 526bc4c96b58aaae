"""The whole pipeline under SIGKILL at every step: after a restart and a retry archive and graph are those of an
undisturbed run, apart from times, versions and salts."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from forkserver import Forks
from pipeline_writer import STORY, SUPERSEDING
from steady import graph_of, steady

from mnemon import AsyncMemory, Config, Scope

pytestmark = pytest.mark.crash

LONG = bool(os.environ.get("MNEMON_LONG"))
KILLS = int(os.environ.get("MNEMON_CRASH_KILLS", "32"))
STEWARD = Scope.steward_of("t")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks(Path(__file__).with_name("pipeline_writer.py"))
    yield made
    made.close()


class Life:
    """One home, killed as often as asked, and brought to the end of its story."""

    def __init__(self, forks: Forks, home: Path, queue: str = "fs", story: str = "life") -> None:
        self.forks = forks
        self.story = story
        self.home = home
        self._queue = queue
        self._said = home.with_suffix(".said")
        self.begin = 0
        self.total = 0
        self.steps: list[str] = []

    def live(self, kill_at: str = "", lines: int | None = None, moment_s: float = 0.0, end: int | None = None) -> int:
        self._said.unlink(missing_ok=True)
        task = {"home": str(self.home), "begin": self.begin, "kill_at": kill_at, "said": str(self._said)}
        pid = self.forks.start({**task, "queue": self._queue, "story": self.story, "end": end})
        if lines is not None:
            self.forks.kill(pid, self._said, lines, moment_s)
        ended = self.forks.wait()
        for line in self._said.read_text(encoding="utf-8").splitlines() if self._said.exists() else []:
            verb, *rest = line.split(maxsplit=1)
            assert verb != "error", line
            if verb == "done":
                self.begin = int(rest[0]) + 1
            elif verb == "step":
                self.steps.append(rest[0])
            elif verb == "total":
                self.total = int(rest[0])
        return ended

    def memory(self) -> dict[str, Any]:
        """The archive and the graph as data, without what may differ."""
        return {"graph": asyncio.run(self._proven()), "archive": self._archive()}

    def _archive(self) -> dict[str, Any]:
        root = self.home / "tenants"
        paths = [p for p in sorted(root.rglob("*")) if p.is_file() and not p.name.startswith(".tmp-")]
        files = {str(p.relative_to(root)): _plain(p) for p in paths if not {"revisions", "ledger"} & {*p.parts}}
        # To overwrite a session twice, because nobody knew that the first time had succeeded, is one more commit that
        # changes nothing.
        return {
            name: body for name, body in files.items() if not (name.endswith("commit.json") and not body["changes"])
        }

    async def _proven(self) -> dict[str, Any]:
        """What the graph holds, once everything else is proven: nothing waits, and every claim in it is explained."""
        config = Config(background_worker=False, queue_url=self._queue)
        async with AsyncMemory(self.home, embedder={"provider": "hash", "cache": False}, config=config) as memory:
            stats = await memory.parts.queue.stats()
            assert (stats.pending, stats.claimed, stats.failed) == (0, 0, 0)
            report = await memory.verify()
            assert report.defects == []
            assert [n for n in report.notes if n.kind not in ("leftover", "torn")] == []
            told = await graph_of(memory, STEWARD)
            for claim_id in (name.removeprefix("knowledge ") for name in told if name.startswith("knowledge ")):
                why = await memory.graph("t", "u").explain_knowledge(claim_id)
                assert why.utterances[0].quotes, claim_id
            return told


def _plain(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return steady(json.loads(text))
    if path.suffix == ".jsonl":
        return [steady(json.loads(line)) for line in text.splitlines()]
    return steady(text)


@pytest.fixture(scope="module")
def undisturbed(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Life:
    life = Life(forks, tmp_path_factory.mktemp("undisturbed") / "home")
    assert life.live() == 0
    assert life.begin == len(STORY)
    return life


def test_the_story_leaves_something_to_lose(undisturbed: Life) -> None:
    told = undisturbed.memory()
    archive, graph = told["archive"], told["graph"]
    assert sum(name.endswith("content.md") for name in archive) >= 4
    claims = [row for name, rows in archive.items() if name.endswith("claims.jsonl") for row in rows]
    assert {row.get("state", "active") for row in claims} >= {"active", "superseded"}
    told_of = {item["source_id"] for name, item in graph.items() if name.startswith("segment ")}
    assert told_of == {"s1", "s3", "s4", "s5", "s6"}, "s2 was forgotten, and s7 was not to be told"
    assert sum(name.startswith("knowledge ") for name in graph) >= 10
    assert all(item["published"] for item in graph.values())
    assert len(undisturbed.steps) >= 40


def test_a_kill_at_every_step(forks: Forks, tmp_path: Path, undisturbed: Life) -> None:
    expected = undisturbed.memory()
    for number, step in enumerate(undisturbed.steps):
        hits = (1 + number % 4,) if KILLS < 300 else (1, 2, 3, 5, 8)
        for hit in hits:
            life = Life(forks, tmp_path / f"{number}-{hit}")
            killed = life.live(f"{step}:{hit}")
            assert killed in (-signal.SIGKILL, 0), step
            assert life.live() == 0
            assert life.memory() == expected, f"{step}:{hit}"


def test_a_kill_anywhere_in_a_superseding_write_and_a_correction(forks: Forks, tmp_path: Path) -> None:
    """Not one window: each step of each file, and each change of a replica. With MNEMON_LONG=1 all of them."""
    base = Life(forks, tmp_path / "base", story="superseding")
    assert base.live(end=1) == 0
    whole = _copy(base, tmp_path / "whole")
    assert whole.live() == 0
    expected = whole.memory()
    claims = [row for name, rows in expected["archive"].items() if name.endswith("claims.jsonl") for row in rows]
    assert sum(row.get("state") == "superseded" for row in claims) >= 2
    assert [row["statement"] for row in claims if row.get("corrected_from")] == [SUPERSEDING[2]["statement"]]
    assert whole.total >= 60
    for at in range(1, whole.total + 1, 1 if LONG else 11):
        life = _copy(base, tmp_path / f"{at}")
        assert life.live(f":{at}") == -signal.SIGKILL
        assert life.live() == 0
        assert life.memory() == expected, f"killed at step {at} of {whole.total}"


def _copy(life: Life, home: Path) -> Life:
    shutil.copytree(life.home, home, symlinks=True)
    copied = Life(life.forks, home, story=life.story)
    copied.begin = life.begin
    return copied


@pytest.mark.parametrize("queue", ["fs", "sqlite"])
def test_kills_at_random_times(forks: Forks, tmp_path: Path, undisturbed: Life, queue: str) -> None:
    expected = undisturbed.memory()
    rng = random.Random(queue)
    left = KILLS // 8
    while left > 0:
        life = Life(forks, tmp_path / f"home{left}", queue)
        while life.begin < len(STORY) and left > 0:
            life.live(lines=rng.randint(0, 60), moment_s=rng.uniform(0, 0.03))
            left -= 1
        assert life.live() == 0
        assert life.memory() == expected
