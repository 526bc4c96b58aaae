"""A process that writes sessions through the front door, saying what was acknowledged, until it is killed."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from forkserver import Say, killer, serve

from mnemon import AsyncMemory, Config
from mnemon.engine import build, registry

CHANGES = {"index": ("upsert", "delete", "purge"), "graph": ("put", "publish", "drop", "erase", "purge")}


def drink(turn_id: str) -> str:
    """A word no other turn holds."""
    return "tea" + turn_id.replace("-", "x")


def words(turn_id: str) -> str:
    """The words of a turn, from which a claim can be made: the same in the writer and in whoever checks."""
    return f"说过的话 😀。I like {drink(turn_id)}."


def instrument(step: Callable[[str], None]) -> None:
    """Archive and queue tell every step a crash could fall between; the replicas, each change when it is made."""

    def driver(port: str, name: str) -> Any:
        made = registry.driver(port, name)
        if port in ("archive", "queue"):
            return functools.partial(made, step=step)
        return functools.partial(_telling, made, port, step) if port in CHANGES else made

    build.driver = driver  # type: ignore[assignment]


def _telling(made: Callable[..., Any], port: str, step: Callable[[str], None], *args: Any, **options: Any) -> Any:
    part = made(*args, **options)
    for name in CHANGES[port]:
        setattr(part, name, _told(getattr(part, name), f"{port}.{name}", step))
    return part


def _told(change: Callable[..., Awaitable[Any]], name: str, step: Callable[[str], None]) -> Callable[..., Any]:
    async def told(*args: Any, **options: Any) -> Any:
        made = await change(*args, **options)
        step(name)
        return made

    return told


async def write(home: Path, run: str, say: Say, queue: str, known: float) -> None:
    """`known` is the share of writes from which memories are asked for."""
    rng = random.Random(run)
    config = Config(background_worker=False, queue_url=queue)
    memory = AsyncMemory(home, llm="rules", embedder={"provider": "hash", "cache": False}, config=config)
    await memory.parts.queue.recover()
    say("ready")
    for number in range(10_000):
        fresh = rng.random() < 0.4
        session = f"{run}-{number}" if fresh else f"shared{rng.randrange(2)}"
        ids = [f"{run}-{number}-{i}" for i in range(rng.choice((1, 1, 4)))]
        turns = [{"turn_id": i, "role": "user", "text": words(i)} for i in ids]
        say("writing", session, *ids)
        wait = rng.choice(("indexed", "indexed", "archived"))
        extract = rng.random() < known
        result = await memory.session_write("t", "u", session, turns=turns, extract=extract, mode="append", wait=wait)
        assert result.status == "ok"
        say("written", "known" if extract else "kept", session, *ids)
        if rng.random() < 0.2:
            await memory.run_jobs()


def run(task: dict[str, Any], say: Say) -> None:
    instrument(killer(task["kill_at"], say))
    asyncio.run(write(Path(task["home"]), task["run"], say, task["queue"], task["known"]))


if __name__ == "__main__":
    serve(run)
