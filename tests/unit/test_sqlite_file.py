"""What every SQLite file here is promised: nothing of what was deleted is left in its bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mnemon.drivers.queue.sqlite import SqliteQueue
from mnemon.drivers.sqlite_file import connect, scrub, transaction
from mnemon.engine.clock import SystemClock

NORMAL, FULL = 1, 2


def test_a_replica_does_not_wait_for_the_disk_and_a_queue_does(tmp_path: Path) -> None:
    """What a power cut takes off a replica's end is in the archive; a job is nowhere else."""
    replica, queue = connect(tmp_path / "replica.db"), SqliteQueue(tmp_path / "queue.db", SystemClock())
    levels = [db.execute("PRAGMA synchronous").fetchone()[0] for db in (replica, queue._db)]
    assert levels == [NORMAL, FULL]
    replica.close()
    queue._db.close()


@pytest.mark.parametrize("seed", range(3))
def test_no_row_among_thousands_is_left_in_the_room_between_rows(tmp_path: Path, seed: int) -> None:
    """Trees are balanced while they grow, and what is moved leaves copies behind that deleting does not reach."""
    rng = random.Random(seed)
    path = tmp_path / "rows.db"
    db = connect(path)
    db.execute("CREATE TABLE said (words TEXT, forgotten INTEGER)")
    db.execute("CREATE INDEX said_by_words ON said (words)")
    for forgotten in (False, True, False):
        word = "gone" if forgotten else "stays"
        rows = [(f"{rng.getrandbits(64):x} {word} {'x' * rng.randrange(200)}", forgotten) for _ in range(2_000)]
        with transaction(db):
            db.executemany("INSERT INTO said VALUES (?, ?)", rows)
    db.execute("DELETE FROM said WHERE forgotten")
    scrub(db)
    assert b" gone " not in path.read_bytes()
    assert path.with_name("rows.db-wal").stat().st_size == 0
    assert db.execute("SELECT COUNT(*) FROM said").fetchone() == (4_000,)
    db.close()
