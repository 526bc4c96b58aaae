"""Opening a SQLite file the way every driver here wants it: shared by processes, durable, forgetting for good."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Literal

BUSY_S = 30


def open_file(path: Path | str, synchronous: Literal["FULL", "NORMAL"] = "FULL") -> sqlite3.Connection:
    """A connection several threads may take turns with. Writers of other processes are waited for."""
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        _use_wal(connection)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        # What is deleted is overwritten: forgetting must not leave words in free pages.
        connection.execute("PRAGMA secure_delete = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Several processes may open a new file at once; for this one change SQLite does not wait by itself."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
