"""What is particular to the SQLite index: its file, its cache, its two ways through a filter, other processes."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from mnemon.contracts.entries import Ask, Entry, Hit
from mnemon.contracts.errors import Corrupt, Unavailable
from mnemon.contracts.filters import EVERYTHING, Eq, In, Where, every, matches
from mnemon.contracts.scope import Scope
from mnemon.drivers.index import sqlite
from mnemon.drivers.index.sqlite import SqliteIndex, sections
from mnemon.drivers.index.sqlite.segment import build
from mnemon.logic.lexical import parse
from mnemon.logic.text import terms
from mnemon.testing.index_suite import (
    ALICE,
    DIMENSION,
    FIRST_AXIS,
    MODEL,
    STEWARD,
    entry,
    found,
    given_back,
    ids,
    listed,
    paged,
    random_entry,
    random_where,
)

CHILD = """
import asyncio, sys
from pathlib import Path
import numpy as np
from mnemon.contracts.filters import Eq
from mnemon.drivers.index.sqlite import SqliteIndex
from mnemon.testing.index_suite import ALICE, entry

async def main(path, name, rounds):
    index = SqliteIndex(Path(path), "contract/8", 8)
    for i in range(rounds):
        vector = np.eye(8, dtype=np.float32)[i % 8]
        await index.upsert(ALICE, [entry(f"{name}-{i}-{j}", f"apple {name} {i}", vector=vector) for j in range(5)])
        await index.delete(ALICE, Eq("id", f"{name}-{i}-0"))
    await index.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


@pytest.fixture
async def index(path: Path) -> AsyncIterator[SqliteIndex]:
    opened = SqliteIndex(path, MODEL, DIMENSION)
    yield opened
    await opened.close()


def elsewhere(path: Path, name: str, rounds: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(path), name, str(rounds)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


# --- the file


async def test_a_new_file_has_the_newest_schema(index: SqliteIndex, path: Path) -> None:
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (5,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


async def test_opening_twice_migrates_once(path: Path) -> None:
    for _ in range(2):
        index = SqliteIndex(path, MODEL, DIMENSION)
        await index.upsert(ALICE, [entry("x", "apple")])
        await index.close()
    index = SqliteIndex(path, MODEL, DIMENSION)
    assert (await index.info()).entries == 1
    await index.close()


def test_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(Unavailable, match=r"newer Mnemon.*99"):
        SqliteIndex(path, MODEL, DIMENSION)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone() == (0,)
    db.close()


def test_a_file_that_is_no_database_says_what_to_do(path: Path) -> None:
    path.write_bytes(b"this is not a database at all, and long enough to be looked at" * 50)
    with pytest.raises(Corrupt, match="mnemon rebuild"):
        SqliteIndex(path, MODEL, DIMENSION)


async def test_a_damaged_file_says_what_to_do(path: Path) -> None:
    index = SqliteIndex(path, MODEL, DIMENSION)
    await index.upsert(ALICE, [entry(f"e{i}", f"apple {i} " * 50, vector=FIRST_AXIS) for i in range(200)])
    await index.close()
    data = bytearray(path.read_bytes())
    data[8192:] = bytes(b ^ 0xFF for b in data[8192:])
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="mnemon rebuild"):
        await _read_everything(path)


async def _read_everything(path: Path) -> None:
    index = SqliteIndex(path, MODEL, DIMENSION)
    try:
        await index.search(ALICE, Ask(text="apple"))
        await listed(index, ALICE)
    finally:
        await index.close()


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"index\.db"):
        SqliteIndex(tmp_path / "nowhere" / "index.db", MODEL, DIMENSION)


async def test_words_that_were_deleted_are_not_left_in_the_file(path: Path) -> None:
    index = SqliteIndex(path, MODEL, DIMENSION)
    await index.upsert(ALICE, [entry("x", "unforgettable-zebra"), entry("y", "stays")])
    assert await index.delete(ALICE, Eq("id", "x")) == 1
    await index.close()
    assert b"unforgettable-zebra" not in path.read_bytes()


