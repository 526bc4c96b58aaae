"""The default index next to embedded Chroma and qdrant-client's local mode, on the same filtered queries, in one run.

`pip install 'mnemon[bench]'`, then `python benchmarks/engines.py [--owners 200] [--large 5000]`
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

from mnemon import Scope
from mnemon.contracts.entries import Ask, Entry, Vector
from mnemon.drivers.index.sqlite import SqliteIndex
from report import NoEmbedder, milliseconds, p50, p95, table
from words import sentence

os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
warnings.simplefilter("ignore")  # the other engines warn about their own versions
import chromadb  # noqa: E402
from chromadb.config import Settings  # noqa: E402
from qdrant_client import QdrantClient, models  # noqa: E402

VECTORS = NoEmbedder()
TOP = 10
Row = tuple[str, str, str, Vector]  # id, owner, text, vector


class Engine(Protocol):
    name: str

    def insert(self, rows: list[Row]) -> None: ...

    def search(self, owner: str, vector: Vector) -> list[str]: ...


class Mnemon:
    name = "mnemon (SQLite, exact)"

    def __init__(self, home: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._index = SqliteIndex(home / "index.db", VECTORS.model, VECTORS.dimension)

    def insert(self, rows: list[Row]) -> None:
        for owner in {r[1] for r in rows}:
            entries = [Entry(i, (f"u:{o}",), t, "turn", {}, {}, v) for i, o, t, v in rows if o == owner]
            self._loop.run_until_complete(self._index.upsert(Scope.of("t", owner), entries))

    def search(self, owner: str, vector: Vector) -> list[str]:
        hits = self._loop.run_until_complete(self._index.search(Scope.of("t", owner), Ask(vector=vector, limit=TOP)))
        return [h.entry.id for h in hits]


class Chroma:
    name = "Chroma (embedded)"

    def __init__(self, home: Path) -> None:
        client = chromadb.PersistentClient(str(home), settings=Settings(anonymized_telemetry=False))
        self._rows = client.create_collection("rows", metadata={"hnsw:space": "cosine"}, embedding_function=None)

    def insert(self, rows: list[Row]) -> None:
        ids, owners, texts, vectors = zip(*rows, strict=True)
        self._rows.add(
            ids=list(ids),
            embeddings=np.stack(vectors),
            documents=list(texts),
            metadatas=[{"owner": o} for o in owners],
        )

    def search(self, owner: str, vector: Vector) -> list[str]:
        return self._rows.query(query_embeddings=[vector], n_results=TOP, where={"owner": owner})["ids"][0]


class QdrantLocal:
    name = "qdrant-client (local mode)"

    def __init__(self, home: Path) -> None:
        self._client = QdrantClient(path=str(home))
        size = models.VectorParams(size=VECTORS.dimension, distance=models.Distance.COSINE)
        self._client.create_collection("t", vectors_config=size)
        self._number = 0
        self._ids: dict[int, str] = {}

    def insert(self, rows: list[Row]) -> None:
        points = []
        for id_, owner, text, vector in rows:
            self._number += 1
            self._ids[self._number] = id_
            payload = {"owner": owner, "text": text}
            points.append(models.PointStruct(id=self._number, vector=vector.tolist(), payload=payload))
        self._client.upsert("t", points)

    def search(self, owner: str, vector: Vector) -> list[str]:
        mine = models.Filter(must=[models.FieldCondition(key="owner", match=models.MatchValue(value=owner))])
        found = self._client.query_points("t", query=vector.tolist(), query_filter=mine, limit=TOP, with_payload=True)
        return [self._ids[int(p.id)] for p in found.points]


def corpus(owners: int, large: int) -> dict[str, list[Row]]:
    rng = random.Random(5)
    sizes = {f"small{i}": 80 for i in range(owners)} | {"large": large}
    vectors = np.random.default_rng(1).normal(size=(sum(sizes.values()), VECTORS.dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    at = iter(vectors)
    return {o: [(f"{o}-{i}", o, sentence(rng), next(at)) for i in range(n)] for o, n in sizes.items()}


def truth(rows: list[Row], vector: Vector) -> set[str]:
    scores = np.stack([r[3] for r in rows]) @ vector
    return {rows[i][0] for i in np.argsort(-scores)[:TOP]}


def measure(engine: Engine, data: dict[str, list[Row]], queries: int) -> list[str]:
    inserts: list[float] = []
    for rows in data.values():
        for at in range(0, len(rows), 500):
            part = rows[at : at + 500]
            begun = time.perf_counter()
            engine.insert(part)
            inserts.append((time.perf_counter() - begun) / len(part))
    rng = random.Random(9)
    cells = [engine.name, milliseconds(p50(inserts))]
    hits = wanted = 0
    for pick in ([o for o in data if o != "large"], ["large"]):
        times: list[float] = []
        for owner in pick[:50]:
            engine.search(owner, VECTORS.next_vector())  # warm
        for _ in range(queries):
            owner, vector = rng.choice(pick[:50]), VECTORS.next_vector()
            begun = time.perf_counter()
            found = engine.search(owner, vector)
            times.append(time.perf_counter() - begun)
            expected = truth(data[owner], vector)
            hits += len(expected & set(found))
            wanted += len(expected)
        cells += [milliseconds(p50(times)), milliseconds(p95(times))]
    return [*cells, f"{hits / wanted:.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--owners", type=int, default=200)
    parser.add_argument("--large", type=int, default=5_000)
    parser.add_argument("--only-mnemon", action="store_true")
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--dir", type=Path, default=Path.cwd())
    options = parser.parse_args()
    data = corpus(options.owners, options.large)
    loop = asyncio.new_event_loop()
    makers: list[Callable[[Path], Engine]] = [lambda home: Mnemon(home, loop), Chroma, QdrantLocal]
    if options.only_mnemon:
        makers = makers[:1]
    found = []
    for number, make in enumerate(makers):
        home = Path(tempfile.mkdtemp(dir=options.dir, prefix="mnemon-bench-"))
        try:
            found.append(measure(make(home / str(number)) if number else make(home), data, options.queries))
        finally:
            shutil.rmtree(home, ignore_errors=True)
    total = sum(map(len, data.values()))
    small, large = "owner of 80", f"owner of {options.large:,}"
    columns = ["engine", "insert ms/row", f"{small} p50 ms", "p95", f"{large} p50 ms", "p95", f"recall@{TOP}"]
    table(f"Filtered top {TOP} among {total:,} rows × {VECTORS.dimension}", columns, found)
    loop.close()


if __name__ == "__main__":
    main()
