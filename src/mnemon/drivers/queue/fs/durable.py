"""Locks and writes that a queue of files rests on."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mnemon.contracts.errors import Busy
from mnemon.drivers.os_errors import named

_LOCK_WAIT_S = 30.0
_SHORTEST_PAUSE_S = 0.00005
_LONGEST_PAUSE_S = 0.001


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold a lock file, which the kernel lets go of when its holder dies; gives its handle."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        give_up = time.monotonic() + _LOCK_WAIT_S
        pause = _SHORTEST_PAUSE_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise Busy("another process holds the queue", path=str(path)) from None
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        yield handle
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_synced(path: Path, content: bytes) -> Path:
    with named(path), path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return path