# --- several processes


async def test_three_processes_write_at_once_and_nothing_is_lost(path: Path) -> None:
    """They also create the file at the same moment."""
    children = [elsewhere(path, name, 12) for name in ("a", "b", "c")]
    for child in children:
        assert child.communicate(timeout=60)[1] == ""
        assert child.returncode == 0
    index = SqliteIndex(path, MODEL, DIMENSION)
    expected = {f"{n}-{i}-{j}" for n in "abc" for i in range(12) for j in range(1, 5)}
    assert set(ids(await listed(index, ALICE, limit=500))) == expected
    assert await found(index, "apple") == expected
    await index.close()


async def test_searches_see_one_state_while_another_process_writes(index: SqliteIndex, path: Path) -> None:
    child = elsewhere(path, "a", 40)
    while child.poll() is None:
        for ask in (Ask(text="apple", limit=500), Ask(vector=FIRST_AXIS, limit=500)):
            hits = await index.search(ALICE, ask)
            assert len({h.entry.id for h in hits}) == len(hits)
    assert child.communicate()[1] == ""
    assert len(await found(index, "apple")) == 160


async def test_what_another_process_changes_is_noticed(index: SqliteIndex, path: Path) -> None:
    await index.upsert(ALICE, [entry("a-0-0", "apple gone soon"), entry("a-0-1", "pear until replaced")])
    assert await found(index, "apple") == {"a-0-0"}
    assert elsewhere(path, "a", 1).communicate(timeout=60)[1] == ""
    assert await found(index, "apple") == {f"a-0-{j}" for j in range(1, 5)}
    assert await found(index, "pear") == set()


# --- the cache


async def answers(index: SqliteIndex, asks: list[tuple[Scope, Ask]]) -> list[list[tuple[str, float]]]:
    return [[(h.entry.id, h.score) for h in await index.search(scope, ask)] for scope, ask in asks]


async def test_a_tiny_cache_gives_the_same_answers(index: SqliteIndex, path: Path) -> None:
    rng = random.Random(23)
    owners = [f"u:{n}" for n in range(8)]
    await index.upsert(STEWARD, [random_entry(rng, i, rng.sample(owners, rng.choice((1, 2)))) for i in range(200)])
    asks = []
    for _ in range(40):
        scope = Scope("t1", frozenset(rng.sample(owners, rng.randrange(1, 8))))
        where = rng.choice((EVERYTHING, Eq("kind", "turn"), random_where(rng, 1)))
        asks.append((scope, rng.choice((Ask(text="猫 dogs", where=where), Ask(vector=FIRST_AXIS, where=where)))))
    small = SqliteIndex(path, MODEL, DIMENSION, cache_bytes=1)
    assert await answers(small, asks) == await answers(index, asks)
    assert len(small._sections._loaded) == 1
    await small.close()


async def test_many_small_writes_are_merged_into_few_segments(index: SqliteIndex) -> None:
    for i in range(40):
        await index.upsert(ALICE, [entry(f"e{i:02}", f"apple number{i}", vector=FIRST_AXIS)])
        assert len(await index.search(ALICE, Ask(text="apple", limit=100))) == i + 1
        assert await found(index, f"number{i}") == {f"e{i:02}"}
    loaded = list(index._sections._loaded.values())
    assert len(loaded) == 1
    assert len(loaded[0].segments) <= sections._MERGE_AT
    assert len(await paged(index, ALICE, Ask(vector=FIRST_AXIS, limit=7))) == 40


async def test_a_section_emptied_and_filled_again(index: SqliteIndex) -> None:
    for _ in range(3):
        await index.upsert(ALICE, [entry("x", "apple", vector=FIRST_AXIS)])
        assert await found(index, "apple") == {"x"}
        await index.delete(ALICE, EVERYTHING)
        assert await found(index, "apple") == set()
        assert await index.search(ALICE, Ask(vector=FIRST_AXIS)) == []


