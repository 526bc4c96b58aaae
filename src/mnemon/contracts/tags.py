"""Stage 2's output: judgements about verbatim spans. A tag never rewrites a word."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy, Kind, importance_of
from mnemon.contracts.turns import Span

TAGGING_VERSION: Literal["value_tagging_v1"] = "value_tagging_v1"


class WriteAction(StrEnum):
    """What becomes of a tagged span. `drop` exists on the wire, and no stored tag may carry it."""

    FACT = "write_fact"
    TASK = "write_task"
    RULE = "write_rule"
    PREFERENCE = "write_preference"
    ARCHIVE_ONLY = "archive_only"
    DROP = "drop"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TagSpan(_Model):
    """Code points of the tag's turn: `turn.text[start:end] == text_exact`."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)
    text_exact: str


class Hints(_Model):
    entity_names: tuple[str, ...] = ()
    time_hint: str = ""
    dedup_key: str = ""


class ValueTag(_Model):
    tag_id: str = Field(min_length=1)
    turn_id: str
    span: TagSpan
    category: Kind
    subtype: str = ""
    subject: str = ""
    evidence_level: EvidenceLevel
    requires_confirmation: bool = False
    importance: float = Field(ge=0.0, le=1.0)
    ttl_seconds: int = Field(ge=0)
    forget_policy: ForgetPolicy
    write_action: WriteAction
    reason: str = ""
    hints: Hints = Hints()

    @field_validator("importance", mode="before")
    @classmethod
    def _label(cls, value: Any) -> Any:
        return importance_of(value)

    def as_span(self) -> Span:
        return Span(turn_id=self.turn_id, start=self.span.start, end=self.span.end, text_exact=self.span.text_exact)


class TaggingStats(_Model):
    input_turns: int = 0
    kept_turns: int = 0
    dropped_turns: int = 0
    tag_count: int = 0


class ValueTaggingOutput(_Model):
    version: Literal["value_tagging_v1"] = TAGGING_VERSION
    session_id: str = ""
    kept_turn_ids: tuple[str, ...] = ()
    dropped_turn_ids: tuple[str, ...] = ()
    tags: tuple[ValueTag, ...] = ()
    stats: TaggingStats = TaggingStats()


class Tagging(_Model):
    """Stage 2 over a stretch of a session, as validated: turns `first_seq` to `last_seq`, of which `head` is the chain.

    `degraded` says what a model got wrong in it to the last. `ttl_seconds` was set by earlier versions where they
    meant the words to lapse; words do not, and such a tagging counts for nothing."""

    first_seq: int
    last_seq: int
    head: str
    output: ValueTaggingOutput
    provider: str = ""
    model: str = ""
    prompt_version: str = ""
    degraded: str = ""
    ttl_seconds: int = Field(default=0, ge=0)
