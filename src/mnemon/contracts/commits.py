"""One commit: what was asked, what was planned for each node, what was written, and the record that proves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mnemon.contracts.claims import Claim
from mnemon.contracts.jobs import JobStatus
from mnemon.contracts.nodes import Edge, Node, Shelf
from mnemon.contracts.reports import Degraded


class PlanAction(StrEnum):
    """What happens to a node (004's WriteAction); `delete` takes away one that has no claim left."""

    CREATE = "create"
    MERGE = "merge"
    APPEND = "append"
    SKIP = "skip"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class RelationOp:
    op: Literal["upsert", "append", "remove"]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What is to happen to one node: `after` is the whole node as it shall be."""

    action: PlanAction
    target_uri: str
    after: Node | None
    before: Node | None = None
    relation_ops: tuple[RelationOp, ...] = ()
    reason: str = ""
    claim_ids: tuple[str, ...] = ()
    claims_before: tuple[Claim, ...] = ()
    claims_after: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteResult:
    uri: str
    action: PlanAction
    node_version: int
    created: bool
    updated: bool


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """`dry_run` plans and writes nothing; `max_candidates` stands in for the configured number."""

    dry_run: bool = False
    skip_archive: bool = False
    skip_dedup: bool = False
    skip_relations: bool = False
    categories_filter: tuple[Shelf, ...] | None = None
    max_candidates: int | None = None


@dataclass(frozen=True, slots=True)
class ArchiveConfig:
    max_recent_messages: int = 50
    persist_archive: bool = True
    summary_max_tokens: int = 500


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    min_confidence: float = 0.5
    max_content_length: int = 5000
    max_candidates_per_commit: int = 20
    extraction_concurrency: int = 4


@dataclass(frozen=True, slots=True)
class DedupConfig:
    """`similarity_threshold` is for the 1536-dimensional models the figure comes from; others have their own (see
    `logic/data/dedup.toml`), unless it is set."""

    dedup_top_k: int = 5
    similarity_threshold: float = 0.85
    enable_llm_decision: bool = True


@dataclass(frozen=True, slots=True)
class CommitConfig:
    max_candidates_per_commit: int = 20
    skip_archive_on_short_session: bool = True
    short_session_threshold: int = 3
    enable_dedup: bool = True
    enable_relations: bool = True
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class SessionStats:
    """`compression_count` is how often the session was put in short so far, this time included."""

    total_turns: int
    total_tokens: int
    compression_count: int
    memories_extracted: int


@dataclass(frozen=True, slots=True)
class SessionArchive:
    """A session in short, and the last of its messages as they were said."""

    session_id: str
    archive_uri: str
    summary: str
    recent_messages: tuple[dict[str, Any], ...]
    used_contexts: tuple[str, ...]
    used_tools: tuple[dict[str, Any], ...]
    stats: SessionStats
    key_topics: tuple[str, ...] = ()
    key_decisions: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()


class OutboxEventType(StrEnum):
    UPSERT_CONTEXT = "UPSERT_CONTEXT"
    DELETE_CONTEXT = "DELETE_CONTEXT"
    MOVE_CONTEXT = "MOVE_CONTEXT"
    UPSERT_RELATION = "UPSERT_RELATION"


@dataclass(frozen=True, slots=True)
class OutboxEvent:
    """What a commit owes to the replicas. One durable job carries all events of a commit."""

    event_id: str
    event_type: OutboxEventType
    uri: str
    payload: dict[str, Any] = field(default_factory=dict)
    status: JobStatus = JobStatus.PENDING


@dataclass(frozen=True, slots=True)
class CommitStats:
    candidates_extracted: int = 0
    candidates_skipped: int = 0
    nodes_created: int = 0
    nodes_merged: int = 0
    nodes_appended: int = 0
    relations_written: int = 0
    outbox_events_queued: int = 0
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """A proposed tag or claim that was not stored, and why."""

    what: Literal["tag", "claim"]
    text: str
    reason: str
    turn_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitResult:
    archive: SessionArchive | None
    write_results: tuple[WriteResult, ...]
    outbox_events: tuple[OutboxEvent, ...]
    stats: CommitStats
    status: Literal["success", "partial", "failed"]
    claims: tuple[Claim, ...] = ()
    plans: tuple[WritePlan, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    debug: dict[str, Any] = field(default_factory=dict)


class NodeImage(BaseModel):
    """A node as it stood before or after a commit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int
    principals: tuple[str, ...]
    abstract: str
    overview: str = ""
    content: str = ""
    metadata: dict[str, Any] = {}


class NodeChange(BaseModel):
    """What a commit did to one node; also what a retry does again after a crash. `forgotten` when its words were
    erased since."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str
    action: PlanAction
    reason: str = ""
    claim_ids: tuple[str, ...] = ()
    before: NodeImage | None = None
    after: NodeImage | None = None
    relations: tuple[dict[str, Any], ...] = ()
    forgotten: bool = False


class CommitRecord(BaseModel):
    """`archives/{number}/commit.json`: a commit in short, and the difference it made. It is written before the first
    node is touched; the session's page counts it once everything in it is done."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    first_seq: int
    last_seq: int
    head: str
    at: datetime
    summary: str = ""
    key_topics: tuple[str, ...] = ()
    key_decisions: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    used_contexts: tuple[str, ...] = ()
    used_tools: tuple[dict[str, Any], ...] = ()
    trace_id: str = ""
    total_tokens: int = 0
    compressions: int = 0
    claim_ids: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    others: tuple[Claim, ...] = ()
    changes: tuple[NodeChange, ...] = ()
    owes: bool = Field(default=False, description="did a model give no good answer about some of it?")
