"""A turn is one verbatim utterance; a span points into it. Both are never rewritten."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mnemon.contracts.errors import SpanMismatch


class InputFormat(StrEnum):
    """The four forms a conversation may arrive in; never guessed."""

    CANONICAL_TURNS = "canonical_turns_v1"
    OPENAI_MESSAGES = "openai_messages_v1"
    AI_STUDIO_EXPORT = "ai_studio_export_text_v1"
    AGENT_TRACE = "agent_trace_v1"


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_enum_values=False)


class SourceRef(_Frozen):
    """Where in the raw export a turn came from."""

    input_format: InputFormat
    raw_index: int = Field(ge=0)
    raw_path: str = ""


class Attachment(_Frozen):
    """What belongs to a turn but is not its text: a whole tool output, a file, an image."""

    type: str = Field(pattern=r"^(tool_result|file|image_ref)$")
    name: str = ""
    truncated: bool = False
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    ref: str = ""


class Span(_Frozen):
    """A pointer into a turn: `turn.text[start:end] == text_exact`, counted in Unicode code points."""

    turn_id: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    text_exact: str

    @classmethod
    def cut(cls, turn: Turn, start: int, end: int) -> Span:
        return cls(turn_id=turn.turn_id, start=start, end=end, text_exact=turn.text[start:end])

    @classmethod
    def whole(cls, turn: Turn) -> Span:
        return cls.cut(turn, 0, len(turn.text))

    def check(self, turn: Turn) -> None:
        """Raise `SpanMismatch` unless the quoted words stand exactly there."""
        actual = turn.text[self.start : self.end]
        if self.turn_id != turn.turn_id or actual != self.text_exact or not actual:
            raise SpanMismatch(turn_id=self.turn_id, expected=self.text_exact, actual=actual)


class Turn(_Frozen):
    """One utterance as it was said (`CanonicalTurn` on the wire)."""

    turn_id: str = Field(min_length=1, max_length=256)
    role: Role
    speaker: str = ""
    timestamp_iso: str | None = None
    text: str
    source_ref: SourceRef | None = None
    attachments: tuple[Attachment, ...] = ()
    drop_candidate: str | None = Field(
        default=None, description="the rule that would drop this turn, where configuration keeps it"
    )
    meta: dict[str, Any] = Field(default_factory=dict)

    @field_validator("timestamp_iso")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None:
            parse_time(value)
        return value

    @field_validator("meta")
    @classmethod
    def _is_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode() if value else b""
        except TypeError as error:
            raise ValueError(f"holds what JSON cannot: {error}") from None
        return value

    @field_validator("text", "speaker", "turn_id")
    @classmethod
    def _is_text(cls, value: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"holds half of a surrogate pair at character {error.start}") from None
        return value


def parse_time(value: str) -> datetime:
    """An ISO 8601 time; one without a zone counts as UTC."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"not an ISO 8601 time: {value!r}, expected for example 2025-12-21T10:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def epoch_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
