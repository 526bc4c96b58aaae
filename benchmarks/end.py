"""What `end` costs a bot: alone, while many turns wait, and while a historian is busy. `python benchmarks/end.py`"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemon import AsyncMemory, Config
from report import NoEmbedder, alternate, beside, crash_safe_write, milliseconds, p50, p95, table, verdict

LIMIT_MS = 5.0
LIMIT_RATIO = 10.0
CHATS = 500
SENTENCES = (
    ("帮林小满查了周六的天气", "林小满周六要去青城山爬山", "周六天气怎么样？我要去青城山爬山。"),
    ("Told Maya which train to take", "Maya moves to Berlin in May", "I move to Berlin in May, which train do I take?"),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """How long each round took, in seconds: one crash-safe write of a file as long, and one `end`."""

    write: list[float]
    end: list[float]

    @property
    def ratio(self) -> float:
        return p95(self.end) / p95(self.write)


def opened(home: Path) -> AsyncMemory:
    return AsyncMemory(home, llm="rules", embedder=NoEmbedder(), config=Config(background_worker=False))


def turn(n: int) -> dict[str, Any]:
    """The n-th turn of a bot that is in many groups."""
    did, learnt, said = SENTENCES[n % len(SENTENCES)]
    sender = {"sender_id": f"u{n % 50}", "sender_name": "林小满"}
    return {
        "tenant_id": "bench",
        "request_id": f"r{n}",
        "end_seq": 1,
        "action_summary": did,
        "new_info": learnt,
        "group_id": f"g{n % CHATS}",
        "group_name": "徒步群",
        "messages": [{"message_id": f"m{n}", "text": said, **sender}],
        "timezone": "Asia/Shanghai",
        **sender,
    }


async def measured(home: Path, waiting: int, busy: bool, rounds: int) -> Figures:
    """In a memory where so many turns wait; `busy` is a historian in another process who works them off meanwhile."""
    bare = home / "bare"
    bare.mkdir(parents=True)
    content = json.dumps(turn(0), ensure_ascii=False).encode()

    async def write(n: int) -> None:
        crash_safe_write(bare, str(n), content)

    async def end(n: int) -> None:
        await memory.end(**turn(waiting + n))

    async with opened(home / "memory") as memory:
        for n in range(waiting):
            await memory.end(**turn(n))
        with beside(__file__, "--digest", str(home / "memory")) if busy else nullcontext():
            await write(rounds)
            await end(rounds)
            return Figures(*await alternate(rounds, write, end))


async def digest(home: Path) -> None:
    """Whatever waits, until killed."""
    async with opened(home) as memory:
        print("ready", flush=True)
        while True:
            await memory.run_jobs()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--dir", type=Path, help="a folder on the disk to measure; default: the current one")
    parser.add_argument("--digest", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.digest:
        await digest(options.digest)
        return
    rows = []
    for waiting, busy in ((0, False), (options.waiting, False), (options.waiting, True)):
        with tempfile.TemporaryDirectory(dir=options.dir or Path.cwd(), prefix="mnemon-bench-") as folder:
            found = await measured(Path(folder), waiting, busy, options.rounds)
        times = [milliseconds(t) for t in (p50(found.write), p95(found.write), p50(found.end), p95(found.end))]
        times[-1] += f" (≤ {LIMIT_MS:g}) {'ok' if p95(found.end) * 1000 <= LIMIT_MS else 'MISSED'}"
        rows.append([f"{waiting:,}", "busy" if busy else "none", *times, verdict(found.ratio, LIMIT_RATIO)])
    columns = ["waiting", "historian", "write p50 ms", "write p95 ms", "end p50 ms", "end p95 ms", "p95 to p95"]
    table("One `end`, next to one crash-safe file write", columns, rows)


if __name__ == "__main__":
    asyncio.run(main())
