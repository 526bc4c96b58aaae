"""What a search costs next to a bare scan of the same rows, and whether others' rows make it slower.

`python benchmarks/search.py [--rows 1000000]`; query embedding excluded, everything in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

from mnemon import Scope
from mnemon.contracts.entries import Ask, Entry
from mnemon.drivers.index.sqlite import SqliteIndex
from mnemon.logic.text import grams, terms
from report import NoEmbedder, alternate, milliseconds, p50, p95, table, verdict
from words import sentence

SMALL, LARGE = 100, 20_000
VECTORS = NoEmbedder()
QUERIES = ["火锅 weekend", "allergic peanuts", "妹妹 生日", "hiking trail Sunday", "合同 周五", "doctor appointment"]


def rows(owner: str, count: int, seed: int) -> list[Entry]:
    rng = random.Random(seed)
    return [
        Entry(
            f"{owner}-{i}",
            (f"u:{owner}",),
            sentence(rng),
            "turn",
            {"seq": i, "ts": i, "role": "user", "session_id": "s", "uri": f"ctx://{owner}/s"},
            {},
            VECTORS.next_vector(),
        )
        for i in range(count)
    ]


async def fill(index: SqliteIndex, total: int) -> None:
    """Small owners until there are `total` rows."""
    begun = time.perf_counter()
    for at in range(0, total // SMALL, 40):
        for number in range(at, min(at + 40, total // SMALL)):
            name = f"o{total}-{number}"
            await index.upsert(Scope.of("bench", name), rows(name, SMALL, number))
    print(f"  {total:,} rows of other owners in {time.perf_counter() - begun:.0f} s")


def bare_scan(entries: list[Entry]):  # type: ignore[no-untyped-def]
    """The least a dense search can do: one product, the ten best, their texts."""
    matrix = np.stack([e.vector for e in entries if e.vector is not None])
    texts = [e.text for e in entries]

    async def scan(i: int) -> None:
        scores = matrix @ VECTORS.next_vector()
        top = np.argpartition(scores, -10)[-10:]
        _ = [(texts[t], float(scores[t])) for t in top[np.argsort(-scores[top])]]

    return scan


def bare_fts(entries: list[Entry], path: Path):  # type: ignore[no-untyped-def]
    """The least a word search can do: FTS5 over the same grams of the same rows, the ten best, their texts."""
    db = sqlite3.connect(path)
    db.execute("CREATE VIRTUAL TABLE f USING fts5(grams, text UNINDEXED)")
    db.executemany("INSERT INTO f VALUES (?, ?)", [(_grams(e.text), e.text) for e in entries])
    db.commit()
    asked = [" OR ".join(_grams(q, query=True).split()) for q in QUERIES]
    sql = "SELECT text, bm25(f) FROM f WHERE f MATCH ? ORDER BY bm25(f) LIMIT 10"

    async def query(i: int) -> None:
        db.execute(sql, (asked[i % len(asked)],)).fetchall()

    return query


def _grams(text: str, query: bool = False) -> str:
    numbers = terms(text)
    found = grams(numbers) if query else [*(n for n in numbers if n), *grams(numbers)]
    return " ".join(f"g{n:x}" for n in found)


def searches(index: SqliteIndex, owner: str):  # type: ignore[no-untyped-def]
    scope = Scope.of("bench", owner)

    async def dense(i: int) -> None:
        assert len(await index.search(scope, Ask(vector=VECTORS.next_vector()))) == 10

    async def words(i: int) -> None:
        assert await index.search(scope, Ask(text=QUERIES[i % len(QUERIES)]))

    return dense, words


async def compare(index: SqliteIndex, owner: str, entries: list[Entry], home: Path, rounds: int) -> list[list[str]]:
    dense, words = searches(index, owner)
    for work in (dense, words):
        await work(0)
    count = f"owner of {len(entries):,}"
    base, ours = await alternate(rounds, bare_scan(entries), dense)
    found = [[f"semantic, {count}", "bare numpy scan", milliseconds(p50(base)), milliseconds(p50(ours)),
              milliseconds(p95(ours)), verdict(p50(ours) / p50(base), 3)]]  # fmt: skip
    base, ours = await alternate(rounds, bare_fts(entries, home / f"fts-{owner}.db"), words)
    limit = 3 if len(entries) == SMALL else None
    found.append([f"lexical, {count}", "bare FTS5 query", milliseconds(p50(base)), milliseconds(p50(ours)),
                  milliseconds(p95(ours)), verdict(p50(ours) / p50(base), limit)])  # fmt: skip
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of all owners in the large index")
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--dir", type=Path, default=Path.cwd())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="mnemon-bench-") as folder:
        home = Path(folder)
        few = SqliteIndex(home / "few.db", VECTORS.model, VECTORS.dimension)
        many = SqliteIndex(home / "many.db", VECTORS.model, VECTORS.dimension)
        small, large = rows("small", SMALL, 1), rows("large", LARGE, 2)
        for index, total in ((few, 10_000), (many, options.rows)):
            await fill(index, total)
            await index.upsert(Scope.of("bench", "small"), small)
        await few.upsert(Scope.of("bench", "large"), large)
        found = await compare(few, "small", small, home, options.rounds)
        found += await compare(few, "large", large, home, options.rounds // 4)
        for name, a, b in zip(("semantic", "lexical"), searches(few, "small"), searches(many, "small"), strict=True):
            await b(0)
            base, ours = await alternate(options.rounds, a, b)
            found.append([f"{name}, owner of 100 among {options.rows:,} rows", "the same among 10,000 rows",
                          milliseconds(p50(base)), milliseconds(p50(ours)), milliseconds(p95(ours)),
                          verdict(p50(ours) / p50(base), 1.5)])  # fmt: skip
        table("Searching, warm", ["what", "next to", "bare p50 ms", "ours p50 ms", "ours p95 ms", "ratio"], found)
        await few.close()
        await many.close()


if __name__ == "__main__":
    asyncio.run(main())
