"""How every benchmark prints: the machine first, then a table of ratios measured in one run."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mnemon.contracts.entries import EmbeddingVector, Vector


class NoEmbedder:
    """Gives every text the same kind of vector at no cost: what is measured is everything but the embedding."""

    model, dimension, semantic = "none", 384, False

    def __init__(self) -> None:
        rows = np.random.default_rng(7).normal(size=(4096, self.dimension)).astype(np.float32)
        self._vectors: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self._at = 0

    def next_vector(self) -> Vector:
        self._at += 1
        return self._vectors[self._at % len(self._vectors)]

    async def embed_texts(self, texts: list[str], purpose: str = "document") -> list[EmbeddingVector]:
        return [EmbeddingVector(self.next_vector()) for _ in texts]

    async def close(self) -> None:
        pass


def machine() -> str:
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{platform.machine()}, {os.cpu_count()} cores, {system}"


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(str(r[i])) for r in [columns, *rows]) for i in range(len(columns))]
    print(f"\n{title}\n{machine()}\n")
    for row in [columns, ["-" * w for w in widths], *rows]:
        print("| " + " | ".join(str(c).ljust(w) for c, w in zip(row, widths, strict=True)) + " |")


def p50(times: list[float]) -> float:
    return statistics.median(times)


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"


def verdict(ratio: float, limit: float | None) -> str:
    """A ratio, next to the limit we set ourselves, if there is one."""
    if limit is None:
        return f"{ratio:.2f}×"
    return f"{ratio:.2f}× (≤ {limit:g}×) {'ok' if ratio <= limit else 'MISSED'}"


async def alternate(rounds: int, *works: Callable[[int], Awaitable[None]]) -> list[list[float]]:
    """Time several things in turn, round by round, so that a noisy moment of the machine hits all of them."""
    times: list[list[float]] = [[] for _ in works]
    for i in range(rounds):
        for kept, work in zip(times, works, strict=True):
            begun = time.perf_counter()
            await work(i)
            kept.append(time.perf_counter() - begun)
    return times


def crash_safe_write(folder: Path, name: str, content: bytes) -> None:
    """The least that makes one small file survive a power cut, all of it or nothing."""
    temporary = folder / f"{name}.tmp"
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / name)
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


@contextmanager
def beside(*arguments: str) -> Iterator[None]:
    """Another Python at work from its first line of output on, until this is over."""
    child = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        child.stdout.readline()
        yield
        assert child.poll() is None, "the process beside this one died"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def peak_mb() -> float:
    """The most memory this process has held, by the kernel's account."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0
