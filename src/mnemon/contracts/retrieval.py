"""What `retrieval` is asked and what it answers: hits with the words that prove them, and how they were found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mnemon.contracts.memories import MemoryEntry
from mnemon.contracts.reports import Degraded

Source = Literal["fact_search", "reference_trace", "event_search"]

NO_EVIDENCE = "insufficient information"
NO_MODEL = "Unable to answer in dummy mode."


@dataclass(frozen=True, slots=True)
class Quote:
    """Words somebody said, and where: `id` is the turn's entry; the words are its text from `start` to `end`."""

    id: str
    session_id: str
    turn_id: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Share:
    """One route by which a hit was found, and how much of its final score comes from it."""

    route: str
    share: float


@dataclass(frozen=True, slots=True)
class RetrievalHit:
    id: str
    score: float
    final_score: float
    source: Source
    entry: MemoryEntry
    evidence: tuple[Quote, ...] = ()
    routes: tuple[Share, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """How long it took; `latency_ms` is the whole of it without the answer, like `retrieval_latency_ms`."""

    latency_ms: float
    retrieval_latency_ms: float
    total_latency_ms: float
    qa_latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class ExecutedCall:
    api: str
    count: int
    latency_ms: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """How many turns of the caller's scope a strategy looked through, and how many it left out, by reason:
    `outside_time_range`, and of `dialog_v1` `dropped`, what a model judged not worth keeping."""

    turns: int = 0
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetrievalDebug:
    """`understood` is what a strategy read out of the query; `llm_used` never holds a key."""

    strategy: str
    plan: Plan
    executed_calls: tuple[ExecutedCall, ...]
    evidence_count: int
    degraded: tuple[Degraded, ...] = ()
    understood: dict[str, Any] = field(default_factory=dict)
    llm_used: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """`answer` is there when one was asked for; `prompt` is what a strategy made to be put before a model."""

    strategy: str
    query: str
    hits: tuple[RetrievalHit, ...]
    debug: RetrievalDebug
    answer: str | None = None
    prompt: str | None = None
    looked: Looked = field(default_factory=Looked)


@dataclass(frozen=True, slots=True)
class Rerank:
    """Let a model put the first `top_n` hits in order; `model` is another one than the caller's usual."""

    enabled: bool = False
    model: str = ""
    top_n: int = 20


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """How much `auto_v1` may put into a prompt."""

    top_k: int = 3
    max_tokens: int = 600
