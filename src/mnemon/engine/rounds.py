"""What a worker looks after between its jobs: turns nobody takes up, what was to be forgotten, what is over."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from mnemon.engine.parts import Parts


@dataclass(slots=True)
class Rounds:
    parts: Parts
    _swept_at: float = field(default_factory=time.monotonic)

    async def go(self) -> None:
        await self.parts.watch.look()
        await self.parts.forgetter.finish()
        if time.monotonic() - self._swept_at >= self.parts.config.governance.sweep_interval_seconds:
            self._swept_at = time.monotonic()
            await self.parts.sweeper.sweep_all()
