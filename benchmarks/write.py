"""What making memories costs, without a model and without embedding. `python benchmarks/write.py [--sessions 300]`"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mnemon import AsyncMemory, Config, Turn
from report import NoEmbedder, table, verdict

QUIET = Config(background_worker=False)
NAMES = ["Wei", "老周", "Caroline", "小林", "Ana", "陈医生"]
FOODS = ["spicy food", "香菜", "mushrooms", "咖啡", "oat milk", "火锅", "black tea", "榴莲"]
CITIES = ["Chengdu", "杭州", "Lisbon", "上海", "Kyoto", "成都"]
SAID = [
    "I love {food}, by the way.",
    "我不喜欢{food}，点菜的时候别放。",
    "My sister {name} lives in {city}.",
    "周五之前把报告发给{name}。",
    "I moved to {city} last month.",
    "以后都用中文回复我。",
    "What do you think about {city} in spring?",
    "如果我住在{city}，每天会怎么样？",
    "The build fails only on the ARM runner, the log says the wheel is missing.",
    "今天的会开得有点久，晚点再聊吧。",
    "Could you look that up for me again?",
    "好的，谢谢，就这样。",
]
ANSWERED = ["Sure, noted.", "好的，我记下了。", "Here is what I found about {city}.", "要不要我帮你查一下{food}？"]


def session(seed: int, count: int) -> list[Turn]:
    rng = random.Random(seed)
    begun = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=seed)
    turns = []
    for i in range(count):
        words = rng.choice(SAID if i % 2 == 0 else ANSWERED)
        text = words.format(food=rng.choice(FOODS), name=rng.choice(NAMES), city=rng.choice(CITIES))
        moment = (begun + timedelta(minutes=i)).isoformat()
        turns.append(Turn(turn_id=f"t{i:04d}", role="assistant" if i % 2 else "user", timestamp_iso=moment, text=text))
    return turns


class Alike(NoEmbedder):
    """Random vectors that count as meaning: what is there already is searched for, and never found."""

    semantic = True


async def write(memory: AsyncMemory, user: str, seed: int, count: int) -> tuple[float, int]:
    turns = session(seed, count)
    begun = time.perf_counter()
    result = await memory.session_write("bench", user, f"s{seed}", turns=turns)
    seconds = time.perf_counter() - begun
    assert result.status == "ok", result.error_reason
    return seconds, len(result.claims)


async def by_length(memory: AsyncMemory) -> None:
    rows = []
    for n, count in enumerate((10, 20, 50, 100, 400)):
        rounds = max(3, 400 // count)
        times = [await write(memory, f"len{count}-{i}", 1000 * n + i, count) for i in range(rounds)]
        seconds, claims = sum(t for t, _ in times), sum(c for _, c in times)
        rows.append(
            [str(count), f"{rounds * count / seconds:,.0f}", f"{seconds / rounds * 1000:.1f}", f"{claims / rounds:.1f}"]
        )
    table(
        "All stages with the rules provider, embedding excluded (aim: 300 turns/s)",
        ["turns a session", "turns/s", "ms a session", "claims a session"],
        rows,
    )


async def by_concurrency(memory: AsyncMemory) -> None:
    """Several users at once: what two cores can do."""
    rows = []
    for at_once in (1, 2, 4, 8):
        rounds, claims = 40, 0
        begun = time.perf_counter()
        for first in range(0, rounds, at_once):
            made = await asyncio.gather(
                *(write(memory, f"many{at_once}-{i}", 20_000 + i, 20) for i in range(first, first + at_once))
            )
            claims += sum(c for _, c in made)
        seconds = time.perf_counter() - begun
        rows.append([str(at_once), f"{rounds * 20 / seconds:,.0f}", f"{claims / seconds:,.0f}"])
    table("Sessions of 20 turns by several users at once", ["at once", "turns/s", "claims/s"], rows)


def _child(home: str, name: str, rounds: int, count: int) -> None:
    async def work() -> None:
        async with AsyncMemory(Path(home), llm="rules", embedder=Alike(), config=QUIET) as memory:
            for i in range(rounds):
                await write(memory, f"{name}-{i}", 30_000 + i, count)

    asyncio.run(work())


def by_processes(home: str) -> None:
    """Two processes on two cores, in one home."""
    rows = []
    context = multiprocessing.get_context("spawn")
    for count, rounds in ((20, 40), (50, 16)):
        for processes in (1, 2):
            children = [
                context.Process(target=_child, args=(home, f"p{processes}-{count}-{n}", rounds, count))
                for n in range(processes)
            ]
            idle = [context.Process(target=_child, args=(home, "idle", 0, 0)) for _ in range(processes)]
            seconds = _timed(children) - _timed(idle)  # without the time it takes to start
            rows.append([str(count), str(processes), f"{processes * rounds * count / seconds:,.0f}"])
    table("One home, one or two processes", ["turns a session", "processes", "turns/s"], rows)


def _timed(children: list[Any]) -> float:
    begun = time.perf_counter()
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    return time.perf_counter() - begun


async def by_memory(memory: AsyncMemory, sessions: int) -> None:
    """The same user, session after session: what grows?"""
    times: list[float] = []
    for i in range(sessions):
        times.append((await write(memory, "loyal", 50_000 + i, 20))[0])
    step = max(sessions // 6, 1)
    first = sorted(times[:step])[step // 2]
    rows = []
    for at in range(0, sessions, step):
        part = sorted(times[at : at + step])
        rows.append(
            [
                f"{at}–{at + len(part)}",
                f"{part[len(part) // 2] * 1000:.1f}",
                verdict(part[len(part) // 2] / first, None),
            ]
        )
    nodes = await memory.nodes("bench", "loyal")
    table(
        f"Sessions of 20 turns by one user, who has {len(nodes)} memories in the end",
        ["sessions before", "ms a session, p50", "to the first"],
        rows,
    )


async def main(sessions: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        await asyncio.to_thread(by_processes, home)
        async with AsyncMemory(Path(home), llm="rules", embedder=Alike(), config=QUIET) as memory:
            await write(memory, "warm", 1, 20)
            await by_length(memory)
            await by_concurrency(memory)
            await by_memory(memory, sessions)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=300)
    asyncio.run(main(parser.parse_args().sessions))
