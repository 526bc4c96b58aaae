"""A model that counts what it is asked, so that a run can say what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnemon.contracts.errors import BadAnswer
from mnemon.contracts.models import ChatMessage, Completion
from mnemon.contracts.ports import LLM
from mnemon.contracts.scope import Scope


class Metered:
    """The same model; made anew for everything that is counted by itself."""

    def __init__(self, inner: LLM) -> None:
        self._inner = inner
        self.provider = inner.provider
        self.model = inner.model
        self.calls = 0
        self.tokens = 0

    async def complete(
        self, messages: Sequence[ChatMessage], schema: dict[str, Any], scope: Scope | None = None
    ) -> Completion:
        self.calls += 1
        try:
            completion = await self._inner.complete(messages, schema, scope)
        except BadAnswer as error:
            self.tokens += error.details.get("input_tokens", 0) + error.details.get("output_tokens", 0)
            raise
        self.tokens += completion.input_tokens + completion.output_tokens
        return completion

    async def complete_json(self, prompt: str, schema: dict[str, Any], scope: Scope | None = None) -> dict[str, Any]:
        return (await self.complete([ChatMessage("user", prompt)], schema, scope)).data

    def complete_json_sync(self, prompt: str, schema: dict[str, Any], scope: Scope | None = None) -> dict[str, Any]:
        self.calls += 1
        return self._inner.complete_json_sync(prompt, schema, scope)

    async def close(self) -> None:
        """Whoever made the inner model closes it."""
