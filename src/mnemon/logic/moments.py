"""A moment as people and programs write it, and whether the clock that tells it can be believed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

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


# A machine may be switched off for a season; a clock that is further ahead than that is rather wrong.
AHEAD = timedelta(days=180)
# Clocks are set right by seconds and minutes all the time.
BEHIND = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Hours:
    """What was seen of a clock: what it showed last, how much time went by in front of our eyes, and, where it jumped,
    what time it was before (`right`) and how much had gone by then (`since`)."""

    seen: datetime
    lived: timedelta = timedelta()
    right: datetime | None = None
    since: timedelta = timedelta()

    @property
    def counted(self) -> datetime:
        """The time by our own counting: the clock's, or what it showed before it jumped and what went by since."""
        return self.seen if self.right is None else self.right + (self.lived - self.since)

    def after(self, now: datetime, proof: timedelta) -> Hours:
        """Having looked at the clock once more. One that jumped is believed again when it is back, or has gone on
        steadily for as long as `proof`."""
        step = now - self.seen
        if not -BEHIND <= step <= AHEAD:
            there = Hours(now, self.lived, self.counted, self.lived)
        else:
            gone = max(step, timedelta())
            there = Hours(max(now, self.seen), self.lived + gone, self.right, self.since)
        if there.right is None or -BEHIND <= now - there.counted <= BEHIND or there.lived - there.since >= proof:
            return Hours(there.seen, there.lived)
        return there
