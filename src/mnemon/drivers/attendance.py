"""Who is writing, as one small file each: a process that dies leaves it behind, and somebody looks after its words."""

from __future__ import annotations

import asyncio
import os
import uuid
from pathlib import Path

from mnemon.drivers.liveness import is_dead


class Attendance:
    """A name in a folder for as long as a process writes.

    So no turn needs a job of its own to be looked after, and no commit of a replica has to wait for the disk: whatever
    a process that died has archived and not brought to the replicas, its name tells others to look for."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._folder = folder
        self._note = folder / uuid.uuid4().hex
        self._worker = worker
        self._signed = False

    async def sign(self) -> None:
        """Before anything is written to the archive or a replica; the first time it is on the disk on return."""
        if not self._signed:
            await asyncio.to_thread(self._sign)
            self._signed = True

    def _sign(self) -> None:
        self._folder.mkdir(exist_ok=True)
        with self._note.open("w", encoding="utf-8") as file:
            file.write(self._worker)
            file.flush()
            os.fsync(file.fileno())
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    async def leave(self) -> None:
        """What was written has reached its replicas, or has a job that sees to it."""
        if self._signed:
            self._signed = False
            await asyncio.to_thread(self._note.unlink, missing_ok=True)

    async def gone(self) -> list[str]:
        """The names of those who died at work."""
        return await asyncio.to_thread(self._gone)

    def _gone(self) -> list[str]:
        try:
            notes = list(self._folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [note.name for note in notes if self._is_left(note)]

    def _is_left(self, note: Path) -> bool:
        try:
            return is_dead(note.read_text(encoding="utf-8", errors="replace"))
        except FileNotFoundError:  # left a moment ago
            return False

    async def strike(self, names: list[str]) -> None:
        """They were looked after."""
        for name in names:
            await asyncio.to_thread((self._folder / name).unlink, missing_ok=True)
