"""The fs archive's logs: one line of many is found without reading the others, and forgetting survives a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mnemon.contracts.scope import Scope
from mnemon.drivers.archive.fs import FsArchive, chainlog, logs
from mnemon.testing.clock import FixedClock

STEWARD = Scope.steward_of("t")


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_SEGMENT_BYTES", 4_000)


async def filled(archive: FsArchive, count: int) -> None:
    for n in range(1, count + 1):
        await archive.append_log(STEWARD, "entries", [{"n": n, "words": f"words {n}"}])


def touched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the segments that are read from now on, line by line."""
    seen: list[str] = []
    real = chainlog.lines

    def watched(path: Path, offset: int = 0) -> Any:
        for line in real(path, offset):
            seen.append(path.name)
            yield line

    monkeypatch.setattr(chainlog, "lines", watched)
    return seen


@pytest.mark.usefixtures("small_segments")
async def test_a_line_is_read_from_its_own_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = FsArchive(tmp_path, FixedClock())
    await filled(archive, 120)
    names = sorted(p.name for p in tmp_path.rglob("entries/*.jsonl"))
    assert len(names) >= 5
    for n in (1, 40, 77, 120):
        seen = touched(monkeypatch)
        (line,) = await archive.read_log(STEWARD, "entries", n - 1, 1)
        assert line.body["n"] == n
        assert len(seen) <= len(names) + 66, "the first line of each segment, and a few around the one asked for"
        monkeypatch.undo()
        monkeypatch.setattr(logs, "_SEGMENT_BYTES", 4_000)
    assert [line.seq for line in await archive.read_log(STEWARD, "entries", 30)] == list(range(31, 121))


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("step", ["forget_log.before_rename", "forget_log.before_dir_sync"])
async def test_forgetting_that_was_cut_off_is_done_again(tmp_path: Path, step: str) -> None:
    class PowerCut(Exception):
        pass

    count = 0

    def cut(name: str) -> None:
        nonlocal count
        count += name == step
        if count == 2:  # in the middle: one segment is done, the others are not
            raise PowerCut

    await filled(FsArchive(tmp_path, FixedClock()), 60)
    with pytest.raises(PowerCut):
        await FsArchive(tmp_path, FixedClock(), step=cut).forget_log(STEWARD, "entries", range(1, 61, 2), "forgotten")
    archive = FsArchive(tmp_path, FixedClock())
    await archive.repair(STEWARD)
    assert (await archive.verify(STEWARD)).defects == []
    left = {line.seq for line in await archive.read_log(STEWARD, "entries")}
    assert left > set(range(2, 61, 2))
    await archive.forget_log(STEWARD, "entries", range(1, 61, 2), "forgotten")
    assert [line.seq for line in await archive.read_log(STEWARD, "entries")] == list(range(2, 61, 2))
    assert not any(b'"words 7"' in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert [line.seq for line in await archive.append_log(STEWARD, "entries", [{}], expect=60)] == [61]
    assert (await archive.verify(STEWARD)).defects == []
