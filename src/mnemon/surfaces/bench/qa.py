"""Answers from the front door: ask every question with `with_answer`, and let a judge compare with the gold answer.

The answering model sees what `retrieval` shows it and nothing else: gold answers go to the judge alone."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mnemon.contracts.errors import InvalidArgument, ResourceExhausted, Unavailable
from mnemon.contracts.ports import LLM
from mnemon.contracts.scope import Scope
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.models import LlmChoice
from mnemon.engine.parts import Parts
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.prompts import prompt
from mnemon.pipelines.retrieval.answering import QA
from mnemon.surfaces.bench.accuracy import QaFigures, summed
from mnemon.surfaces.bench.datasets import Dataset, Question
from mnemon.surfaces.bench.judging import JUDGE, UNANSWERABLE, Case, no_model
from mnemon.surfaces.bench.measures import token_f1
from mnemon.surfaces.bench.metering import Metered
from mnemon.surfaces.bench.recall import ADVERSARIAL, TENANT, Tick
from mnemon.surfaces.bench.run_file import Outcome, RunFile

_JUDGE_SCOPE = Scope.of(TENANT)
_PERCENTILES = (50, 95)
_OUTAGES = (Unavailable, ResourceExhausted)


@dataclass(frozen=True, slots=True)
class QaPlan:
    """How a run asks. `seed` is for the bootstrap; nothing else here is left to chance but the models."""

    strategy: str = "dialog_v2"
    judge: LlmChoice | None = None
    limit: int | None = None
    seed: int = 7
    concurrency: int = 4
    run: Path | None = None


@dataclass(frozen=True, slots=True)
class QaReport:
    """Figures by set: `all`, `answerable` (all but the adversarial category), then each category."""

    settings: dict[str, Any]
    figures: dict[str, QaFigures]
    latency_ms: dict[str, dict[str, float]]
    calls: dict[str, int]
    resumed: int
    without_gold: int


def gold(question: Question) -> str | None:
    """What the judge compares with. An adversarial question is right unanswered, whatever its row may hold."""
    return UNANSWERABLE if question.category == ADVERSARIAL else question.answer


async def examined(memory: AsyncMemory, dataset: Dataset, plan: QaPlan, tick: Tick = lambda: None) -> QaReport:
    """Every question that has a gold answer, put to memory and judged."""
    examiner = _Examiner(memory, plan)
    settings = examiner.settings(dataset)
    asked = [question for question in dataset.questions[: plan.limit] if gold(question) is not None]
    if not asked:
        raise InvalidArgument("no question of this dataset has an `answer` to compare with", field="data")
    file = RunFile(plan.run, settings)
    outcomes = {question.id: file.settled[question.id] for question in asked if question.id in file.settled}
    resumed = len(outcomes)
    left = iter([question for question in asked if question.id not in outcomes])

    async def work() -> None:
        for question in left:
            outcomes[question.id] = outcome = await examiner.outcome(question)
            file.add(outcome)
            tick()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(plan.concurrency):
                group.create_task(work())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    in_order = [outcomes[question.id] for question in asked]
    return QaReport(
        settings=settings,
        figures=summed(in_order, plan.seed),
        latency_ms={name: _spread(getattr(o, name) for o in in_order) for name in ("retrieval_ms", "answer_ms")},
        calls={name: sum(getattr(o, name) for o in in_order) for name in ("answer_calls", "judge_calls", "tokens")},
        resumed=resumed,
        without_gold=len(dataset.questions[: plan.limit]) - len(asked),
    )


class _Examiner:
    """Two models, and one question at a time."""

    def __init__(self, memory: AsyncMemory, plan: QaPlan) -> None:
        self._memory = memory
        self._plan = plan
        self._models = models(memory.parts, plan.judge)

    def settings(self, dataset: Dataset) -> dict[str, Any]:
        """What a run must have in common with the one it goes on from."""
        return {
            "mnemon": version("mnemon"),
            "dataset": dataset.name,
            "data": _digest(dataset),
            "strategy": self._plan.strategy,
            "embedder": self._memory.parts.embedder.model,
            "models": {role: f"{model.provider}:{model.model}" for role, model in self._models.items()},
            "prompts": {"answer": prompt(QA.prompt).name, "judge": prompt(JUDGE.prompt).name},
            "seed": self._plan.seed,
        }

    async def outcome(self, question: Question) -> Outcome:
        blank = Outcome(question.id, question.owner, question.category, "failed")
        answered = await self._answered(question, blank)
        return await self._judged(question, answered) if answered.answer else answered

    async def _answered(self, question: Question, blank: Outcome) -> Outcome:
        """Nothing of the question's row but its text goes in. A sentence that stands in for an answer is none."""
        model = Metered(self._models["answer"])
        try:
            result = await self._memory.retrieval(
                question.text,
                TENANT,
                question.owner,
                strategy=self._plan.strategy,
                time_range={"lt": question.before} if question.before else None,
                with_answer=True,
                llm=model,
                llm_policy="require",
            )
        except _OUTAGES as error:
            return replace(blank, why=str(error), answer_calls=model.calls, tokens=model.tokens)
        degraded = result.debug.degraded
        unanswered = [item.why for item in degraded if item.what == "answer"]
        return replace(
            blank,
            answer="" if unanswered else result.answer or "",
            why="; ".join(unanswered),
            degraded=tuple(f"{item.what}: {item.why}" for item in degraded),
            retrieval_ms=result.debug.plan.retrieval_latency_ms,
            answer_ms=result.debug.plan.qa_latency_ms or 0.0,
            answer_calls=model.calls,
            tokens=model.tokens,
        )

    async def _judged(self, question: Question, answered: Outcome) -> Outcome:
        model = Metered(self._models["judge"])
        reference = gold(question) or ""
        answered = replace(answered, f1=None if reference == UNANSWERABLE else token_f1(reference, answered.answer))
        try:
            said = await Asker(model).ask(JUDGE, Case(question.text, reference, answered.answer), _JUDGE_SCOPE)
        except _OUTAGES as error:
            judged = replace(answered, standing="unjudged", why=str(error))
        else:
            if said.output is None:
                judged = replace(answered, standing="unjudged", why="; ".join(map(str, said.violations)))
            else:
                judged = replace(answered, standing=said.output.verdict, why=said.output.reason)
        return replace(judged, judge_calls=model.calls, tokens=answered.tokens + model.tokens)


def models(parts: Parts, judge: LlmChoice | None) -> dict[str, LLM]:
    """Who answers and who judges. Where one is missing it is an error before anything is written or asked."""
    chosen = {}
    for role, choice in (("answer", None), ("judge", judge)):
        model = parts.models.choose(choice, parts.llm, parts.config.llm).model
        chosen[role] = model if isinstance(model, LLM) else no_model(role)
    return chosen


def _digest(dataset: Dataset) -> str:
    """Of what is written and what is asked, so that a run is not gone on with on other data."""
    rows = [asdict(c) for c in dataset.conversations]
    rows += [asdict(q) | {"evidence": sorted(q.evidence)} for q in dataset.questions]
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]


def _spread(values: Iterable[float]) -> dict[str, float]:
    """Of what was measured: a question that failed took no time."""
    measured = [value for value in values if value]
    points = np.percentile(measured, _PERCENTILES) if measured else np.zeros(len(_PERCENTILES))
    return {f"p{p}": round(float(value), 1) for p, value in zip(_PERCENTILES, points, strict=True)}
