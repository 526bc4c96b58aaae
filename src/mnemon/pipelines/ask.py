"""The only path to a language model: propose, check, tell it what was wrong, try again, and leave a trace."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from mnemon.contracts.claims import Language
from mnemon.contracts.errors import BadAnswer, MnemonError, ModelFailed, ResourceExhausted
from mnemon.contracts.models import CallTrace, ChatMessage, Completion, Violation
from mnemon.contracts.ports import LLM
from mnemon.contracts.scope import Scope
from mnemon.pipelines.prompts import prompt

In = TypeVar("In")
Out = TypeVar("Out", bound=BaseModel)

_SHOWN_OF_A_VALUE = 200
_MISTAKES_TOLD = 20


def as_it_is(given: Any, output: Out) -> Out:
    return output


@dataclass(frozen=True, slots=True)
class Task(Generic[In, Out]):
    """A question to a model: how it is put, what an answer looks like, what makes one right, and how to do without.

    `mend` puts right, before the checks, what can be put right without asking."""

    prompt: str
    answer: type[Out]
    variables: Callable[[In], dict[str, str]]
    language: Callable[[In], Language]
    rules: Callable[[In], Out]
    check: Callable[[In, Out], list[Violation]]
    mend: Callable[[In, Out], Out] = as_it_is
    retries: int = 1


@dataclass(frozen=True, slots=True)
class Answer(Generic[Out]):
    """`output` is the last answer of the right shape, None if there was none; `violations` is what is wrong in it."""

    output: Out | None
    violations: tuple[Violation, ...]
    trace: CallTrace


@dataclass(frozen=True, slots=True)
class Rules:
    """Chosen in place of a model: every task's own rules answer, through the same checks."""

    provider: str = "rules"
    model: str = "rules-1"


@dataclass(frozen=True, slots=True)
class Budget:
    """What one write may use; 0 is no limit. Prices are for a million tokens.

    Calls that are under way when a limit is reached are finished."""

    max_tokens: int = 0
    max_cost: float = 0.0
    input_price: float = 0.0
    output_price: float = 0.0


@dataclass(frozen=True, slots=True)
class Spent:
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class OnePromptOnly(Protocol):
    """The least a model of one's own has to offer."""

    async def complete_json(
        self, prompt: str, schema: dict[str, Any], scope: Scope | None = None
    ) -> dict[str, Any]: ...


class Asker:
    """Made for one write: one model, one budget, and the traces of all that was asked."""

    def __init__(
        self,
        model: LLM | OnePromptOnly | Rules,
        budget: Budget | None = None,
        byok: bool = False,
        concurrency: int = 4,
    ) -> None:
        self._model: LLM | _Joined | Rules = model if isinstance(model, Rules | LLM) else _Joined(model)
        self._budget = budget or Budget()
        self._byok = byok
        self._gate = asyncio.Semaphore(concurrency)
        self.spent = Spent()
        self.traces: list[CallTrace] = []

    @property
    def by_rules(self) -> bool:
        return isinstance(self._model, Rules)

    @property
    def llm_used(self) -> dict[str, Any]:
        return {"provider": self._model.provider, "model": self._model.model, "byok": self._byok}

    async def ask(self, task: Task[In, Out], input: In, scope: Scope) -> Answer[Out]:
        call = _Call(task, input)
        begun = time.perf_counter()
        try:
            if isinstance(self._model, Rules):
                call.judge(task.rules(input))
            else:
                await self._converse(self._model, call, scope)
        except Exception as error:
            call.error = str(error) if isinstance(error, MnemonError) else type(error).__name__
            raise
        finally:
            trace = self._trace(call, (time.perf_counter() - begun) * 1000)
            self.traces.append(trace)
        return Answer(call.output, tuple(call.violations), trace)

    async def _converse(self, model: LLM | _Joined, call: _Call[In, Out], scope: Scope) -> None:
        schema = _schema(call.task.answer)
        messages = call.opening()
        while True:
            async with self._gate:
                self._check_budget()
                said = await self._complete(model, messages, schema, scope, call)
            wrong = call.take(said)
            if not wrong or call.tries > call.task.retries:
                return
            messages += call.correction(said, wrong)

    async def _complete(
        self,
        model: LLM | _Joined,
        messages: list[ChatMessage],
        schema: dict[str, Any],
        scope: Scope,
        call: _Call[In, Out],
    ) -> dict[str, Any] | None:
        """The object, or None for an answer that is none."""
        call.tries += 1
        try:
            completion = await model.complete(messages, schema, scope)
        except BadAnswer as error:
            used = error.details.get("input_tokens", 0), error.details.get("output_tokens", 0)
            data = None
        else:
            used = completion.input_tokens, completion.output_tokens
            data = completion.data
        call.spent = _plus(call.spent, *used, self._budget)
        self.spent = _plus(self.spent, *used, self._budget)
        return data

    def _check_budget(self) -> None:
        for setting, limit, spent in (
            ("llm.max_tokens_per_write", self._budget.max_tokens, self.spent.tokens),
            ("llm.max_cost_per_write", self._budget.max_cost, self.spent.cost),
        ):
            if limit and spent >= limit:
                raise ResourceExhausted(f"this write has used {spent:g} of {setting} = {limit:g}", field=setting)

    def _trace(self, call: _Call[Any, Any], ms: float) -> CallTrace:
        return CallTrace(
            task=call.task.prompt,
            prompt_version="" if self.by_rules else prompt(call.task.prompt).name,
            provider=self._model.provider,
            model=self._model.model,
            input_tokens=call.spent.input_tokens,
            output_tokens=call.spent.output_tokens,
            ms=round(ms, 3),
            retries=max(call.tries - 1, 0),
            violations=tuple(call.broken),
            error=call.error,
        )


