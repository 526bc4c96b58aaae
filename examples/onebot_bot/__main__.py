"""`python -m examples.onebot_bot [bot.toml]`: the bot, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from mnemon import AsyncMemory, Config

from .bot import Bot
from .brains import Brain, ModelBrain
from .onebot import OneBot, Refused
from .recall import RecallBrain

_ENVIRONMENT = {
    "ONEBOT_URL": "onebot_url",
    "ONEBOT_TOKEN": "onebot_token",
    "MNEMON_HOME": "home",
    "BOT_NAME": "name",
    "BOT_TIMEZONE": "timezone",
    "BOT_MODEL": "model",
    "OPENAI_BASE_URL": "model_url",
    "OPENAI_API_KEY": "model_key",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """From a TOML file with these keys, and the environment over it. Without a `model` no key is needed."""

    onebot_url: str = "ws://127.0.0.1:3001"
    onebot_token: str = field(default="", repr=False)
    home: str = "./data"
    name: str = ""
    timezone: str = "Asia/Shanghai"
    model: str = ""
    model_url: str = "https://api.openai.com/v1"
    model_key: str = field(default="", repr=False)
    persona: str = ""

    @classmethod
    def load(cls, path: str | None, env: Mapping[str, str]) -> Settings:
        told = tomllib.loads(Path(path).read_text(encoding="utf-8")) if path else {}
        return cls(**{**told, **{key: env[name] for name, key in _ENVIRONMENT.items() if name in env}})

    def memory(self) -> AsyncMemory:
        """Set up by `mnemon.toml` in its folder, if there is one, and by `MNEMON_…`."""
        file = Path(self.home) / "mnemon.toml"
        return AsyncMemory(self.home, config=Config.load(file if file.exists() else None))


async def main() -> None:
    settings = Settings.load(sys.argv[1] if len(sys.argv) > 1 else None, os.environ)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    headers = {"Authorization": f"Bearer {settings.model_key}"}
    async with (
        httpx.AsyncClient(base_url=settings.model_url, headers=headers, timeout=60) as client,
        settings.memory() as memory,
        OneBot(settings.onebot_url, settings.onebot_token) as onebot,
    ):
        brain: Brain = ModelBrain(client, settings.model, settings.persona) if settings.model else RecallBrain()
        for sign in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(sign, onebot.stop)
        await Bot(onebot, memory, brain, settings.name, settings.timezone).run()


try:
    asyncio.run(main())
except Refused as refused:
    sys.exit(str(refused))
