"""One frozen configuration, read once at the edge: a TOML file, the environment, and what the caller says."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from mnemon.contracts.errors import InvalidArgument, NotFound
from mnemon.contracts.nodes import REVISIONS_KEPT
from mnemon.logic.denoise import DenoiseRules

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FILE = "mnemon.toml"

T = TypeVar("T", bound="DataclassInstance")
ConfigT = TypeVar("ConfigT", bound="Config")


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """`auto` is `local` where its weights are installed, else `hash`, and says so."""

    provider: str = "auto"
    model: str = ""
    api_key: str = field(default="", repr=False)
    base_url: str = ""
    path: str = ""
    dimension: int = 0
    timeout_s: float = 30.0
    cache: bool = True


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that can be set; the defaults are for one machine and no server."""

    index_url: str = "sqlite"
    index_cache_mb: int = 256
    queue_url: str = "fs"
    revisions_kept: int = REVISIONS_KEPT
    redact: bool = False
    redaction_patterns: str = ""
    background_worker: bool = True
    poll_interval_seconds: float = 1.0
    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)
    denoise: DenoiseRules = field(default_factory=DenoiseRules)

    @classmethod
    def load(cls, path: Path | None = None, env: Mapping[str, str] | None = None) -> Self:
        """A TOML file (tables `[embedder]`, `[denoise]`), then `MNEMON_…` variables over it."""
        table: dict[str, Any] = {}
        if path is not None:
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise NotFound(f"there is no configuration file {path}", field="config") from None
            except tomllib.TOMLDecodeError as error:
                raise InvalidArgument(f"{path}: {error}", field="config") from None
        config = _fill(cls(), table, "")
        return _from_environment(config, os.environ if env is None else env)


_ENVIRONMENT: dict[str, tuple[str, Callable[[str], object]]] = {
    "MNEMON_INDEX_URL": ("index_url", str),
    "MNEMON_QUEUE_URL": ("queue_url", str),
    "MNEMON_EMBEDDER": ("embedder.provider", str),
    "MNEMON_EMBEDDER_MODEL": ("embedder.model", str),
    "MNEMON_EMBEDDER_API_KEY": ("embedder.api_key", str),
    "MNEMON_EMBEDDER_BASE_URL": ("embedder.base_url", str),
    "MNEMON_REDACT": ("redact", lambda text: text.lower() in ("1", "true", "yes", "on")),
}


def _fill(target: T, table: dict[str, Any], prefix: str) -> T:
    known = {f.name: f for f in fields(target)}
    changes: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {prefix}{near[0]!s}?" if near else f"; known: {', '.join(known)}"
            raise InvalidArgument(f"unknown configuration key {name}{hint}", field=name)
        current = getattr(target, key)
        if isinstance(value, dict) and hasattr(current, "__dataclass_fields__"):
            changes[key] = _fill(current, value, f"{name}.")
        elif type(value) is type(current) or (isinstance(current, float) and type(value) is int):
            changes[key] = type(current)(value)
        else:
            expected = type(current).__name__
            raise InvalidArgument(f"{name} must be of type {expected}, not {type(value).__name__}", field=name)
    return replace(target, **changes)


def _from_environment(config: ConfigT, env: Mapping[str, str]) -> ConfigT:
    for variable, (place, read) in _ENVIRONMENT.items():
        if variable in env:
            outer, _, inner = place.rpartition(".")
            value = read(env[variable])
            if outer:
                config = replace(config, **{outer: replace(getattr(config, outer), **{inner: value})})
            else:
                changes: dict[str, Any] = {inner: value}
                config = replace(config, **changes)
    return config
