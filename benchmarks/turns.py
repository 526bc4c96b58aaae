"""A chat's single turn through the front door, durable and findable when the call returns, beside the least it could
cost and beside peers that can be installed. `python benchmarks/turns.py [--rounds 300] [--peers]`

Embedding is excluded for everybody: each text is given the same kind of vector at no cost. Peers (`pip install
'mnemon[bench]'`) keep their own promises: none of them keeps a chain that proves what was said, a page, or a graph.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mnemon import Config, Memory
from report import NoEmbedder, milliseconds, p50, p95, table, verdict

Write = Callable[[int], None]
WRITERS = 16


def text(i: int) -> str:
    return f"I bought a blue bicycle number {i} at the market today, for 12{i % 10} euros."


def bare(home: Path) -> Write:
    fd = os.open(home / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    line = b"x" * 420 + b"\n"

    def write(_: int) -> None:
        os.write(fd, line)
        os.fsync(fd)

    return write


def session_of_its_own(memory: Memory, name: str) -> Write:
    def write(i: int) -> None:
        told = memory.session_write(
            "bench", "owner", f"{name}{i}", turns=[{"role": "user", "text": text(i)}], extract=False
        )
        assert told.status == "ok", told.error_reason
        assert told.counts["turns_indexed"] == 1, told.degraded

    return write


def next_turn(memory: Memory, session: str) -> Write:
    def write(i: int) -> None:
        turn = {"turn_id": f"x{i}", "role": "user", "text": text(i)}
        told = memory.session_write("bench", "owner", session, turns=[turn], extract=False, mode="append")
        assert told.counts["turns_indexed"] == 1, told.degraded

    return write


def mem0(home: Path) -> Write:
    os.environ |= {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "none", "MEM0_DIR": str(home / "mem0")}
    from mem0 import Memory as Mem0

    place = {"collection_name": "bench", "path": str(home / "mem0" / "store"), "embedding_model_dims": 384}
    memory = Mem0.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": {**place, "on_disk": True}},
            "history_db_path": str(home / "mem0" / "history.db"),
        }
    )
    vectors = NoEmbedder()
    memory.embedding_model.embed = lambda *_, **__: vectors.next_vector().tolist()
    if hasattr(memory.embedding_model, "embed_batch"):
        memory.embedding_model.embed_batch = lambda texts, *_, **__: [vectors.next_vector().tolist() for _ in texts]

    def write(i: int) -> None:
        memory.add([{"role": "user", "content": text(i)}], user_id="owner", infer=False)

    return write


def chroma(home: Path) -> Write:
    import chromadb

    vectors = NoEmbedder()
    collection = chromadb.PersistentClient(str(home / "chroma")).create_collection("bench")

    def write(i: int) -> None:
        collection.add([f"t{i}"], embeddings=[vectors.next_vector().tolist()], documents=[text(i)])

    return write


def langgraph(home: Path) -> Write:
    """Its store by key, without vectors: those need an SQLite that loads extensions, which many Pythons lack."""
    from langgraph.store.sqlite import SqliteStore

    store = SqliteStore(sqlite3.connect(home / "langgraph.db", isolation_level=None, check_same_thread=False))
    store.setup()

    def write(i: int) -> None:
        store.put(("owner",), f"t{i}", {"text": text(i)})

    return write


PEERS = {
    "mem0": ("mem0", mem0),
    "chroma": ("chromadb", chroma),
    "langgraph store": ("langgraph.store.sqlite", langgraph),
}


def there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def in_turns(rounds: int, works: dict[str, Write]) -> dict[str, list[float]]:
    """Round by round, so that a noisy moment of the machine hits all of them."""
    for work in works.values():
        for i in range(5):
            work(10_000_000 + i)
    times: dict[str, list[float]] = {name: [] for name in works}
    for i in range(rounds):
        for name, work in works.items():
            begun = time.perf_counter()
            work(i)
            times[name].append(time.perf_counter() - begun)
    return times


def at_once(memory: Memory, writers: int, each: int, run: int) -> float:
    """Turns a second of several threads, each in sessions of its own."""
    with ThreadPoolExecutor(writers) as threads:
        begun = time.perf_counter()
        done = [
            threads.submit(lambda w=w: [session_of_its_own(memory, f"w{run}-{writers}-{w}-")(i) for i in range(each)])
            for w in range(writers)
        ]
        for one in done:
            one.result()
        return writers * each / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--peers", action="store_true", help="those of mem0, Chroma and LangGraph that are installed")
    parser.add_argument("--dir", type=Path, help="a folder on the disk to measure; default: the current one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir or Path.cwd(), prefix="mnemon-bench-") as folder:
        home = Path(folder)
        with Memory(home / "ours", embedder=NoEmbedder(), config=Config(background_worker=False)) as memory:
            works = {
                "bare append + fsync": bare(home),
                "session_write, a new session": session_of_its_own(memory, "s"),
                "session_write, the next turn": next_turn(memory, "long"),
            }
            if options.peers:
                works |= {name: make(home) for name, (module, make) in PEERS.items() if there(module)}
            times = in_turns(options.rounds, works)
            least = p50(times["bare append + fsync"])
            rows = []
            for name, taken in times.items():
                limit = 40 if name.startswith("session_write") else None
                rate = f"{1 / p50(taken):,.0f}"
                rows.append(
                    [name, milliseconds(p50(taken)), milliseconds(p95(taken)), rate, verdict(p50(taken) / least, limit)]
                )
            columns = ["one turn", "p50 ms", "p95 ms", "a second", "to the bare append"]
            table("One turn at a time, embedding excluded", columns, rows)
            rows = []
            each = max(options.rounds // WRITERS, 5)
            for run in range(3):
                one = at_once(memory, 1, each * 4, run)
                many = at_once(memory, WRITERS, each, run)
                ratio = many / one
                rows.append([f"{one:,.0f}", f"{many:,.0f}", f"{ratio:.2f}× (≥ 4×) {'ok' if ratio >= 4 else 'MISSED'}"])
            table(
                f"{WRITERS} threads, one memory", ["one writer, turns/s", f"{WRITERS} writers, turns/s", "ratio"], rows
            )


if __name__ == "__main__":
    main()
