"""What durable writing costs next to the least it could cost. `python benchmarks/storage.py [--turns 100000]`"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from mnemon import AsyncMemory, Config, Scope, Turn
from mnemon.contracts.entries import Entry
from mnemon.contracts.scope import Owner, SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.drivers.archive.fs import FsArchive
from mnemon.drivers.index.sqlite import SqliteIndex
from mnemon.engine.clock import SystemClock
from mnemon.pipelines.write.intake import take_in
from mnemon.pipelines.write.order import WriteOrder
from report import NoEmbedder, alternate, milliseconds, p50, p95, peak_mb, table, verdict

SENTENCES = [
    "I told you last week that the review of the Q3 budget moves to Thursday afternoon.",
    "我对花生过敏，一点都不能碰，点外卖的时候一定要备注清楚。",
    "Could you remind me to call the dentist tomorrow before ten?",
    "周末准备和妹妹一起去青城山爬山，早上七点的高铁。",
    "The build fails only on the ARM runner, the log says the wheel is missing.",
    "下个月开始我要换到杭州的办公室上班了，通勤大概四十分钟。",
]
SCOPE = Scope.of("bench", "owner")
# The words alone, into archive and index.
WORDS: dict[str, Any] = {"extract": False, "stages": "off", "graph_upsert": False}


def turns(count: int, prefix: str = "t") -> list[Turn]:
    rng = random.Random(count)
    return [
        Turn(turn_id=f"{prefix}{i:06d}", role="user" if i % 2 else "assistant", text=" ".join(rng.sample(SENTENCES, 2)))
        for i in range(count)
    ]


async def open_session(archive: FsArchive, name: str) -> SessionKey:
    now = SystemClock().now()
    key = SessionKey("bench", Owner.user("owner"), name)
    record = SessionRecord(
        tenant_id="bench", owner_kind=key.owner.kind, owner_id="owner", session_id=name, principals=("u:owner",),
        created_at=now, updated_at=now,
    )  # fmt: skip
    await archive.write_session(SCOPE, record, 0)
    return key


async def one_turn(home: Path, rounds: int) -> list[str]:
    archive = FsArchive(home, SystemClock())
    key = await open_session(archive, "one")
    all_turns = turns(rounds)
    line = b"x" * 420
    fd = os.open(home / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def bare(_: int) -> None:
        os.write(fd, line)
        os.fsync(fd)

    async def ours(i: int) -> None:
        await archive.append_turns(SCOPE, key, [all_turns[i]])

    base, mine = await alternate(rounds, bare, ours)
    os.close(fd)
    ratio = p50(mine) / p50(base)
    return ["append one turn, durable", "bare append + fsync", milliseconds(p50(base)), milliseconds(p50(mine)),
            milliseconds(p95(mine)), verdict(ratio, 3)]  # fmt: skip


async def one_session(home: Path, rounds: int) -> list[list[str]]:
    embedder = NoEmbedder()
    memory = AsyncMemory(home / "ours", embedder=embedder, config=Config(background_worker=False))
    index = SqliteIndex(home / "bare.db", embedder.model, embedder.dimension)
    batch = turns(200)
    rows = [t.model_dump(mode="json", exclude_defaults=True) for t in batch]
    data = b"".join(t.model_dump_json().encode() + b"x" * 200 for t in batch)

    async def bare(i: int) -> None:
        with (home / f"session-{i}").open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fields = {"role": "user", "uri": f"ctx://bench/users/owner/sessions/b{i}", "session_id": f"b{i}", "ts": 1}
        entries = [
            Entry(f"{i}-{t.turn_id}", ("u:owner",), t.text, "turn", {**fields, "seq": n}, {}, embedder.next_vector())
            for n, t in enumerate(batch)
        ]
        await index.upsert(SCOPE, entries)

    async def parsed(i: int) -> None:
        key = SessionKey("bench", Owner.user("owner"), f"p{i}")
        await memory.parts.writer.write(SCOPE, key, ("u:owner",), intake, order, None)

    async def whole(i: int) -> None:
        await memory.session_write("bench", "owner", f"s{i}", turns=rows, **WORDS)

    async def with_graph(i: int) -> None:
        await memory.session_write("bench", "owner", f"g{i}", turns=rows, **{**WORDS, "graph_upsert": True})

    intake = take_in(rows, "canonical_turns_v1", None, None)
    order = WriteOrder(**WORDS)
    base, appended, mine, told = await alternate(rounds, bare, parsed, whole, with_graph)
    await memory.close()
    await index.close()
    found = []
    for name, times, limit in (
        ("append a session of 200 turns", appended, 2),
        ("session_write of it, parsing included", mine, None),
        ("the same, and the graph told", told, None),
    ):
        figures = [milliseconds(t) for t in (p50(base), p50(times), p95(times))]
        ratio = verdict(p50(times) / p50(base), limit)
        found.append([name, "same bytes, one fsync + index transaction", *figures, ratio])
    return found


async def ingest(home: Path, count: int, graph: bool) -> tuple[float, list[str]]:
    memory = AsyncMemory(home, embedder=NoEmbedder(), config=Config(background_worker=False))
    batch = [t.model_dump(mode="json", exclude_defaults=True) for t in turns(200)]
    before = peak_mb()
    begun = time.perf_counter()
    for number in itertools.count():
        if number * 200 >= count:
            break
        user = f"user{number % 100}"
        await memory.session_write("bench", user, f"s{number}", turns=batch, **{**WORDS, "graph_upsert": graph})
    seconds = time.perf_counter() - begun
    await memory.close()
    rate = number * 200 / seconds
    least, aim = (3000, "") if graph else (2500, ", aim ≥ 5,000")
    limit = f" (must ≥ {least:,}{aim}) {'ok' if rate >= least else 'MISSED'}"
    where = "archive, index, graph" if graph else "archive, index"
    row = [f"{number * 200:,}", where, f"{seconds:.1f}", f"{rate:,.0f}{limit}", f"{before:.0f} → {peak_mb():.0f}"]
    return seconds, row


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--dir", type=Path, help="a folder on the disk to measure; default: the current one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir or Path.cwd(), prefix="mnemon-bench-") as folder:
        home = Path(folder)
        for name in ("a", "b"):
            (home / name).mkdir()
        rows = [await one_turn(home / "a", options.rounds)]
        rows += await one_session(home / "b", max(options.rounds // 8, 20))
        columns = ["what", "next to", "bare p50 ms", "ours p50 ms", "ours p95 ms", "ratio"]
        table("Durable writing", columns, rows)
        columns = ["turns", "into", "seconds", "turns/s, embedding excluded", "peak memory MB", "times without graph"]
        without, plain = await ingest(home / "c", options.turns, graph=False)
        seconds, told = await ingest(home / "d", options.turns, graph=True)
        table("Ingest", columns, [[*plain, "1.00×"], [*told, f"{seconds / without:.2f}×"]])


if __name__ == "__main__":
    asyncio.run(main())
