"""Writes under way: once begun they are carried to their end, whoever goes away meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from mnemon.surfaces.http.notes import note

T = TypeVar("T")


class Writes:
    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()

    async def carry_out(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in a task of its own: who waits for it may be cancelled, the work is not."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_tell)
            raise

    async def finished(self) -> None:
        """Wait for all of them; what goes wrong with one is told in the log."""
        while self._under_way:
            await asyncio.wait(self._under_way)


def _tell(task: asyncio.Task[Any]) -> None:
    """How a write ended whose caller no longer listens."""
    error = None if task.cancelled() else task.exception()
    outcome = "cancelled" if task.cancelled() else type(error).__name__ if error else "done"
    note("write_without_listener", logging.WARNING if error else logging.INFO, outcome=outcome)
