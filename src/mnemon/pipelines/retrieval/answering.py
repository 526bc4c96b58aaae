"""An answer from what was found: by a model from the best evidence, or one of two fixed sentences (001 §7.3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from mnemon.contracts.errors import MnemonError
from mnemon.contracts.models import Violation
from mnemon.contracts.reports import Degraded
from mnemon.contracts.retrieval import NO_EVIDENCE, NO_MODEL, RetrievalHit
from mnemon.contracts.scope import Scope
from mnemon.logic.language import language_of
from mnemon.pipelines.ask import Asker, Task
from mnemon.pipelines.retrieval.lines import evidence_lines

EVIDENCE_SHOWN = 15


class Answered(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: str = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class QaInput:
    question: str
    task: str
    hits: tuple[RetrievalHit, ...]


def _check(given: QaInput, output: Answered) -> list[Violation]:
    return [] if output.answer.strip() else [Violation("is empty", "answer", "an answer, or insufficient information")]


QA: Task[QaInput, Answered] = Task(
    prompt="retrieval.qa_general",
    answer=Answered,
    variables=lambda given: {
        "question": given.question,
        "task": given.task,
        "evidence": evidence_lines(given.hits),
    },
    language=lambda given: language_of(given.question),
    rules=lambda given: Answered(answer=without_model(given.hits)),
    check=_check,
    retries=1,
)


def without_model(hits: Sequence[RetrievalHit]) -> str:
    return NO_MODEL if hits else NO_EVIDENCE


async def answer(
    question: str, task: str, hits: Sequence[RetrievalHit], asker: Asker | None, scope: Scope, strict: bool
) -> tuple[str, list[Degraded]]:
    """`strict` lets a model's failure be an error; else the fixed sentence stands in, and it is said so."""
    if asker is None:
        return without_model(hits), [Degraded("answer", "llm_missing")]
    if not hits:
        return NO_EVIDENCE, []
    given = QaInput(question, task, tuple(hits[:EVIDENCE_SHOWN]))
    try:
        answered = await asker.ask(QA, given, scope)
    except MnemonError as error:
        if strict:
            raise
        return without_model(hits), [Degraded("answer", f"llm_error: {error}")]
    if answered.output is None or answered.violations:
        return without_model(hits), [Degraded("answer", "the model's answers were not of the right form")]
    return answered.output.answer.strip(), []
