"""Turns waiting to be archived: in memory while they are few, on disk when they are many."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import IO

from mnemon.contracts.turns import Turn

_IN_MEMORY = 16 << 20


class Spool:
    """Filled once, read as often as needed, gone when closed: nothing is archived before the last turn is in."""

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._turns: list[Turn] = []
        self._blobs: list[bytes] = []
        self._weight = 0
        self._file: IO[bytes] | None = None
        self.count = 0

    def add(self, turn: Turn, blobs: tuple[bytes, ...]) -> None:
        self._turns.append(turn)
        self._blobs += blobs
        self._weight += 200 + 4 * len(turn.text) + sum(map(len, blobs))
        self.count += 1
        if self._weight > self._in_memory:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="mnemon-")  # noqa: SIM115  closed by `close`
        for blob in self._blobs:
            self._file.write(b"B%d\n" % len(blob) + blob)
        for turn in self._turns:
            self._file.write(b"T" + turn.model_dump_json(exclude_defaults=True).encode() + b"\n")
        self._turns, self._blobs, self._weight = [], [], 0

    def blobs(self) -> Iterator[bytes]:
        """Every blob; read them before the turns that point at them are archived."""
        for kind, data in self._stored():
            if kind == b"B":
                yield data
        yield from self._blobs

    def turns(self) -> Iterator[Turn]:
        for kind, data in self._stored():
            if kind == b"T":
                yield Turn.model_validate(json.loads(data))
        yield from self._turns

    def _stored(self) -> Iterator[tuple[bytes, bytes]]:
        if self._file is None:
            return
        self._file.seek(0)
        while kind := self._file.read(1):
            head = self._file.readline()
            yield kind, self._file.read(int(head)) if kind == b"B" else head

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
