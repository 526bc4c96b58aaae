"""The time of a message, however an export writes it, as UTC ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mnemon.contracts.turns import parse_time
from mnemon.logic.adapters.fields import Data
from mnemon.logic.adapters.place import Place

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXPECTED = "an ISO 8601 time such as 2025-12-21T10:00:00Z, or seconds or milliseconds since 1970"


def iso_utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def utc_time(value: object, place: Place) -> str | None:
    """None stays None; seconds, milliseconds, microseconds and nanoseconds are told apart by size."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            digits = value.strip()
            if digits.isascii() and digits.isdigit() and 9 <= len(digits) <= 20:
                return iso_utc(from_epoch(int(digits)))
            return iso_utc(parse_time(value))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return iso_utc(from_epoch(value))
    except (ValueError, OverflowError):
        pass
    raise place.wrong(value, _EXPECTED)


def first_time(data: Data, keys: tuple[str, ...], place: Place) -> str | None:
    for key in keys:
        if data.get(key) is not None:
            return utc_time(data[key], place.key(key))
    return None


def from_epoch(value: float) -> datetime:
    """Above each bound the number is no plausible time in the next coarser unit (1e11 seconds is the year 5138)."""
    size = abs(value)
    if size >= 1e17:
        micros = int(value) // 1_000
    elif size >= 1e14:
        micros = int(value)
    elif size >= 1e11:
        micros = round(value * 1_000)
    else:
        micros = round(value * 1_000_000)
    return _EPOCH + timedelta(microseconds=micros)
