"""The short way to ask a model, for scripts and tests: one prompt in, one object out, awaited or not."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from mnemon.contracts.models import ChatMessage, Completion
from mnemon.contracts.scope import Scope


class OnePrompt(ABC):
    """`complete_json` and `complete_json_sync` for everything that has `complete`."""

    @abstractmethod
    async def complete(
        self, messages: Sequence[ChatMessage], schema: dict[str, Any], scope: Scope | None = None
    ) -> Completion: ...

    @abstractmethod
    async def close(self) -> None: ...

    def twin(self) -> Self:
        """The same model with connections of its own, because those belong to one event loop."""
        return self

    async def complete_json(self, prompt: str, schema: dict[str, Any], scope: Scope | None = None) -> dict[str, Any]:
        return (await self.complete([ChatMessage("user", prompt)], schema, scope)).data

    def complete_json_sync(self, prompt: str, schema: dict[str, Any], scope: Scope | None = None) -> dict[str, Any]:
        """In a thread with a loop of its own, so that it works where a loop is running too."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self._alone(prompt, schema, scope)).result()

    async def _alone(self, prompt: str, schema: dict[str, Any], scope: Scope | None) -> dict[str, Any]:
        twin = self.twin()
        try:
            return await twin.complete_json(prompt, schema, scope)
        finally:
            await twin.close()
