"""Recall from the front door: write a dataset as sessions, ask its questions, compare with what proves the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mnemon.contracts.retrieval import RetrievalResult
from mnemon.engine.sync import Memory
from mnemon.logic.text import pieces
from mnemon.surfaces.bench.datasets import Dataset, Question, Unit
from mnemon.surfaces.bench.measures import Figures, mean, measured

TENANT = "bench"
# Enough turns to name the best sessions by, where a session has many.
_TOPK: dict[Unit, int] = {"turn": 30, "session": 200}
_PAGE = 200

BASELINES = ("bm25", "dense")
ADVERSARIAL = "5"
"""The category whose questions ask about the wrong person; it is told apart from the mean of the others."""

Tick = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Report:
    """Figures by system and by set: `all`, then each category; rankings as they were."""

    dataset: str
    figures: dict[str, dict[str, Figures]]
    rankings: dict[str, dict[str, list[str]]]


def write(memory: Memory, dataset: Dataset, extract: bool = False, tick: Tick = lambda: None) -> None:
    """Every conversation as a session, as it is. One that is there already is passed over."""
    model = {"llm": "rules"} if extract else {}
    for conversation in dataset.conversations:
        memory.session_write(
            TENANT,
            conversation.owner,
            conversation.session_id,
            turns=list(conversation.turns),
            extract=extract,
            stages="off",
            **model,  # type: ignore[arg-type]
        )
        tick()


def asked(memory: Memory, dataset: Dataset, systems: Sequence[str], tick: Tick = lambda: None) -> Report:
    """Every question put to every system: a strategy of `retrieval`, or one of the baselines."""
    figures: dict[str, dict[str, Figures]] = {}
    rankings: dict[str, dict[str, list[str]]] = {}
    for system in systems:
        ranked: dict[str, list[str]] = {}
        for question in dataset.questions:
            ranked[question.id] = _ranking(memory, dataset, question, system)
            tick()
        rankings[system] = ranked
        figures[system] = summed(dataset, ranked)
    return Report(dataset.name, figures, rankings)


def summed(dataset: Dataset, ranked: dict[str, list[str]]) -> dict[str, Figures]:
    sets: dict[str, list[Figures]] = {}
    for question in dataset.questions:
        figures = measured(question.evidence, ranked[question.id])
        for name in {question.category, "all"} - ({"all"} if question.category == ADVERSARIAL else set()):
            sets.setdefault(name, []).append(figures)
    return {name: mean(rows) for name, rows in sorted(sets.items(), key=lambda item: (item[0] != "all", item[0]))}


def _ranking(memory: Memory, dataset: Dataset, question: Question, system: str) -> list[str]:
    limit = _TOPK[dataset.unit]
    if system in BASELINES:
        found = _baseline(memory, question, system, limit)
    else:
        found = _places(
            memory.retrieval(
                question.text,
                TENANT,
                question.owner,
                strategy=system,
                topk=limit,
                time_range={"lt": question.before} if question.before else None,
            )
        )
    return list(dict.fromkeys(turn if dataset.unit == "turn" else session for session, turn in found))


def _places(result: RetrievalResult) -> Iterator[tuple[str, str]]:
    """Session and turn of every hit; a fact stands for the turns it cites."""
    for hit in result.hits:
        yield from ((quote.session_id, quote.turn_id) for quote in hit.evidence)


def _baseline(memory: Memory, question: Question, system: str, limit: int) -> Iterable[tuple[str, str]]:
    """One search and nothing else: BM25, or the embedding of the question as it is."""
    bound = memory.bind(TENANT, question.owner)
    filter_: dict[str, Any] = {"time_range": {"until": question.before}} if question.before else {}
    if system == "dense":
        hits = tuple(bound.semantic_search(question.text, filter=filter_, top_k=limit))
    else:
        words = " ".join(run or word.casefold() for run, word in pieces(question.text))
        hits = bound.lexical_search(words, filter_, min(limit, _PAGE)).items if words else ()
    return [(hit.message.session_id, hit.message.meta["turn_id"]) for hit in hits]
