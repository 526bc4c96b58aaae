"""Letting a model put the first hits in order; what it leaves out keeps its place behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from mnemon.contracts.errors import MnemonError
from mnemon.contracts.models import Violation
from mnemon.contracts.reports import Degraded
from mnemon.contracts.retrieval import RetrievalHit
from mnemon.contracts.scope import Scope
from mnemon.logic.language import language_of
from mnemon.pipelines.ask import Asker, Task
from mnemon.pipelines.retrieval.lines import told


class Ranking(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    ranking: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RerankInput:
    question: str
    hits: tuple[RetrievalHit, ...]

    @property
    def labelled(self) -> dict[str, RetrievalHit]:
        """Short labels: a model copies them without a slip, as it would not an id."""
        return {f"m{n}": hit for n, hit in enumerate(self.hits, 1)}


def _check(given: RerankInput, output: Ranking) -> list[Violation]:
    known = given.labelled
    found = []
    for n, label in enumerate(output.ranking):
        if label not in known:
            found.append(Violation("is not one of the labels given", f"ranking[{n}]", ", ".join(known), label, n))
        elif label in output.ranking[:n]:
            found.append(Violation("is there twice", f"ranking[{n}]", "each label at most once", label, n))
    return found


RERANK: Task[RerankInput, Ranking] = Task(
    prompt="retrieval.rerank",
    answer=Ranking,
    variables=lambda given: {
        "question": given.question,
        "candidates": "\n".join(f"[{label}] {told(hit)}" for label, hit in given.labelled.items()),
    },
    language=lambda given: language_of(given.question),
    rules=lambda given: Ranking(ranking=tuple(given.labelled)),
    check=_check,
    retries=1,
)


async def reranked(
    question: str, hits: Sequence[RetrievalHit], top_n: int, asker: Asker | None, scope: Scope, strict: bool
) -> tuple[tuple[RetrievalHit, ...], list[Degraded]]:
    """`strict` lets a model's failure be an error; else the order stays, and it is said so."""
    if asker is None or asker.by_rules:
        return tuple(hits), [Degraded("rerank", "llm_missing")]
    given = RerankInput(question, tuple(hits[:top_n]))
    if len(given.hits) < 2:
        return tuple(hits), []
    try:
        answered = await asker.ask(RERANK, given, scope)
    except MnemonError as error:
        if strict:
            raise
        return tuple(hits), [Degraded("rerank", f"llm_error: {error}")]
    if answered.output is None or answered.violations:
        return tuple(hits), [Degraded("rerank", "the model's answers were not of the right form")]
    labelled = given.labelled
    first = [labelled[label] for label in answered.output.ranking]
    return (*first, *(hit for hit in hits if hit not in first)), []
