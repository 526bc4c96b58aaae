"""Whether what was said is found, and that a model which judges it never hides it: hit@5 of every way to ask, with the
rules as the model and without any.

    python benchmarks/findable.py [--everyday FILE …] [--data locomo=FOLDER …] [--sample N] [--embedder local|hash]

A file of everyday sentences holds lines `{"id", "text", "question"}`; those under tests/findable are taken where none
is given. Only figures are printed, never a sentence. Exit code 1 where the rules find less than no model does.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from mnemon import Config, Memory
from mnemon.contracts.entries import EmbeddingVector
from mnemon.contracts.ports import Embedder, Purpose
from mnemon.contracts.recall import RecallResult
from mnemon.contracts.retrieval import RetrievalResult
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.embed.local import LocalEmbedder
from mnemon.surfaces.bench.datasets import Conversation, Dataset, Question, load
from report import table

TENANT = "findable"
DEPTH, ASKED_FOR = 5, 30
EVERYDAY = sorted(Path(__file__).parents[1].glob("tests/findable/everyday_*.jsonl"))
QUIET = Config(background_worker=False)
STRATEGIES = ("dialog_v1", "dialog_v2", "auto_v1")

# Session and turn of what was found, best first.
Places = Iterator[tuple[str, str]]


class Remembering:
    """Another embedder, asked for each text once: both homes hold the same."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[tuple[str, str], EmbeddingVector] = {}
        self.model, self.dimension, self.semantic = inner.model, inner.dimension, inner.semantic

    async def embed_texts(self, texts: Sequence[str], purpose: Purpose = "document") -> list[EmbeddingVector]:
        new = [text for text in dict.fromkeys(texts) if (purpose, text) not in self._known]
        for text, vector in zip(new, await self._inner.embed_texts(new, purpose) if new else [], strict=True):
            self._known[purpose, text] = vector
        return [self._known[purpose, text] for text in texts]

    async def close(self) -> None:
        return None


def everyday(path: Path) -> Dataset:
    """Every sentence a chat of its own, all of one person."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    said = [Conversation(path.stem, r["id"], ({"turn_id": r["id"], "role": "user", "text": r["text"]},)) for r in rows]
    asked = [Question(r["id"], path.stem, r["question"], "", frozenset({r["id"]})) for r in rows]
    return Dataset(path.stem, "turn", tuple(said), tuple(asked))


def sampled(dataset: Dataset, count: int) -> Dataset:
    step = max(len(dataset.questions) // count, 1) if count else 1
    return replace(dataset, questions=dataset.questions[::step])


def filled(memory: Memory, dataset: Dataset) -> None:
    for chat in dataset.conversations:
        memory.session_write(
            TENANT, chat.owner, chat.session_id, turns=list(chat.turns), llm_policy="best_effort"
        )  # fmt: skip


def _retrieved(memory: Memory, question: Question, strategy: str, limit: int) -> Places:
    before = {"lt": question.before} if question.before else None
    budget = {"top_k": limit, "max_tokens": 10_000} if strategy == "auto_v1" else None
    more: dict[str, Any] = {"budget": budget} if budget else {}
    result: RetrievalResult = memory.retrieval(
        question.text, TENANT, question.owner, strategy=strategy, topk=limit, time_range=before, **more
    )
    for hit in result.hits:
        yield from ((quote.session_id, quote.turn_id) for quote in hit.evidence)


def _searched(memory: Memory, question: Question, limit: int) -> Places:
    filters = {"time_range": {"lt": question.before}} if question.before else None
    for hit in memory.search(question.text, TENANT, question.owner, topk=limit, filters=filters).hits:
        told = hit.entry.metadata
        turns = told.get("source_turn_ids") or [told.get("turn_id", "")]
        yield from ((str(told.get("run_id", "")), str(turn)) for turn in turns)


def _recalled(memory: Memory, question: Question, limit: int) -> Places:
    window = {"time_range": {"since": "1970-01-01", **({"until": question.before} if question.before else {})}}
    result: RecallResult = memory.recall(question.text, TENANT, question.owner, context=window)
    known = {e.message_id: e for e in result.evidence}
    for id_ in list(known)[:limit]:
        session = known[id_].session_id
        page = memory.bind(TENANT, question.owner).neighbors(id_, before=0)
        yield from ((session, str(message.meta["turn_id"])) for message in page)


WAYS: dict[str, Callable[[Memory, Question, int], Places]] = {
    **{name: lambda m, q, n, name=name: _retrieved(m, q, name, n) for name in STRATEGIES},
    "search": _searched,
    "recall": _recalled,
}


def hits(memory: Memory, dataset: Dataset, way: str) -> float:
    """The share of questions for which one of the first five turns (or sessions) that the hits name proves the answer,
    as `mnemon bench recall` counts: a fact and the turn it cites name one."""
    found = 0
    for question in dataset.questions:
        places = WAYS[way](memory, question, ASKED_FOR)
        named = dict.fromkeys(turn if dataset.unit == "turn" else session for session, turn in places)
        found += bool({*islice(named, DEPTH)} & question.evidence)
    return found / len(dataset.questions)


def compared(dataset: Dataset, embedder: Embedder, ways: Sequence[str]) -> dict[str, tuple[float, float]]:
    """By way: with the rules, and without a model."""
    figures: list[dict[str, float]] = []
    for llm in ("rules", None):
        with (
            tempfile.TemporaryDirectory(prefix="mnemon-findable-") as home,
            Memory(home, llm=llm, embedder=embedder, config=QUIET) as memory,
        ):
            filled(memory, dataset)
            figures.append({way: hits(memory, dataset, way) for way in ways})
    return {way: (figures[0][way], figures[1][way]) for way in ways}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--everyday", type=Path, nargs="*", default=EVERYDAY)
    parser.add_argument("--data", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--sample", type=int, default=0, help="about so many questions of each set; 0: all")
    parser.add_argument("--embedder", choices=("local", "hash"), default="local")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    options = parser.parse_args()
    embedder = Remembering(LocalEmbedder() if options.embedder == "local" else HashEmbedder())
    named = [given.partition("=") for given in options.data]
    sets = [*map(everyday, options.everyday), *(load(name, Path(folder)) for name, _, folder in named)]
    worse = 0
    for dataset in (sampled(one, options.sample) for one in sets):
        rows: list[list[str]] = []
        for way, (rules, nothing) in compared(dataset, embedder, options.ways).items():
            worse += rules < nothing
            verdict = "ok" if rules >= nothing else "LESS"
            rows.append([dataset.name, str(len(dataset.questions)), way, f"{rules:.3f}", f"{nothing:.3f}", verdict])
        table(f"hit@{DEPTH}, embedder {options.embedder}", ["set", "questions", "way", "rules", "no model", ""], rows)
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
