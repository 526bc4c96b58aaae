"""What an entry can be filtered by: the metadata of the wire as fields of an index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.governance import importance_of
from mnemon.contracts.memories import EntryState, MemoryEntry
from mnemon.contracts.turns import epoch_ms
from mnemon.logic.moments import moment_ms

_WORDS = ("role", "speaker", "source", "status", "fact_type", "memory_scope")
_RENAMED = {"memory_domain": "domain", "run_id": "session_id"}
_LISTS = ("entities", "tags", "keywords", "topic_path", "time_bucket")
_LARGEST = 1 << 40  # seconds: far beyond every calendar, and no overflow in milliseconds


def text_of(entry: MemoryEntry) -> str:
    return entry.contents[0] if entry.contents else ""


def fields_of(state: EntryState, where: str = "entry") -> dict[str, Any]:
    """`InvalidArgument` names what is not of its kind."""
    metadata, at = state.metadata, f"{where}.metadata"
    fields: dict[str, Any] = {field: _word(metadata, name, at) for name, field in _RENAMED.items()}
    fields |= {name: _word(metadata, name, at) for name in _WORDS}
    fields |= {name: _list(metadata, name, at) for name in _LISTS}
    ttl = _ttl(metadata, at)
    said = moment_ms(f"{at}.timestamp", metadata.get("timestamp"))
    turn = metadata.get("turn_id")
    fields |= {
        "modality": state.modality,
        "published": state.published and not state.deleted,
        "importance": _importance(metadata, at),
        "ttl": ttl,
        "expires_at": _expiry(state, ttl, at),
        "ts": said if said is not None else epoch_ms(state.written_at),
        "turn_id": None if turn is None else _turn(turn, f"{at}.turn_id"),
        "seq": turn if isinstance(turn, int) and 0 <= turn < 1 << 62 else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _word(metadata: Mapping[str, Any], name: str, at: str) -> str | None:
    value = metadata.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{at}.{name} must be a text", field=f"{at}.{name}")
    return value


def _list(metadata: Mapping[str, Any], name: str, at: str) -> list[str] | None:
    """One text is a list of one."""
    value = metadata.get(name)
    values = [value] if isinstance(value, str) else value
    if values is not None and not (isinstance(values, list) and all(isinstance(v, str) for v in values)):
        raise InvalidArgument(f"{at}.{name} must be a list of texts", field=f"{at}.{name}")
    return values or None


def _turn(value: object, at: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidArgument(f"{at} must be a text or a whole number", field=at)
    return str(value)


def _importance(metadata: Mapping[str, Any], at: str) -> float | None:
    value = importance_of(metadata.get("importance"))
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidArgument(
            f"{at}.importance must be a number from 0 to 1, or low, medium or high", field=f"{at}.importance"
        )
    return float(value)


def _ttl(metadata: Mapping[str, Any], at: str) -> int | None:
    """Seconds; 0 is no end."""
    value = metadata.get("ttl", metadata.get("ttl_seconds"))
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise InvalidArgument(f"{at}.ttl must be a number of seconds, 0 for no end", field=f"{at}.ttl")
    return int(value)


def _expiry(state: EntryState, ttl: int | None, at: str) -> int | None:
    """Its life is counted from when it was written; an end that is named counts where it comes first."""
    named = moment_ms(f"{at}.expires_at", state.metadata.get("expires_at"))
    counted = epoch_ms(state.written_at) + ttl * 1000 if ttl else None
    return min((end for end in (named, counted) if end is not None), default=None)
