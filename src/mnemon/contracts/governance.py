"""How long a memory may live and how far it may be trusted: one value, carried unchanged from tag to claim to node to
index."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Kind(StrEnum):
    """What sort of thing is remembered (`category` in a tag, `fact_type` in an entry)."""

    FACT = "fact"
    PREFERENCE = "preference"
    TASK = "task"
    RULE = "rule"


class EvidenceLevel(StrEnum):
    """What a memory rests on, weakest first."""

    AI_INFERENCE = "S1_ai_inference"
    USER_CLAIM = "S0_user_claim"
    TOOL_GROUNDED = "S2_tool_grounded"
    USER_CONFIRMED = "S3_user_confirmed"


class ForgetPolicy(StrEnum):
    PERMANENT = "permanent"
    UNTIL_CHANGED = "until_changed"
    TEMPORARY = "temporary"


class Status(StrEnum):
    """How a task stands; everything else is `n/a`."""

    OPEN = "open"
    DONE = "done"
    CANCELLED = "cancelled"
    NONE = "n/a"


ImportanceLevel = Literal["low", "medium", "high"]
IMPORTANCE: dict[str, float] = {"low": 0.3, "medium": 0.6, "high": 0.9}


def importance_of(value: object) -> object:
    """A label as its number; anything else as it is, for the type to judge."""
    return IMPORTANCE.get(value, value) if isinstance(value, str) else value


class Governance(BaseModel):
    """`ttl_seconds` 0 is long-lived; `ttl_policy` says which rule gave it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    importance: float = Field(default=0.5, ge=0.0, le=1.0)
    ttl_seconds: int = Field(default=0, ge=0)
    forget_policy: ForgetPolicy = ForgetPolicy.TEMPORARY
    evidence_level: EvidenceLevel = EvidenceLevel.AI_INFERENCE
    requires_confirmation: bool = False
    ttl_policy: str = ""

    @field_validator("importance", mode="before")
    @classmethod
    def _label(cls, value: Any) -> Any:
        return importance_of(value)

    @property
    def importance_level(self) -> ImportanceLevel:
        return "low" if self.importance < 0.45 else "medium" if self.importance < 0.75 else "high"

    def expires_at(self, begun: datetime) -> datetime | None:
        return begun + timedelta(seconds=self.ttl_seconds) if self.ttl_seconds else None
