"""The settings of a chat bot's memory: the `[cognitive]` table of the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """With a key, the model everything is embedded with; without one, the local embedder stays."""

    model: str = "text-embedding-3-small"
    api_url: str = ""
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class VectorStoreConfig:
    """Where a Chroma index lies; other engines do not look here."""

    path: str = "data/chromadb"


@dataclass(frozen=True, slots=True)
class QueryConfig:
    """`auto_top_k` events come into every prompt, `tool_default_top_k` answer a tool call. A memory counts half after
    `half_life_days`, and never less than a `floor` of what it is worth; `diversity` is how much being like one already
    chosen costs."""

    auto_top_k: int = 3
    tool_default_top_k: int = 12
    profile_top_k: int = 8
    max_tokens: int = 800
    half_life_days: float = 30.0
    floor: float = 0.5
    diversity: float = 0.3


@dataclass(frozen=True, slots=True)
class HistorianConfig:
    rewrite_max_retry: int = 2
    profile_revision_keep: int = 5
    poll_interval_seconds: float = 1.0
    job_max_retries: int = 5
    failed_jobs_kept: int = 10_000
    concurrency: int = 4
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class AlertsConfig:
    """Whom to tell (`webhook` is posted a JSON object), and from when on: the oldest job waits longer than this, more
    than this share of jobs failed. The same alert is told again after `repeat_seconds`, not before."""

    webhook: str = field(default="", repr=False)
    queue_age_seconds: float = 300.0
    failure_rate: float = 0.05
    repeat_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class CognitiveConfig:
    """`enabled = false` is as if there were no memory for chat bots: no file is touched, jobs that wait keep
    waiting."""

    enabled: bool = True
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    vector_store: VectorStoreConfig = field(default_factory=VectorStoreConfig)
    query: QueryConfig = field(default_factory=QueryConfig)
    historian: HistorianConfig = field(default_factory=HistorianConfig)
    alerts: AlertsConfig = field(default_factory=AlertsConfig)
