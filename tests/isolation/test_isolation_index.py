"""Whoever asks the SQLite index whatever: their own rows, all of them, and nobody else's."""

from __future__ import annotations

from pathlib import Path

from asking_index import DIMENSION, Examination, Seen, filled, try_to_change
from tally import Tally
from world import PROMISED, SEED, SHARES, TIMES, WORDS, World

from mnemon.contracts.entries import Ask, Hit
from mnemon.drivers.index.sqlite import SqliteIndex


def test_the_parts_together_ask_as_many_questions_as_promised() -> None:
    assert sum(SHARES.values()) >= PROMISED


async def test_no_question_reaches_beyond_its_scope(tmp_path: Path) -> None:
    world, tally = World(), Tally(SEED)
    index = SqliteIndex(tmp_path / "index.db", "m", DIMENSION)
    await filled(index, world.rows, SEED)
    await Examination(index, world, tally, askers=600).ask(SHARES["index"] * TIMES)
    await index.close()
    tally.close("index")


async def test_nobody_changes_what_they_do_not_see(tmp_path: Path) -> None:
    world, tally = World(SEED + 1, rows_per_tenant=40), Tally(SEED)
    index = SqliteIndex(tmp_path / "index.db", "m", DIMENSION)
    await filled(index, world.rows, world.seed)
    await try_to_change(index, world, tally, rounds=150 * TIMES)
    await index.close()
    assert (tally.leaks, tally.missing) == ([], [])
    assert tally.found > 150


async def test_what_others_wrote_moves_no_score(tmp_path: Path) -> None:
    """The same hits with the same scores as in an index that holds nothing but the asker's own rows."""
    world = World(SEED + 2, rows_per_tenant=100)
    whole = SqliteIndex(tmp_path / "whole.db", "m", DIMENSION)
    await filled(whole, world.rows, world.seed)
    found = 0
    for n, asker in enumerate(world.askers(60 * TIMES)):
        seen = Seen(asker, world)
        alone = SqliteIndex(tmp_path / f"{n}.db", "m", DIMENSION)
        await filled(alone, seen.rows, world.seed)
        for word in WORDS:
            ask = Ask(text=word, limit=10_000)
            hits, own = await whole.search(seen.scope, ask), await alone.search(seen.scope, ask)
            assert _scored(hits) == _scored(own), f"seed {SEED}: {asker} asked {word}"
            found += len(hits)
        await alone.close()
    await whole.close()
    assert found > 60


def _scored(hits: list[Hit]) -> dict[str, float]:
    return {hit.entry.text: round(hit.score, 5) for hit in hits}
