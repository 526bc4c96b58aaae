"""A language model that says what a test wrote down for it, and fails when it is asked for more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mnemon.contracts.models import ChatMessage, Completion
from mnemon.contracts.scope import Scope
from mnemon.drivers.llm.providers.one_prompt import OnePrompt

Said = dict[str, Any] | Exception | Callable[[Sequence[ChatMessage], dict[str, Any]], dict[str, Any]]


class ScriptedLLM(OnePrompt):
    """Answers in order; or, where questions come in any order, a list of answers for each prompt id.

    An answer is an object, an error to raise, or a function of the messages and the schema. `asked` holds the messages
    of every call. Which prompt asks stands in the first line of the system message: `# extraction.profile@1`."""

    provider = "scripted"
    model = "scripted-1"

    def __init__(
        self,
        *answers: Said,
        by_prompt: Mapping[str, Sequence[Said]] | None = None,
        input_tokens: int = 10,
        output_tokens: int = 5,
    ) -> None:
        self._answers = list(answers)
        self._by_prompt = {id: list(said) for id, said in (by_prompt or {}).items()}
        self._tokens = (input_tokens, output_tokens)
        self.asked: list[tuple[ChatMessage, ...]] = []

    async def complete(
        self, messages: Sequence[ChatMessage], schema: dict[str, Any], scope: Scope | None = None
    ) -> Completion:
        self.asked.append(tuple(messages))
        answer = self._next(asking(messages))
        if isinstance(answer, Exception):
            raise answer
        data = answer(messages, schema) if callable(answer) else answer
        return Completion(data, *self._tokens, model=self.model)

    async def close(self) -> None:
        return None

    def _next(self, id: str) -> Said:
        left = self._by_prompt.get(id, self._answers)
        if not left:
            told = f"by {id}" if id else "once more"
            raise AssertionError(f"the script is at its end, but the model is asked {told} (call {len(self.asked)})")
        return left.pop(0)

    @property
    def left(self) -> int:
        """How many answers were not asked for."""
        return len(self._answers) + sum(map(len, self._by_prompt.values()))


def asking(messages: Sequence[ChatMessage]) -> str:
    """The id of the prompt a conversation begins with, empty where there is none."""
    head = messages[0].text.partition("\n")[0] if messages else ""
    return head.removeprefix("# ").partition("@")[0] if head.startswith("# ") and "@" in head else ""
