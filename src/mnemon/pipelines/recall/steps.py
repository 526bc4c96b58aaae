"""One step of a model that recalls: what it is shown, and the two things it may answer with, a call or a result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mnemon.contracts.claims import Language
from mnemon.contracts.models import Violation
from mnemon.contracts.recall import Hypothesis, RecallSettings
from mnemon.logic.language import language_of
from mnemon.logic.skills import ANY_ROLE, Skill
from mnemon.pipelines.ask import Task
from mnemon.pipelines.recall.gates import Final, Gate
from mnemon.pipelines.recall.looking import Looking

_NOTHING = "-"


class Step(BaseModel):
    """A call (`tool`, `arguments`) or a result (`final`), and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    thought: str = ""
    hypotheses: tuple[Hypothesis, ...] = Field(default=(), max_length=3)
    tool: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    final: Final | None = None


@dataclass(frozen=True, slots=True)
class StepInput:
    question: str
    settings: RecallSettings
    skill: Skill
    looking: Looking
    calls_left: int
    now: datetime

    @property
    def language(self) -> Language:
        return self.settings.language or language_of(self.question)

    @property
    def gate(self) -> Gate:
        return Gate(self.looking, self.settings)


def _situation(given: StepInput) -> str:
    settings = given.settings
    since = settings.since or (given.now - timedelta(days=settings.window_days)).isoformat(timespec="seconds")
    fixed = bool(settings.since or settings.until)
    told = {
        "now": given.now.isoformat(timespec="seconds"),
        "time_range" if fixed else "default time_range": f"since {since}, until {settings.until or 'now'}",
        "default role": settings.role.value if settings.role else ANY_ROLE,
        "calls left": str(given.calls_left) if given.calls_left else "0: give the result now",
    }
    return "\n".join(f"{name}: {value}" for name, value in told.items())


def _check(given: StepInput, step: Step) -> list[Violation]:
    if step.final is not None:
        if not step.final.items and not given.looking.lines:
            return [Violation("nothing was looked for yet", "final", "a tool, before there is nothing to be found")]
        return given.gate.wrong_with(step.final)
    if not step.tool:
        return [Violation("is neither a call nor a result", "tool", "a tool to use, or final")]
    if not given.calls_left:
        return [Violation("no calls are left", "tool", "final, from what was seen so far", step.tool)]
    return []


STEP: Task[StepInput, Step] = Task(
    prompt="recall.step",
    answer=Step,
    variables=lambda given: {
        "skill": given.skill.instructions,
        "evidence_length": str(given.settings.evidence_length),
        "question": given.question,
        "situation": _situation(given),
        "looked": "\n".join(given.looking.lines) or _NOTHING,
    },
    language=lambda given: given.language,
    rules=lambda given: Step(final=Final()),
    check=_check,
    retries=1,
)
