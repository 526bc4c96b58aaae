"""One retrieval at work: what it is asked, what it may read, and a record of every call it makes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from mnemon.contracts.entries import Ask, Entry, Hit, Vector
from mnemon.contracts.errors import MnemonError
from mnemon.contracts.filters import EVERYTHING, Eq, In, Where, every, matches
from mnemon.contracts.ports import Embedder, Index
from mnemon.contracts.reports import Degraded
from mnemon.contracts.retrieval import ExecutedCall, Looked, PromptBudget, RetrievalHit
from mnemon.contracts.scope import Scope
from mnemon.pipelines.entries.projection import ACTIVE, EPISODIC, FINDABLE, KINDS, SEMANTIC
from mnemon.pipelines.index.projection import CHUNK, TURN
from mnemon.pipelines.index.reading import is_shown, scroll_shown, search_shown

T = TypeVar("T")

_DIALOG = every(Eq("domain", "dialog"), Eq("modality", "text"))
# What was said, and what is known of it; each also where it came in through `write`. A fact from outside may have no
# words here that prove it: where turns are served, so is it. What a judge dropped by name only `dialog_v1` passes over.
TURNS = every(In("kind", KINDS[EPISODIC]), _DIALOG, FINDABLE)
KEPT_TURNS = every(In("kind", KINDS[EPISODIC]), _DIALOG, Eq("kept", True))
SERVED = every(In("kind", (*KINDS[EPISODIC], SEMANTIC)), _DIALOG, FINDABLE)
CHUNKS = every(Eq("kind", CHUNK), _DIALOG)
FACTS = every(In("kind", KINDS[SEMANTIC]), _DIALOG, Eq("state", ACTIVE))


@dataclass(frozen=True, slots=True)
class Request:
    """`when` narrows everything to a stretch of time. `user_id` is who asks, also where it is a group's memories."""

    query: str
    scope: Scope
    topk: int
    when: Where = EVERYTHING
    modality: tuple[str, ...] = ()
    budget: PromptBudget = field(default_factory=PromptBudget)
    user_id: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a strategy has to say; `prompt` where it makes one."""

    hits: tuple[RetrievalHit, ...]
    understood: dict[str, Any] = field(default_factory=dict)
    prompt: str | None = None


@dataclass(slots=True)
class Desk:
    """Reads nothing that is over or not shown yet. A call that fails is written down with its error and gives
    nothing: a strategy goes on with what the others found."""

    index: Index
    embedder: Embedder
    scope: Scope
    now: datetime
    calls: list[ExecutedCall] = field(default_factory=list)
    degraded: list[Degraded] = field(default_factory=list)
    failures: list[MnemonError] = field(default_factory=list)
    looked: Looked = field(default_factory=Looked)

    async def look(self, when: Where, kept_only: bool = False) -> None:
        """Count what there is to look through, and what is left out."""
        try:
            there = await self._count(EVERYTHING)
            in_time = there if when == EVERYTHING else await self._count(when)
            seen = await self._count(every(when, Eq("kept", True))) if kept_only else in_time
        except MnemonError as failure:
            self.degraded.append(Degraded("looked", str(failure)))
            return
        left_out = {"outside_time_range": there - in_time, "dropped": in_time - seen}
        self.looked = Looked(seen, {why: count for why, count in left_out.items() if count})

    async def _count(self, where: Where) -> int:
        # Turns are all of the dialog and none is a marker: to look at their columns would cost as much as a search.
        turns = await self.index.count(self.scope, every(Eq("kind", TURN), where))
        return turns + await self.index.count(self.scope, every(Eq("kind", EPISODIC), _DIALOG, FINDABLE, where))

    async def embedded(self, text: str) -> Vector | None:
        async def work() -> list[Vector]:
            return [v.dense_vector for v in await self.embedder.embed_texts([text], "query")]

        return next(iter(await self.timed("embed", work)), None)

    async def near(self, api: str, vector: Vector | None, where: Where, limit: int) -> list[Hit]:
        if vector is None:
            return []
        return await self.timed(api, lambda: self._search(Ask(vector=vector, where=where, limit=limit)))

    async def holding(self, api: str, words: str, where: Where, limit: int) -> list[Hit]:
        if not words or not self.index.abilities.lexical:
            return []
        return await self.timed(api, lambda: self._search(Ask(text=words, where=where, limit=limit)))

    async def entries(self, api: str, ids: Sequence[str], where: Where) -> list[Entry]:
        """Those of the ids that may be shown and that the filter keeps."""

        async def work() -> list[Entry]:
            found = await self.index.get(self.scope, ids) if ids else []
            return [entry for entry in found if is_shown(entry, self.now) and matches(where, entry.values())]

        return await self.timed(api, work)

    async def listed(self, api: str, where: Where, limit: int) -> list[Entry]:
        async def work() -> list[Entry]:
            page = await scroll_shown(self.index, self.scope, where, "position", limit, None, self.now)
            return list(page.entries)

        return await self.timed(api, work)

    async def timed(self, api: str, work: Callable[[], Awaitable[list[T]]]) -> list[T]:
        begun = time.perf_counter()
        error = None
        found: list[T] = []
        try:
            found = await work()
        except MnemonError as failure:
            error = str(failure)
            self.failures.append(failure)
            self.degraded.append(Degraded(api, error))
        self.calls.append(ExecutedCall(api, len(found), round((time.perf_counter() - begun) * 1000, 3), error))
        return found

    async def _search(self, ask: Ask) -> list[Hit]:
        return await search_shown(self.index, self.scope, ask, self.now)
