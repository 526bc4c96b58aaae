"""Long turns and long sessions against short ones, in one run. `python benchmarks/sizes.py [--turns 100000] [--mb 10]`

An append is one `session_write(mode="append")` of one turn through the front door, index and graph included. Ratios are
of processor time, which neighbours on the machine disturb less."""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mnemon import Config, Memory
from mnemon.drivers.embed.hash import HashEmbedder
from report import table, verdict

QUIET = Config(background_worker=False)
WORDS = ["the", "quick", "brown", "fox", "watches", "while", "nobody", "grows", "quince", "trees", "towards", "evening"]
WORDS += ["light", "北京", "天气很好"]


def opened(home: Path) -> Memory:
    return Memory(home, llm="rules", embedder=HashEmbedder(), config=QUIET)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of the processor, and of the wall."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return (time.process_time() - processor) * 1000, (time.perf_counter() - wall) * 1000


def row(what: str, times: tuple[float, float], of: int = 1) -> list[str]:
    return [what, *(f"{t / of:.2f}" for t in times)]


def median(times: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(t for t, _ in times), statistics.median(w for _, w in times)


def append(memory: Memory, session: str, extract: bool) -> tuple[float, float]:
    turn = {"role": "user", "turn_id": f"more {time.time_ns()}", "text": f"and one more thing at {time.time_ns()}"}
    return timed(lambda: memory.session_write("t", "u", session, turns=[turn], mode="append", extract=extract))


def sessions(home: Path, sizes: dict[str, int]) -> tuple[list[list[str]], dict[str, float]]:
    rows: list[list[str]] = []
    spent: dict[tuple[str, str], float] = {}
    for name, size in sizes.items():
        turns = [{"role": "user", "turn_id": f"t{n}", "text": f"line {n} of matter {n % 97}"} for n in range(size)]
        with opened(home) as memory:
            times = timed(lambda: memory.session_write("t", "u", name, turns=turns, extract=False))  # noqa: B023
        spent["a turn of many written at once", name] = times[0] / size
        rows.append(row(f"{size} turns at once, each", times, size))
    for extract, kind in ((False, "words alone"), (True, "with rules")):
        for name in sizes:
            with opened(home) as memory:
                append(memory, name, extract)  # what was never judged is judged here, all of it
                append(memory, name, extract)
            with opened(home) as memory:
                append(memory, "other", extract)  # what a process pays once, whatever it writes
                append(memory, "other", extract)
                spent[f"first append of a process, {kind}", name] = append(memory, name, extract)[0]
                times = median([append(memory, name, extract) for _ in range(15)])
                spent[f"append, {kind}", name] = times[0]
                rows.append(row(f"append to the {name} one, {kind}", times))
    short, long = sizes
    return rows, {what: spent[what, long] / t for (what, name), t in spent.items() if name == short}


def turn(home: Path, megabytes: float) -> tuple[list[list[str]], float]:
    rng = random.Random(1)
    numbered = (rng.choice(WORDS) + (str(rng.randrange(10**5)) if rng.random() < 0.1 else "") for _ in iter(int, 1))
    words, size = [], 0
    while size < megabytes * 1e6:
        words.append(next(numbered))
        size += len(words[-1].encode()) + 1
    said = [{"role": "user", "text": " ".join(words) + " zanzibar."}]
    with opened(home) as memory:
        written = timed(lambda: memory.session_write("t", "u", "s", turns=said, extract=False))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows = [row(f"write a turn of {megabytes:g} MB (the process had {peak:.0f} MB at most)", written)]
        bound = memory.bind("t", "u")
        rows.append(row("the first word search in it", timed(lambda: bound.lexical_search("fox"))))
        slowest = 0.0
        for query in ("zanzibar", "quince trees", "天气", '"evening light"'):
            times = median([timed(lambda: bound.lexical_search(query)) for _ in range(5)])  # noqa: B023
            rows.append(row(f"word search for {query}", times))
            slowest = max(slowest, times[0])
    return rows, slowest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--mb", type=float, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows, ratios = sessions(Path(folder) / "sessions", {"short": 100, "long": asked.turns})
        more, slowest = turn(Path(folder) / "turn", asked.mb)
    table("What large things cost", ["", "processor ms", "wall ms"], [*rows, *more])
    told = [[name, verdict(ratio, 3 if name.startswith("append") else None)] for name, ratio in ratios.items()]
    told.append([f"word search over {asked.mb:g} MB, of 200 ms", verdict(slowest / 200, 1)])
    table(f"A session of {asked.turns} turns against one of 100", ["", "times"], told)


if __name__ == "__main__":
    main()
