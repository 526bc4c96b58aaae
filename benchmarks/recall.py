"""`dialog_v2`'s weights and what each is worth, on conversations with known evidence; and how long a question takes.

    python benchmarks/recall.py --home DIR --data locomo=FOLDER --data madial=FOLDER … [--choose | --ablate | --speed]

`--choose` climbs from the weights in the package to better ones for all folders together and prints them; `--ablate`
says what is lost without each ingredient; `--speed` asks an owner of 10,000 turns. DIR keeps what was written.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mnemon import AsyncMemory, Config, Memory
from mnemon.contracts.filters import EVERYTHING, Range
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import epoch_ms, parse_time
from mnemon.logic.retrieval.choosing import in_order, spread
from mnemon.logic.retrieval.features import FEATURES, Table
from mnemon.logic.retrieval.ranking_data import ranking_data
from mnemon.pipelines.retrieval.desk import Desk, Request
from mnemon.pipelines.retrieval.hybrid import gathered
from mnemon.surfaces.bench.datasets import Dataset, load
from mnemon.surfaces.bench.measures import Figures, mean, measured
from mnemon.surfaces.bench.recall import ADVERSARIAL, TENANT, write

QUIET = Config(background_worker=False)
DATA = ranking_data()
# What an ingredient of the ablation is made of.
INGREDIENTS = {
    "words": ("words",),
    "meaning": ("meaning",),
    "neighbours": ("words_before", "words_after", "meaning_before", "meaning_after", "around", "answers"),
    "session": ("session_best", "session_sum", "session_coverage"),
    "speaker": ("speaker", "speaker_of_self", "other_to_them"),
    "wording": ("of_self", "asks", "length", "by_user"),
    "phrase and coverage": ("phrase", "coverage"),
    "dates": ("dated", "in_period"),
    "recency": ("recent",),
    "claims": ("facts",),
}
_STEPS = (0.08, 0.04, 0.02)
# A large set says more about a weight than a small one.
_COUNTS = {"locomo": 2.0, "realmem": 1.0, "madial": 0.5}


@dataclass(frozen=True)
class Asked:
    """One question with every reason for every candidate, so that weights can be tried without asking again."""

    category: str
    evidence: frozenset[str]
    names: tuple[str, ...]
    table: Table
    several: bool

    def ranking(self, weights: dict[str, float], depth: int, diverse: bool = True) -> list[str]:
        scores: NDArray[np.float64] = self.table.scores(weights)
        if self.several and diverse:
            chosen = spread(self.table.candidates, scores, depth, DATA.several)
        else:
            best = np.argsort(-scores, kind="stable")[: 2 * depth]
            chosen = in_order([self.table.candidates[i] for i in best], scores[best], depth)
            chosen = [int(best[i]) for i in chosen]
        return [self.names[i] for i in chosen]


async def ask_all(home: Path, dataset: Dataset) -> list[Asked]:
    out = []
    async with AsyncMemory(home, config=QUIET) as memory:
        parts = memory.parts
        for question in dataset.questions:
            scope = Scope.of(TENANT, question.owner, agent_id="default")
            desk = Desk(parts.index, parts.embedder, scope, parts.clock.now())
            when = Range("ts", lt=epoch_ms(parse_time(question.before))) if question.before else EVERYTHING
            understood, table = await gathered(Request(question.text, scope, 30, when), desk, DATA)
            if table is not None:
                field = "turn_id" if dataset.unit == "turn" else "session_id"
                names = tuple(str(c.entry.fields[field]) for c in table.candidates)
                out.append(Asked(question.category, question.evidence, names, table, understood.wants_several))
    return out


def figures(asked: Sequence[Asked], weights: dict[str, float], diverse: bool = True) -> dict[str, Figures]:
    rows = [(a.category, measured(a.evidence, a.ranking(weights, 60, diverse))) for a in asked]
    told = {"all": mean(f for category, f in rows if category != ADVERSARIAL)}
    if adversarial := [f for category, f in rows if category == ADVERSARIAL]:
        told["adversarial"] = mean(adversarial)
    return told


def worth(sets: dict[str, list[Asked]], weights: dict[str, float]) -> float:
    """What is climbed: recall first, order second; a question about the wrong person must go on finding the words it
    was made from."""
    total = 0.0
    for name, asked in sets.items():
        told = figures(asked, weights)
        gain = told["all"]["rec@10"] + 0.35 * told["all"]["any@1"] + 0.35 * told["all"]["ndcg@10"]
        if "adversarial" in told:
            gain -= 2 * max(0.0, 0.435 - told["adversarial"]["any@1"])
        total += _COUNTS.get(name, 1.0) * gain
    return 100 * total


def choose(sets: dict[str, list[Asked]]) -> dict[str, float]:
    weights = dict(DATA.weights)
    best = worth(sets, weights)
    for step in _STEPS:
        for name in FEATURES:
            for way in (step, -step):
                while (tried := worth(sets, better := {**weights, name: round(weights.get(name, 0) + way, 4)})) > (
                    best + 0.04
                ):
                    best, weights = tried, better
        print(f"step {step}: {best:.2f}", flush=True)
    return weights


def ablate(sets: dict[str, list[Asked]]) -> None:
    print("| without | " + " | ".join(f"{name} rec@10 | any@1 | nDCG@10 | ADV any@1" for name in sets) + " |")
    print("|---|" + "---|" * (4 * len(sets)))
    whole = dict(DATA.weights)
    for name, parts in {"(nothing)": (), **INGREDIENTS, "diversity": ()}.items():
        less = {f: w for f, w in whole.items() if f not in parts}
        cells = []
        for asked in sets.values():
            told = figures(asked, less, diverse=name != "diversity")
            adversarial = told.get("adversarial")
            cells += [f"{100 * told['all'][f]:.1f}" for f in ("rec@10", "any@1", "ndcg@10")]
            cells.append(f"{100 * adversarial['any@1']:.1f}" if adversarial else "")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


async def speed(home: Path, dataset: Dataset, turns: int = 10_000, questions: int = 100) -> None:
    """The conversations again and again, each time as another session of one owner."""
    async with AsyncMemory(home, config=QUIET) as memory:
        written = 0
        for round_ in range(turns):
            for conversation in dataset.conversations:
                if written >= turns:
                    break
                session = f"{round_}/{conversation.owner}/{conversation.session_id}"
                await memory.session_write(
                    TENANT, "many", session, turns=list(conversation.turns), extract=False, stages="off"
                )
                written += len(conversation.turns)
            if written >= turns:
                break
        for name in ("dialog_v1", "dialog_v2"):
            embed, whole = [], []
            for n, question in enumerate(dataset.questions[: questions + 5]):
                text = f"{question.text} {name} {n} {time.time_ns()}"  # so that no vector is remembered
                begun = time.perf_counter()
                result = await memory.retrieval(text, TENANT, "many", strategy=name)
                took = (time.perf_counter() - begun) * 1000
                if n >= 5:
                    whole.append(took)
                    embed.append(sum(c.latency_ms for c in result.debug.executed_calls if c.api == "embed"))
            p50, one = statistics.median(whole), statistics.median(embed)
            print(f"{name}: {written} turns, p50 {p50:.1f} ms, the embedding alone {one:.1f} ms, {p50 / one:.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FOLDER")
    for flag in ("choose", "ablate", "speed"):
        parser.add_argument(f"--{flag}", action="store_true")
    given = parser.parse_args()
    sets: dict[str, list[Asked]] = {}
    for pair in given.data:
        name, _, folder = pair.partition("=")
        dataset, home = load(name, Path(folder)), given.home / name
        if given.speed:
            asyncio.run(speed(given.home / "speed", dataset))
            return
        with Memory(home, config=QUIET) as memory:
            write(memory, dataset)
        sets[name] = asyncio.run(ask_all(home, dataset))
        told = figures(sets[name], dict(DATA.weights))
        print(name, {s: {k: round(100 * v, 1) for k, v in f.items() if k != "n"} for s, f in told.items()}, flush=True)
    if given.choose:
        chosen = choose(sets)
        print("[weights]")
        print("\n".join(f"{name} = {chosen[name]:g}" for name in FEATURES if chosen.get(name)))
    if given.ablate:
        ablate(sets)


if __name__ == "__main__":
    main()
