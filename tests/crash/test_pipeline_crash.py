"""The whole pipeline under SIGKILL at every step: after a restart and a retry the archive is that of an undisturbed
run, apart from times, versions and salts."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from forkserver import Forks
from pipeline_writer import STORY

from mnemon import AsyncMemory, Config

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("MNEMON_CRASH_KILLS", "160"))
# What may differ between two runs of the same story: when, which version, and what hangs on random salts.
VOLATILE = {
    *("at", "created_at", "updated_at", "recorded_at", "expires_at", "version", "chain", "chain_head", "head", "salt"),
    *("seal", "digest", "sha256", "number", "commits"),
}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks(Path(__file__).with_name("pipeline_writer.py"))
    yield made
    made.close()


class Life:
    """One home, killed as often as asked, and brought to the end of its story."""

    def __init__(self, forks: Forks, home: Path, queue: str = "fs") -> None:
        self._forks = forks
        self.home = home
        self._queue = queue
        self._said = home.with_suffix(".said")
        self.begin = 0
        self.steps: list[str] = []

    def live(self, kill_at: str = "", after_s: float | None = None) -> int:
        self._said.unlink(missing_ok=True)
        task = {"home": str(self.home), "begin": self.begin, "kill_at": kill_at, "said": str(self._said)}
        pid = self._forks.start({**task, "queue": self._queue})
        if after_s is not None:
            time.sleep(after_s)
            os.kill(pid, signal.SIGKILL)
        ended = self._forks.wait()
        for line in self._said.read_text(encoding="utf-8").splitlines() if self._said.exists() else []:
            verb, *rest = line.split(maxsplit=1)
            assert verb != "error", line
            if verb == "done":
                self.begin = int(rest[0]) + 1
            elif verb == "step":
                self.steps.append(rest[0])
        return ended

    def archive(self) -> dict[str, Any]:
        """Every file of the archive as data, without what may differ."""
        asyncio.run(self._proven())
        root = self.home / "tenants"
        paths = [p for p in sorted(root.rglob("*")) if p.is_file() and not p.name.startswith(".tmp-")]
        files = {str(p.relative_to(root)): _plain(p) for p in paths if not {"revisions", "ledger"} & {*p.parts}}
        # To overwrite a session twice, because nobody knew that the first time had succeeded, is one more commit that
        # changes nothing.
        return {
            name: body for name, body in files.items() if not (name.endswith("commit.json") and not body["changes"])
        }

    async def _proven(self) -> None:
        config = Config(background_worker=False, queue_url=self._queue)
        async with AsyncMemory(self.home, embedder={"provider": "hash", "cache": False}, config=config) as memory:
            stats = await memory.parts.queue.stats()
            assert (stats.pending, stats.claimed, stats.failed) == (0, 0, 0)
            report = await memory.verify()
            assert report.defects == []
            assert [n for n in report.notes if n.kind not in ("leftover", "torn")] == []


def _plain(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return _steady(json.loads(text))
    if path.suffix == ".jsonl":
        return [_steady(json.loads(line)) for line in text.splitlines()]
    return text


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _steady(v) for k, v in value.items() if k not in VOLATILE}
    return [_steady(v) for v in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def undisturbed(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Life:
    life = Life(forks, tmp_path_factory.mktemp("undisturbed") / "home")
    assert life.live() == 0
    assert life.begin == len(STORY)
    return life


def test_the_story_leaves_something_to_lose(undisturbed: Life) -> None:
    archive = undisturbed.archive()
    assert sum(name.endswith("content.md") for name in archive) >= 4
    claims = [row for name, rows in archive.items() if name.endswith("claims.jsonl") for row in rows]
    assert {row.get("state", "active") for row in claims} >= {"active", "superseded"}
    assert len(undisturbed.steps) >= 40


def test_a_kill_at_every_step(forks: Forks, tmp_path: Path, undisturbed: Life) -> None:
    expected = undisturbed.archive()
    for number, step in enumerate(undisturbed.steps):
        hits = (1 + number % 4,) if KILLS < 300 else (1, 2, 3, 5, 8)
        for hit in hits:
            life = Life(forks, tmp_path / f"{number}-{hit}")
            killed = life.live(f"{step}:{hit}")
            assert killed in (-signal.SIGKILL, 0), step
            assert life.live() == 0
            assert life.archive() == expected, f"{step}:{hit}"


@pytest.mark.parametrize("queue", ["fs", "sqlite"])
def test_kills_at_random_times(forks: Forks, tmp_path: Path, undisturbed: Life, queue: str) -> None:
    expected = undisturbed.archive()
    rng = random.Random(queue)
    left = KILLS // 8
    while left > 0:
        life = Life(forks, tmp_path / f"home{left}", queue)
        while life.begin < len(STORY) and left > 0:
            life.live(after_s=rng.uniform(0.02, 0.35))
            left -= 1
        assert life.live() == 0
        assert life.archive() == expected
