"""What waits, remembered from claim to claim, so that nobody lists a long folder for each job."""

from __future__ import annotations

import os
import time
import uuid
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from pathlib import Path

from mnemon.contracts.jobs import Job, JobKind
from mnemon.drivers.queue.fs.durable import locked

_LOG_LIMIT = 1 << 20
_LOOK_AGAIN_S = 5.0
_BY_NAME = attrgetter("name")


@dataclass(slots=True)
class Place:
    """A name in the line. What its file says is known once somebody has read it."""

    name: str
    lane: str
    kind: JobKind | None = None
    not_before: datetime | None = None
    awaits: str = ""
    lost: int = 0

    def learn(self, job: Job) -> None:
        self.kind, self.not_before, self.awaits, self.lost = job.kind, job.not_before, job.awaits, job.lost

    def suits(self, now: datetime, kinds: Collection[JobKind] | None, offers: Collection[str]) -> bool:
        """Due, of one of these kinds, and awaiting nothing but what is offered, as far as is known."""
        if self.kind is None:
            return True
        due = self.not_before is None or self.not_before <= now
        return due and (kinds is None or self.kind in kinds) and (not self.awaits or self.awaits in offers)


class Waiting:
    """The names in `folder`, in order, in memory.

    Whatever comes to wait is first named in `log`, by whoever brings it and under `lock`; so reading on where one
    stopped tells all that is new. The log is only a short cut: it begins with a name of its own, and whoever finds
    another one than last time lists the folder anew. What others took away is found out when its turn comes.
    """

    def __init__(self, folder: Path, log: Path, lock: Path) -> None:
        self._folder = folder
        self._log = log
        self._lock = lock
        self._line: list[Place] = []
        self._edition: bytes | None = None
        self._read_to = 0
        self._listed_at = 0.0
        self._seen_change = 0

    def announce(self, name: str) -> None:
        """Called before the file is there, by the holder of the lock."""
        if not 0 < self._log_size() < _LOG_LIMIT:
            self.forget_log()
        with self._log.open("ab", buffering=0) as file:
            # A line break on both sides: a line that a full disk cut off must not spoil the next one.
            file.write(f"\n{name}\n".encode())

    def forget_log(self) -> None:
        """Begin a new edition, without the names of the old one; the caller holds the lock."""
        fresh = self._log.with_suffix(".new")
        fresh.write_bytes(uuid.uuid4().hex.encode() + b"\n")
        fresh.replace(self._log)

    def catch_up(self) -> None:
        """Learn what came since the last time. Whoever claims holds off all other claimers meanwhile."""
        while not self._read_on():
            self._list()

    def look_again(self) -> bool:
        """List once more, now and then, if the folder changed: files may be put there by hand."""
        changed = self._folder.stat().st_mtime_ns
        if changed == self._seen_change or time.monotonic() - self._listed_at < _LOOK_AGAIN_S:
            return False
        self._list()
        self.catch_up()
        return True

    def __iter__(self) -> Iterator[Place]:
        return iter(self._line)

    def remove(self, places: Sequence[Place]) -> None:
        for place in places:
            del self._line[bisect_left(self._line, place.name, key=_BY_NAME)]

    def _log_size(self) -> int:
        try:
            return self._log.stat().st_size
        except FileNotFoundError:
            return 0

    def _read_on(self) -> bool:
        """False if the log is not the one known."""
        with locked(self._lock):
            if not self._log_size():
                return False
            with self._log.open("rb") as file:
                if file.readline() != self._edition:
                    return False
                file.seek(self._read_to)
                news = file.read()
                self._read_to = file.tell()
        for name in news.decode(errors="replace").split("\n"):
            if name.endswith(".json"):
                self._add(name)
        return True

    def _list(self) -> None:
        """First the end of the log, then the folder: what comes in between is in both, and known once."""
        with locked(self._lock):
            if not self._log_size():
                self.forget_log()
            with self._log.open("rb") as file:
                self._edition = file.readline()
                self._read_to = file.seek(0, os.SEEK_END)
        self._listed_at = time.monotonic()
        self._seen_change = self._folder.stat().st_mtime_ns
        self._line = [Place(name, lane_of(name)) for name in sorted(names_in(self._folder))]

    def _add(self, name: str) -> None:
        place = Place(name, lane_of(name))
        at = bisect_left(self._line, name, key=_BY_NAME)
        if at < len(self._line) and self._line[at].name == name:
            self._line[at] = place
        else:
            self._line.insert(at, place)


def names_in(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".json")]  # noqa: PTH208  half the time of iterdir


def lane_of(name: str) -> str:
    return name.split(".", 2)[1]
