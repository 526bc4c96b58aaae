"""Repair after a crash at any step: the old state or the new one, nothing between, and nothing of people's lost."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mnemon.contracts.claims import ClaimState
from mnemon.contracts.errors import NotFound, VersionConflict
from mnemon.contracts.nodes import Edge, Node, NodeKey, Shelf
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.contracts.turns import Attachment
from mnemon.drivers.archive.fs import FsArchive, chainlog
from mnemon.testing.archive_suite import (
    ANN,
    KEY,
    NODE,
    STEWARD,
    TENANT,
    claim,
    commit,
    complete,
    derive,
    dumped,
    made_of,
    node,
    record,
    turn,
)
from mnemon.testing.clock import FixedClock

LONG = replace(NODE, slug="很长" * 200)
THERE = replace(LONG, shelf=Shelf.ENTITIES)
Seen = dict[NodeKey, tuple[Node, tuple[tuple[str, str], ...]] | None]


class Crash(BaseException):
    """The power is gone."""


class Steps:
    """Counts the steps, and crashes at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.names: list[str] = []
        self._at = at

    def __call__(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 == self._at:
            raise Crash(name)


def opened(home: Path, step: Callable[[str], None] | None = None) -> FsArchive:
    return FsArchive(home, FixedClock(), **({"step": step} if step else {}))


async def nothing(archive: FsArchive) -> None:
    """An empty archive."""


async def a_node(archive: FsArchive) -> None:
    for text in ("green", "black"):
        await archive.write_node(ANN, node(LONG, text, metadata={"t": text}))
    await archive.upsert_edges(ANN, LONG, [Edge(LONG.uri, "a", "part_of")])


async def many_versions(archive: FsArchive) -> None:
    for n in range(7):
        await archive.write_node(ANN, node(LONG, f"tea {n}"))


async def an_edited_node(archive: FsArchive) -> None:
    await a_node(archive)
    path = Path(await archive.resolve_path(ANN, LONG)) / "content.md"
    path.write_text("by hand")


async def write(archive: FsArchive) -> None:
    await archive.write_node(ANN, node(LONG, "oolong", metadata={"t": "oolong"}))


async def relate(archive: FsArchive) -> None:
    await archive.upsert_edges(ANN, LONG, [Edge(LONG.uri, "b", "part_of")])


async def delete(archive: FsArchive) -> None:
    await archive.delete_node(ANN, LONG)


async def move(archive: FsArchive) -> None:
    await archive.move_node(ANN, LONG, THERE)


async def seen(archive: FsArchive) -> Seen:
    """What a reader finds."""
    found: Seen = {}
    for key in (LONG, THERE):
        try:
            there = await archive.read_node(ANN, key)
        except NotFound:
            found[key] = None
        else:
            edges = await archive.get_edges(ANN, key)
            found[key] = there, tuple((e.to_uri, e.relation_type) for e in edges)
    return found


STORIES = [
    (nothing, write),
    (a_node, write),
    (many_versions, write),
    (an_edited_node, write),
    (a_node, relate),
    (a_node, delete),
    (many_versions, delete),
    (a_node, move),
]
Act = Callable[[FsArchive], Awaitable[None]]


@pytest.mark.parametrize(("prepare", "act"), STORIES, ids=lambda f: f.__name__)
async def test_a_crash_at_any_step_leaves_the_old_or_the_new(prepare: Act, act: Act, tmp_path: Path) -> None:
    start = tmp_path / "start"
    await prepare(opened(start))
    allowed = [await seen(opened(start))]
    rehearsal = shutil.copytree(start, tmp_path / "rehearsal")
    steps = Steps()
    await act(opened(rehearsal, steps))
    allowed.append(await seen(opened(rehearsal)))
    if prepare is an_edited_node:  # between the two: the edit, recorded as a version
        shutil.copytree(start, tmp_path / "edited")
        await opened(tmp_path / "edited").repair(STEWARD)
        allowed.append(await seen(opened(tmp_path / "edited")))
    if act is move:  # between the two: copied, and not yet taken away
        old, new = allowed
        allowed += [{LONG: old[LONG], THERE: new[THERE]}, {LONG: old[LONG], THERE: (new[THERE][0], ())}]  # type: ignore[index]
    assert len(steps.names) >= 2
    for at, name in enumerate(steps.names):
        home = shutil.copytree(start, tmp_path / f"crash {at}")
        with pytest.raises(Crash):
            await act(opened(home, Steps(at)))
        proof = await opened(home).verify(STEWARD)
        if prepare is not an_edited_node:
            assert proof.defects == [], f"a crash at {name} is no damage"
        assert await seen(opened(home)) in allowed, f"a reader after a crash at {name}"
        await opened(home).repair(STEWARD)
        mended = await seen(opened(home))
        assert mended in allowed, f"after repair of a crash at {name}"
        assert (await opened(home).verify(STEWARD)).defects == []
        assert await opened(home).repair(STEWARD) == [], "repair is done after one run"
        assert await seen(opened(home)) == mended
        await do_again(opened(home), act, allowed[1])


async def do_again(archive: FsArchive, act: Act, wanted: Seen) -> None:
    """Whoever was cut off does it again, and it is done."""
    try:
        await act(archive)
    except NotFound:
        assert act in (move, relate)
    now = await seen(archive)
    for key, expected in wanted.items():
        found = now[key]
        assert (found is None) == (expected is None)
        if found and expected:
            assert (found[0].abstract, found[0].content) == (expected[0].abstract, expected[0].content)
            assert found[1] == expected[1]
    assert (await archive.verify(STEWARD)).defects == []


async def test_a_deleted_node_does_not_come_back_after_a_crash(tmp_path: Path) -> None:
    """Wherever the deletion was cut off once it had begun to count, writing anew starts from nothing."""
    steps = Steps()
    await a_node(opened(tmp_path / "rehearsal"))
    await delete(opened(tmp_path / "rehearsal", steps))
    committed = steps.names.index("node_delete.before_dir_sync")
    for at in range(committed, len(steps.names)):
        home = tmp_path / f"{at}"
        await a_node(opened(home))
        with pytest.raises(Crash):
            await delete(opened(home, Steps(at)))
        assert not await opened(home).exists(ANN, LONG)
        written = await opened(home).write_node(ANN, node(LONG, "new"), expect=0)
        assert written.version == 1
        assert await opened(home).revisions(ANN, LONG) == []
        assert await opened(home).get_edges(ANN, LONG) == []
        assert (await opened(home).verify(STEWARD)).defects == []


async def test_torn_tails_are_cut_and_the_words_go_on(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    await archive.write_session(ANN, record(FixedClock()), 0)
    await archive.append_turns(ANN, KEY, [turn("t1"), turn("t2")])
    await archive.append_log(ANN, "ledger", [{"n": 1}])
    before = await dumped(archive)
    logs = [*tmp_path.rglob("turns.jsonl"), *tmp_path.rglob("1.jsonl")]
    for tail in (b"{", bytes(100), logs[0].read_bytes().splitlines(keepends=True)[1][:-1]):
        for path in logs:
            path.write_bytes(path.read_bytes() + tail)
        assert await dumped(opened(tmp_path)) == before, "a dump holds whole lines only"
        assert len(await opened(tmp_path).read_turns(ANN, KEY)) == 2
        done = await opened(tmp_path).repair(STEWARD)
        assert sorted(r.where for r in done) == sorted(str(p.relative_to(tmp_path)) for p in logs)
        assert all("never acknowledged" in r.what for r in done)
        report = await archive.verify(STEWARD)
        assert (report.defects, report.notes) == ([], [])
    for path in logs:
        path.write_bytes(path.read_bytes() + b"torn")
    assert [s.seq for s in (await archive.append_turns(ANN, KEY, [turn("t3")])).appended] == [3]
    assert [line.seq for line in await archive.append_log(ANN, "ledger", [{"n": 2}])] == [2]
    report = await archive.verify(STEWARD)
    assert (report.defects, report.notes) == ([], [])


async def test_a_damaged_line_end_is_restored_because_the_chain_proves_it(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    await archive.append_log(ANN, "ledger", [{"n": 1}])
    (path,) = tmp_path.rglob("1.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    (done,) = await archive.repair(STEWARD)
    assert (done.how, path.read_bytes()) == ("mended", whole)
    assert (await archive.verify(STEWARD)).ok


async def test_a_hand_edit_becomes_a_version(tmp_path: Path) -> None:
    clock = FixedClock()
    archive = FsArchive(tmp_path, clock)
    before = await archive.write_node(ANN, node(text="oolong"))
    clock.tick(hours=1)
    path = Path(await archive.resolve_path(ANN, NODE)) / "content.md"
    path.write_text("# 手写\n")
    assert (await archive.read_node(ANN, NODE)).content == "# 手写\n", "people's words are read at once"
    (defect,) = (await archive.verify(STEWARD)).defects
    assert (defect.kind, Path(defect.where).name) == ("edited", "content.md")
    (done,) = await archive.repair(STEWARD)
    assert "hand edit" in done.what
    edited = await archive.read_node(ANN, NODE)
    assert edited == replace(before, content="# 手写\n", version=2, updated_at=clock.now())
    (earlier,) = await archive.revisions(ANN, NODE)
    assert earlier.node == before
    await archive.write_node(ANN, node(text="black"))
    first, _ = await archive.revisions(ANN, NODE)
    assert (first.reason, first.node.content) == ("edited by hand", "# 手写\n")
    assert (await archive.verify(STEWARD)).defects == []
    assert await archive.repair(STEWARD) == []


async def test_a_write_over_a_hand_edit_keeps_it(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    await archive.write_node(ANN, node(text="oolong"))
    folder = Path(await archive.resolve_path(ANN, NODE))
    (folder / "content.md").write_text("by hand")
    (folder / ".abstract.md").write_text("also by hand")
    with pytest.raises(VersionConflict):
        await archive.write_node(ANN, node(text="black"), expect=2)
    written = await archive.write_node(ANN, node(text="black"), expect=1)
    assert written.version == 3
    edited, first = await archive.revisions(ANN, NODE)
    assert (edited.reason, edited.node.content, edited.node.abstract) == ("edited by hand", "by hand", "also by hand")
    assert first.node.abstract == "oolong!"
    assert (await archive.verify(STEWARD)).defects == []


async def test_hand_edits_do_not_pile_up(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    await archive.write_node(ANN, node())
    path = Path(await archive.resolve_path(ANN, NODE)) / "content.md"
    for n in range(9):
        path.write_text(f"edit {n}")
        await archive.repair(STEWARD)
    assert [r.node.content for r in await archive.revisions(ANN, NODE)] == [f"edit {n}" for n in (7, 6, 5, 4, 3)]


async def test_a_lost_file_is_put_back(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    before = await archive.write_node(ANN, node(overview=""))
    folder = Path(await archive.resolve_path(ANN, NODE))
    for name in ("content.md", ".overview.md", ".abstract.md", ".meta.json"):
        (folder / name).unlink()
        await archive.repair(STEWARD)
        assert (folder / name).exists()
        assert await archive.read_node(ANN, NODE) == before
        assert (await archive.verify(STEWARD)).defects == []


async def test_what_a_person_put_on_a_shelf_is_left_alone(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    await archive.write_node(ANN, node())
    mine = Path(await archive.resolve_path(ANN, NODE)).parent / "mine"
    mine.mkdir()
    (mine / "content.md").write_text("my own notes")
    await archive.repair(STEWARD)
    assert (mine / "content.md").read_text() == "my own notes"


async def test_leftovers_of_the_dead_are_removed_and_of_the_living_kept(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    await archive.write_node(ANN, node())
    folder = Path(await archive.resolve_path(ANN, NODE))
    dead, living, foreign = folder / ".tmp-4194999-ab", folder / ".tmp-1-ab", folder / ".tmp-notes"
    for path in (dead, living, foreign, tmp_path / "tenants/acme/revisions/.tmp-99999999999-ab"):
        path.write_bytes(b"half")
    await archive.repair(STEWARD)
    assert not dead.exists()
    assert living.exists()
    assert foreign.exists()
    assert (await archive.verify(STEWARD)).ok


async def test_repair_goes_on_behind_damage(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    for slug in ("a", "b", "c"):
        await archive.write_node(ANN, node(replace(NODE, slug=slug)))
    for session in ("s1", "s2"):
        key = replace(KEY, session_id=session)
        await archive.write_session(ANN, record(FixedClock(), key), 0)
        await archive.append_turns(ANN, key, [turn("t1")])
    (tmp_path / "tenants/acme/users/ann/sessions/s1/session.json").write_bytes(b"garbage")
    torn = tmp_path / "tenants/acme/users/ann/sessions/s2/turns.jsonl"
    torn.write_bytes(torn.read_bytes() + b"torn")
    shelf = tmp_path / "tenants/acme/users/ann/memories/preferences"
    (shelf / "a" / ".meta.json").write_bytes(b"garbage")
    (shelf / "b" / "content.md").write_bytes(b"\xff\xfe")
    (shelf / "c" / "content.md").write_text("by hand")
    (shelf / "Not An Id").mkdir()
    done = await archive.repair(STEWARD)
    assert {Path(r.where).name for r in done} == {"turns.jsonl", "session.json", "a", "b", "c"}
    report = await archive.verify(STEWARD)
    assert report.ok
    aside = {Path(n.where).name for n in report.notes if n.kind == "set_aside"}
    assert aside == {"session.json.1", "meta.json.1", "content.md.1"}


async def test_a_long_name_is_written_after_a_crash(tmp_path: Path) -> None:
    """A folder whose path holds only a hash, and whose full name was not written yet, stops nobody."""
    key = replace(KEY, tenant_id="租" * 300, session_id="会" * 300)
    key = replace(key, owner=replace(key.owner, id="户" * 300))
    scope, steward = Scope.of(key.tenant_id, key.owner.id), Scope.steward_of(key.tenant_id)
    steps = Steps()
    await opened(tmp_path / "rehearsal", steps).write_session(scope, record(FixedClock(), key), 0)
    assert steps.names.count("folder.made") == 3
    for at in range(len(steps.names)):
        home = tmp_path / f"{at}"
        with pytest.raises(Crash):
            await opened(home, Steps(at)).write_session(scope, record(FixedClock(), key), 0)
        archive = opened(home)
        assert len([t async for t in archive.tenants()]) <= 1
        assert len([o async for o in archive.owners(steward)]) <= 1
        assert (await archive.verify(steward)).defects == []
        await archive.repair(steward)
        if await archive.read_session(scope, key) is None:
            await archive.write_session(scope, record(FixedClock(), key), 0)
        await archive.append_turns(scope, key, [turn("t1")])
        assert [t async for t in archive.tenants()] == [key.tenant_id]
        assert [r.key for r in [r async for r in archive.sessions(scope)]] == [key]
        assert (await archive.verify(steward)).defects == []


async def test_words_of_the_dead_are_synced_before_they_are_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer died between write and sync; whoever says the same again must not be told "already there" too early."""
    await opened(tmp_path).write_session(ANN, record(FixedClock()), 0)
    steps = Steps()
    await opened(shutil.copytree(tmp_path, tmp_path.with_name("rehearsal")), steps).append_turns(ANN, KEY, [turn("t1")])
    with pytest.raises(Crash):
        await opened(tmp_path, Steps(steps.names.index("turns.before_sync"))).append_turns(ANN, KEY, [turn("t1")])
    settled: list[Path] = []
    monkeypatch.setattr("mnemon.drivers.archive.fs.chainlog.settle", settled.append)
    assert (await opened(tmp_path).append_turns(ANN, KEY, [turn("t1")])).already_there == 1
    assert [path.name for path in settled] == ["turns.jsonl"]


# --- papers, and erasing


async def a_house(archive: FsArchive) -> None:
    """Ann and Bob with words, papers, nodes, a blob each and one they share; and a session that never got far."""
    for name in ("ann", "bob"):
        scope, key = Scope.of(TENANT, name), SessionKey(TENANT, Owner.user(name), "s1")
        blobs = [await archive.put_blob(scope, data) for data in (b"shared", name.encode())]
        cut = tuple(Attachment(type="tool_result", sha256=b, ref=f"blob://{b}") for b in blobs)
        await archive.write_session(scope, record(FixedClock(), key), 0)
        await archive.append_turns(scope, key, [turn("t1", f"words of {name}", attachments=cut), turn("t2")])
        await complete(archive, scope, key, **await derive(archive, scope, key))
        for text in ("green", "black"):
            made = made_of(*await archive.read_claims(scope, key))
            await archive.write_node(scope, node(replace(LONG, owner=key.owner), text, metadata=made))
    blob = await archive.put_blob(ANN, b"of a failed one")
    await archive.write_session(ANN, record(FixedClock(), FAILED), 0)
    cut = (Attachment(type="tool_result", sha256=blob, ref=f"blob://{blob}"),)
    await archive.append_turns(ANN, FAILED, [turn("t1", attachments=cut)])
    await archive.append_log(ANN, "ledger", [{"n": 1}])


FAILED = replace(KEY, session_id="败" * 200)


async def write_tags(archive: FsArchive) -> None:
    tagged = await archive.read_tags(ANN, KEY)
    await archive.write_tags(ANN, KEY, [t.model_copy(update={"provider": "another"}) for t in tagged])


async def put_claims(archive: FsArchive) -> None:
    changed = claim(turn("t2"), state=ClaimState.EXPIRED)
    await archive.put_claims(ANN, KEY, [changed])


async def first_claim(archive: FsArchive) -> None:
    await archive.put_claims(ANN, FAILED, [claim(turn("t1"), FAILED)])


async def last_claim(archive: FsArchive) -> None:
    await archive.put_claims(ANN, FAILED, [], [claim(turn("t1")).claim_id])


async def write_commit(archive: FsArchive) -> None:
    await archive.write_commit(ANN, KEY, commit(3, await archive.read_turns(ANN, KEY)))


async def a_house_with_a_claim(archive: FsArchive) -> None:
    await a_house(archive)
    await first_claim(archive)


PAPERS = [
    (a_house, write_tags),
    (a_house, put_claims),
    (a_house, first_claim),
    (a_house_with_a_claim, last_claim),
    (a_house, write_commit),
]


async def papers(archive: FsArchive) -> list[object]:
    reads = (archive.read_tags, archive.read_claims, archive.read_commits)
    return [await read(ANN, key) for read in reads for key in (KEY, FAILED)]


@pytest.mark.parametrize(("prepare", "act"), PAPERS, ids=lambda f: f.__name__)
async def test_a_crash_while_papers_are_written_leaves_the_old_or_the_new(
    prepare: Act, act: Act, tmp_path: Path
) -> None:
    start = tmp_path / "start"
    await prepare(opened(start))
    rehearsal = shutil.copytree(start, tmp_path / "rehearsal")
    steps = Steps()
    await act(opened(rehearsal, steps))
    old, new = await papers(opened(start)), await papers(opened(rehearsal))
    assert old != new
    assert steps.names
    for at in range(len(steps.names)):
        home = shutil.copytree(start, tmp_path / f"crash {at}")
        with pytest.raises(Crash):
            await act(opened(home, Steps(at)))
        for mended in (False, True):
            if mended:
                await opened(home).repair(STEWARD)
            assert await papers(opened(home)) in (old, new)
            assert (await opened(home).verify(STEWARD)).defects == []
        await act(opened(home))
        assert await papers(opened(home)) == new


async def erase_session(archive: FsArchive) -> None:
    await archive.erase_session(ANN, KEY, "asked to")


async def erase_owner(archive: FsArchive) -> None:
    await archive.erase_owner(STEWARD, KEY.owner)


async def erase_tenant(archive: FsArchive) -> None:
    await archive.erase_tenant(STEWARD)


async def drop_session(archive: FsArchive) -> None:
    await archive.drop_session(ANN, FAILED)


async def erase_revisions(archive: FsArchive) -> None:
    await archive.erase_revisions(ANN, LONG)


def on_disk(home: Path) -> dict[str, bytes]:
    files = {str(p.relative_to(home)): p.read_bytes() for p in home.rglob("*") if p.is_file()}
    return {path: data for path, data in files.items() if ".tmp-" not in path}


@pytest.mark.parametrize("mend", [False, True], ids=["again", "repaired and again"])
@pytest.mark.parametrize("act", [erase_session, erase_owner, erase_tenant, drop_session, erase_revisions])
async def test_an_erasure_cut_off_anywhere_is_finished(act: Act, mend: bool, tmp_path: Path) -> None:
    start = tmp_path / "start"
    await a_house(opened(start))
    rehearsal = shutil.copytree(start, tmp_path / "rehearsal")
    steps = Steps()
    await act(opened(rehearsal, steps))
    assert on_disk(rehearsal) != on_disk(start)
    for at, name in enumerate(steps.names):
        home = shutil.copytree(start, tmp_path / f"crash {at}")
        with pytest.raises(Crash):
            await act(opened(home, Steps(at)))
        await opened(home).verify(STEWARD)
        if mend:
            await opened(home).repair(STEWARD)
            assert await opened(home).repair(STEWARD) == [], "repair is done after one run"
            assert not list(home.rglob(".erased*")), "what is out of sight is gone"
        await act(opened(home))
        assert on_disk(home) == on_disk(rehearsal), f"after a crash at {name}"


async def test_repair_takes_away_what_cites_a_session_without_words(tmp_path: Path) -> None:
    """The words are gone, and the erasure died before it could empty the rest."""
    await a_house(opened(tmp_path / "rehearsal"))
    steps = Steps()
    await erase_session(opened(tmp_path / "rehearsal", steps))
    home = tmp_path / "home"
    await a_house(opened(home))
    with pytest.raises(Crash):
        await erase_session(opened(home, Steps(steps.names.index("forget.before_dir_sync"))))
    assert {d.kind for d in (await opened(home).verify(STEWARD)).defects} == {"span"}
    done = await opened(home).repair(STEWARD)
    assert {r.what for r in done} == {
        "finished an erasure that was cut off",
        "let go of blobs that only forgotten words pointed at",
    }
    assert await opened(home).read_claims(ANN, KEY) == []
    left = (await opened(home).verify(STEWARD)).defects
    assert all("memories" in d.where or "revisions" in d.where for d in left), "nodes are for whoever made them"
    assert b"ann" not in {path.read_bytes() for path in home.glob("tenants/acme/blobs/*/*")}


async def test_forgetting_cut_off_before_its_blobs_went_lets_go_of_them_later(tmp_path: Path) -> None:
    steps = Steps()
    await a_house(opened(tmp_path / "rehearsal"))
    await opened(tmp_path / "rehearsal", steps).forget_turns(ANN, FAILED, None, "asked to")
    for at in range(len(steps.names)):
        home = tmp_path / f"{at}"
        await a_house(opened(home))
        with pytest.raises(Crash):
            await opened(home, Steps(at)).forget_turns(ANN, FAILED, None, "asked to")
        assert (await opened(home).verify(STEWARD)).defects == []
        await opened(home).repair(STEWARD)
        await opened(home).forget_turns(ANN, FAILED, None, "asked to")
        blobs = {path.read_bytes() for path in home.glob("tenants/acme/blobs/*/*")}
        assert blobs == {b"shared", b"ann", b"bob"}, steps.names[at]
        assert not list(home.rglob(".unneeded.json"))


async def test_a_masked_and_a_forgotten_line_keep_their_place_when_the_chain_is_made_anew(tmp_path: Path) -> None:
    """A line in front of them is lost for good; what was forgotten stays forgotten, and what is left stays."""
    archive = opened(tmp_path)
    page = await archive.write_session(ANN, record(FixedClock()), 0)
    said = await archive.append_turns(ANN, KEY, [turn(f"t{n}", f"words of turn {n}") for n in range(1, 5)])
    vouched = {"turn_count": said.turn_count, "chain_head": said.chain_head}
    await archive.write_session(ANN, page.model_copy(update=vouched), page.version)
    await archive.forget_turns(ANN, KEY, ["t2"], "forgotten")
    path = next(tmp_path.rglob("turns.jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    masked = chainlog.render_masked(lines[2], b'{"turn_id":"t3","role":"user","text":"words of \xe2\x96\x88 3"}')
    path.write_bytes(b"".join([b"garbage\n", lines[1], masked, lines[3]]))
    (done,) = [r for r in await opened(tmp_path).repair(STEWARD) if r.where.endswith("turns.jsonl")]
    assert (done.how, done.what) == ("set aside", "lost line 1")
    kept = await opened(tmp_path).read_turns(ANN, KEY)
    assert [(t.turn.turn_id, t.turn.text) for t in kept] == [("t3", "words of █ 3"), ("t4", "words of turn 4")]
    assert [t.turn_id for t in await opened(tmp_path).read_tombstones(ANN, KEY)] == ["lost-1", "t2"]
    assert (await opened(tmp_path).verify(STEWARD)).ok
    assert await opened(tmp_path).repair(STEWARD) == []
