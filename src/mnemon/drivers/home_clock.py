"""The clock of a home, and what was seen of it: a file tells whoever opens the home next whether it jumped."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock

from mnemon.contracts.ports import Clock
from mnemon.logic.moments import Hours

# How much may be forgotten of what was seen when a process dies.
_KEEP_EVERY = timedelta(hours=1)
# A clock that has gone on for less than this has not jumped; it is asked several times for each turn.
_A_MOMENT = timedelta(seconds=1)


class HomeClock:
    """See `contracts.ports.Timekeeper`. Every look at the clock counts; few are written down, none without a path."""

    def __init__(self, clock: Clock, path: Path | None, proof: timedelta) -> None:
        self._clock = clock
        self._path = path
        self._proof = proof
        self._guard = Lock()
        self._kept = self._read()
        self._hours = self._kept

    def now(self) -> datetime:
        now = self._clock.now()
        hours = self._hours
        if hours is None or not hours.seen <= now < hours.seen + _A_MOMENT:
            with self._guard:
                self._look(now)
        return now

    def lives_from(self) -> datetime:
        return max(self._both())

    def over_by(self) -> datetime:
        return min(self._both())

    def _both(self) -> tuple[datetime, datetime]:
        now = self._clock.now()
        with self._guard:
            return now, self._look(now).counted

    def doubt(self) -> str:
        now = self._clock.now()
        with self._guard:
            there = self._read()  # others look at the same clock
            if there is not None and (self._hours is None or there.lived > self._hours.lived):
                self._hours = there
            hours = self._look(now, keep=True)
        if hours.right is None:
            return ""
        days = (hours.seen - hours.counted) / timedelta(days=1)
        left = self._proof - (hours.lived - hours.since)
        return (
            f"the clock jumped {abs(days):.0f} days {'ahead' if days > 0 else 'back'}, to {hours.seen:%Y-%m-%d %H:%M}; "
            f"nothing is swept until it is back, has gone on for another {left / timedelta(days=1):.1f} days, or "
            "somebody says that it is right: mnemon sweep --trust-clock"
        )

    def trust(self) -> None:
        with self._guard:
            lived = self._hours.lived if self._hours else timedelta()
            self._hours = Hours(self._clock.now(), lived)
            self._keep()

    def _look(self, now: datetime, keep: bool = False) -> Hours:
        before = self._hours
        self._hours = hours = before.after(now, self._proof) if before else Hours(now)
        kept = self._kept
        if keep or kept is None or kept.right != hours.right or hours.lived - kept.lived >= _KEEP_EVERY:
            self._keep()
        return hours

    def _keep(self) -> None:
        self._kept = hours = self._hours
        if hours is None or self._path is None:
            return
        body = {
            "seen": hours.seen.isoformat(),
            "lived_s": hours.lived.total_seconds(),
            "right": hours.right.isoformat() if hours.right else None,
            "since_s": hours.since.total_seconds(),
        }
        unfinished = self._path.with_name(f".{self._path.name}.part")
        with suppress(OSError):  # a home that cannot be written to is not swept either
            unfinished.write_text(json.dumps(body), "utf-8")
            unfinished.replace(self._path)

    def _read(self) -> Hours | None:
        if self._path is None:
            return None
        try:
            body = json.loads(self._path.read_text("utf-8"))
            return Hours(
                datetime.fromisoformat(body["seen"]),
                timedelta(seconds=body["lived_s"]),
                datetime.fromisoformat(body["right"]) if body["right"] else None,
                timedelta(seconds=body["since_s"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