class _Call(Generic[In, Out]):
    """One use of a task: what was said so far, and how it stands."""

    def __init__(self, task: Task[In, Out], given: In) -> None:
        self.task = task
        self.given = given
        self.tries = 0
        self.spent = Spent()
        self.output: Out | None = None
        self.violations: list[Violation] = []
        self.broken: list[str] = []
        self.error = ""

    def opening(self) -> list[ChatMessage]:
        return list(prompt(self.task.prompt).render(self.task.language(self.given), **self.task.variables(self.given)))

    def take(self, data: dict[str, Any] | None) -> list[Violation]:
        """Reads an answer; one of the wrong shape does not replace an earlier one of the right shape."""
        if data is None:
            return self._misshapen([Violation("not one JSON object", "answer", "one JSON object")])
        try:
            parsed = self.task.answer.model_validate(data)
        except ValidationError as error:
            return self._misshapen([_mistake(e) for e in error.errors(include_url=False)[:_MISTAKES_TOLD]])
        return self.judge(parsed)

    def judge(self, parsed: Out) -> list[Violation]:
        self.output = self.task.mend(self.given, parsed)
        self.violations = self.task.check(self.given, self.output)
        self.broken += [v.rule for v in self.violations]
        return self.violations

    def _misshapen(self, found: list[Violation]) -> list[Violation]:
        if self.output is None:
            self.violations = found
        self.broken += [v.rule for v in found]
        return found

    def correction(self, said: dict[str, Any] | None, wrong: Sequence[Violation]) -> list[ChatMessage]:
        told = "\n".join(json.dumps(_told(v), ensure_ascii=False) for v in wrong[:_MISTAKES_TOLD])
        asked = prompt("ask.correction").render(self.task.language(self.given), violations=told)
        if said is None:
            return [*asked]
        return [ChatMessage("assistant", json.dumps(said, ensure_ascii=False)), *asked]


class _Joined:
    """A model that takes one prompt at a time, as one that takes messages."""

    def __init__(self, inner: OnePromptOnly) -> None:
        self._inner = inner
        self.provider = str(getattr(inner, "provider", "custom"))
        self.model = str(getattr(inner, "model", type(inner).__name__))

    async def complete(self, messages: Sequence[ChatMessage], schema: dict[str, Any], scope: Scope) -> Completion:
        try:
            data = await self._inner.complete_json("\n\n".join(m.text for m in messages), schema, scope)
        except MnemonError:
            raise
        except Exception as error:
            # Somebody else's code may raise anything; its type is told, its text might hold a key.
            raise ModelFailed(f"{self.provider}:{self.model} failed: {type(error).__name__}") from error
        if not isinstance(data, dict):
            raise BadAnswer(f"{self.provider}:{self.model} answered with {type(data).__name__}, not with an object")
        return Completion(data)


@cache
def _schema(answer: type[BaseModel]) -> dict[str, Any]:
    return answer.model_json_schema()


def _plus(spent: Spent, input_tokens: int, output_tokens: int, budget: Budget) -> Spent:
    cost = (input_tokens * budget.input_price + output_tokens * budget.output_price) / 1_000_000
    return replace(
        spent,
        input_tokens=spent.input_tokens + input_tokens,
        output_tokens=spent.output_tokens + output_tokens,
        cost=spent.cost + cost,
    )


def _mistake(error: Any) -> Violation:
    """A mistake of form: where, what pydantic expected there, what it found."""
    place = error["loc"]
    item = next((part for part in place if isinstance(part, int)), None)
    where = ".".join(map(str, place)) or "answer"
    return Violation("schema", where, error["msg"], repr(error["input"])[:_SHOWN_OF_A_VALUE], item)


def _told(violation: Violation) -> dict[str, str]:
    return {k: v for k, v in asdict(violation).items() if k != "item" and v}
