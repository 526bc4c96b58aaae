"""Entries and what others tell the graph, under SIGKILL: what was acknowledged is there once, what was erased is in no
file, and a rebuild gives the same answers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from entries_writer import REL, Book, Op, Words, do, said, secret
from forkserver import Forks
from steady import graph_of

from mnemon import AsyncMemory, Config, Scope
from mnemon.contracts.filters import In
from mnemon.logic.memories import entry_key
from mnemon.pipelines.entries import changes as log
from mnemon.pipelines.entries.projection import DELETED, WRITTEN, entry_in

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("MNEMON_CRASH_KILLS", "32"))
SCOPE, STEWARD = Scope.of("t", "u"), Scope.steward_of("t")
WHO = {"tenant_id": "t", "user_id": "u"}
ROUNDS = 40
_ALL = 10_000


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks(Path(__file__).with_name("entries_writer.py"))
    yield made
    made.close()


class Trial:
    """One home that lives through many kills, and the account of what was acknowledged in it."""

    def __init__(self, forks: Forks, home: Path) -> None:
        self._forks = forks
        self._home = home
        self._said = home.with_suffix(".said")
        self._runs = 0
        self._doing: Op | None = None
        self.book = Book()
        self.steps: list[str] = []
        self.acknowledged = 0

    def live(self, kill_at: str = "", lines: int | None = None, moment_s: float = 0.0) -> int:
        self._runs += 1
        self._said.unlink(missing_ok=True)
        task = {"home": str(self._home), "run": f"r{self._runs}", "kill_at": kill_at, "said": str(self._said)}
        task |= {"entries": self.book.entries, "told": self.book.told, "rounds": ROUNDS if lines is None else _ALL}
        pid = self._forks.start(task)
        if lines is not None:
            self._forks.kill(pid, self._said, lines, moment_s)
        ended = self._forks.wait()
        for line in self._said.read_text(encoding="utf-8").splitlines() if self._said.exists() else []:
            self._hear(*line.split(maxsplit=1))
        return ended

    def _hear(self, verb: str, rest: str = "") -> None:
        assert verb != "error", rest
        if verb == "step":
            self.steps.append(rest)
        elif verb == "doing":
            self._doing = json.loads(rest)
        elif verb == "done":
            assert self._doing is not None
            self.book.enter(self._doing, int(rest))
            self._doing = None
            self.acknowledged += 1

    def _open(self) -> AsyncMemory:
        config = Config(background_worker=False)
        return AsyncMemory(self._home, embedder={"provider": "hash", "cache": False}, config=config)

    async def erase_half(self) -> None:
        """Whatever a crash may have left over holds words that are to go now."""
        async with self._open() as memory:
            for id in list(self.book.entries)[::2]:
                op = {"do": "erase", "id": id}
                self.book.enter(op, await do(memory, self.book, op))

    async def check(self, whole: bool) -> None:
        """After a restart. Of the call that was cut off, all is there or nothing."""
        async with self._open() as memory:
            cut_off = self._doing or {}
            changed = cut_off["id"] if cut_off.get("do") in ("update", "hide", "undo") else None
            newest = (await memory.history(changed, **WHO))[0].version if changed else 0
            await memory.search("anything", **WHO)
            acknowledged = {who: status for who, status in self.book.told.items() if who != cut_off.get("who")}
            assert acknowledged.items() <= (await _told_in_graph(memory)).items()
            await self._settle(memory)
            await self._check_replicas(memory)
            assert not changed or self.book.entries[changed][-1][0] == newest, "history tells what the log holds"
            self._check_files()
            if whole or "who" in cut_off:
                await memory.repair()
                assert await _told_in_graph(memory) == self.book.told, "repair brings the graph up to the ledger"
            if whole:
                await self._check_whole(memory)

    async def _settle(self, memory: AsyncMemory) -> None:
        """What the logs hold is what was acknowledged, and perhaps what was being done."""
        entries, told = await _logged(memory), await _told_in_ledger(memory)
        if self._doing and (entries, told) != (self.book.entries, self.book.told):
            _, last = await log.read(memory.parts.archive, "t", 0, _ALL)
            self.book.enter(self._doing, last)
        self._doing = None
        assert (entries, told) == (self.book.entries, self.book.told)

    async def _check_replicas(self, memory: AsyncMemory) -> None:
        keys = {entry_key("t", ["u:u"], id): id for id in self.book.entries}
        page = await memory.parts.index.scroll(STEWARD, In("kind", WRITTEN), "oldest", _ALL)
        rows = {keys[row.id]: row for row in page.entries}
        assert len(page.entries) == len(rows) == len(keys)
        for id, versions in self.book.entries.items():
            version, words = versions[-1]
            assert rows[id].metadata["version"] == version
            assert (rows[id].fields["state"] == DELETED) == (words is None)
            assert words is None or entry_in(rows[id]).contents == (said(id, words),)
        edges = await memory.parts.graph.edges(STEWARD, list(keys), [REL], limit=_ALL)
        assert {(keys[edge.src_id], keys[edge.dst_id]) for edge in edges} == self.book.links

    def _check_files(self) -> None:
        """Nothing that was erased is left in any file, not even in one a crash left over."""
        gone = [secret(id).encode() for id in self.book.erased]
        for path in self._home.rglob("*"):
            held = path.read_bytes() if path.is_file() else b""
            assert not [words for words in gone if words in held], path

    async def _check_whole(self, memory: AsyncMemory) -> None:
        for id, versions in self.book.entries.items():
            history = await memory.history(id, **WHO)
            assert [v.version for v in history] == [version for version, _ in reversed(versions)]
            assert [v.before for v in history] == [*(v.after for v in history[1:]), None]
        answers = await self._answers(memory)
        assert answers["found"] == sorted(self.book.sight())
        report = await memory.verify()
        assert report.defects == []
        assert report.notes == []
        await memory.rebuild()
        assert await self._answers(memory) == answers

    async def _answers(self, memory: AsyncMemory) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for run in {id.partition("-")[0] for id in self.book.entries}:
            result = await memory.search("words", **WHO, topk=200, filters={"run_id": run})
            found |= {hit.id: (hit.score, hit.entry, result.neighbors.get(hit.id)) for hit in result.hits}
        return {"found": sorted(found), "hits": found, "graph": await graph_of(memory, STEWARD)}


async def _logged(memory: AsyncMemory) -> dict[str, list[tuple[int, Words]]]:
    changes, _ = await log.read(memory.parts.archive, "t", 0, _ALL)
    entries: dict[str, list[tuple[int, Words]]] = defaultdict(list)
    for change in changes:
        if change.item and (after := change.item.after):
            words = None if after.deleted else int(after.contents[0].rpartition(" ")[2])
            entries[after.id].append((change.version, words))
    return dict(entries)


async def _told_in_ledger(memory: AsyncMemory) -> dict[str, str]:
    told: dict[str, str] = {}
    for line in await memory.parts.archive.read_log(STEWARD, "ledger"):
        for equiv in line.body["batch"]["pending_equivs"] if line.body["op"] == "graph_upsert" else [line.body]:
            told[equiv["entity_id"].removeprefix("one ")] = equiv.get("status", "pending")
    return told


async def _told_in_graph(memory: AsyncMemory) -> dict[str, str]:
    held = (await graph_of(memory, SCOPE)).values()
    equivs = sorted((e for e in held if "candidate_id" in e), key=lambda e: e["status"] != "pending")
    names = {e["id"] for e in held if "aliases" in e}
    assert names == {e[end] for e in equivs for end in ("entity_id", "candidate_id")}
    return {e["entity_id"].removeprefix("one "): e["status"] for e in equivs}


def test_a_kill_at_every_step(forks: Forks, tmp_path: Path) -> None:
    scout = Trial(forks, tmp_path / "scout")
    assert scout.live() == 0
    asyncio.run(scout.check(whole=True))
    assert len(scout.steps) >= 15
    for number, step in enumerate(scout.steps):
        for hit in (1 + number % 3,) if KILLS < 300 else (1, 2, 3, 5, 8):
            trial = Trial(forks, tmp_path / f"{number}-{hit}")
            assert trial.live(f"{step}:{hit}") in ((-signal.SIGKILL,) if hit == 1 else (-signal.SIGKILL, 0)), step
            asyncio.run(trial.check(whole=False))
            assert trial.live() == 0
            asyncio.run(trial.erase_half())
            asyncio.run(trial.check(whole=True))
            assert trial.acknowledged >= ROUNDS


def test_kills_at_random_times(forks: Forks, tmp_path: Path) -> None:
    rng = random.Random("entries")
    trial = Trial(forks, tmp_path / "home0")
    acknowledged = 0
    for number in range(KILLS // 4):
        assert trial.live(lines=rng.randint(0, 60), moment_s=rng.uniform(0, 0.02)) == -signal.SIGKILL
        asyncio.run(trial.check(whole=number % 10 == 9))
        if number % 20 == 19:
            acknowledged += trial.acknowledged
            trial = Trial(forks, tmp_path / f"home{number}")
    assert acknowledged + trial.acknowledged > KILLS // 8, "or the kills came too early to prove anything"
