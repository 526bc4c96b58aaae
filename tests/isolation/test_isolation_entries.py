"""Whoever writes, searches and changes entries: filters only narrow, links lead nowhere, versions stay their own."""

from __future__ import annotations

import random
from collections.abc import Awaitable
from typing import Any

from tally import Tally
from world import AWKWARD, SEED, SHARES, TIMES, WORDS, Asker, Caller, Row, World, as_options, marks

from mnemon import AsyncMemory, Config
from mnemon.contracts.errors import MnemonError, NotFound, PermissionDenied
from mnemon.drivers.embed.hash import HashEmbedder

_NAMES = {"u": "user", "p": "product", "g": "group", "a": "agent"}


def writer(row: Row) -> Caller:
    """Somebody who holds exactly what the row is for, and whatever else a caller must name."""
    named = {_NAMES[p[0]]: p[2:] for p in row.principals if p != "pub"}
    return Caller(row.tenant, **{"user": "a writer", "agent": "default", **named})


def options(caller: Caller) -> dict[str, Any]:
    return {**as_options(caller), "agent_id": caller.agent}


class Examination:
    def __init__(self, memory: AsyncMemory, world: World, tally: Tally) -> None:
        self._memory = memory
        self._world = world
        self._tally = tally
        self._rng = random.Random(world.seed + 1)
        self._ids: dict[str, str] = {}
        self._versions: dict[str, int] = {}

    async def write(self) -> None:
        """Every row by somebody it is for, linked to the one before it of the same audience."""
        last: dict[tuple[str, frozenset[str]], str] = {}
        for row in self._world.rows:
            entry = {
                "kind": "episodic",
                "contents": [row.text],
                "metadata": {"user_id": sorted(row.principals), "dedup_skip": True},
            }
            before = last.get((row.tenant, row.principals))
            links = [{"src_id": "0", "dst_id": before, "rel_type": "next"}] if before else []
            receipt = await self._memory.write([entry], links, **options(writer(row)), return_id_map=True)
            assert receipt.id_map
            self._ids[row.mark] = last[row.tenant, row.principals] = receipt.id_map["0"]
            self._versions[row.mark] = receipt.version

    async def ask(self, count: int) -> None:
        while self._tally.checks < count:
            row = self._rng.choice(self._world.rows)
            caller = writer(row) if self._rng.random() < 0.5 else self._named(self._world.caller())
            for _ in range(4):
                await self._search(caller)
            await self._change(caller, self._rng.choice(self._world.rows))

    def _named(self, caller: Caller) -> Caller:
        return caller if caller.agent else Caller(caller.tenant, caller.user, caller.product, caller.group, "default")

    async def _search(self, caller: Caller) -> None:
        """Whatever principals a filter names, under whatever rule, it only takes away."""
        asker = Asker(Caller(caller.tenant, caller.user, caller.product, caller.group, "default"))
        filters: dict[str, Any] = {}
        if self._rng.random() < 0.6:
            foreign = sorted(self._rng.choice(self._world.rows).principals)
            filters["user_id"] = self._rng.choice((foreign, [], ["*"], ["%"], ["u:*"], [f"u:{caller.user}", *foreign]))
            filters["user_match"] = self._rng.choice(("within", "any", "all"))
        if self._rng.random() < 0.3:
            filters["run_id"] = self._rng.choice(AWKWARD)
        result = await self._memory.search(
            self._rng.choice(WORDS), **as_options(caller), topk=200, filters=filters, expand_graph=True
        )
        may = {row.mark for row in self._world.visible(asker)}
        self._tally.judge(caller, f"search {filters}", marks(result), may, complete=not filters, at_most=200)

    async def _change(self, caller: Caller, target: Row) -> None:
        id_, asker = self._ids[target.mark], Asker(caller)
        if asker.may_see(target.tenant, target.principals):
            told = await self._memory.history(id_, **options(caller))
            self._tally.counted(caller, f"history of {id_}", int(bool(told)), 1)
            return
        theirs = {"kind": "episodic", "contents": ["mine now"], "metadata": {"user_id": sorted(target.principals)}}
        tries: dict[str, Awaitable[Any]] = {
            "history": self._memory.history(id_, **options(caller)),
            "update": self._memory.update(id_, {"contents": ["mine now"]}, **options(caller)),
            "delete": self._memory.delete(id_, **options(caller)),
            "erase": self._memory.delete(id_, soft=False, **options(caller)),
        }
        if target.tenant == caller.tenant:
            tries |= {
                "rollback": self._memory.rollback(self._versions[target.mark], **options(caller)),
                "write for others": self._memory.write([theirs], **options(caller)),
            }
        for what, attempt in tries.items():
            try:
                told = await attempt
            except (NotFound, PermissionDenied) as refusal:
                self._tally.judge(caller, f"{what} {id_}", marks(_said(refusal)), ())
            else:
                self._tally.refused(caller, f"{what} {id_}: {told}", False)

    async def try_to_overwrite(self, rounds: int) -> None:
        """An id that somebody else has given is free for everybody else, and stays what it was for whoever gave it."""
        for target in self._rng.sample(self._world.rows, rounds):
            id_, caller = self._ids[target.mark], self._named(self._world.caller(target.tenant))
            if Asker(caller).may_see(target.tenant, target.principals):
                continue
            await self._memory.write([{"kind": "episodic", "contents": ["mine now"], "id": id_}], **options(caller))
            kept = await self._memory.history(id_, **options(writer(target)))
            self._tally.judge(caller, f"overwrite {id_}", marks(kept), {target.mark})
            self._tally.refused(caller, f"overwrite {id_}", "mine now" not in repr(kept))


def _said(refusal: MnemonError) -> str:
    """A refusal that quotes what it protects would be a leak of its own."""
    return f"{refusal} {refusal.envelope()}"


async def test_no_entry_is_found_or_changed_beyond_its_scope() -> None:
    world, tally = World(SEED + 8, rows_per_tenant=25), Tally(SEED)
    config = Config(background_worker=False)
    async with AsyncMemory(":memory:", embedder=HashEmbedder(), llm="rules", config=config) as memory:
        examination = Examination(memory, world, tally)
        await examination.write()
        await examination.ask(SHARES["entries"] * TIMES)
        await examination.try_to_overwrite(100)
    tally.close("entries")
