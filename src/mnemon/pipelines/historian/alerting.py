"""What a person should know, told to whoever asked to be told, and not over and over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from mnemon.contracts.chats import Alert

_log = logging.getLogger(__name__)

Hook = Callable[[Alert], Awaitable[None] | None]


@dataclass(slots=True)
class _Kind:
    """One kind of alert: when it was last told, and what was held back since."""

    told_at: float | None = None
    last: Alert | None = None
    held_back: int = 0


@dataclass(slots=True)
class Alerts:
    """The same kind of alert is told again after `repeat_s`, not before; what was held back meanwhile is counted, and
    told then. Whoever is told can neither hold up nor break what it is told about."""

    repeat_s: float = 600.0
    now: Callable[[], float] = time.monotonic
    _hooks: list[Hook] = field(default_factory=list)
    _counters: list[Callable[[Alert], None]] = field(default_factory=list)
    _kinds: dict[str, _Kind] = field(default_factory=dict)
    _under_way: set[asyncio.Task[None]] = field(default_factory=set)

    def on(self, hook: Hook) -> None:
        """A function, or a coroutine function, which is then done beside the work."""
        self._hooks.append(hook)

    def count(self, counter: Callable[[Alert], None]) -> None:
        """For whoever counts them: also those that are held back."""
        self._counters.append(counter)

    def tell(self, alert: Alert) -> None:
        for counter in self._counters:
            counter(alert)
        kind = self._kinds.setdefault(alert.kind, _Kind())
        if self._is_due(kind):
            self._say(alert, kind)
        else:
            kind.last, kind.held_back = alert, kind.held_back + 1

    def catch_up(self) -> None:
        """What was held back long enough: the last of it, and how many there were."""
        for kind in self._kinds.values():
            if kind.last is not None and self._is_due(kind):
                kind.held_back -= 1  # the last is told itself
                self._say(kind.last, kind)

    def _is_due(self, kind: _Kind) -> bool:
        return kind.told_at is None or self.now() - kind.told_at >= self.repeat_s

    def _say(self, alert: Alert, kind: _Kind) -> None:
        if kind.held_back:
            alert = replace(alert, facts={**alert.facts, "held_back": kind.held_back})
        kind.told_at, kind.last, kind.held_back = self.now(), None, 0
        _log.warning("%s: %s", alert.kind, alert.message)
        for hook in self._hooks:
            try:
                work = hook(alert)
            except Exception:  # noqa: BLE001  somebody else's code; what it was told about must not suffer from it
                _log.exception("an alert hook failed")
                continue
            if work is not None:
                task = asyncio.create_task(_contained(work))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Wait for what is still being told."""
        await asyncio.gather(*self._under_way)


async def _contained(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001  the same
        _log.exception("an alert hook failed")
