"""Work that comes while some is under way is done together in one go: one thread and one transaction for many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

Work = TypeVar("Work")


class Together(Generic[Work]):
    """Hands blocking work to a thread. Whoever comes alone does not wait; whoever comes while others are being served
    is served with all who came meanwhile.

    `do` does all it is given or nothing. Where that fails, each is tried by itself: what is wrong with one piece of
    work is no matter of the others."""

    def __init__(self, do: Callable[[list[Work]], None]) -> None:
        self._do = do
        self._waiting: list[tuple[Work, asyncio.Future[None]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, work: Work) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((work, future))
        if self._serving is None or self._serving.done():
            self._serving = loop.create_task(self._serve())
        await future

    async def _serve(self) -> None:
        while self._waiting:
            served, self._waiting = self._waiting, []
            failures = await asyncio.to_thread(self._failures, [work for work, _ in served])
            for (_, future), failure in zip(served, failures, strict=True):
                if future.cancelled():
                    continue
                if failure is not None:
                    future.set_exception(failure)
                else:
                    future.set_result(None)

    def _failures(self, works: list[Work]) -> list[Exception | None]:
        try:
            self._do(works)
        except Exception as error:  # noqa: BLE001  told to whoever asked for it
            if len(works) == 1:
                return [error]
            return [failure for work in works for failure in self._failures([work])]
        return [None] * len(works)
