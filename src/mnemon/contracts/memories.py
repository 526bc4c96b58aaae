"""What the Memory Service takes and gives back: entries, links between them, filters, and the trail of every change."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from mnemon.contracts.scope import MAX_ID, Match

EntryKind = Literal["episodic", "semantic"]
Modality = Literal["text", "image", "audio", "video", "structured", "clip_image", "clip"]
EntryOp = Literal["write", "update", "delete", "rollback", "erase"]
MODALITIES: tuple[str, ...] = get_args(Modality)

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Moment = datetime | str | Number
"""ISO 8601, or seconds or milliseconds since 1970."""
Names = tuple[str, ...]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MemoryEntry(_Model):
    """One memory in the form of the wire; `contents[0]` is its text. Of `metadata` these are understood:
    `user_id` (who may see it), `memory_domain`, `run_id`, `turn_id`, `role`, `speaker`, `timestamp`, `source`,
    `fact_type`, `status`, `importance`, `ttl` (seconds), `expires_at`, `memory_scope`, `entities`, `tags`, `keywords`,
    `topic_path`, `time_bucket`, `source_session_id`, `source_turn_ids`; anything else travels along."""

    id: Annotated[str, Field(min_length=1, max_length=MAX_ID)] | None = None
    kind: EntryKind
    modality: Modality = "text"
    contents: Names = ()
    vectors: dict[str, tuple[Number, ...]] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    published: StrictBool = True


class EntryState(MemoryEntry):
    """An entry as the archive keeps it. `deleted` is out of sight and can come back; `written_at` is when its life
    began; `embedded_by` names the model whose vector came with it."""

    id: str = Field(min_length=1, max_length=MAX_ID)
    deleted: bool = False
    written_at: datetime
    embedded_by: str = ""


class Link(_Model):
    """`Edge` on the wire. The ends are ids of this write, of entries seen, or of items of the graph."""

    src_id: str = Field(min_length=1, max_length=MAX_ID)
    dst_id: str = Field(min_length=1, max_length=MAX_ID)
    rel_type: str = Field(min_length=1, max_length=64)
    weight: Number = 1.0


class NumberRange(_Model):
    gte: Number | None = None
    gt: Number | None = None
    lte: Number | None = None
    lt: Number | None = None


class TimeRange(_Model):
    gte: Moment | None = None
    gt: Moment | None = None
    lte: Moment | None = None
    lt: Moment | None = None


class SearchFilters(_Model):
    """Everything that is given must hold; of a list, one of its values. An empty list matches nothing. There are no
    wildcards: `*`, `%` and `_` are characters like any other. `user_id` are principals (`u:ann`, `p:app`), and can only
    narrow what the caller sees anyway: `any` to rows that carry one of them, `all` to rows that carry every one,
    `within` to rows that carry no other."""

    tenant_id: str | None = None
    user_id: Names | None = None
    user_match: Match = "any"
    memory_domain: str | None = None
    run_id: str | None = None
    memory_scope: str | None = None
    memory_type: tuple[Literal["episodic", "semantic", "chunk"], ...] | None = Field(
        default=None,
        description="`chunk`: pieces of readable memories; unless it is named, only those a person wrote by hand",
    )
    modality: tuple[Modality, ...] | None = None
    source: Names | None = None
    fact_type: Names | None = None
    status: Names | None = None
    time_range: TimeRange | None = None
    importance_range: NumberRange | None = None
    ttl_range: NumberRange | None = None
    entities: Names | None = None
    rel_types: Names | None = Field(default=None, description="kept is what one of these edges begins or ends at")
    topic_path: Names | None = None
    tags: Names | None = None
    keywords: Names | None = None
    time_bucket: Names | None = None
    threshold: Number | None = None
    published: StrictBool | None = Field(default=None, description="False: own entries that are not published yet")


class GraphParams(_Model):
    """How far links are followed from each hit, along which, and how many neighbours are told of each."""

    max_hops: int = Field(default=3, ge=1, le=3, strict=True)
    rel_types: Names = ()
    neighbor_cap: int = Field(default=5, ge=0, le=100, strict=True)


class EntryPatch(_Model):
    """What an update changes. Keys of `metadata` replace those that are there, None takes one away."""

    contents: Names | None = None
    metadata: dict[str, Any] | None = None
    modality: Modality | None = None
    published: StrictBool | None = None


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """`version` names this change for ever, `value` proves its place in the log. `id_map` says under which id each
    entry is stored: by the id given, or by its position where none was."""

    version: int
    value: str
    created_at: str
    id_map: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    id: str
    score: float
    entry: MemoryEntry


@dataclass(frozen=True, slots=True)
class Neighbor:
    """What links lead to from a hit: over how many of them, by which one last, and which way that one points."""

    id: str
    rel_type: str
    direction: Literal["out", "in"]
    hops: int
    weight: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`neighbors` are of the hits, by id; they are no hits themselves. `trace` has `timings_ms`, `counts`,
    `routes`, and `degraded` where the index is behind."""

    hits: tuple[SearchHit, ...]
    neighbors: dict[str, tuple[Neighbor, ...]]
    hints: str
    trace: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EntryVersion:
    """One change of one entry: who made it, why, and the entry before and after it; None where it was not there."""

    version: int
    op: EntryOp
    at: str
    by: tuple[str, ...]
    reason: str
    before: MemoryEntry | None
    after: MemoryEntry | None
