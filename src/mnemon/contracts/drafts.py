"""What the four extractors and the other model tasks answer, before any of it is believed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mnemon.contracts.claims import ToolStats
from mnemon.contracts.governance import ForgetPolicy, Kind, Status, importance_of
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.turns import Span


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Draft(_Answer):
    """One proposed claim: 001's fact fields, 004's levels, and the words it cites (004's CandidateMemory)."""

    op: Literal["ADD"] = "ADD"
    type: Kind
    category: Shelf
    routing_key: str = Field(min_length=1, max_length=200)
    title: str = ""
    statement: str = Field(min_length=1)
    overview: str = ""
    content: str = ""
    status: Status = Status.NONE
    scope: ForgetPolicy = ForgetPolicy.TEMPORARY
    importance: float = Field(default=0.6, ge=0.0, le=1.0)
    confidence: float = Field(ge=0.0, le=1.0)
    subject: str = ""
    entity_names: tuple[str, ...] = ()
    dedup_key: str = ""
    valid_from: str = ""
    valid_to: str = ""
    rationale: str = ""
    spans: tuple[Span, ...] = ()
    tool: ToolStats | None = None

    @field_validator("importance", mode="before")
    @classmethod
    def _label(cls, value: Any) -> Any:
        return importance_of(value)


class Extraction(_Answer):
    facts: tuple[Draft, ...] = ()


class Summary(_Answer):
    summary: str
    key_topics: tuple[str, ...] = ()
    key_decisions: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()


class DedupDecision(_Answer):
    decision: Literal["create", "skip", "merge_existing"]
    reason: str = ""


class Merged(_Answer):
    abstract: str
    overview: str = ""
    content: str = ""
    reason: str = ""
