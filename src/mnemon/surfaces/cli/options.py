"""Options every command shares, bundled: where the memory is, who asks, and what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from mnemon.engine.config import FILE, Config
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.sync import BoundMemory, Cognitive, Memory

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Place:
    """Where the memory is, and how to print."""

    home: str
    config: Path | None
    embedder: str | None
    llm: str | None
    as_json: bool

    def read_config(self) -> Config:
        beside = Path(self.home) / FILE
        return Config.load(self.config or (beside if beside.exists() else None))

    def open(self, *, for_rebuild: bool = False) -> Memory:
        """For one command: it does what it was asked for, and takes up no other work on the way."""
        return Memory(self.home, config=self._quiet(), embedder=self.embedder, llm=self.llm, for_rebuild=for_rebuild)

    def open_async(self) -> AsyncMemory:
        """For a command that does many things at once."""
        return AsyncMemory(self.home, config=self._quiet(), embedder=self.embedder, llm=self.llm)

    def _quiet(self) -> Config:
        return replace(self.read_config(), background_worker=False)


@dataclass(frozen=True, slots=True)
class Who:
    """The person a command speaks for."""

    tenant: str
    user: str
    product: str | None
    group: str | None

    def named(self) -> dict[str, Any]:
        """As the engine's methods take it."""
        return {
            "tenant_id": self.tenant,
            "user_id": self.user,
            "product_id": self.product,
            "group_id": self.group,
        }

    def bind(self, memory: Memory) -> BoundMemory:
        return memory.bind(self.tenant, self.user, self.product, self.group)


@dataclass(frozen=True, slots=True)
class Chat:
    """The chat a command looks into: a person's, or a group's."""

    tenant: str
    user: str | None
    group: str | None
    include_private: bool

    def bind(self, memory: Memory) -> Cognitive:
        if self.user is None and self.group is None:
            raise click.UsageError("name the chat: --user or --group")
        return memory.cognitive(self.tenant, self.user, self.group, include_private=self.include_private)


@dataclass(frozen=True, slots=True)
class Kept:
    """Which messages a command looks at."""

    role: str | None
    since: str | None
    until: str | None
    session: str | None

    def as_filter(self) -> dict[str, Any]:
        span = {"since": self.since, "until": self.until}
        given = {"role": self.role, "session_id": self.session, "time_range": span}
        return {name: value for name, value in given.items() if value is not None}


def _bundle(name: str, kind: type, options: Sequence[Callable[[Any], Any]]) -> Callable[[F], F]:
    """A decorator that adds options to a command and hands their values over as one object."""
    fields = list(kind.__dataclass_fields__)  # type: ignore[attr-defined]

    def decorate(function: F) -> F:
        @wraps(function)
        def call(**given: Any) -> Any:
            bundle = kind(**{field: given.pop(field) for field in fields})
            return function(**given, **{name: bundle})

        decorated: Any = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


shared = _bundle(
    "place",
    Place,
    (
        click.option("--home", default="./data", show_default=True, envvar="MNEMON_HOME", help="The memory's folder."),
        click.option(
            "--config",
            type=click.Path(path_type=Path),
            envvar="MNEMON_CONFIG",
            help=f"A configuration file (TOML). Default: {FILE} in the home folder, if there is one.",
        ),
        click.option("--embedder", help="local, openai or hash; default: what the configuration says."),
        click.option("--llm", help="rules (no model), or provider:model; default: what the configuration says."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    ),
)
scoped = _bundle(
    "who",
    Who,
    (
        click.option("--tenant", required=True, help="The tenant."),
        click.option("--user", required=True, help="The user."),
        click.option("--product", help="The product the user speaks through."),
        click.option("--group", help="The group the user speaks in."),
    ),
)
chatting = _bundle(
    "chat",
    Chat,
    (
        click.option("--tenant", required=True, help="The tenant."),
        click.option("--user", help="Whose private chat, or who speaks in the group."),
        click.option("--group", help="The group chat."),
        click.option("--include-private", is_flag=True, help="In a group: the user's own memories as well."),
    ),
)
filtered = _bundle(
    "kept",
    Kept,
    (
        click.option("--role", help="user, assistant, tool or system."),
        click.option("--since", help="From this time on (ISO 8601)."),
        click.option("--until", help="Before this time (ISO 8601)."),
        click.option("--session", help="Only this session."),
    ),
)


def wants_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments
