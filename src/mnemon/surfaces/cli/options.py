"""Options every command shares, and the memory they open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from mnemon.engine.config import FILE, Config
from mnemon.engine.sync import Memory

F = TypeVar("F", bound=Callable[..., Any])

_SHARED = (
    click.option("--home", default="./data", show_default=True, envvar="MNEMON_HOME", help="The folder of the memory."),
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="MNEMON_CONFIG",
        help=f"A configuration file (TOML). Default: {FILE} in the home folder, if there is one.",
    ),
    click.option("--embedder", help="local, openai or hash; default: what the configuration says."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)
_SCOPE = (
    click.option("--tenant", required=True, help="The tenant."),
    click.option("--user", required=True, help="The user."),
    click.option("--product", help="The product the user speaks through."),
    click.option("--group", help="The group the user speaks in."),
)


def _with(options: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


shared = _with(_SHARED)
scoped = _with(_SCOPE)


def read_config(home: str, config: Path | None) -> Config:
    beside = Path(home) / FILE
    return Config.load(config or (beside if beside.exists() else None))


def opened(home: str, config: Path | None, embedder: str | None, *, for_rebuild: bool = False) -> Memory:
    return Memory(home, config=read_config(home, config), embedder=embedder, for_rebuild=for_rebuild)


def wants_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments
