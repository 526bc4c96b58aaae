"""Thousands of bot turns on a machine where everything fails: almost all are remembered, all are accounted for, none
twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from forkserver import Forks

from mnemon import AsyncMemory, Config, Scope
from mnemon.contracts.claims import Claim
from mnemon.contracts.jobs import Job, JobKind

pytestmark = pytest.mark.crash

JOBS = 10_000 if os.environ.get("MNEMON_LONG") else 800
KILLS = 50
CHATS = JOBS // 40
STEWARD = Scope.steward_of("t")
EMBEDDER = {"provider": "hash", "cache": False}
QUIET = Config(background_worker=False)


def turn(n: int) -> dict[str, Any]:
    """The n-th turn of the day, in one of many chats, half of them groups; every third has something new to tell."""
    chat = n % CHATS
    who = f"u{chat}" if chat % 2 else f"u{n % 97}"
    place = {} if chat % 2 else {"group_id": f"g{chat}", "group_name": f"群{chat}"}
    said = {"message_id": f"m{n}", "sender_id": who, "text": f"我收藏了第{n}号唱片。"}
    return {
        "request_id": f"r{n}",
        "end_seq": n % 3,
        "action_summary": f"介绍了第{n}号唱片",
        "new_info": f"{who} 收藏了第{n}号唱片" if n % 3 == 0 else "",
        "user_id": who,
        "messages": [said],
        "timestamp": f"2026-02-{1 + n // CHATS % 28:02}T{n % 24:02}:{n // 60 % 60:02}:{n % 60:02}+08:00",
        **place,
    }


def event_id(n: int) -> str:
    return f"r{n}:{n % 3}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Told by a bot, then worked through by historians that die fifty times."""
    home = tmp_path_factory.mktemp("load") / "home"
    asyncio.run(_told(home))
    chance = random.Random("kills")
    forks = [Forks(Path(__file__).with_name("historian_worker.py")) for _ in range(2)]
    try:
        for life in range(KILLS // 2):
            _lived_and_died(forks, home, f"life{life}", chance)
        _lived(forks[:1], home, "last")
    finally:
        for fork in forks:
            fork.close()
    return home


async def _told(home: Path) -> None:
    async with AsyncMemory(home, llm="rules", embedder=EMBEDDER, config=QUIET) as memory:
        for n in range(JOBS):
            assert (await memory.end("t", **turn(n))).status == "queued"


def _lived_and_died(forks: list[Forks], home: Path, seed: str, chance: random.Random) -> None:
    """Two historians side by side, killed at a moment of no one's choosing."""
    pids = [_start(fork, home, f"{seed}-{n}", until_empty=False) for n, fork in enumerate(forks)]
    for n, (fork, pid) in enumerate(zip(forks, pids, strict=True)):
        fork.kill(pid, _said(home, f"{seed}-{n}"), chance.randint(1, 40), chance.uniform(0, 0.02))
    assert [fork.wait() for fork in forks] == [-signal.SIGKILL] * 2


def _lived(forks: list[Forks], home: Path, seed: str) -> None:
    for n, fork in enumerate(forks):
        _start(fork, home, f"{seed}-{n}", until_empty=True)
    assert [fork.wait() for fork in forks] == [0] * len(forks), _said(home, f"{seed}-0").read_text()


def _start(fork: Forks, home: Path, seed: str, until_empty: bool) -> int:
    said = str(_said(home, seed))
    return fork.start({"home": str(home), "seed": seed, "until_empty": until_empty, "said": said})


def _said(home: Path, seed: str) -> Path:
    return home.with_suffix(f".{seed}.said")


@pytest.fixture(scope="module")
def found(home: Path) -> tuple[list[Claim], list[Job], list[str]]:
    """What the archive knows, which jobs are left, and every turn there is."""
    return asyncio.run(_read(home))


async def _read(home: Path) -> tuple[list[Claim], list[Job], list[str]]:
    async with AsyncMemory(home, llm="rules", embedder=EMBEDDER, config=QUIET) as memory:
        claims: list[Claim] = []
        turns: list[str] = []
        archive = memory.parts.archive
        async for record in archive.sessions(STEWARD):
            claims += [c for c in await archive.read_claims(STEWARD, record.key) if c.claim_id in record.claim_ids]
            turns += [f"{record.owner_id} {t.turn.turn_id}" for t in await archive.read_turns(STEWARD, record.key)]
        return claims, await memory.parts.queue.list(limit=2 * JOBS), turns


def test_almost_all_are_remembered_and_every_one_is_accounted_for(found: tuple[list[Claim], list[Job], Any]) -> None:
    claims, jobs, _ = found
    done = {c.occasion.event_id for c in claims if c.occasion}
    failed = {f"{j.payload['call']['request_id']}:{j.payload['call'].get('end_seq', 0)}" for j in jobs}
    assert {(job.kind, job.status) for job in jobs} <= {(JobKind.END, "failed")}, "nothing is left waiting"
    assert done | failed == {event_id(n) for n in range(JOBS)}
    assert len(done) > 0.99 * JOBS


def test_none_is_remembered_twice(found: tuple[list[Claim], Any, list[str]]) -> None:
    claims, _, turns = found
    events = Counter(c.occasion.id for c in claims if c.occasion and c.shelf == "events")
    lines = Counter(c.occasion.id for c in claims if c.occasion and c.shelf == "profile")
    assert {*events.values(), *lines.values()} == {1}
    assert max(Counter(turns).values()) == 1
    learnt = {event_id(n) for n in range(0, JOBS, 3)} & {c.occasion.event_id for c in claims if c.occasion}
    assert lines.keys() == learnt


def test_the_order_of_each_chat_was_kept(found: tuple[list[Claim], Any, Any]) -> None:
    of_chat: dict[str, list[tuple[int, Any]]] = defaultdict(list)
    for claim in found[0]:
        if claim.occasion and claim.shelf == "events" and not claim.occasion.perspective:
            of_chat[f"{claim.owner_kind}/{claim.owner_id}"].append(
                (int(claim.occasion.request_id[1:]), claim.recorded_at)
            )
    assert len(of_chat) == CHATS
    for told in of_chat.values():
        moments = [moment for _, moment in sorted(told)]
        assert moments == sorted(moments)


def test_everything_that_was_written_holds(home: Path) -> None:
    async def verified() -> list[Any]:
        async with AsyncMemory(home, llm="rules", embedder=EMBEDDER, config=QUIET) as memory:
            await memory.repair("t")
            report = await memory.verify("t")
            return [*report.defects, *report.notes]

    assert asyncio.run(verified()) == []
