"""A claim is a derived sentence that cites the words it rests on."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from mnemon.contracts.chats import Occasion
from mnemon.contracts.governance import Governance, Kind, Status
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.scope import Owner, OwnerKind, SessionKey
from mnemon.contracts.turns import Span

Language = Literal["zh", "en"]


class ClaimState(StrEnum):
    """Only `active` claims are knowledge; `superseded` ones were, for as long as they were valid; a `repeated` one says
    again what an earlier one says, and is further evidence of it."""

    ACTIVE = "active"
    REPEATED = "repeated"
    PENDING = "pending"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"


class ToolStats(BaseModel):
    """What is known about a tool or skill, added up over its uses (004's ToolSkillCandidate)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool_name: str = ""
    skill_name: str = ""
    call_count: int = Field(default=0, ge=0)
    success_count: int = Field(default=0, ge=0)
    total_duration_ms: int = Field(default=0, ge=0)
    total_tokens: int = Field(default=0, ge=0)
    best_for: str = ""
    common_failures: str = ""

    @property
    def success_rate(self) -> float | None:
        return self.success_count / self.call_count if self.call_count else None

    @property
    def avg_duration_ms(self) -> float | None:
        """None where nobody measured."""
        return self.total_duration_ms / self.call_count if self.call_count and self.total_duration_ms else None


class Claim(BaseModel):
    """`valid_from` is when it began to hold (or was said), `recorded_at` when we learnt it. `dedup_key` names what it
    is about: of two claims with the same one, only one can hold at a time. `about` is whom a line of a profile tells of
    (`user:…`) where that is not the owner himself; `occasion` is what is known of the bot's turn it comes from.
    `arrived`: nobody said when it was said, so its time is that of the clock when it came in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim_id: str
    tenant_id: str
    owner_kind: OwnerKind
    owner_id: str
    session_id: str
    principals: tuple[str, ...]
    kind: Kind
    shelf: Shelf
    routing_key: str
    statement: str = Field(min_length=1)
    title: str = ""
    overview: str = ""
    content: str = ""
    confidence: float = Field(ge=0.0, le=1.0)
    status: Status = Status.NONE
    language: Language
    subject: str = ""
    entities: tuple[str, ...] = ()
    dedup_key: str = ""
    rationale: str = ""
    spans: tuple[Span, ...] = Field(min_length=1)
    governance: Governance
    state: ClaimState = ClaimState.ACTIVE
    node_uri: str = ""
    valid_from: datetime
    valid_to: datetime | None = None
    said_until: datetime | None = Field(default=None, description="the end its own words give, whatever came after")
    arrived: bool = False
    recorded_at: datetime
    expires_at: datetime | None = None
    superseded_by: str = ""
    repeats: str = ""
    corrected_from: str = ""
    tool: ToolStats | None = None
    about: str = ""
    occasion: Occasion | None = None
    provider: str = ""
    model: str = ""
    prompt_version: str = ""

    @property
    def session(self) -> SessionKey:
        return SessionKey(self.tenant_id, Owner(self.owner_kind, self.owner_id), self.session_id)

    @property
    def source_turn_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(span.turn_id for span in self.spans))

    def alive(self, now: datetime) -> bool:
        """May it be read at all? Superseded claims may, expired ones never."""
        return self.state is not ClaimState.EXPIRED and (self.expires_at is None or now < self.expires_at)

    def holds(self, now: datetime) -> bool:
        """Is it knowledge at this moment?"""
        return self.state is ClaimState.ACTIVE and self.alive(now) and (self.valid_to is None or now < self.valid_to)
