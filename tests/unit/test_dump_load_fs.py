"""Moving house with files: what an import takes, what it refuses, and what is left when it is cut off."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemon.contracts.errors import InvalidArgument
from mnemon.drivers.archive.fs import FsArchive
from mnemon.testing.archive_suite import (
    ANN,
    KEY,
    NODE,
    STEWARD,
    as_files,
    claim,
    complete,
    derive,
    dumped,
    node,
    record,
    turn,
)
from mnemon.testing.clock import FixedClock


@pytest.fixture
async def here(tmp_path: Path) -> FsArchive:
    clock = FixedClock()
    archive = FsArchive(tmp_path / "here", clock)
    await archive.write_session(ANN, record(clock), 0)
    await archive.append_turns(ANN, KEY, [turn("t1"), turn("t2")])
    await complete(archive, ANN, KEY, **await derive(archive, ANN, KEY))
    for text in ("green", "black"):
        await archive.write_node(ANN, node(text=text))
    await archive.append_log(ANN, "ledger", [{"n": 1}])
    return archive


@pytest.fixture
def there(tmp_path: Path) -> FsArchive:
    return FsArchive(tmp_path / "there", FixedClock())


async def test_a_dump_is_the_folder_itself(here: FsArchive, tmp_path: Path) -> None:
    root = tmp_path / "here" / "tenants"
    assert await dumped(here) == {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


async def test_large_files_come_in_chunks(here: FsArchive, there: FsArchive) -> None:
    text = "很长的一段话" * 300_000
    await here.write_node(ANN, node(content=text))
    sizes = [len(chunk) async for _, chunk in here.dump(STEWARD)]
    assert max(sizes) <= 1 << 20
    await there.load(STEWARD, as_files(await dumped(here)))
    assert (await there.read_node(ANN, NODE)).content == text


async def test_an_import_cut_off_anywhere_shows_nothing_half_and_can_be_done_again(
    here: FsArchive, tmp_path: Path
) -> None:
    files = await dumped(here)

    def cut(after: int) -> Iterator[tuple[str, io.BytesIO]]:
        yield from as_files(files)[:after]
        raise EOFError("cut off")

    for after in range(len(files) + 1):
        archive = FsArchive(tmp_path / f"there {after}", FixedClock())
        with pytest.raises(EOFError):
            await archive.load(STEWARD, cut(after))
        assert [r async for r in archive.sessions(STEWARD)] == []
        assert (await archive.verify(STEWARD)).nodes == 0
        assert not list((tmp_path / f"there {after}").rglob(".tmp-*"))
        report = await archive.load(STEWARD, as_files(files))
        assert report.conflicts == []
        assert report.added + report.already_there == len(files)
        assert await dumped(archive) == files
        assert (await archive.verify(STEWARD)).defects == []


async def test_a_damaged_export_is_found_by_the_proof(here: FsArchive, tmp_path: Path) -> None:
    files = await dumped(here)
    for path, data in files.items():
        archive = FsArchive(tmp_path / path.replace("/", "_"), FixedClock())
        middle = len(data) // 2
        damaged = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        await archive.load(STEWARD, as_files({**files, path: damaged}))
        assert any(path in d.where for d in (await archive.verify(STEWARD)).defects), path


async def test_papers_that_differ_are_conflicts_and_stay_as_they_are(here: FsArchive, there: FsArchive) -> None:
    files = await dumped(here)
    await there.load(STEWARD, as_files(files))
    early = await there.read_claims(ANN, KEY)
    await here.put_claims(ANN, KEY, [claim(turn("t1"), claim_id="more")])
    await here.write_tags(ANN, KEY, [])
    report = await there.load(STEWARD, as_files(await dumped(here)))
    assert report.conflicts == ["acme/users/ann/sessions/s1/claims.jsonl"], "not a longer telling of the same"
    assert await there.read_claims(ANN, KEY) == early
    again = await there.load(STEWARD, as_files(files))
    assert (again.added, again.already_there, again.conflicts) == (0, len(files), [])
    assert (await there.verify(STEWARD)).defects == []


async def test_no_paper_is_taken_over_where_the_words_differ(here: FsArchive, there: FsArchive) -> None:
    await there.write_session(ANN, record(FixedClock()), 0)
    await there.append_turns(ANN, KEY, [turn("t1", "other words")])
    report = await there.load(STEWARD, as_files(await dumped(here)))
    names = {"turns.jsonl", "session.json", "tags.json", "claims.jsonl", "commit.json"}
    assert {Path(path).name for path in report.conflicts} == names
    assert await there.read_claims(ANN, KEY) == []
    assert await there.read_tags(ANN, KEY) == []
    assert await there.read_commits(ANN, KEY) == []
    assert (await there.verify(STEWARD)).defects == []


async def test_a_lost_paper_is_loaded_again(here: FsArchive, tmp_path: Path) -> None:
    files = await dumped(here)
    for path in (p for p in (tmp_path / "here").rglob("*") if p.name in ("tags.json", "claims.jsonl", "commit.json")):
        path.unlink()
        report = await here.load(STEWARD, as_files(files))
        assert (report.added, report.conflicts) == (1, [])
        assert await dumped(here) == files


async def test_an_erased_session_does_not_come_back_with_an_import(here: FsArchive) -> None:
    files = await dumped(here)
    await here.erase_session(ANN, KEY, "asked to")
    erased = await dumped(here)
    report = await here.load(STEWARD, as_files(files))
    assert len(report.conflicts) == 6
    assert await dumped(here) == erased


@pytest.mark.parametrize(
    "path",
    [
        "acme/users/ann/sessions/s1/turns.jsonl/inside",
        "acme/users/ann/sessions/s1/session.json/deep/inside",
        "acme/users/ann/sessions/s1/.tmp-1-ab",
    ],
)
async def test_an_impossible_path_is_refused(here: FsArchive, tmp_path: Path, path: str) -> None:
    before = await dumped(here)
    with pytest.raises(InvalidArgument):
        await here.load(STEWARD, [(path, io.BytesIO(b"x"))])
    assert await dumped(here) == before


async def test_a_file_in_place_of_a_folder_is_a_conflict(here: FsArchive) -> None:
    before = await dumped(here)
    report = await here.load(STEWARD, [("acme/users/ann", io.BytesIO(b"x"))])
    assert report.conflicts == ["acme/users/ann"]
    assert await dumped(here) == before


async def test_words_said_during_an_import_are_not_lost(here: FsArchive, there: FsArchive) -> None:
    """The import makes a session longer while somebody writes to it: one of the two comes first, none is lost."""
    early = await dumped(here)
    await there.load(STEWARD, as_files(early))
    acknowledged: list[str] = []

    async def talk() -> None:
        for n in range(30):
            await there.append_turns(ANN, KEY, [turn(f"said {n}")])
            acknowledged.append(f"said {n}")

    async def load() -> None:
        for n in range(10):
            await here.append_turns(ANN, KEY, [turn(f"loaded {n}")])
            await there.load(STEWARD, as_files(await dumped(here)))

    await asyncio.gather(talk(), load())
    found = [s.turn.turn_id for s in await there.read_turns(ANN, KEY)]
    assert [turn_id for turn_id in found if turn_id.startswith("said")] == acknowledged
    assert (await there.verify(STEWARD)).defects == []
