"""The archive contract, on every archive driver, and what only files can promise."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mnemon.contracts.errors import Corrupt
from mnemon.contracts.ports import Archive
from mnemon.contracts.turns import Attachment
from mnemon.drivers.archive.fs import FsArchive, logs
from mnemon.testing.archive_papers_suite import PapersContract
from mnemon.testing.archive_suite import (
    ANN,
    KEY,
    NODE,
    ODD_IDS,
    STEWARD,
    ArchiveContract,
    ArchiveFactory,
    as_files,
    derive,
    dumped,
    node,
    record,
    turn,
)
from mnemon.testing.clock import FixedClock


def files_under(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file())


class TestFsArchive(ArchiveContract):
    @pytest.fixture
    def archive_factory(self, tmp_path: Path, clock: FixedClock) -> ArchiveFactory:
        return lambda name: FsArchive(tmp_path / name, clock)

    async def test_forgotten_words_are_in_no_file(self, archive: Archive, tmp_path: Path, clock: FixedClock) -> None:
        sha256 = await archive.put_blob(ANN, "芝麻开门 and much more".encode())
        cut = Attachment(type="tool_result", truncated=True, sha256=sha256, ref=f"blob://{sha256}")
        await archive.write_session(ANN, record(clock), 0)
        await archive.append_turns(ANN, KEY, [turn("t1"), turn("t2", "芝麻开门", attachments=(cut,))])
        assert any("芝麻".encode() in path.read_bytes() for path in files_under(tmp_path))
        await archive.forget_turns(ANN, KEY, ["t2"], "asked to")
        assert not any("芝麻".encode() in path.read_bytes() for path in files_under(tmp_path))

    async def test_deleted_nodes_are_in_no_file(self, archive: Archive, tmp_path: Path) -> None:
        for text in ("芝麻一", "芝麻二"):
            await archive.write_node(ANN, node(text=text))
        await archive.delete_node(ANN, NODE)
        assert not any("芝麻".encode() in path.read_bytes() for path in files_under(tmp_path))

    async def test_odd_ids_stay_under_the_home(self, archive: Archive, tmp_path: Path, clock: FixedClock) -> None:
        home = tmp_path / "one" / "tenants" / "acme" / "users" / "ann"
        for odd in ODD_IDS:
            await archive.write_session(ANN, record(clock, replace(KEY, session_id=odd)), 0)
            path = await archive.resolve_path(ANN, (await archive.write_node(ANN, node(replace(NODE, slug=odd)))).key)
            assert Path(path).resolve().parent == (home / "memories" / "preferences").resolve()
        assert {path.name for path in tmp_path.iterdir()} == {"one"}
        assert len(list((home / "sessions").iterdir())) == len(ODD_IDS)
        assert len({path.name.casefold() for path in (home / "sessions").iterdir()}) == len(ODD_IDS)

    async def test_a_node_is_plain_markdown(self, archive: Archive) -> None:
        written = await archive.write_node(ANN, node())
        folder = Path(await archive.resolve_path(ANN, NODE))
        assert (folder / "content.md").read_text() == written.content
        assert (folder / ".abstract.md").read_text() == written.abstract
        assert (folder / ".overview.md").read_text() == written.overview

    async def test_a_log_is_kept_in_segments_of_one_chain(
        self, archive: Archive, archive_factory: ArchiveFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(logs, "_SEGMENT_BYTES", 600)
        for n in range(12):
            await (archive if n % 4 else archive_factory("one")).append_log(ANN, "ledger", [{"n": n}])
        segments = sorted((tmp_path / "one/tenants/acme/ledger").iterdir())
        assert len(segments) > 2
        assert [line.body["n"] for line in await archive.read_log(STEWARD, "ledger")] == list(range(12))
        assert (await archive.verify(STEWARD)).log_lines == 12
        segments[0].write_bytes(b"".join(segments[0].read_bytes().splitlines(keepends=True)[:-1]))
        (defect,) = (await archive.verify(STEWARD)).defects
        assert "ledger/2.jsonl" in defect.where
        segments[0].unlink()
        assert any("segment 1" in d.detail for d in (await archive.verify(STEWARD)).defects)

    async def test_writing_on_behind_lost_words_is_refused(
        self, archive: Archive, archive_factory: ArchiveFactory, tmp_path: Path, clock: FixedClock
    ) -> None:
        """What is left of a damaged line is not cut off: somebody may still want to read it."""
        opened = await archive.write_session(ANN, record(clock), 0)
        done = await archive.append_turns(ANN, KEY, [turn("t1"), turn("t2")])
        values = {"turn_count": done.turn_count, "chain_head": done.chain_head}
        await archive.write_session(ANN, opened.model_copy(update=values), 1)
        path = tmp_path / "one/tenants/acme/users/ann/sessions/s1/turns.jsonl"
        damaged = path.read_bytes()[:-20]
        path.write_bytes(damaged)
        with pytest.raises(Corrupt):
            await archive_factory("one").append_turns(ANN, KEY, [turn("t3")])
        await archive.repair(STEWARD)
        assert damaged in [p.read_bytes() for p in path.parent.rglob("*") if p.is_file()]
        assert (await archive.verify(STEWARD)).ok

    async def test_a_refused_import_leaves_no_litter(
        self, archive: Archive, archive_factory: ArchiveFactory, tmp_path: Path, clock: FixedClock
    ) -> None:
        await archive.write_session(ANN, record(clock), 0)
        files = as_files(await dumped(archive))
        with pytest.raises(ValueError, match="broken off"):
            await archive_factory("two").load(STEWARD, _broken_off(files))
        assert list(files_under(tmp_path / "two")) == []

    async def test_a_relative_home_stays_where_it_was(
        self, tmp_path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        archive = FsArchive(Path("data"), clock)
        monkeypatch.chdir("/")
        await archive.write_session(ANN, record(clock), 0)
        assert (tmp_path / "data/tenants/acme").is_dir()


class TestFsPapers(PapersContract):
    @pytest.fixture
    def archive_factory(self, tmp_path: Path, clock: FixedClock) -> ArchiveFactory:
        return lambda name: FsArchive(tmp_path / name, clock)

    async def test_papers_lie_readable_beside_the_words(self, archive: Archive, tmp_path: Path) -> None:
        await self._session(archive)
        stored = await archive.read_turns(ANN, KEY)
        await derive(archive, ANN, KEY)
        folder = tmp_path / "one/tenants/acme/users/ann/sessions/s1"
        assert json.loads((folder / "tags.json").read_text())["taggings"][0]["head"] == stored[-1].chain
        *claims, last = map(json.loads, (folder / "claims.jsonl").read_bytes().splitlines())
        assert [c["statement"] for c in claims] == ["安喜欢乌龙茶。"] * 3
        words = (folder / "claims.jsonl").read_bytes()
        assert last == {"seal": hashlib.sha256(words[: words.rindex(b'{"seal"')]).hexdigest()}
        assert json.loads((folder / "archives/2/commit.json").read_text())["summary"] == "第 2 次"

    async def test_what_does_not_change_is_not_written(self, archive: Archive, tmp_path: Path) -> None:
        await self._session(archive)
        await derive(archive, ANN, KEY)
        before = {path: path.stat().st_ino for path in files_under(tmp_path)}
        await derive(archive, ANN, KEY)
        await archive.put_claims(ANN, KEY, [], ["nothing"])
        assert {path: path.stat().st_ino for path in files_under(tmp_path)} == before

    async def test_a_damaged_paper_says_so_and_is_still_erased(self, archive: Archive, tmp_path: Path) -> None:
        await self._session(archive)
        await derive(archive, ANN, KEY)
        folder = tmp_path / "one/tenants/acme/users/ann/sessions/s1"
        for name in ("tags.json", "claims.jsonl", "archives/1/commit.json"):
            (folder / name).write_bytes((folder / name).read_bytes()[:-9])
        for damaged in (archive.read_tags, archive.read_claims, archive.read_commits):
            with pytest.raises(Corrupt):
                await damaged(ANN, KEY)
        with pytest.raises(Corrupt):
            await archive.put_claims(ANN, KEY, [])
        assert (await archive.erase_session(ANN, KEY, "asked to"))["turns"] == 3
        assert {path.name for path in folder.iterdir()} == {"turns.jsonl", "session.json"}
        assert (await archive.verify(STEWARD)).defects == []

    async def test_erased_words_are_in_no_file(self, archive: Archive, tmp_path: Path) -> None:
        erasures = (
            lambda: archive.erase_session(ANN, KEY, "asked to"),
            lambda: archive.erase_owner(STEWARD, KEY.owner),
            lambda: archive.erase_tenant(STEWARD),
        )
        for n, erase in enumerate(erasures):
            if await archive.read_session(ANN, KEY) is None:
                await archive.write_session(ANN, record(FixedClock()), 0)
            await archive.append_turns(ANN, KEY, [turn(f"t{n}", "喝乌龙茶")])
            await derive(archive, ANN, KEY)
            left = tmp_path / "one/tenants/acme/users/ann/sessions/s1/.tmp-4194999-ab"
            left.write_text("喝乌龙茶, said a dead process")
            await erase()
            assert not any("乌龙".encode() in path.read_bytes() for path in files_under(tmp_path))
        assert [path.name for path in (tmp_path / "one/tenants").iterdir()] == []

    async def test_forgetting_takes_along_what_dead_processes_left(self, archive: Archive, tmp_path: Path) -> None:
        await archive.write_session(ANN, record(FixedClock()), 0)
        await archive.append_turns(ANN, KEY, [turn("t1", "喝乌龙茶")])
        await archive.append_log(ANN, "entries", [{"text": "喝乌龙茶"}])
        tenant = tmp_path / "one/tenants/acme"
        for folder, forget in (
            (tenant / "users/ann/sessions/s1", lambda: archive.put_claims(ANN, KEY, [], ["c1"])),
            (tenant / "users/ann/sessions/s1", lambda: archive.forget_turns(ANN, KEY, ["t1"], "asked to")),
            (tenant / "entries", lambda: archive.forget_log(STEWARD, "entries", [1], "asked to")),
        ):
            (folder / ".tmp-4194999-ab").write_text("喝乌龙茶, said a dead process")
            await forget()
            assert not list(folder.glob(".tmp-*"))
        assert not any("乌龙".encode() in path.read_bytes() for path in files_under(tmp_path))

    async def test_a_damaged_owner_is_erased_all_the_same(self, archive: Archive, tmp_path: Path) -> None:
        await self._two_owners(archive)
        for path in files_under(tmp_path / "one/tenants/acme/users/ann"):
            path.write_bytes(path.read_bytes()[:-7] + b"damaged")
        lines = tmp_path / "one/tenants/acme/users/bob/sessions/s1/turns.jsonl"
        lines.write_bytes(lines.read_bytes().replace(b'"seq":1,', b'"seq":x,'))
        assert (await archive.erase_owner(STEWARD, KEY.owner))["sessions"] == 1
        assert [owner.id async for owner in archive.owners(STEWARD)] == ["bob"]
        assert len(list((tmp_path / "one/tenants/acme/blobs").glob("*/*"))) == 1, "a damaged line keeps its blob"


def _broken_off(files: list) -> Iterator:
    yield from files
    raise ValueError("broken off")
