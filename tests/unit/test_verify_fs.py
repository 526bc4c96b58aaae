"""The proof finds every change: any byte of any file, any line, any file out of its place, and never gives up."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mnemon.contracts.nodes import Edge, Shelf
from mnemon.contracts.reports import VerifyReport
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.contracts.turns import Attachment
from mnemon.drivers.archive.fs import FsArchive, chainlog, quotes
from mnemon.drivers.archive.fs.audit import audit
from mnemon.drivers.archive.fs.layout import Layout
from mnemon.drivers.archive.fs.tail import session_genesis
from mnemon.testing.archive_suite import (
    ANN,
    KEY,
    NODE,
    TENANT,
    claim,
    complete,
    derive,
    made_of,
    node,
    record,
    rich_turns,
    turn,
)
from mnemon.testing.clock import FixedClock

LONG = "很长的名字" * 60
SESSION_FOLDER = "tenants/acme/users/ann/sessions/s1"
NODE_FOLDER = "tenants/acme/users/ann/memories/preferences/tea"


async def fill(home: Path) -> None:
    """One archive with everything in it, every session's page up to date."""
    clock = FixedClock()
    archive = FsArchive(home, clock)
    blob = await archive.put_blob(ANN, "工具的全部输出 whole output\n".encode() * 3)
    cut = Attachment(type="tool_result", name="ls", truncated=True, sha256=blob, ref=f"blob://{blob}")
    keys = [(ANN, KEY), (Scope.of(TENANT, LONG), SessionKey(TENANT, Owner.user(LONG), LONG))]
    for scope, key in keys:
        await archive.write_session(scope, record(clock, key), 0)
        clock.tick(seconds=1, microseconds=7)
        await archive.append_turns(scope, key, [*rich_turns(), turn("t4", "😀 truncated…", attachments=(cut,))])
        await archive.append_turns(scope, key, [turn("t5", "to be forgotten"), turn("t6", "last 最后")])
        await archive.forget_turns(scope, key, ["t5"], "用户要求")
        await complete(archive, scope, key, **await derive(archive, scope, key))
    for place in (NODE, replace(NODE, owner=Owner.user("bob"), shelf=Shelf.EVENTS, slug=LONG)):
        scope = Scope.of(TENANT, place.owner.id)
        for text in ("green", "乌龙", "black"):
            metadata = {"字": [text], **made_of(*(claim(t) for t in rich_turns()))}
            await archive.write_node(scope, node(place, text, metadata=metadata), reason=f"now {text}")
        edges = [Edge(place.uri, "ctx://acme/x", "related_to", "同一", 0.5), Edge(place.uri, "y", "part_of")]
        await archive.upsert_edges(scope, place, edges)
    for log in ("entries", "ledger"):
        await archive.append_log(ANN, log, [{"n": n, "text": "一条记录"} for n in range(4)])  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("archive")
    asyncio.run(fill(home))
    return home


@pytest.fixture
def home(filled: Path, tmp_path: Path) -> Path:
    """A copy of its own, to be damaged."""
    return shutil.copytree(filled, tmp_path / "copy")


def verify(home: Path) -> VerifyReport:
    return audit(Layout(home), TENANT)


