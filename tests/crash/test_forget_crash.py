"""Forgetting a claim, a session, a person and a tenant, killed or failing at every call to the file system: once it
says it is complete, nothing of it is in any file, and everybody else has all they had."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from forget_writer import CLAIM, KILL, MARKS, OTHER, STRANGER, TENANT, WHO, fill, found, opened
from forkserver import Forks
from steady import graph_of

from mnemon import Scope
from mnemon.contracts.scope import Owner

pytestmark = pytest.mark.crash

HERE = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
LONG = bool(os.environ.get("MNEMON_LONG"))
FAILURES = (errno.EIO, errno.EACCES, errno.ENOSPC)
NEXT = ("again", "worker", "repair")
# What must be nowhere afterwards, and whose life must be as it was.
WORDS: dict[str, list[str]] = {
    "claim": [CLAIM],
    "session": [CLAIM, "numbat town", "moved to numbat", "is called wei"],
    "user": [*MARKS[WHO], CLAIM, WHO],
    "tenant": [*MARKS[WHO], *MARKS[OTHER], CLAIM, WHO],
}
LIVES = dict.fromkeys(WORDS, (TENANT, OTHER)) | {"tenant": ("elsewhere", STRANGER)}


@dataclass(frozen=True)
class Full:
    home: Path
    claim_id: str
    lives: dict[tuple[str, str], Any]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Full:
    """A home of two people who have the same of everything, and of another tenant."""
    home = tmp_path_factory.mktemp("full") / "home"

    async def live() -> str:
        async with opened(home) as memory:
            for user, tenant in ((WHO, TENANT), (OTHER, TENANT), (STRANGER, "elsewhere")):
                await fill(memory, user, tenant)
            (claim,) = [c for c in (await memory.claims(TENANT, WHO)).items if CLAIM in c.statement]
            return claim.claim_id

    claim_id = asyncio.run(live())
    lives = {who: asyncio.run(life_of(home, *who)) for who in set(LIVES.values())}
    assert all(all(life.values()) for life in lives.values())
    return Full(home, claim_id, lives)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks(HERE / "forget_writer.py")
    yield made
    made.close()


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    if COMPILER is None or sys.platform != "linux":
        pytest.skip("needs a C compiler (cc) and Linux to let single calls fail; the steps are tested without")
    library = tmp_path_factory.mktemp("calls") / "failing_calls.so"
    source = str(HERE / "failing_calls.c")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), source, "-ldl"], check=True)
    made = Forks(HERE / "forget_writer.py", preload=library)
    yield made
    made.close()


async def life_of(home: Path, tenant: str, user: str) -> dict[str, Any]:
    """Everything somebody has: their words, claims, memories with what they lead to, entries, and their graph."""
    scope, owner, who = Scope.of(tenant, user), Owner.user(user), {"tenant_id": tenant, "user_id": user}
    async with opened(home) as memory:
        archive = memory.parts.archive
        keys = [record.key async for record in archive.sessions(scope, owner)]
        ids = [f"{letter} {MARKS[user][0]}" for letter in "ab"]
        hits = await memory.search("words", **who, topk=50, graph_params={"max_hops": 1})
        return {
            "turns": [await archive.read_turns(scope, key) for key in keys],
            "claims": [await archive.read_claims(scope, key) for key in keys],
            "nodes": await archive.list_children(scope, owner, recursive=True),
            "history": [await memory.history(id, **who) for id in ids],
            "hits": hits.hits,
            "neighbors": hits.neighbors,
            "graph": await graph_of(memory, scope),
        }


def told(forks: Forks, home: Path, **task: Any) -> tuple[int, dict[str, list[str]]]:
    """How it ended, and what it said, by verb."""
    said = home.with_suffix(".said")
    said.unlink(missing_ok=True)
    forks.start({"home": str(home), "said": str(said), **task})
    ended = forks.wait()
    lines: dict[str, list[str]] = {}
    for line in said.read_text(encoding="utf-8").splitlines() if said.exists() else []:
        verb, _, rest = line.partition(" ")
        lines.setdefault(verb, []).append(rest)
    assert "error" not in lines, (task, lines)
    return ended, lines


async def sound(home: Path, full: Full, what: str, repaired: bool) -> None:
    """The archive proves itself, the index is what it says, and who was not forgotten has lost nothing. A replica that
    could not be read has begun anew, and is `repaired` first."""
    async with opened(home) as memory:
        if repaired:
            await memory.repair()
        report = await memory.verify()
        assert (report.defects, [n for n in report.notes if n.kind != "leftover"]) == ([], [])
        if what == "claim":
            statements = {c.statement for c in (await memory.claims(TENANT, WHO)).items}
            assert "User lives in Oslo" in statements, "its neighbour in the same turn stays"
            (shown,) = (await memory.bind(TENANT, WHO).lexical_search("Oslo")).items
            assert shown.message.content == f"{'█' * len(f'I love {CLAIM} soup')}. I live in Oslo."
    assert await life_of(home, *LIVES[what]) == full.lives[LIVES[what]]


def point(failing: Forks, full: Full, home: Path, what: str, at: int, how: int) -> int:
    """One call hit; how many there were."""
    shutil.copytree(full.home, home, symlinks=True)
    task = {"what": what, "claim_id": full.claim_id, "words": WORDS[what]}
    ended, lines = told(failing, home, **task, at=at, how=how, reader=at % 4 == 1)
    if how == KILL:
        assert ended in (-signal.SIGKILL, 0)
    if ended != 0 or "unfinished" in lines:
        ended, lines = told(failing, home, **task, next=NEXT[at % 3])
    assert ended == 0
    assert [json.loads(places) for places in lines["found"]] == [[]], f"{what} at call {at}, {how}"
    assert found(home, WORDS[what]) == []
    return int(lines["calls"][0]) if "calls" in lines else 0


@pytest.mark.parametrize("what", list(WORDS))
def test_killed_or_failing_at_a_call_nothing_is_left_once_it_is_complete(
    failing: Forks, tmp_path: Path, full: Full, what: str
) -> None:
    assert len(found(full.home, WORDS[what])) > 10
    for kinds in ((KILL,), FAILURES):
        # Beyond the last call nothing is hit: this counts them.
        calls = point(failing, full, tmp_path / f"{kinds[0]}", what, 1_000_000, kinds[0])
        assert calls > 50
        points = range(1, calls + 1) if LONG else range(1 + len(what), calls, calls // 3)
        for number, at in enumerate(points):
            home = tmp_path / f"{kinds[0]}-{at}"
            point(failing, full, home, what, at, kinds[at % len(kinds)])
            if number % 16 == 1:
                asyncio.run(sound(home, full, what, repaired=kinds != (KILL,)))
            shutil.rmtree(home)
        print(f"{what}: {len(points)} of {calls} calls {'killed' if kinds == (KILL,) else 'failed'}")


def test_killed_at_a_step_nothing_is_left_once_it_is_complete(forks: Forks, tmp_path: Path, full: Full) -> None:
    """The same without a compiler, at the steps the drivers name."""
    task = {"what": "user", "claim_id": "", "words": WORDS["user"], "reader": False}
    scout = shutil.copytree(full.home, tmp_path / "scout", symlinks=True)
    ended, lines = told(forks, scout, **task, kill_at="")
    assert ended == 0
    steps = lines["step"]
    assert len(steps) >= 15
    for number, step in enumerate(steps if LONG else steps[::8]):
        home = shutil.copytree(full.home, tmp_path / f"{number}", symlinks=True)
        ended, _ = told(forks, home, **task, kill_at=f"{step}:1")
        assert ended == -signal.SIGKILL, step
        ended, lines = told(forks, home, **task, next=NEXT[number % 3])
        assert (ended, lines["found"]) == (0, ["[]"]), step
        shutil.rmtree(home)
