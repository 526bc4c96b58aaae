"""A moment as people and programs write it, as a time or as milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.turns import epoch_ms, parse_time
from mnemon.logic.adapters.times import from_epoch


def moment_of(name: str, moment: datetime | str | float) -> datetime:
    """ISO 8601 (without a zone it is UTC), or a number of seconds or milliseconds."""
    try:
        if isinstance(moment, datetime):
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(moment, str):
            return parse_time(moment)
        if isinstance(moment, int | float) and not isinstance(moment, bool):
            return from_epoch(moment)
    except (ValueError, OverflowError):
        pass
    raise InvalidArgument(f"{name} must be an ISO 8601 time such as 2026-01-31T08:00:00Z", field=name)


def moment_ms(name: str, moment: datetime | str | float | None) -> int | None:
    """The same in milliseconds; None stays None."""
    return None if moment is None else epoch_ms(moment_of(name, moment))
