"""The SQLite file of every driver here: shared by processes, durable, forgetting for good, its schema up to date."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from threading import Lock
from typing import Literal

from mnemon.contracts.errors import Busy, Corrupt, InvalidArgument, Unavailable

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


def connect(path: Path) -> sqlite3.Connection:
    """The file of a replica, with room for its pages. What a power cut takes off its end is in the archive: no commit
    waits for the disk."""
    with clear_errors(path):
        connection = open_file(path, synchronous="NORMAL")
        connection.execute("PRAGMA cache_size = -32000")
    return connection


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """SQLite's errors in our words."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise Busy(f"{path.name}: another process has been writing for {BUSY_S} s; try again") from None
        raise Unavailable(f"{path.name}: {error}") from error
    except sqlite3.ProgrammingError as error:
        raise Unavailable(f"{path.name}: {error}") from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise InvalidArgument(f"a value that nothing can hold: {str(error)!a}", field="where") from None
    except sqlite3.DatabaseError as error:
        raise Corrupt(f"{path}: {error}; delete the file and run `mnemon rebuild`", where=str(path)) from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back when the disk is full
            connection.execute("ROLLBACK")
        raise


@contextmanager
def at_once(lock: Lock, connection: sqlite3.Connection) -> Iterator[bool]:
    """Within this nobody is waited for: no thread, and no other process (`Busy`). False where a thread has the lock."""
    if not lock.acquire(blocking=False):
        yield False
        return
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        yield True
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000}")
        lock.release()


def scrub(connection: sqlite3.Connection) -> None:
    """Leave nothing of what was deleted. Deleted rows are overwritten where they stood, but rows that were moved before
    to balance a tree left copies in the room between: only writing the file anew is sure. Earlier pages wait in the log
    until it is emptied."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def belongings(path: Path) -> list[Path]:
    """A database's files: itself, and its log where one is open or was left by a crash."""
    return [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]


def set_broken_aside(path: Path) -> Path:
    """Out of the way, so that a new one can be begun: `index.db.broken-1`. Nobody else may have it open."""
    number = 1
    while (target := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    for file in belongings(path):
        if file.exists():
            file.rename(target.with_name(target.name + file.name.removeprefix(path.name)))
    return target


def drop_broken(path: Path) -> None:
    """A replica that was set aside is of no use once another holds what it held, and it holds everybody's words."""
    for file in path.parent.glob(f"{path.name}.broken-*"):
        file.unlink(missing_ok=True)


def migrate(connection: sqlite3.Connection, path: Path, package: str) -> None:
    """Run the numbered schema files of a driver that this file has not seen yet, each in one transaction."""
    files = sorted(
        (f for f in resources.files(package).joinpath("schema").iterdir() if f.name.endswith(".sql")),
        key=lambda f: f.name,
    )
    newest = len(files)
    if connection.execute("PRAGMA user_version").fetchone()[0] == newest:
        return
    with transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > newest:
            raise Unavailable(f"{path}: written by a newer Mnemon (schema {version}, this one knows {newest})")
        for file in files[version:]:
            without_comments = re.sub(r"--[^\n]*", "", file.read_text(encoding="utf-8"))
            for statement in without_comments.split(";"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {newest}")
