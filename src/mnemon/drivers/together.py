"""A little work is done at once where nobody has to be waited for; what comes while some is under way is done together
in one go: one thread and one transaction for many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Work = TypeVar("Work")


# To hand work to a thread and be told takes longer than this and keeps two cores busy with each other: whoever is done
# sooner does not wait for one. On a disk that takes its time, and for what has to wait for others, threads it is.
_SOON_S = 0.002


class Pace:
    """How long a kind of work takes here, lately."""

    def __init__(self) -> None:
        self._average_s = 0.0

    @property
    def is_quick(self) -> bool:
        return self._average_s < _SOON_S

    def took(self, since: float) -> None:
        self._average_s += (time.perf_counter() - since - self._average_s) / 8


class Together(Generic[Work]):
    """Hands blocking work to a thread. Whoever comes alone does not wait; whoever comes while others are being served
    is served with all who came meanwhile.

    `do` does all it is given or nothing. Where that fails, each is tried by itself: what is wrong with one piece of
    work is no matter of the others. `do_now` does one piece if nobody has to be waited for, and says whether."""

    def __init__(self, do: Callable[[list[Work]], None], do_now: Callable[[Work], bool]) -> None:
        self._do = do
        self._do_now = do_now
        self._pace = Pace()
        self._waiting: list[tuple[Work, asyncio.Future[None]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, work: Work, little: bool) -> None:
        loop = asyncio.get_running_loop()
        if little and not self._waiting and self._pace.is_quick:
            begun = time.perf_counter()
            done = self._do_now(work)
            self._pace.took(begun)
            if done:
                return
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
        begun = time.perf_counter()
        try:
            self._do(works)
        except Exception as error:  # noqa: BLE001  told to whoever asked for it
            if len(works) == 1:
                return [error]
            return [failure for work in works for failure in self._failures([work])]
        if len(works) == 1:
            self._pace.took(begun)
        return [None] * len(works)
