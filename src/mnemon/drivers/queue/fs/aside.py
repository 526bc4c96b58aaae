"""Failed jobs that had to make room for newer ones: one JSON line each, kept for whoever wants to know."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnemon.contracts.jobs import Job
from mnemon.drivers.queue.fs.durable import sync_folder, write_synced
from mnemon.logic import jobs as rules

_LONGEST_LINE = 1 << 20

_log = logging.getLogger(__name__)


class Aside:
    """A file that only grows, unless somebody's jobs are dropped from it. Its callers hold the lock of all moves."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, job: Job) -> None:
        is_first = not self._path.exists()
        with self._path.open("ab") as file:
            # A line break on both sides: a line that a full disk cut off must not spoil the next one.
            file.write(f"\n{rules.to_json(job)}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        if is_first:
            sync_folder(self._path.parent)

    def last(self) -> Job | None:
        if not self._path.exists():
            return None
        with self._path.open("rb") as file:
            file.seek(max(self._path.stat().st_size - _LONGEST_LINE, 0))
            line = file.read().rstrip().rpartition(b"\n")[2]
        return self._read(line)

    def jobs(self) -> Iterator[Job]:
        return (job for line in self._lines() if (job := self._read(line)))

    def count(self) -> int:
        return sum(1 for _ in self._lines())

    def drop(self, tenant_id: str, payload: dict[str, Any]) -> int:
        everything = list(self.jobs())
        rest = [job for job in everything if not rules.matches(job, tenant_id, payload)]
        if len(rest) < len(everything):
            content = "".join(rules.to_json(job) + "\n" for job in rest).encode()
            write_synced(self._path.with_suffix(".new"), content).replace(self._path)
            sync_folder(self._path.parent)
        return len(everything) - len(rest)

    def _read(self, line: bytes) -> Job | None:
        """None for a line that was cut off: its job is still where it was."""
        try:
            return rules.from_json(line)
        except (ValueError, KeyError, TypeError):
            _log.error("%s: a line cannot be read", self._path)
            return None

    def _lines(self) -> Iterator[bytes]:
        if self._path.exists():
            with self._path.open("rb") as file:
                yield from (line for line in file if line.strip())
