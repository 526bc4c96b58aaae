"""One frozen configuration, read once at the edge: a TOML file, the environment, and what the caller says."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from mnemon.contracts.cognitive import CognitiveConfig
from mnemon.contracts.commits import ArchiveConfig, CommitConfig, DedupConfig, PipelineConfig
from mnemon.contracts.errors import InvalidArgument, NotFound
from mnemon.contracts.nodes import REVISIONS_KEPT
from mnemon.logic.denoise import DenoiseRules
from mnemon.logic.hints import hint
from mnemon.pipelines.govern.quotas import Quotas

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
class Account:
    """A key of a provider, found under the variables its own tools use."""

    provider: str
    api_key: str = field(repr=False)
    base_url: str = ""


@dataclass(frozen=True, slots=True)
class LlmConfig:
    """The model of the platform: `provider` with its key, or else the first of `accounts`. Prices are for a million
    tokens; a limit of 0 is none."""

    provider: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    base_url: str = ""
    timeout_s: float = 60.0
    max_tokens_per_write: int = 0
    max_cost_per_write: float = 0.0
    input_price: float = 0.0
    output_price: float = 0.0
    accounts: tuple[Account, ...] = ()


@dataclass(frozen=True, slots=True)
class GovernanceConfig:
    """How long what is over stays recoverable, and how often the worker looks for it."""

    grace_seconds: int = 7 * 86_400
    sweep_interval_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """How the service guards itself. A `rate` (requests a second for each token) of 0 is no limit; `at_once` requests
    are worked on and `waiting` more may wait for their turn."""

    signing_secret: str = field(default="", repr=False)
    body_limit: int = 8 << 20
    timeout_s: float = 60.0
    rate: float = 0.0
    burst: int = 100
    at_once: int = 64
    waiting: int = 1024
    tracing: bool = False


@dataclass(frozen=True, slots=True)
class RecallConfig:
    """What one recall may take at most: uses of the message tools, rounds, and a model's tokens. A skill can ask for
    less, never for more."""

    max_calls: int = 8
    max_rounds: int = 6
    max_tokens: int = 20_000


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
    llm: LlmConfig = field(default_factory=LlmConfig)
    denoise: DenoiseRules = field(default_factory=DenoiseRules)
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    pipeline: PipelineConfig = field(default_factory=PipelineConfig)
    dedup: DedupConfig = field(default_factory=DedupConfig)
    commit: CommitConfig = field(default_factory=CommitConfig)
    governance: GovernanceConfig = field(default_factory=GovernanceConfig)
    quotas: Quotas = field(default_factory=Quotas)
    service: ServiceConfig = field(default_factory=ServiceConfig)
    cognitive: CognitiveConfig = field(default_factory=CognitiveConfig)
    recall: RecallConfig = field(default_factory=RecallConfig)

    @classmethod
    def load(cls, path: Path | None = None, env: Mapping[str, str] | None = None) -> Self:
        """A TOML file (tables `[embedder]`, `[llm]`, `[denoise]`, `[archive]`, `[pipeline]`, `[dedup]`, `[commit]`,
        `[governance]`, `[quotas]`, `[service]`, `[recall]`, `[cognitive]` and those within it), then `MNEMON_…`
        variables over it. A key under `[cognitive.embedding]` makes that the embedder."""
        table: dict[str, Any] = {}
        if path is not None:
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise NotFound(f"there is no configuration file {path}", field="config") from None
            except tomllib.TOMLDecodeError as error:
                raise InvalidArgument(f"{path}: {error}", field="config") from None
        config = _with_embedding(_fill(cls(), table, ""))
        return _from_environment(config, os.environ if env is None else env)


def _truth(text: str) -> bool:
    return text.lower() in ("1", "true", "yes", "on")


_ENVIRONMENT: dict[str, tuple[str, Callable[[str], object]]] = {
    "MNEMON_INDEX_URL": ("index_url", str),
    "MNEMON_QUEUE_URL": ("queue_url", str),
    "MNEMON_EMBEDDER": ("embedder.provider", str),
    "MNEMON_EMBEDDER_MODEL": ("embedder.model", str),
    "MNEMON_EMBEDDER_API_KEY": ("embedder.api_key", str),
    "MNEMON_EMBEDDER_BASE_URL": ("embedder.base_url", str),
    "MNEMON_LLM_PROVIDER": ("llm.provider", str),
    "MNEMON_LLM_MODEL": ("llm.model", str),
    "MNEMON_LLM_API_KEY": ("llm.api_key", str),
    "MNEMON_LLM_BASE_URL": ("llm.base_url", str),
    "MNEMON_SIGNING_SECRET": ("service.signing_secret", str),
    "MNEMON_COGNITIVE_ENABLED": ("cognitive.enabled", _truth),
    "MNEMON_COGNITIVE_WEBHOOK": ("cognitive.alerts.webhook", str),
    "MNEMON_REDACT": ("redact", _truth),
}

# provider, its key, its URL: as the providers' own tools read them, in the order they are looked at.
_USUAL = (
    ("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    ("gemini", "GEMINI_API_KEY", ""),
    ("gemini", "GOOGLE_API_KEY", ""),
)


def _fill(target: T, table: dict[str, Any], prefix: str) -> T:
    known = {f.name: f for f in fields(target)}
    changes: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if key not in known:
            raise InvalidArgument(f"unknown configuration key {name}{hint(key, known, prefix)}", field=name)
        current = getattr(target, key)
        if isinstance(value, dict) and hasattr(current, "__dataclass_fields__"):
            changes[key] = _fill(current, value, f"{name}.")
        elif type(value) is type(current) or (isinstance(current, float) and type(value) is int):
            changes[key] = type(current)(value)
        else:
            expected = type(current).__name__
            raise InvalidArgument(f"{name} must be of type {expected}, not {type(value).__name__}", field=name)
    return replace(target, **changes)


def _with_embedding(config: ConfigT) -> ConfigT:
    own = config.cognitive.embedding
    if not own.api_key:
        return config
    chosen = replace(config.embedder, provider="openai", model=own.model, api_key=own.api_key, base_url=own.api_url)
    return replace(config, embedder=chosen)


def _from_environment(config: ConfigT, env: Mapping[str, str]) -> ConfigT:
    for variable, (place, read) in _ENVIRONMENT.items():
        if variable in env:
            config = _put(config, place.split("."), read(env[variable]))
    accounts = tuple(Account(provider, env[key], env.get(url, "")) for provider, key, url in _USUAL if env.get(key))
    return replace(config, llm=replace(config.llm, accounts=accounts))


def _put(target: T, place: Sequence[str], value: object) -> T:
    name, *inner = place
    changes: dict[str, Any] = {name: _put(getattr(target, name), inner, value) if inner else value}
    return replace(target, **changes)
