"""A chat for tests: one bot, its turns digested as soon as they end, a day between one and the next."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mnemon import AsyncMemory, Config
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.cognitive import AsyncCognitive
from mnemon.testing.clock import FixedClock

START = datetime(2026, 3, 2, 4, tzinfo=UTC)  # a Monday, noon in Shanghai
QUIET = Config(background_worker=False)


class Chat:
    def __init__(self, home: Path, config: Config = QUIET) -> None:
        self.clock = FixedClock(START)
        self.memory = AsyncMemory(home, llm="rules", embedder=HashEmbedder(), config=config, clock=self.clock)
        self._turns = 0

    async def end(
        self,
        learnt: str = "",
        did: str = "",
        *,
        said: str = "",
        user: str = "null",
        group: str | None = "dev",
        tenant: str = "acme",
        days: float = 1,
        **more: Any,
    ) -> str:
        """One turn of the bot, remembered; its event id. What was learnt was said in the same words, unless told."""
        self._turns += 1
        message = {"message_id": f"m{self._turns}", "sender_id": user, "text": said or learnt or did}
        given: dict[str, Any] = {
            "request_id": f"r{self._turns}",
            "end_seq": 1,
            "user_id": user,
            "group_id": group,
            "timezone": "Asia/Shanghai",
            "messages": [message],
            **more,
        }
        result = await self.memory.end(tenant, action_summary=did, new_info=learnt, **given)
        assert result.status == "queued"
        report = await self.memory.run_jobs()
        assert not report.failed, report
        self.clock.tick(days=days)
        return result.event_id

    def door(self, user: str = "null", group: str | None = "dev", tenant: str = "acme") -> AsyncCognitive:
        return self.memory.cognitive(tenant, user, group)