def all_files(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*") if path.is_file())


def named(report: VerifyReport, home: Path, path: Path) -> bool:
    where = str(path.relative_to(home))
    return any(where == d.where or (path.name in d.where and "blob" in d.kind) for d in report.defects)


def positions(size: int, rng: random.Random) -> list[int]:
    inner = rng.sample(range(1, size - 1), min(26, max(size - 2, 0)))
    return sorted({0, size - 1, *inner})


def changes(data: bytes, at: int, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    before, byte, behind = data[:at], data[at : at + 1], data[at + 1 :]
    yield "flip", before + bytes([data[at] ^ (1 << rng.randrange(8))]) + behind
    if at in (0, len(data) - 1) or rng.random() < 0.25:
        yield "newline", before + b"\n" + byte + behind
        yield "insert", before + rng.randbytes(1) + byte + behind
        yield "delete", before + behind


def looks_torn(path: Path, data: bytes, changed: bytes) -> bool:
    """A log without a page cannot tell its last byte cut off from a crash one byte short of the end."""
    return path.parent.name in ("entries", "ledger") and changed == data[:-1]


def test_the_archive_to_be_damaged_is_whole_and_holds_everything(filled: Path) -> None:
    report = verify(filled)
    assert (report.defects, report.notes) == ([], [])
    assert (report.sessions, report.turns, report.tombstones) == (2, 10, 2)
    assert (report.tags, report.claims, report.commits) == (10, 10, 4)
    assert (report.nodes, report.revisions, report.blobs, report.log_lines) == (2, 6, 1, 8)
    assert report.bytes == sum(path.stat().st_size for path in all_files(filled))
    names = {path.name for path in all_files(filled)}
    assert {".name", "turns.jsonl", "session.json", ".meta.json", ".relations.json", "content.md", "3.json"} <= names
    assert {"tags.json", "claims.jsonl", "commit.json"} <= names


def test_any_changed_byte_of_any_file_is_named(home: Path) -> None:
    rng = random.Random(20260101)
    tried = 0
    unseen: list[str] = []
    for path in all_files(home):
        data = path.read_bytes()
        for at in positions(len(data), rng):
            tried += 1
            for how, changed in changes(data, at, rng):
                path.write_bytes(changed)
                if not named(verify(home), home, path) and not looks_torn(path, data, changed):
                    unseen.append(f"{how} at {at} of {len(data)}: {path.relative_to(home)}")
        path.write_bytes(data)
    assert unseen == []
    assert tried >= 600
    assert verify(home).ok


def test_any_file_of_garbage_is_named(home: Path) -> None:
    rng = random.Random(7)
    for path in all_files(home):
        data = path.read_bytes()
        heaps = [b"", b"\0" * 500, b"\n" * 9, b"[" * 100_000, b'{"seal": "\\ud800"}\n', rng.randbytes(300), b"null\n"]
        for heap in heaps:
            if path.parent.name in ("entries", "ledger") and b"\n" not in heap:
                continue  # for a log without a page this is an empty log, or a torn one
            path.write_bytes(heap)
            assert named(verify(home), home, path), (path, heap[:20])
        path.write_bytes(data)


def test_any_two_files_in_each_others_place_are_named(home: Path) -> None:
    """Whole and well sealed, but not what belongs there."""
    paths = all_files(home)
    rng = random.Random(3)
    for path in paths:
        data = path.read_bytes()
        same_kind = [p for p in paths if p.name == path.name and p.read_bytes() != data]
        for other in [*same_kind, *rng.sample(paths, 6)]:
            if other.read_bytes() == data or (
                path.parent.name in ("entries", "ledger") and other.suffix in ("", ".md")
            ):
                continue  # words without a line end are a torn tail to a log without a page
            path.write_bytes(other.read_bytes())
            assert named(verify(home), home, path), (path, other)
        path.write_bytes(data)


def test_any_missing_file_is_named(home: Path) -> None:
    for path in all_files(home):
        if path.parent.name in ("entries", "ledger"):
            continue  # the last segment of a log has no page that promised it
        if path.name in ("1.json", ".relations.json"):
            continue  # an oldest copy looks pruned, and only a commit that made relations can promise them
        aside = path.rename(home / "aside")
        report = verify(home)
        assert report.defects, path
        if path.parent.parent.name != "blobs":
            assert named(report, home, path), (path, report.defects)
        aside.rename(path)
    assert verify(home).ok


def test_a_missing_blob_is_named_by_the_turn_that_points_at_it(home: Path) -> None:
    (blob,) = (home / "tenants/acme/blobs").glob("*/*")
    blob.unlink()
    report = verify(home)
    assert len(report.defects) == 2
    assert all(d.kind == "pointer" and blob.name in d.detail and "t4" in d.detail for d in report.defects)


def logs_of(home: Path) -> list[Path]:
    return [path for path in all_files(home) if path.suffix == ".jsonl" and path.name != "claims.jsonl"]


def test_a_missing_line_in_the_middle_is_one_defect(home: Path) -> None:
    for path in logs_of(home):
        data = path.read_bytes()
        lines = data.splitlines(keepends=True)
        for gone in range(len(lines) - 1):
            path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
            report = verify(home)
            assert named(report, home, path)
            assert len(report.defects) == 1
        path.write_bytes(data)


def test_missing_acknowledged_words_at_the_end_are_named(home: Path) -> None:
    for path in (p for p in logs_of(home) if p.name == "turns.jsonl"):
        data = path.read_bytes()
        lines = data.splitlines(keepends=True)
        for left in range(len(lines)):
            for torn in (b"", lines[left][:30]):
                path.write_bytes(b"".join(lines[:left]) + torn)
                report = verify(home)
                assert [d.kind for d in report.defects] == ["lost_turns"]
                assert named(report, home, path)
        path.write_bytes(data)


def test_lines_in_another_order_or_twice_are_named(home: Path) -> None:
    for path in logs_of(home):
        data = path.read_bytes()
        lines = data.splitlines(keepends=True)
        for a in range(len(lines) - 1):
            swapped = [*lines[:a], lines[a + 1], lines[a], *lines[a + 2 :]]
            twice = [*lines[: a + 1], *lines[a:]]
            for changed in (swapped, twice, [*lines, lines[a]]):
                path.write_bytes(b"".join(changed))
                assert named(verify(home), home, path)
        path.write_bytes(data)


def test_lines_of_another_session_are_named(home: Path) -> None:
    there, here = (path for path in logs_of(home) if path.name == "turns.jsonl")
    data = here.read_bytes()
    here.write_bytes(data + there.read_bytes().splitlines(keepends=True)[-1])
    assert named(verify(home), home, here)


@pytest.mark.parametrize("name", ["s2", "S1", "s1~2e", "~ff", "s1 copy", "x~~0000"])
def test_a_session_under_another_name_is_named(home: Path, name: str) -> None:
    shutil.copytree(home / SESSION_FOLDER, home / SESSION_FOLDER / ".." / name)
    assert any(f"sessions/{name}" in d.where for d in verify(home).defects)


@pytest.mark.parametrize("name", ["bob2", "ANN", "~ff"])
def test_an_owner_under_another_name_is_named(home: Path, name: str) -> None:
    (home / "tenants/acme/users/ann").rename(home / "tenants/acme/users" / name)
    assert any(f"users/{name}" in d.where for d in verify(home).defects)


@pytest.mark.parametrize("name", ["tea2", "TEA"])
def test_a_node_under_another_name_is_named(home: Path, name: str) -> None:
    (home / NODE_FOLDER).rename(home / NODE_FOLDER / ".." / name)
    report = verify(home)
    assert any(f"preferences/{name}" in d.where for d in report.defects)
    assert any("revisions" in d.where for d in report.defects), "its copies have lost their node"


def test_a_missing_node_is_named_by_its_copies(home: Path) -> None:
    shutil.rmtree(home / NODE_FOLDER)
    assert {d.kind for d in verify(home).defects} == {"missing"}


def test_a_renamed_log_segment_is_told(home: Path) -> None:
    folder = home / "tenants/acme/ledger"
    (folder / "1.jsonl").rename(folder / "2.jsonl")
    assert any("segment 1" in d.detail for d in verify(home).defects)


def test_a_torn_tail_is_no_defect(home: Path) -> None:
    for path in logs_of(home):
        data = path.read_bytes()
        for tail in (b"x", b'{"seq":7,"at":"2026-', bytes(4096), data.splitlines(keepends=True)[-1][:-1]):
            path.write_bytes(data + tail)
            report = verify(home)
            assert report.ok, (path, tail, report.defects)
            assert [n.kind for n in report.notes] == ["torn"]
        path.write_bytes(data)


def test_leftovers_and_foreign_files_are_no_defects(home: Path) -> None:
    folders = [p for p in home.rglob("*") if p.is_dir() and p != home / "tenants"]
    for folder in folders:
        (folder / ".tmp-123-abcd").write_bytes(b"half a wri")
    report = verify(home)
    assert report.ok
    assert {n.kind for n in report.notes} <= {"leftover"}
    assert len(report.notes) >= 12
    for folder in (home / SESSION_FOLDER, home / NODE_FOLDER, home / "tenants/acme", home / "tenants/acme/ledger"):
        (folder / "notes.txt").write_text("mine")
    report = verify(home)
    assert report.ok
    assert sum(n.kind == "unknown" for n in report.notes) == 4


def test_an_empty_folder_of_a_crash_is_no_defect(home: Path) -> None:
    for folder in ("users/x~~" + "0" * 64, "users/ann/sessions/new", "users/ann/memories/events/new"):
        (home / "tenants/acme" / folder).mkdir(parents=True)
    report = verify(home)
    assert report.ok


def test_damaged_words_are_told_once_and_not_by_the_papers_that_cite_them(home: Path) -> None:
    path = home / SESSION_FOLDER / "turns.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0].replace("乌龙".encode(), "红红".encode()), *lines[1:]]))
    told = [(d.kind, d.where) for d in verify(home).defects if "sessions" in d.where]
    assert told == [("line", f"{SESSION_FOLDER}/turns.jsonl")]
    path.write_bytes(b"".join(lines[1:]))
    assert [d.kind for d in verify(home).defects] == ["line"]


def test_words_chained_anew_are_named_by_what_cites_them(home: Path) -> None:
    """Somebody who changes words and makes a whole new chain of it is still found out."""
    path = home / SESSION_FOLDER / "turns.jsonl"
    head, changed = session_genesis(KEY), b""
    for line in chainlog.lines(path):
        body = (line.body or b'{"turn_id":"t5","role":"user","text":"x"}').replace("乌龙".encode(), "红红".encode())
        raw, head = chainlog.render(line.seq, b"2026-01-01T00:00:00+00:00", body, head, bytes(16))
        changed += raw
    path.write_bytes(changed)
    defects = verify(home).defects
    by_kind = {kind: {Path(d.where).name for d in defects if d.kind == kind} for kind in ("span", "chain")}
    assert by_kind["span"] == {"tags.json", "claims.jsonl", ".meta.json", "1.json", "2.json"}
    assert by_kind["chain"] == {"turns.jsonl", "tags.json", "commit.json"}


@pytest.mark.parametrize("claims", [{"c": 1}, [1], [{"claim_id": "c"}], "claims"])
def test_claims_of_a_node_that_are_none_are_named(tmp_path: Path, claims: object) -> None:
    asyncio.run(FsArchive(tmp_path, FixedClock()).write_node(ANN, node(metadata={"claims": claims})))
    assert [(d.kind, Path(d.where).name) for d in verify(tmp_path).defects] == [("foreign", ".meta.json")]


def test_citations_are_proven_whatever_fits_in_memory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = verify(home)
    monkeypatch.setattr(quotes, "_CHARACTERS_IN_MEMORY", 1)
    assert verify(home) == whole


async def test_words_said_while_the_proof_runs_are_no_defect(home: Path) -> None:
    sources = quotes.Sources(Layout(home))
    new = turn("t7", "said meanwhile")
    assert sources.check(KEY, [claim(rich_turns()[0])], damaged=False) == []
    assert len(sources.check(KEY, [claim(new)], damaged=False)) == 1
    assert sources.check(KEY, [claim(new)], damaged=True) == []
    await FsArchive(home, FixedClock()).append_turns(ANN, KEY, [new])
    assert sources.check(KEY, [claim(new)], damaged=False) == []


def test_papers_of_another_session_are_named(home: Path) -> None:
    """Whole and well sealed, and about the very same words."""
    (other,) = (path.parent for path in home.rglob("turns.jsonl") if path.parent != home / SESSION_FOLDER)
    for name in ("tags.json", "claims.jsonl", "archives/2/commit.json"):
        path = home / SESSION_FOLDER / name
        data = path.read_bytes()
        path.write_bytes((other / name).read_bytes())
        assert named(verify(home), home, path), name
        path.write_bytes(data)
    shutil.copy(home / SESSION_FOLDER / "archives/1/commit.json", home / SESSION_FOLDER / "archives/2/commit.json")
    assert [d.kind for d in verify(home).defects] == ["misplaced"]


def test_the_proof_goes_on_whatever_lies_there(home: Path) -> None:
    """Folders in place of files, files in place of folders, links into the void, names that are no text."""
    shutil.rmtree(home / SESSION_FOLDER / "archives")
    (home / SESSION_FOLDER / "archives").write_text("a file")
    damaged = [
        home / SESSION_FOLDER / "turns.jsonl",
        home / SESSION_FOLDER / "tags.json",
        home / SESSION_FOLDER / "claims.jsonl",
        home / NODE_FOLDER / ".meta.json",
        home / NODE_FOLDER / "content.md",
    ]
    for path in damaged:
        path.unlink()
        path.mkdir()
    link = home / SESSION_FOLDER / "session.json"
    link.unlink()
    link.symlink_to(link)
    for folder in ("agents", "users/file-not-folder", "users/bob/sessions"):
        (home / "tenants/acme" / folder).write_text("a file")
    odd = (str(home) + "/tenants/acme/users/").encode() + b"\xff\xfe"
    Path(odd.decode(errors="surrogateescape")).mkdir()
    for name in ("abc.json", "0.json", "99999999999999999999.json", "²" + ".json"):
        (home / "tenants/acme/revisions/users/ann/preferences/tea" / name).write_text("{}")
    for name in ("x.jsonl", "0.jsonl", "².jsonl"):
        (home / "tenants/acme/ledger" / name).write_text("{}")
    report = verify(home)
    files = [home / "tenants/acme/agents", home / "tenants/acme/users/bob/sessions", home / SESSION_FOLDER / "archives"]
    for path in [*damaged, link, *files]:
        assert named(report, home, path), (path, report.defects)
    assert report.turns == 5, "the other sessions are still proved"


def test_random_damage_never_stops_the_proof(home: Path) -> None:
    rng = random.Random(99)
    paths = all_files(home)
    for _ in range(25):
        for path in rng.sample(paths, 5):
            data = bytearray(path.read_bytes() or b"x")
            for _ in range(rng.randrange(1, 8)):
                at = rng.randrange(len(data))
                data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
                data = data or bytearray(b"x")
            path.write_bytes(data)
        assert not verify(home).ok
