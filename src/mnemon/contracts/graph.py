"""The temporal graph in the form of the wire: who said what when, what follows from it, and what held when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy

ItemKind = Literal[
    "segment",
    "utterance",
    "evidence",
    "entity",
    "event",
    "place",
    "time_slice",
    "region",
    "state",
    "knowledge",
    "pending_equiv",
]
RelType = Literal[
    "CONTAINS_EVIDENCE",
    "TEMPORALLY_CONTAINS",
    "SPOKEN_BY",
    "OCCURS_AT",
    "SUPPORTED_BY",
    "DERIVED_FROM",
    "INVOLVES",
    "MENTIONS",
    "NEXT_EVENT",
    "STATED_BY",
    "SUPERSEDES",
]
# What says where and when things stand rather than what they have to do with each other: a day, a session or a speaker
# leads to everything in it.
STRUCTURE = ("CONTAINS_EVIDENCE", "OCCURS_AT", "SPOKEN_BY", "STATED_BY", "TEMPORALLY_CONTAINS")
EquivStatus = Literal["pending", "approved", "rejected"]
Granularity = Literal["month", "day"]


def _zoned(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# A time without a zone counts as UTC.
Moment = Annotated[datetime, AfterValidator(_zoned)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Provenance(_Model):
    """Who made this, with what, and how sure they are."""

    source: str = ""
    model_version: str = ""
    prompt_version: str = ""
    confidence: float | None = Field(default=None, ge=0.0, le=1.0)


class Scoped(_Model):
    """What every item and every edge carries. `user_id` are its principals; `created_at` is when we learnt it."""

    tenant_id: str = ""
    user_id: tuple[str, ...] = ()
    memory_domain: str = ""
    provenance: Provenance = Provenance()
    ttl: int = Field(default=0, ge=0)
    importance: float | None = Field(default=None, ge=0.0, le=1.0)
    published: bool = True
    expires_at: Moment | None = None
    forgetting_policy: ForgetPolicy | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None


class GraphItem(Scoped):
    kind: ClassVar[ItemKind]

    id: str = Field(min_length=1, max_length=512)


class Segment(GraphItem):
    """A stretch of a recording or a conversation; of a dialogue, its session."""

    kind = "segment"

    source_id: str = ""
    modality: str = "text"
    t_abs_start: Moment | None = None
    t_abs_end: Moment | None = None


class UtteranceEvidence(GraphItem):
    """One verbatim utterance."""

    kind = "utterance"

    raw_text: str
    speaker: str = ""
    lang: str = ""
    segment_id: str = ""
    turn_id: str = ""
    t_abs_start: Moment | None = None


class Evidence(GraphItem):
    """Words within an utterance: `raw_text[span_start:span_end] == text`."""

    kind = "evidence"

    utterance_id: str
    span_start: int = Field(ge=0)
    span_end: int = Field(ge=0)
    text: str
    confidence: float | None = Field(default=None, ge=0.0, le=1.0)


class Entity(GraphItem):
    kind = "entity"

    type: str = "thing"
    name: str = Field(min_length=1)
    aliases: tuple[str, ...] = ()


class Event(GraphItem):
    kind = "event"

    summary: str
    t_abs_start: Moment | None = None
    t_abs_end: Moment | None = None
    source_turn_ids: tuple[str, ...] = ()
    evidence_status: Literal["mapped", "weak", "unmapped"] = "unmapped"
    topic_path: str = ""
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    time_bucket: tuple[str, ...] = ()
    actor_id: str = ""


class Place(GraphItem):
    kind = "place"

    name: str = Field(min_length=1)
    region_id: str = ""
    latitude: float | None = Field(default=None, ge=-90, le=90)
    longitude: float | None = Field(default=None, ge=-180, le=180)


class TimeSlice(GraphItem):
    """A day or a month that something happened in. `slice_kind` is `kind` on the wire."""

    kind = "time_slice"
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    slice_kind: str = Field(default="day", alias="kind")
    t_abs_start: Moment
    t_abs_end: Moment
    granularity_level: int = 0
    parent_id: str = ""


class Region(GraphItem):
    kind = "region"

    name: str = Field(min_length=1)
    parent_id: str = ""


class State(GraphItem):
    """That a property of a subject had a value: from when to when it held, as far as its own words say. Whether a
    later state ends it is worked out when it is read, from what was known by then (`created_at`)."""

    kind = "state"

    subject_id: str
    property: str = Field(min_length=1)
    value: str
    raw_value: str = ""
    valid_from: Moment
    valid_to: Moment | None = None
    source_event_id: str = ""
    status: str = "active"
    evidence_level: EvidenceLevel | None = None


class Knowledge(GraphItem):
    """A claim; `data` holds the rest of it."""

    kind = "knowledge"

    summary: str
    data: dict[str, Any] = Field(default_factory=dict)
    t_abs_start: Moment | None = None


class PendingEquiv(GraphItem):
    """Two entities that may be one. Nobody but a person (or a program that calls for one) makes them so."""

    kind = "pending_equiv"

    entity_id: str
    candidate_id: str
    status: EquivStatus = "pending"
    reason: str = ""


class Pointer(_Model):
    """Words an edge rests on, by their place in an utterance."""

    utterance_id: str
    span_start: int = Field(ge=0)
    span_end: int = Field(ge=0)


class GraphEdge(Scoped):
    src_id: str = Field(min_length=1, max_length=512)
    dst_id: str = Field(min_length=1, max_length=512)
    rel_type: str = Field(min_length=1, max_length=64, description="of the graph a `RelType`; of a link any name")
    weight: float = 1.0
    evidence: tuple[Pointer, ...] = ()


class GraphBatch(_Model):
    """`GraphUpsertRequest` on the wire."""

    segments: tuple[Segment, ...] = ()
    evidences: tuple[Evidence, ...] = ()
    utterances: tuple[UtteranceEvidence, ...] = ()
    entities: tuple[Entity, ...] = ()
    events: tuple[Event, ...] = ()
    places: tuple[Place, ...] = ()
    time_slices: tuple[TimeSlice, ...] = ()
    regions: tuple[Region, ...] = ()
    states: tuple[State, ...] = ()
    knowledge: tuple[Knowledge, ...] = ()
    edges: tuple[GraphEdge, ...] = ()
    pending_equivs: tuple[PendingEquiv, ...] = ()

    def items(self) -> Iterator[GraphItem]:
        """Everything but the edges."""
        yield from self.segments
        yield from self.utterances
        yield from self.evidences
        yield from self.entities
        yield from self.events
        yield from self.places
        yield from self.time_slices
        yield from self.regions
        yield from self.states
        yield from self.knowledge
        yield from self.pending_equivs

    def counts(self) -> dict[str, int]:
        """How many of each, those there are."""
        return {name: len(given) for name, given in self if given}


ITEM_TYPES: dict[ItemKind, type[GraphItem]] = {
    made.kind: made
    for made in (
        Segment,
        UtteranceEvidence,
        Evidence,
        Entity,
        Event,
        Place,
        TimeSlice,
        Region,
        State,
        Knowledge,
        PendingEquiv,
    )
}


@dataclass(frozen=True, slots=True)
class Saying:
    """What one origin (a session's turns, its claims, somebody outside) says of the graph. An item is there while one
    origin says it; several may say the same entity or day, and it is what they say together.

    `whole`: this takes the place of everything the origin said before; else it is added, item by item replaced.
    `mark` is how far the origin is, for whoever asks later. One that is whole, says nothing and has no mark leaves the
    origin as if it had never spoken."""

    origin: str
    batch: GraphBatch
    whole: bool = True
    mark: str = ""


@dataclass(frozen=True, slots=True)
class GraphAsk:
    """Items of one kind, oldest first, then by id; those without a time of their own come first. `names` are entities'
    names or aliases, compared as `logic.graph.names.same` folds them; `subjects` are whom a state is about, who acts in
    an event, the utterance that evidence stands in; `linked` keeps what an edge ties to one of these, or what is about
    one, and `rel_types` says which edges count; `since` and `until` are what an item's time must overlap, `until`
    exclusive; `now` leaves out what is over or not published by then, None leaves out nothing."""

    kind: ItemKind
    ids: tuple[str, ...] | None = None
    names: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    rel_types: tuple[str, ...] = ()
    property: str = ""
    domain: str = ""
    slice_kind: str = ""
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100
    cursor: str | None = None
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class GraphPage:
    items: tuple[GraphItem, ...]
    next_cursor: str | None = None
