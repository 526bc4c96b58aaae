"""A chat bot's door: what `end` is told, when and where it happened, and what the chat tools answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mnemon.contracts.nodes import Node
from mnemon.contracts.reports import Degraded
from mnemon.contracts.retrieval import Quote
from mnemon.contracts.scope import Owner
from mnemon.contracts.turns import Role, parse_time

SCHEMA_VERSION = "final_v1"

RequestType = Literal["group", "private"]
EntityType = Literal["user", "group"]
# The chat's own view of what happened, and that of the person who spoke.
Perspective = Literal["", "sender"]
EndStatus = Literal["queued", "duplicate", "empty", "disabled"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Said(_Frozen):
    """One message of the batch a bot's turn is about, word for word."""

    message_id: str = Field(min_length=1, max_length=200)
    text: str
    sender_id: str = ""
    sender_name: str = ""
    time: str | None = None
    role: Role = Role.USER

    @field_validator("time")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None:
            parse_time(value)
        return value


class EndCall(_Frozen):
    """One `end` as it is checked and queued: from here on it survives a crash. `timestamp` is in the chat's own time
    zone."""

    request_id: str
    end_seq: int = Field(ge=0)
    action_summary: str = ""
    new_info: str = ""
    request_type: RequestType
    user_id: str
    group_id: str = ""
    group_name: str = ""
    sender_id: str
    sender_name: str = ""
    bot_name: str = ""
    message_ids: tuple[str, ...] = ()
    messages: tuple[Said, ...] = ()
    timestamp: str
    timezone: str
    location: str = ""
    queued_at: str

    @property
    def event_id(self) -> str:
        return f"{self.request_id}:{self.end_seq}"

    @property
    def owner(self) -> Owner:
        """Whose folder the chat lies in."""
        return Owner.group(self.group_id) if self.request_type == "group" else Owner.user(self.user_id)


class Occasion(_Frozen):
    """When, where and in which chat something happened: what is kept beside an event (and a line of a profile).

    `unresolved` are words no rule could make absolute but by saying that they are unknown. `attempts` and `rewrites`
    tell how often the job and the model had to try again."""

    event_id: str
    perspective: Perspective = ""
    request_id: str
    end_seq: int
    timestamp_utc: str
    timestamp_local: str
    timezone: str
    location_abs: str = ""
    request_type: RequestType
    user_id: str
    group_id: str = ""
    sender_id: str
    sender_name: str = ""
    group_name: str = ""
    message_ids: tuple[str, ...] = ()
    has_new_info: bool = False
    schema_version: str = SCHEMA_VERSION
    is_absolute: bool = True
    unresolved: tuple[str, ...] = ()
    did_what: str = ""
    new_info: str = ""
    queued_at: str = ""
    attempts: int = 0
    rewrites: int = 0

    @property
    def id(self) -> str:
        """`{request_id}:{end_seq}`, with the perspective where it is not the chat's own."""
        return f"{self.event_id}#{self.perspective}" if self.perspective else self.event_id


class Absolute(_Frozen):
    """What the historian makes of an `end`: the same, with nothing in it that only the moment could explain.

    `about` says whose profile `new_info` belongs to, `topic` what it is about: a later line on the same topic stands
    in for an earlier one."""

    did_what: str = ""
    new_info: str = ""
    canonical_text: str = Field(min_length=1)
    about: EntityType = "user"
    topic: str = Field(default="", max_length=80)
    tags: tuple[str, ...] = Field(default=(), max_length=8)


@dataclass(frozen=True, slots=True)
class EndResult:
    """`queued` is durable; `duplicate` says that this very call waits already; `empty` and `disabled` touched no
    file."""

    status: EndStatus
    event_id: str
    job_id: str | None = None
    deprecated: tuple[str, ...] = ()
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class EventHit:
    """An event that fits: its absolute words, all that is known of the occasion, and the words it rests on. `score`
    puts hits in order and is a measure among them; `cosine` is how near it is by itself, None where words found it."""

    id: str
    text: str
    score: float
    claim_id: str
    ts: str
    evidence_level: str
    metadata: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[Quote, ...] = ()
    cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of somebody or of a group, as far as it may be shown here: Markdown with its front matter.

    It may be put together from several nodes, each for its own audience; `versions` tells which, and how old."""

    id: str
    entity_type: EntityType
    entity_id: str
    name: str
    tags: tuple[str, ...]
    updated_at: str
    source_event_id: str
    text: str
    body: str
    overview: str
    versions: dict[str, int]
    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileHit:
    id: str
    entity_type: EntityType
    entity_id: str
    score: float
    text: str
    updated_at: str
    tags: tuple[str, ...] = ()
    uri: str = ""


@dataclass(frozen=True, slots=True)
class ProfileVersion:
    """One version of a profile's node; the newest is the one in force."""

    uri: str
    version: int
    saved_at: str
    reason: str
    text: str
    current: bool = False


@dataclass(frozen=True, slots=True)
class ProfileDiff:
    """What two versions of a profile say differently, line by line and claim by claim."""

    uri: str
    from_version: int
    to_version: int
    text: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatContext:
    """A piece of prompt for one turn of a bot, within a budget, and what it is made of."""

    text: str
    tokens: int
    profile: Profile | None = None
    group_profile: Profile | None = None
    events: tuple[EventHit, ...] = ()
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class HistorianStatus:
    """How the historian stands. Rates and latencies are those of the latest events; `latency` is from the call of
    `end` to the stored event, in seconds."""

    enabled: bool = True
    provider: str = ""
    waiting: int = 0
    under_way: int = 0
    failed: int = 0
    retrying: int = 0
    oldest_waiting_s: float = 0.0
    events: int = 0
    failure_rate: float = 0.0
    not_absolute: int = 0
    rewrites: int = 0
    latency_p50_s: float = 0.0
    latency_p95_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Alert:
    """Something a person should know: a job that failed for good, an event that could not be made absolute, a queue
    that does not move."""

    kind: Literal["job_failed", "not_absolute", "queue_age", "failure_rate"]
    message: str
    at: str
    facts: dict[str, Any] = field(default_factory=dict)
