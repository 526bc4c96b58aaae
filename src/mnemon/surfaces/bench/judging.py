"""The judge of an answer: a pinned prompt, two verdicts, and no way to be right by saying nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

from pydantic import BaseModel, ConfigDict

from mnemon.contracts.errors import ModelNotConfigured
from mnemon.logic.language import language_of
from mnemon.pipelines.ask import Task

UNANSWERABLE = "NOT IN THE CONVERSATION"
"""The reference for a question whose answer nobody ever said; the prompt explains it."""


class Verdict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str
    verdict: Literal["right", "wrong"]


@dataclass(frozen=True, slots=True)
class Case:
    question: str
    gold: str
    answer: str


def no_model(role: str) -> NoReturn:
    raise ModelNotConfigured(
        f"no language model to {role}: name one as provider:model, or set MNEMON_LLM_PROVIDER, MNEMON_LLM_MODEL and "
        "MNEMON_LLM_API_KEY (MNEMON_LLM_BASE_URL for a service of your own); rules can neither answer nor judge",
        field="llm",
    )


JUDGE: Task[Case, Verdict] = Task(
    prompt="bench.judge",
    answer=Verdict,
    variables=lambda given: {"question": given.question, "gold": given.gold, "answer": given.answer},
    language=lambda given: language_of(given.question),
    rules=lambda given: no_model("judge"),
    check=lambda given, output: [],
    retries=2,
)
