"""A historian at work on a machine where everything fails now and then: the model, the disk, and the process itself."""

from __future__ import annotations

import asyncio
import errno
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forkserver import Say, serve
from memory_writer import instrument

from mnemon import AsyncMemory, Config
from mnemon.contracts.errors import MnemonError, ModelFailed
from mnemon.contracts.models import ChatMessage, Completion
from mnemon.contracts.scope import Scope
from mnemon.drivers.llm.providers.one_prompt import OnePrompt
from mnemon.logic.jobs import Backoff
from mnemon.testing.scripted import asking

# Of a hundred model calls: no answer, no answer in time, an answer that is no rewrite, one that is not absolute.
REFUSES, HANGS, BABBLES, VAGUE = 4, 2, 2, 4
# Of ten thousand steps on the disk: it is full.
FULL = 15
_DATA = re.compile(r"<(\w+)>\n(.*?)\n</\1>", re.DOTALL)


class FlakyModel(OnePrompt):
    """A model that rewrites well most of the time."""

    provider = "flaky"
    model = "flaky-1"

    def __init__(self, chance: random.Random, say: Say) -> None:
        self._chance = chance
        self._say = say

    async def complete(
        self, messages: Sequence[ChatMessage], schema: dict[str, Any], scope: Scope | None = None
    ) -> Completion:
        if asking(messages) != "historian.absolutise":
            raise ModelFailed("only the historian is served today")
        self._say("asked")
        given = dict(_DATA.findall(messages[1].text))
        luck = self._chance.randrange(100)
        if luck < REFUSES:
            raise ModelFailed("503: try again later")
        if luck < REFUSES + HANGS:
            await asyncio.sleep(0.001)
            raise ModelFailed("the model did not answer in time")
        if luck < REFUSES + HANGS + BABBLES:
            return Completion({"thoughts": "…"}, 10, 5)
        return Completion(_rewritten(given, luck < REFUSES + HANGS + BABBLES + VAGUE), 10, 5)

    async def close(self) -> None:
        return None


def _rewritten(given: dict[str, str], vague: bool) -> dict[str, Any]:
    did, new = given["action_summary"], given["new_info"]
    moment = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", given["situation"])
    assert moment
    told = "；".join(part for part in (did, new) if part)
    canonical = f"刚才{told}" if vague else f"{moment[0]} {told}"
    return {"did_what": did, "new_info": new, "canonical_text": canonical}


def full_disk(chance: random.Random) -> Callable[[str], None]:
    def step(name: str) -> None:
        if chance.randrange(10_000) < FULL:
            raise OSError(errno.ENOSPC, "No space left on device", name)

    return step


async def work(home: Path, seed: str, say: Say, until_empty: bool) -> None:
    chance = random.Random(seed)
    config = Config(background_worker=False)
    embedder = {"provider": "hash", "cache": False}
    memory = AsyncMemory(home, llm=FlakyModel(chance, say), embedder=embedder, config=config)
    memory.parts.queue._backoff = Backoff(0.01, 0.05)  # type: ignore[attr-defined]  # a test need not wait minutes
    say("ready")
    while True:
        try:
            await memory.parts.queue.recover()
            result = await memory.run_jobs()
            stats = await memory.parts.queue.stats()
        except (MnemonError, OSError):  # as the worker's own loop does: the queue's disk may be full too
            continue
        if not result.claimed:
            if until_empty and not stats.pending and not stats.claimed:
                return
            say("idle")
            await asyncio.sleep(0.01)


def run(task: dict[str, Any], say: Say) -> None:
    instrument(full_disk(random.Random(task["seed"])))
    asyncio.run(work(Path(task["home"]), task["seed"], say, task["until_empty"]))


if __name__ == "__main__":
    serve(run)
