"""Where, when and by whom something was said, and how those are named in a sentence that must stand for ever."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import Any, Literal

from mnemon.contracts.claims import Language

Speaker = Literal["bot", "sender"]

WORDS: dict[str, Any] = tomllib.loads(
    resources.files("mnemon.logic").joinpath("data/absolute.toml").read_text(encoding="utf-8")
)
FORMS: dict[Language, dict[str, str]] = WORDS["forms"]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and when something was said. `said_at` is in the chat's own time zone; `group` is empty in a private chat;
    `others` are the other people named in the batch, the one named last at the end."""

    said_at: datetime
    sender: str = ""
    bot: str = ""
    group: str = ""
    location: str = ""
    others: tuple[str, ...] = ()

    @property
    def minute(self) -> str:
        return f"{self.said_at:%Y-%m-%d %H:%M}"

    @property
    def day(self) -> str:
        return f"{self.said_at:%Y-%m-%d}"
