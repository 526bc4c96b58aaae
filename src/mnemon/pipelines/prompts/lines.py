"""What a model is shown, a line each: turns and tags; texts are JSON strings, so none can pose as a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from mnemon.contracts.tags import ValueTag
from mnemon.contracts.turns import Turn

_UNKNOWN = "-"


def turn_lines(turns: Iterable[Turn], said_at: Mapping[str, datetime] | None = None) -> str:
    """`[turn_id] role speaker time: "text"`; `said_at` counts before what the export says."""
    known = said_at or {}
    return "\n".join(
        f"[{_on_a_line(turn.turn_id)}] {turn.role.value} {_on_a_line(turn.speaker) or _UNKNOWN} "
        f"{_time(turn, known.get(turn.turn_id))}: {_quoted(turn.text)}"
        for turn in turns
    )


def tag_lines(tags: Iterable[ValueTag]) -> str:
    """`[turn_id] start-end category evidence_level write_action: "text_exact"`."""
    return "\n".join(
        f"[{_on_a_line(tag.turn_id)}] {tag.span.start}-{tag.span.end} {tag.category.value} "
        f"{tag.evidence_level.value} {tag.write_action.value}: {_quoted(tag.span.text_exact)}"
        for tag in tags
    )


def _time(turn: Turn, said_at: datetime | None) -> str:
    return said_at.isoformat(timespec="seconds") if said_at else turn.timestamp_iso or _UNKNOWN


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _on_a_line(name: str) -> str:
    return name if name.isprintable() else _quoted(name)