def test_a_phrase_longer_than_everything_there_is() -> None:
    segment = build([1], ["x"], [np.array(terms("a b c"), dtype=np.uint64).tobytes()], [None], DIMENSION)
    assert segment.matching(parse('"a b c d e"')).tolist() == [False]
    assert segment.matching(parse('"a b c"')).tolist() == [True]


# --- two ways through a filter


def brute(rows: list[Entry], where: Where, hits: list[Hit]) -> list[tuple[str, float]]:
    kept = {e.id for e in rows if matches(where, given_back(e).values())}
    return [(h.entry.id, h.score) for h in hits if h.entry.id in kept]


@pytest.mark.parametrize("prefilter_rows", [0, 10_000])
async def test_both_ways_through_a_filter_find_the_same(
    index: SqliteIndex, monkeypatch: pytest.MonkeyPatch, prefilter_rows: int
) -> None:
    monkeypatch.setattr(sqlite, "_PREFILTER_ROWS", prefilter_rows)
    monkeypatch.setattr(sqlite, "_BATCH", 7)
    rng = random.Random(29)
    rows = [random_entry(rng, i) for i in range(250)]
    for start in range(0, 250, 50):
        await index.upsert(ALICE, rows[start : start + 50])
    # No filter on kinds at the top: those change how rare words are, which this test compares across.
    wheres = [w for w in (random_where(rng, 2) for _ in range(60)) if "kind" not in repr(w)]
    for ask in (Ask(text="猫 apples", limit=1000), Ask(vector=FIRST_AXIS, limit=1000)):
        whole = await index.search(ALICE, ask)
        for where in wheres:
            asked = Ask(ask.vector, ask.text, where, limit=5)
            expected = brute(rows, where, whole)
            assert [(h.entry.id, h.score) for h in await index.search(ALICE, asked)] == expected[:5]
            everything = [(h.entry.id, h.score) for h in await paged(index, ALICE, asked)]
            assert everything == expected


async def test_what_was_deleted_is_in_no_byte_of_the_file(index: SqliteIndex, path: Path) -> None:
    """Rows of all sizes come, change and go: to make room SQLite moves them about, and each move leaves a copy."""
    chance = random.Random(0)
    there: list[str] = []
    gone: list[str] = []

    def row(word: str) -> Entry:
        said = f"{word} " * chance.choice((1, 3, 30, 200))
        return entry(word, said, uri=word, speaker=word, metadata={"about": word * chance.randrange(20)})

    for _ in range(60):
        there += [f"w{chance.getrandbits(64):016x}" for _ in range(40)]
        await index.upsert(STEWARD, [row(word) for word in there[-40:]])
        await index.upsert(STEWARD, [row(word) for word in chance.sample(there, 30)])
        deleted = chance.sample(there, 15)
        await index.delete(STEWARD, In("id", tuple(deleted)))
        there = [word for word in there if word not in deleted]
        gone += deleted
    await index.purge()
    held = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert [word for word in gone if word.encode() in held] == []
    assert await index.count(STEWARD, EVERYTHING) == len(there)
    assert b"u:alice" in held
    await index.delete(STEWARD, EVERYTHING)
    await index.purge()
    assert b"u:alice" not in b"".join(file.read_bytes() for file in path.parent.iterdir()), "nor who it was"


async def test_an_address_leads_to_its_rows_whoever_asks(index: SqliteIndex, path: Path) -> None:
    """Upkeep asks by address for every session that is written: it must not cost more when there are more of them."""
    condition, values = index._condition(Scope.steward_of("acme"), every(Eq("kind", "turn"), Eq("uri", "ctx://1")))
    db = sqlite3.connect(path)
    plan = db.execute(f"EXPLAIN QUERY PLAN SELECT COUNT(*) FROM entry e WHERE {condition}", values).fetchall()
    db.close()
    assert "entry_by_uri (uri=?)" in plan[0][-1]
