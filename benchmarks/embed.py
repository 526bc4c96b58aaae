"""How fast texts become vectors: the local embedder in English and Chinese, its loading, and the cache around it."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mnemon.contracts.ports import Embedder
from mnemon.drivers.embed.cache import CachedEmbedder
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.embed.local import LocalEmbedder

PEOPLE = (
    ("Anna", "安娜"),
    ("my brother", "我哥哥"),
    ("the neighbour", "邻居"),
    ("Li Wei", "李伟"),
    ("our teacher", "老师"),
)
DEEDS = (
    ("bought a second-hand bicycle", "买了一辆二手自行车"),
    ("is allergic to peanuts and shrimp", "对花生和虾过敏"),
    ("moved to a flat near the river", "搬到了河边的公寓"),
    ("wants to learn the violin next year", "明年想学小提琴"),
    ("lost the keys on the way to work", "上班路上丢了钥匙"),
)
WHENS = (
    ("last Friday, after a long day at the office", "上周五，在办公室忙了一天之后"),
    ("in the spring of 2023", "在2023年春天"),
    ("two days before the exam", "考试前两天"),
    ("while we were cooking dinner together", "我们一起做晚饭的时候"),
)


def sentences(language: int, count: int) -> list[str]:
    """Ordinary sentences, all different."""
    parts = itertools.product(PEOPLE, DEEDS, WHENS, range(count))
    joint = ("{} {} {}, note {}.", "{}{}，{}，第{}条。")[language]
    return [joint.format(p[language], d[language], w[language], n) for p, d, w, n in itertools.islice(parts, count)]


async def rate(embedder: Embedder, texts: list[str], batch: int) -> float:
    start = time.perf_counter()
    for place in range(0, len(texts), batch):
        await embedder.embed_texts(texts[place : place + batch])
    return len(texts) / (time.perf_counter() - start)


async def first_answer(embedder: Embedder, text: str) -> float:
    start = time.perf_counter()
    await embedder.embed_texts([text])
    return time.perf_counter() - start


async def measure(count: int, folder: Path) -> Table:
    table = Table("what", "figure", title=f"embedding {count} texts")
    local = LocalEmbedder()
    table.add_row("cold load, first English text", f"{await first_answer(local, 'warm up'):.2f} s")
    table.add_row("dictionary, first Chinese text", f"{await first_answer(local, '预热'):.2f} s")
    english, chinese = sentences(0, count), sentences(1, count)
    for name, texts in (("English", english), ("Chinese", chinese)):
        table.add_row(f"local, {name}, in batches of 64", f"{await rate(local, texts, 64):.0f} texts/s")
        table.add_row(f"local, {name}, one by one", f"{await rate(local, texts[: count // 4 or 1], 1):.0f} texts/s")
    table.add_row("hash, both", f"{await rate(HashEmbedder(), english + chinese, 64):.0f} texts/s")
    cache = CachedEmbedder(local, folder / "vectors.db", purpose_matters=False)
    table.add_row("cache, first time", f"{await rate(cache, english, 64):.0f} texts/s")
    table.add_row("cache, second time", f"{await rate(cache, english, 64):.0f} texts/s")
    table.add_row("cache hit rate over both", f"{cache.hits / (cache.hits + cache.misses):.0%}")
    await cache.close()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=256, help="how many texts of each language (default 256)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Console().print(asyncio.run(measure(options.texts, Path(folder))))


if __name__ == "__main__":
    main()
