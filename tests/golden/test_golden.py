"""What an earlier release wrote, this one opens, proves, rebuilds and answers from."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from make import answers

from mnemon import AsyncMemory, Config, Scope
from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.scope import Owner

HERE = Path(__file__).parent
RELEASES = sorted(p.stem for p in HERE.glob("*.zip"))
HASH = {"provider": "hash", "cache": False}
QUIET = Config(background_worker=False)


def expected(release: str) -> object:
    return json.loads((HERE / f"{release}.json").read_text(encoding="utf-8"))


def test_there_is_a_golden_archive() -> None:
    assert "0.1.0" in RELEASES


@pytest.mark.parametrize("release", RELEASES)
async def test_an_old_archive_is_proven_and_rebuilt(release: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(HERE / f"{release}.zip") as box:
        box.extractall(tmp_path / "tenants")
    (tmp_path / "tenants" / "manifest.json").unlink()
    async with AsyncMemory(tmp_path, embedder=HASH, config=QUIET) as memory:
        report = await memory.verify(check_index=False)
        assert report.defects == []
        assert (report.turns, report.tombstones, report.nodes, report.blobs, report.log_lines) == (6, 1, 1, 1, 1)
        await memory.rebuild()
        assert await answers(memory) == expected(release)
        key = NodeKey("acme", Owner.user("Lin 林"), Shelf.PREFERENCES, "饮食")
        scope = Scope.of("acme", "Lin 林")
        assert (await memory.parts.archive.read_node(scope, key)).content == "第二版"
        assert [r.node.content for r in await memory.parts.archive.revisions(scope, key)] == ["第一版"]


@pytest.mark.parametrize("release", RELEASES)
async def test_an_old_export_is_imported(release: str, tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path, embedder=HASH, config=QUIET) as memory:
        done = await memory.import_archive(HERE / f"{release}.zip")
        assert done.conflicts == ()
        assert await answers(memory) == expected(release)
        assert (await memory.verify()).ok


@pytest.mark.parametrize("release", RELEASES)
async def test_an_old_index_is_opened_as_it_is(release: str, tmp_path: Path) -> None:
    shutil.copy(HERE / f"{release}-index.db", tmp_path / "index.db")
    async with AsyncMemory(tmp_path, embedder=HASH, config=QUIET) as memory:
        assert await answers(memory) == expected(release)
