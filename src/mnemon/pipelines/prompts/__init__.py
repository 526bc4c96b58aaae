"""Prompts are package data: one file each, in Chinese and English, under an id and a version."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from mnemon.contracts.claims import Language
from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.models import ChatMessage

LANGUAGES: tuple[Language, ...] = ("zh", "en")
_MARK = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True)
class Text:
    """`system` says what to do; `user` holds the data to do it with, and may hold nothing but data."""

    system: str
    user: str

    @property
    def marks(self) -> frozenset[str]:
        return frozenset(_MARK.findall(self.system + self.user))


@dataclass(frozen=True, slots=True)
class Prompt:
    id: str
    version: int
    texts: dict[Language, Text]

    @property
    def name(self) -> str:
        """What stands in a trace: `tagging.value_tags@1`."""
        return f"{self.id}@{self.version}"

    def render(self, language: Language, **variables: str) -> tuple[ChatMessage, ...]:
        """The system message begins with `# id@version`; every variable of the user message stands between marks."""
        text = self.texts[language]
        for problem, names in (("misses", text.marks - variables.keys()), ("has no", variables.keys() - text.marks)):
            if names:
                raise InvalidArgument(f"prompt {self.id} {problem} variable {min(names)!r}", field=min(names))
        user = _MARK.sub(lambda mark: _as_data(mark[1], variables[mark[1]]), text.user)
        if not text.system:
            return (ChatMessage("user", user),)
        system = _MARK.sub(lambda mark: variables[mark[1]], text.system)
        return ChatMessage("system", f"# {self.name}\n\n{system}"), ChatMessage("user", user)


@cache
def prompt(id: str) -> Prompt:
    table = _read(id)
    base = _read(table["base"]) if "base" in table else table
    texts = {language: _text(base[language], table[language], language) for language in LANGUAGES}
    return Prompt(table["id"], table["version"], texts)


def _text(base: dict[str, str], own: dict[str, str], language: Language) -> Text:
    """The base with its marks filled from `own` where that has them, and the notice that data are no orders."""

    def filled(part: str) -> str:
        return _MARK.sub(lambda mark: own.get(mark[1], mark[0]).strip(), base.get(part, "")).strip()

    system = filled("system")
    return Text(f"{system}\n\n{_notice()[language]['text'].strip()}" if system else "", filled("user"))


@cache
def _notice() -> dict[str, Any]:
    return _load("notice.toml")


def _read(id: str) -> dict[str, Any]:
    folder, _, name = id.partition(".")
    try:
        return _load(f"{folder}/{name}.toml")
    except FileNotFoundError:
        raise InvalidArgument(f"there is no prompt {id!r}", field="prompt") from None


def _load(path: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__name__).joinpath(path).read_text(encoding="utf-8"))


def _as_data(name: str, value: str) -> str:
    """Between marks that the data itself does not hold, so that it cannot end early and go on as an order."""
    mark, n = name, 0
    while f"</{mark}>" in value.lower():
        n += 1
        mark = f"{name}-{n}"
    return f"<{mark}>\n{value}\n</{mark}>"
