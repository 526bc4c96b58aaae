"""Memory bound to one person: the four message tools, with no way to name anybody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mnemon.contracts.results import Message, MessageHitPage, MessageHits, MessagePage
from mnemon.contracts.scope import Scope
from mnemon.engine.parts import Parts
from mnemon.pipelines.messages import Filter, Moment


class AsyncBoundMemory:
    def __init__(self, open_parts: Callable[[], Parts], scope: Scope) -> None:
        self._open = open_parts
        self.scope = scope

    async def messages_list(
        self,
        since: Moment | None = None,
        until: Moment | None = None,
        role: str | None = None,
        page_size: int = 50,
        cursor: str | None = None,
        session_id: str | None = None,
    ) -> MessagePage:
        """Newest first; `since` counts, `until` does not."""
        parts = self._open()
        given = (since, until, role, page_size, cursor, session_id)
        page, degraded = await parts.answered(self.scope, partial(parts.messages.messages_list, self.scope, *given))
        return replace(page, degraded=degraded) if degraded else page

    async def lexical_search(
        self, query_text: str, filter: Filter | None = None, page_size: int = 20, cursor: str | None = None
    ) -> MessageHitPage:
        """Words, "phrases", AND, OR, -not; best first, with highlights."""
        parts = self._open()
        given = (query_text, filter, page_size, cursor)
        page, degraded = await parts.answered(self.scope, partial(parts.messages.lexical_search, self.scope, *given))
        return replace(page, degraded=degraded) if degraded else page

    async def semantic_search(
        self,
        query_text: str | None = None,
        query_embedding: Sequence[float] | None = None,
        filter: Filter | None = None,
        top_k: int = 20,
        min_score: float | None = None,
    ) -> MessageHits:
        """By meaning, best first."""
        parts = self._open()
        given = (query_text, query_embedding, filter, top_k, min_score)
        hits, degraded = await parts.answered(self.scope, partial(parts.messages.semantic_search, self.scope, *given))
        found = MessageHits(hits)
        found.degraded = degraded or getattr(hits, "degraded", ())
        return found

    async def neighbors(self, message_id: str, before: int = 20, after: int = 0) -> tuple[Message, ...]:
        """A message and what was said around it, in order."""
        return await self._open().messages.neighbors(self.scope, message_id, before, after)

    async def attachment(self, message_id: str, sha256: str) -> bytes:
        """The whole of what a message carries, for instance a tool output that was cut."""
        return await self._open().messages.attachment(self.scope, message_id, sha256)
