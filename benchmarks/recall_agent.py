"""How right `recall` is without a model, and whether it costs more the longer somebody has been talking.

`python benchmarks/recall_agent.py` measures on the two test parts (tests/recall/README.md); `--all` adds those used for
development, `--dev` shows what goes wrong with them; `--quick` leaves out the cost by length.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from report import p50, p95, table, verdict

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "recall"))

from recall_noise import exchanges
from recall_people import DEVELOPMENT, MEASURED, NOW, PARTS, TENANT, Part, people
from recall_scoring import Score, scores

from mnemon import AsyncMemory, Config, Memory
from mnemon.testing.clock import FixedClock

COLUMNS = ["part", "language", "questions", "items", "precision", "recall", "evidence", "conflicts", "baseless"]
COLUMNS += ["don't know", "≤ 8 calls"]
QUIET = Config(background_worker=False)
SIZES = (10_000, 100_000)
MOST = 3.0


def figures(parts: Sequence[Part], embedder: str | None, errors: bool) -> None:
    rows, calls = [], []
    for part in parts:
        clock = FixedClock(NOW)
        with (
            tempfile.TemporaryDirectory() as home,
            Memory(home, embedder=embedder, config=QUIET, clock=clock) as memory,
        ):
            found = scores(memory, part)
        if errors:
            print("\n".join(found["both"].errors))
        rows += [[part, language, *_cells(score)] for language, score in found.items()]
        calls += found["both"].calls
    table("Recall without a model, questions labelled by hand", COLUMNS, rows)
    print(f"\n{p50(calls):g} tool calls p50, {p95(calls):g} p95")


def _cells(score: Score) -> list[str]:
    shares = [score.items_correct, score.precision, score.recall, score.evidence, score.settled]
    return [
        str(score.questions),
        *(f"{share:.1%}" for share in shares),
        str(score.baseless),
        f"{score.dont_know:.1%}",
        f"{score.few_calls:.1%}",
    ]


async def costs(home: str, rounds: int) -> None:
    """The same questions to two people, one of whom has said ten times as much."""
    questions = [question.ask for person in people("dev") for question in person.questions][: rounds or None]
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    async with AsyncMemory(home, embedder="hash", config=QUIET, clock=FixedClock(NOW)) as memory:
        for size in SIZES:
            await _fill(memory, f"of{size}", size)
        for question in questions:
            for size, kept in times.items():
                begun = time.perf_counter()
                await memory.recall(question, TENANT, f"of{size}")
                kept.append(time.perf_counter() - begun)
    few, many = (p50(times[size]) for size in SIZES)
    rows = [[f"{size:,}", f"{p50(kept) * 1000:.1f}", f"{p95(kept) * 1000:.1f}"] for size, kept in times.items()]
    table("A recall by how much one person has said, hash embedder", ["messages", "p50 ms", "p95 ms"], rows)
    print(f"\n{verdict(many / few, MOST)}")


async def _fill(memory: AsyncMemory, user: str, size: int, session: int = 1000) -> None:
    """Everyday talk in two languages over a year, and every tenth session a person's own words."""
    rng, noise = random.Random(user), (exchanges("zh", user), exchanges("en", user))
    planted = [said for person in people("dev") for talk in person.talks for said in talk.said if said.key]
    for number, at in enumerate(range(0, size, session)):
        lines: list[tuple[str, str]] = []
        while len(lines) < session - 1:
            lines += zip(("user", "assistant"), next(rng.choice(noise)), strict=True)
        told = rng.choice(planted)
        lines.append((told.role, told.text))
        begun = NOW - timedelta(days=365) * (1 - at / size)
        turns = [
            {"role": role, "text": text, "timestamp_iso": (begun + timedelta(seconds=20 * n)).isoformat()}
            for n, (role, text) in enumerate(lines[:session])
        ]
        await memory.session_write(TENANT, user, f"s{number}", turns=turns, extract=False, stages="off")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the development parts too")
    parser.add_argument("--dev", action="store_true", help="the development parts alone, with what goes wrong in them")
    parser.add_argument("--embedder", help="hash or local; without it the local one where it is installed")
    parser.add_argument("--quick", action="store_true", help="leave out the cost by length of history")
    parser.add_argument("--rounds", type=int, default=0, help="how many questions for the cost (default all)")
    options = parser.parse_args()
    parts = DEVELOPMENT if options.dev else PARTS if options.all else MEASURED
    figures(parts, options.embedder, options.dev)
    if not (options.quick or options.dev):
        with tempfile.TemporaryDirectory() as home:
            asyncio.run(costs(home, options.rounds))


if __name__ == "__main__":
    main()
