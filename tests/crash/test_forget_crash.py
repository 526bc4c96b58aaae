"""Forgetting somebody under SIGKILL at every step: after a restart nothing of them is in any file, and everybody else
has all they had."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from forget_writer import MARKS, OTHER, WHO, fill, opened
from forkserver import Forks
from steady import graph_of

from mnemon import Scope
from mnemon.contracts.scope import Owner

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("MNEMON_CRASH_KILLS", "96"))


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks(Path(__file__).with_name("forget_writer.py"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of two people who have the same of everything."""
    home = tmp_path_factory.mktemp("full") / "home"

    async def live() -> None:
        async with opened(home) as memory:
            for user in (WHO, OTHER):
                await fill(memory, user)

    asyncio.run(live())
    return home


def forget(forks: Forks, home: Path, kill_at: str = "") -> tuple[int, list[str]]:
    """How it ended, and the steps it went through."""
    said = home.with_suffix(".said")
    forks.start({"home": str(home), "kill_at": kill_at, "said": str(said)})
    ended = forks.wait()
    lines = [line.split(maxsplit=1) for line in said.read_text(encoding="utf-8").splitlines()]
    assert not [line for line in lines if line[0] == "error"], lines
    return ended, [rest for verb, *rests in lines if verb == "step" for rest in rests]


async def restart(home: Path) -> None:
    async with opened(home) as memory:
        await memory.parts.queue.recover()
        await memory.run_jobs()
        stats = await memory.parts.queue.stats()
        assert (stats.pending, stats.claimed, stats.failed) == (0, 0, 0)
        report = await memory.verify()
        assert report.defects == []
        assert [note for note in report.notes if note.kind != "leftover"] == []


def found_of(home: Path, user: str) -> set[str]:
    """Which of somebody's words, and of their names, stand in any file, or in the name of one."""
    forms = {word: (word.encode(), json.dumps(word)[1:-1].encode()) for word in (*MARKS[user], user)}
    held = [path.read_bytes().lower() if path.is_file() else b"" for path in home.rglob("*")]
    held += [str(path.relative_to(home)).encode().lower() for path in home.rglob("*")]
    return {word for word, shapes in forms.items() if any(shape in data for data in held for shape in shapes)}


async def life_of(home: Path, user: str) -> dict[str, Any]:
    """Everything somebody has: their words, claims, memories, entries with their past, and their graph."""
    scope, owner, who = Scope.of("t", user), Owner.user(user), {"tenant_id": "t", "user_id": user}
    async with opened(home) as memory:
        archive = memory.parts.archive
        keys = [record.key async for record in archive.sessions(scope, owner)]
        ids = [f"{letter} {MARKS[user][0]}" for letter in "ab"]
        found = await memory.search("words", **who, topk=50, graph_params={"max_hops": 1})
        return {
            "turns": [await archive.read_turns(scope, key) for key in keys],
            "claims": [await archive.read_claims(scope, key) for key in keys],
            "nodes": await archive.list_children(scope, owner, recursive=True),
            "history": [await memory.history(id, **who) for id in ids],
            "hits": found.hits,
            "neighbors": found.neighbors,
            "graph": await graph_of(memory, scope),
        }


def test_nothing_of_somebody_forgotten_is_left_wherever_it_is_cut_off(forks: Forks, tmp_path: Path, full: Path) -> None:
    before = asyncio.run(life_of(full, OTHER))
    assert all(before.values())
    assert found_of(full, WHO) == {*MARKS[WHO], WHO}
    scout = shutil.copytree(full, tmp_path / "scout")
    ended, steps = forget(forks, scout)
    assert ended == 0
    assert len(steps) >= 15
    assert found_of(scout, WHO) == set()
    for number, step in enumerate(steps):
        for hit in (1 + number % 2,) if KILLS < 300 else (1, 2, 3, 5):
            home = shutil.copytree(full, tmp_path / f"{number}-{hit}")
            ended, _ = forget(forks, home, f"{step}:{hit}")
            assert ended in ((-signal.SIGKILL,) if hit == 1 else (-signal.SIGKILL, 0)), step
            asyncio.run(restart(home))
            # Killed before the intent was kept, nothing was begun; who asked was never answered, and asks again.
            if found_of(home, WHO) == {*MARKS[WHO], WHO}:
                assert step.startswith("queue.put."), step
                assert forget(forks, home)[0] == 0
            assert found_of(home, WHO) == set(), f"{step}:{hit}"
            assert asyncio.run(life_of(home, OTHER)) == before, f"{step}:{hit}"
