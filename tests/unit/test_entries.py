"""Entries of one's own making: kept, merged, found, changed, undone, linked, rebuilt, and erased for good."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config, Memory, Scope, errors
from mnemon.contracts.entries import EmbeddingVector
from mnemon.contracts.errors import EmbedderFailed
from mnemon.contracts.filters import Eq
from mnemon.contracts.memories import EntryVersion, WriteReceipt
from mnemon.contracts.ports import Purpose
from mnemon.drivers.embed.cache import CachedEmbedder
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.pipelines.entries.finding import LINK_BOOST
from mnemon.testing.clock import FixedClock

QUIET = Config(background_worker=False)
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
ME: dict[str, Any] = {"tenant_id": "t", "user_id": "lin"}
BOB: dict[str, Any] = {"tenant_id": "t", "user_id": "bob"}


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def opened(home: Path, clock: FixedClock) -> Memory:
    embedder = CachedEmbedder(HashEmbedder(), home / "embeddings.db")
    return Memory(home, llm="rules", embedder=embedder, config=QUIET, clock=clock)


@pytest.fixture
def memory(home: Path, clock: FixedClock) -> Iterator[Memory]:
    with opened(home, clock) as made:
        yield made


def note(text: str, id: str | None = None, **metadata: Any) -> dict[str, Any]:
    entry = {"kind": "semantic", "contents": [text], "metadata": {"memory_domain": "dialog", **metadata}}
    return entry if id is None else {**entry, "id": id}


def write(memory: Memory, *entries: dict[str, Any], who: dict[str, Any] | None = None, **rest: Any) -> WriteReceipt:
    return memory.write(list(entries), **(who or ME), return_id_map=True, **rest)


def found(memory: Memory, query: str = "tea", who: dict[str, Any] | None = None, **rest: Any) -> list[str]:
    return [hit.id for hit in memory.search(query, **(who or ME), topk=100, **rest).hits]


def texts(memory: Memory, who: dict[str, Any] | None = None) -> set[str]:
    return {hit.entry.contents[0] for hit in memory.search("tea", **(who or ME), topk=100).hits}


def everywhere(home: Path, words: str) -> list[Path]:
    forms = [words.encode(), json.dumps(words)[1:-1].encode(), words.encode("utf-16-le")]
    return [p for p in sorted(home.rglob("*")) if p.is_file() and any(f in p.read_bytes() for f in forms)]


def lines(memory: Memory) -> list[dict[str, Any]]:
    async def read() -> list[dict[str, Any]]:
        async with AsyncMemory(memory.parts.home, embedder=HashEmbedder(), config=QUIET) as other:
            found = await other.parts.archive.read_log(Scope.steward_of("t"), "entries")
            return [{**line.body, "seq": line.seq, "chain": line.chain} for line in found]

    return asyncio.run(read())


# --- writing


def test_an_entry_is_found_with_everything_it_was_given(memory: Memory) -> None:
    entry = {
        "id": "n1",
        "kind": "episodic",
        "contents": ["I drink green tea", "second"],
        "metadata": {"memory_domain": "dialog", "colour": {"of": ["tea", 1]}, "timestamp": 1_700_000_000},
    }
    receipt = write(memory, entry)
    assert receipt.id_map == {"n1": "n1"}
    (hit,) = memory.search("green tea", **ME).hits
    assert (hit.id, hit.entry.kind, hit.entry.contents) == ("n1", "episodic", ("I drink green tea", "second"))
    assert hit.entry.metadata["colour"] == {"of": ["tea", 1]}
    assert hit.entry.metadata["tenant_id"] == "t"
    assert hit.entry.metadata["user_id"] == ["u:lin"]


def test_a_receipt_names_a_line_of_the_log(memory: Memory) -> None:
    receipt = write(memory, note("green tea"), note("black tea"))
    last = lines(memory)[-1]
    assert (receipt.version, receipt.value) == (last["seq"], last["chain"])
    assert receipt.created_at == START.isoformat()
    assert [line["op"] for line in lines(memory)] == ["write", "write"]
    assert last["by"] == ["a:default", "pub", "u:lin"]
    assert memory.write([note("x")], **ME).id_map is None


def test_without_an_id_the_same_words_in_the_same_place_have_the_same_one(memory: Memory) -> None:
    first = write(memory, note("green tea", run_id="r1", dedup_skip=True))
    again = write(memory, note("green tea", run_id="r1", dedup_skip=True))
    elsewhere = write(memory, note("green tea", run_id="r2", dedup_skip=True))
    assert first.id_map == again.id_map
    assert elsewhere.id_map != first.id_map
    assert len(found(memory)) == 2
    assert all("dedup_skip" not in hit.entry.metadata for hit in memory.search("tea", **ME).hits)


def test_an_id_that_is_there_is_replaced_or_refused(memory: Memory) -> None:
    write(memory, note("green tea", "n1", tags=["a"]))
    with pytest.raises(errors.Conflict, match="n1"):
        write(memory, note("black tea", "n1"), upsert=False)
    assert texts(memory) == {"green tea"}
    write(memory, note("black tea", "n1"))
    (hit,) = memory.search("tea", **ME).hits
    assert hit.entry.contents == ("black tea",)
    assert "tags" not in hit.entry.metadata
    write(memory, note("white tea", "n2"), upsert=False)
    assert texts(memory) == {"black tea", "white tea"}


def test_the_same_words_are_kept_once_and_the_newest_metadata_counts(memory: Memory) -> None:
    write(memory, note("Lin likes 绿茶", "n1", tags=["old"], colour="green"))
    again = write(memory, note("lin   LIKES 绿茶", "n2", tags=["new"]), note("Ｌin likes 绿茶"))
    assert again.id_map == {"n2": "n1", "1": "n1"}
    (hit,) = memory.search("绿茶", **ME).hits
    assert hit.entry.contents == ("Lin likes 绿茶",), "words are never rewritten"
    assert (hit.entry.metadata["tags"], hit.entry.metadata["colour"]) == (["new"], "green")


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "episodic"},
        {"modality": "structured"},
        {"metadata": {"memory_domain": "lifelog"}},
        {"metadata": {"memory_domain": "dialog", "user_id": ["pub"]}},
        {"metadata": {"memory_domain": "dialog", "dedup_skip": True}},
        {"contents": ["Lin likes green teas"]},
    ],
)
def test_what_differs_in_kind_place_or_audience_is_not_the_same(memory: Memory, other: dict[str, Any]) -> None:
    write(memory, note("Lin likes green tea", "n1"), {**note("lin likes green tea", "n2"), **other})
    assert set(found(memory)) == {"n1", "n2"}


def test_twins_in_one_write_are_one(memory: Memory) -> None:
    done = write(memory, note("tea", "a"), note("TEA", "b"), note("tea ", "c", dedup_skip=True))
    assert done.id_map == {"a": "a", "b": "a", "c": "c"}


def test_words_that_make_room_and_come_again_in_one_write_are_kept(memory: Memory) -> None:
    write(memory, note("green tea", "n1"))
    done = write(memory, note("black tea", "n1"), note("green tea", "n2"), note("Green Tea"))
    assert done.id_map == {"n1": "n1", "n2": "n2", "2": "n2"}
    assert texts(memory) == {"black tea", "green tea"}


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"kind": "episodic", "contents": []}, "entries[0].contents"),
        ({"kind": "episodic", "contents": [" "]}, "entries[0].contents"),
        ({"kind": "episodic", "contents": "tea"}, "entries[0].contents"),
        ({"kind": "episodic", "contents": ["\ud800"]}, "entries[0].contents"),
        ({"kind": "fact", "contents": ["x"]}, "entries[0].kind"),
        ({"contents": ["x"]}, "entries[0].kind"),
        ({"kind": "episodic", "contents": ["x"], "modality": "smell"}, "entries[0].modality"),
        ({"kind": "episodic", "contents": ["x"], "text": "x"}, "entries[0].text"),
        ({"kind": "episodic", "contents": ["x"], "id": ""}, "entries[0].id"),
        ({"kind": "episodic", "contents": ["x"], "id": "a\nb"}, "entries[0].id"),
        ({"kind": "episodic", "contents": ["x"], "metadata": {"o": object()}}, "entries[0].metadata"),
        ({"kind": "episodic", "contents": ["x"], "metadata": {"n": float("inf")}}, "entries[0].metadata"),
        ({"kind": "episodic", "contents": ["x"], "metadata": {"tags": [1]}}, "entries[0].metadata.tags"),
        ({"kind": "episodic", "contents": ["x"], "metadata": {"timestamp": "soon"}}, "entries[0].metadata.timestamp"),
        ({"kind": "episodic", "contents": ["x"], "metadata": {"importance": 2}}, "entries[0].metadata.importance"),
        ({"kind": "episodic", "contents": ["x"], "metadata": {"ttl": -1}}, "entries[0].metadata.ttl"),
        ({"kind": "episodic", "contents": ["x"], "metadata": {"run_id": 7}}, "entries[0].metadata.run_id"),
        ({"kind": "episodic", "contents": ["x"], "metadata": {"user_id": "u:lin"}}, "entries[0].metadata.user_id"),
        ({"kind": "episodic", "contents": ["x"], "metadata": {"user_id": []}}, "entries[0].metadata.user_id"),
        ({"kind": "episodic", "contents": ["x"], "vectors": {"dense": [1.0]}}, "entries[0].vectors.dense"),
        ({"kind": "episodic", "contents": ["x"], "vectors": {"dense": ["a"]}}, "entries[0].vectors"),
        ({"kind": "episodic", "contents": ["x"], "vectors": {"\ud800": [1.0]}}, "entries[0].vectors"),
        ("tea", "entries[0]"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_name_and_nothing_is_kept(memory: Memory, entry: Any, field: str) -> None:
    with pytest.raises(errors.InvalidArgument) as wrong:
        memory.write([entry, note("tea")], **ME)
    assert wrong.value.field == field
    assert lines(memory) == []


@pytest.mark.parametrize("field", ["src_id", "dst_id", "rel_type"])
@pytest.mark.parametrize("wrong", ["", " ", "\ud800", 5, None])
def test_a_link_that_cannot_be_stored_is_refused_by_name(memory: Memory, field: str, wrong: Any) -> None:
    link = {"src_id": "a", "dst_id": "b", "rel_type": "R"}
    with pytest.raises(errors.InvalidArgument) as refused:
        memory.write([note("tea", "a")], [link, {**link, field: wrong}], **ME)
    assert refused.value.field == f"links[1].{field}"
    assert lines(memory) == []


def test_nothing_is_nothing_to_write(memory: Memory) -> None:
    with pytest.raises(errors.InvalidArgument, match="nothing"):
        memory.write([], **ME)
    with pytest.raises(errors.InvalidArgument, match="list"):
        memory.write({"kind": "episodic"}, **ME)  # type: ignore[arg-type]


def test_a_vector_that_came_along_is_used_and_others_are_only_kept(memory: Memory) -> None:
    embedder = HashEmbedder()
    (vector,) = asyncio.run(embedder.embed_texts(["completely different words"]))
    own = [float(x) for x in vector.dense_vector]
    write(memory, {**note("tea", "n1"), "vectors": {"text": own, "clip": [0.5, 0.5]}}, note("coffee", "n2"))
    assert found(memory, "completely different words")[0] == "n1"
    (version,) = memory.history("n1", **ME)
    assert version.after is not None
    assert version.after.vectors is not None
    assert version.after.vectors["clip"] == (0.5, 0.5)
    memory.update("n1", {"contents": ["green tea"]}, **ME)
    assert memory.search("completely different words", **ME).hits[0].score < 0.9


# --- whose


def test_an_entry_is_for_the_user_through_their_product_or_for_whom_it_says(memory: Memory) -> None:
    app = {**ME, "product_id": "app"}
    write(memory, note("private tea", "n1"))
    write(memory, note("tea in the app", "n2"), who=app)
    write(memory, note("everybody's tea", "n3", user_id=["p:app"]), who=app)
    assert set(found(memory)) == {"n1"}
    assert set(found(memory, who=app)) == {"n1", "n2", "n3"}
    assert set(found(memory, who={**BOB, "product_id": "app"})) == {"n3"}
    doors = memory.doors(Scope("t", frozenset({"g:team"})))
    doors.entries.write([note("team tea", "n4")])
    assert [hit.id for hit in doors.entries.search("tea").hits] == ["n4"]
    with pytest.raises(errors.InvalidArgument, match="who may see"):
        memory.doors(Scope("t", frozenset({"pub"}))).entries.write([note("tea")])


@pytest.mark.parametrize("principals", [["u:bob"], ["u:lin", "u:bob"], ["*"], ["u:*"], ["lin"], ["p:app"]])
def test_nobody_writes_for_others(memory: Memory, principals: list[str]) -> None:
    with pytest.raises(errors.PermissionDenied):
        write(memory, note("tea", user_id=principals))
    with pytest.raises(errors.PermissionDenied):
        write(memory, note("tea", tenant_id="other"))
    write(memory, note("tea", "n1", tenant_id="t"))
    assert len(lines(memory)) == 1


@pytest.mark.parametrize("length", [510, 511, 512])
def test_whoever_has_an_id_of_any_length_may_name_themselves(memory: Memory, length: int) -> None:
    who = {"tenant_id": "t", "user_id": "线" * length}
    write(memory, note("tea", "n1", user_id=[f"u:{'线' * length}"]), note("more tea", "n2"), who=who)
    assert set(found(memory, who=who)) == {"n1", "n2"}
    with pytest.raises(errors.InvalidArgument):
        write(memory, note("tea", user_id=[f"u:{'线' * 513}"]), who=who)


def test_an_id_says_nothing_about_what_others_have(memory: Memory) -> None:
    write(memory, note("bob's tea", "n1"), note("bob's cup", "n2"), who=BOB)
    mine = write(memory, note("my tea", "n1"), upsert=False)
    fresh = write(memory, note("my tea pot", "never seen"), upsert=False)
    assert (mine.id_map, fresh.id_map) == ({"n1": "n1"}, {"never seen": "never seen"})
    assert texts(memory) == {"my tea", "my tea pot"}
    assert texts(memory, BOB) == {"bob's tea", "bob's cup"}

    def told(id: str) -> list[str]:
        said = []
        for ask in (
            lambda: memory.update(id, {"published": True}, **ME),
            lambda: memory.delete(id, **ME),
            lambda: memory.delete(id, soft=False, **ME),
            lambda: memory.history(id, **ME),
        ):
            with pytest.raises(errors.NotFound) as none:
                ask()
            said.append(none.value.message.replace(id, "ID"))
        return said

    assert told("n2") == told("nobody has this")
    with pytest.raises(errors.NotFound) as there:
        memory.rollback(1, **ME)
    with pytest.raises(errors.NotFound) as beyond:
        memory.rollback(999, **ME)
    assert there.value.message.replace("1", "N") == beyond.value.message.replace("999", "N")
    linked = write(memory, links=[{"src_id": "n1", "dst_id": x, "rel_type": "R"} for x in ("n2", "nobody")])
    assert linked.version
    assert memory.search("tea", **ME).neighbors == {}
    assert memory.search("tea", **BOB).neighbors == {}


def test_an_id_in_two_audiences_is_the_most_particular_one(memory: Memory) -> None:
    write(memory, note("public tea", "n1", user_id=["pub"]), note("own tea", "n1"))
    assert texts(memory) == {"public tea", "own tea"}
    memory.delete("n1", **{**ME, "product_id": "app"})
    assert len(texts(memory)) == 1


# --- changing


def test_an_update_changes_what_it_names_and_keeps_the_rest(memory: Memory) -> None:
    write(memory, note("green tea", "n1", tags=["a"], colour="green"))
    memory.update("n1", {"metadata": {"tags": ["b"], "colour": None, "size": 3}}, "tidied", **ME)
    (hit,) = memory.search("tea", **ME).hits
    assert hit.entry.metadata["tags"] == ["b"]
    assert hit.entry.metadata["size"] == 3
    assert "colour" not in hit.entry.metadata
    memory.update("n1", {"contents": ["black tea"]}, **ME)
    assert found(memory, "black tea", filters={"tags": ["b"]}) == ["n1"]


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({}, "patch"),
        ({"kind": "episodic"}, "patch.kind"),
        ({"contents": [""]}, "patch.contents"),
        ({"metadata": {"user_id": ["pub"]}}, "patch.metadata.user_id"),
        ({"metadata": {"tenant_id": None}}, "patch.metadata.tenant_id"),
        ({"metadata": {"tags": 5}}, "patch.metadata.tags"),
        ({"published": 1}, "patch.published"),
    ],
)
def test_a_patch_that_does_not_hold_is_refused_by_name(memory: Memory, patch: dict[str, Any], field: str) -> None:
    write(memory, note("green tea", "n1"))
    with pytest.raises(errors.InvalidArgument) as wrong:
        memory.update("n1", patch, **ME)
    assert wrong.value.field == field
    assert len(lines(memory)) == 1


def test_turns_claims_and_pieces_of_memories_are_refused_with_the_way_to_go(memory: Memory) -> None:
    memory.session_write("t", "lin", "s", turns=[{"role": "user", "text": "我住在上海，喜欢绿茶。"}])
    turn = memory.bind("t", "lin").messages_list().items[0].message_id
    claim = memory.claims("t", "lin").items[0].claim_id
    piece = memory.search("绿茶", **ME, filters={"memory_type": ["chunk"]}).hits[0].id
    for id, way in ((turn, "never rewritten"), (claim, "correct"), (piece, "readable memory")):
        for change in (lambda i=id: memory.update(i, {"published": True}, **ME), lambda i=id: memory.delete(i, **ME)):
            with pytest.raises(errors.Conflict, match=way):
                change()


def test_a_deleted_entry_is_out_of_sight_until_it_is_rolled_back(memory: Memory) -> None:
    write(memory, note("green tea", "n1"))
    gone = memory.delete("n1", reason="no longer", **ME)
    assert found(memory) == []
    with pytest.raises(errors.NotFound, match=f"version {gone.version}"):
        memory.update("n1", {"published": True}, **ME)
    memory.rollback(gone.version, **ME)
    assert found(memory) == ["n1"]
    memory.delete("n1", **ME)
    write(memory, note("white tea", "n1"), upsert=False)
    assert texts(memory) == {"white tea"}


def test_every_version_can_be_told_and_undone(memory: Memory, clock: FixedClock) -> None:
    write(memory, note("green tea", "n1"), note("a cup", "n2"))
    clock.tick(hours=1)
    update = memory.update("n1", {"contents": ["black tea"]}, "it was black", **ME)
    assert texts(memory) == {"black tea", "a cup"}
    back = memory.rollback(update.version, "it was green after all", **ME)
    assert texts(memory) == {"green tea", "a cup"}
    told: tuple[EntryVersion, ...] = memory.history("n1", **ME)
    assert [(v.op, v.reason) for v in told] == [
        ("rollback", "it was green after all"),
        ("update", "it was black"),
        ("write", ""),
    ]
    assert [v.version for v in told] == [back.version, update.version, 2]
    assert told[1].before is not None
    assert told[1].before.contents == ("green tea",)
    assert told[0].at == "2026-03-01T10:00:00+00:00"
    assert told[0].by == ("a:default", "pub", "u:lin")
    again = memory.rollback(back.version, **ME)
    assert texts(memory) == {"black tea", "a cup"}
    assert again.version > back.version


def test_a_whole_write_is_undone_at_once(memory: Memory) -> None:
    first = write(memory, note("green tea", "n1"))
    second = write(memory, note("black tea", "n1"), note("a cup", "n2"), note("a pot", "n3"))
    memory.rollback(second.version, **ME)
    assert texts(memory) == {"green tea"}
    with pytest.raises(errors.Conflict) as late:
        memory.rollback(first.version, **ME)
    assert late.value.later == 5 + 2, "the rollback came after it"
    assert "n1" in late.value.message


def test_only_what_is_in_scope_is_undone(memory: Memory) -> None:
    both = {**ME, "product_id": "app"}
    done = write(memory, note("own tea", "n1", user_id=["u:lin"]), note("app tea", "n2", user_id=["p:app"]), who=both)
    memory.rollback(done.version, tenant_id="t", user_id="bob", product_id="app")
    assert texts(memory, both) == {"own tea"}
    with pytest.raises(errors.Conflict):
        memory.rollback(done.version, **both)


def test_erasing_leaves_no_word_and_a_line_that_says_so(home: Path, clock: FixedClock) -> None:
    with opened(home, clock) as memory:
        write(memory, note("青花瓷 in the kitchen", "n1"), note("a plain cup", "n2"))
        memory.update("n1", {"contents": ["青花瓷 in the hall"]}, **ME)
        write(memory, links=[{"src_id": "n1", "dst_id": "n2", "rel_type": "NEAR"}])
        memory.delete("n1", **ME)
        gone = memory.delete("n1", soft=False, reason="asked to", **ME)
        assert found(memory, "cup") == ["n2"]
        assert memory.search("cup", **ME).neighbors == {}
        with pytest.raises(errors.Conflict, match="for good"):
            memory.rollback(gone.version, **ME)
        with pytest.raises(errors.NotFound):
            memory.history("n1", **ME)
        assert [v.op for v in memory.history("n2", **ME)] == ["write"], "others keep their past"
        assert memory.verify().ok
        memory.rebuild()
        assert found(memory, "cup") == ["n2"]
        last = lines(memory)[-1]
        assert (last["op"], last["reason"], last["items"][0]["after"]) == ("erase", "asked to", None)
    assert everywhere(home, "青花瓷") == []
    assert everywhere(home, "plain cup")


# --- life


def test_an_entry_lives_as_long_as_it_says_from_when_it_was_written(memory: Memory, clock: FixedClock) -> None:
    old = "2020-01-01T00:00:00Z"
    write(memory, note("short tea", "n1", ttl=60, timestamp=old), note("long tea", "n2", ttl=0))
    write(memory, note("dated tea", "n3", expires_at="2026-03-01T09:02:00Z"))
    assert set(found(memory)) == {"n1", "n2", "n3"}
    clock.tick(seconds=60)
    assert set(found(memory)) == {"n2", "n3"}
    assert set(found(memory, filters={"published": False})) == set()
    memory.update("n1", {"metadata": {"ttl": 600}}, **ME)
    clock.tick(seconds=60)
    assert set(found(memory)) == {"n1", "n2"}


def test_what_is_over_is_erased_after_its_grace(home: Path, clock: FixedClock) -> None:
    with opened(home, clock) as memory:
        write(memory, note("青花瓷 for a minute", ttl=60), note("tea for ever"))
        clock.tick(days=1)
        assert memory.sweep().entries_removed == 0
        assert everywhere(home, "青花瓷")
        clock.tick(days=7)
        assert memory.sweep().entries_removed == 1
        assert memory.sweep().entries_removed == 0
        assert texts(memory) == {"tea for ever"}
        assert memory.verify().ok
    assert everywhere(home, "青花瓷") == []


def test_the_same_words_after_the_end_are_a_new_entry(memory: Memory, clock: FixedClock) -> None:
    write(memory, note("tea", "n1", ttl=60))
    clock.tick(hours=1)
    assert write(memory, note("tea", "n2")).id_map == {"n2": "n2"}
    assert found(memory) == ["n2"]


# --- links


def test_links_tell_neighbours_and_raise_hits_that_belong_together(memory: Memory) -> None:
    write(memory, note("green tea leaf", "a"), note("green tea cup", "b"), note("green tea pot", "c"))
    before = {hit.id: hit.score for hit in memory.search("green tea", **ME).hits}
    link = {"src_id": "a", "dst_id": "b", "rel_type": "USED_WITH", "weight": 0.5}
    write(memory, links=[link, {"src_id": "b", "dst_id": "c", "rel_type": "NEXT"}])
    result = memory.search("green tea", **ME)
    after = {hit.id: hit.score for hit in result.hits}
    assert all(after[id] == pytest.approx(before[id] + LINK_BOOST, abs=1e-5) for id in "abc")
    near = {(n.id, n.rel_type, n.direction, n.hops, n.weight) for n in result.neighbors["a"]}
    assert near == {("b", "USED_WITH", "out", 1, 0.5), ("c", "NEXT", "out", 2, 1.0)}
    assert {n.text for n in result.neighbors["b"]} == {"green tea leaf", "green tea pot"}
    assert "3 found" in result.hints
    assert result.trace["counts"] == {"hits": 3, "looked_at": 3, "left_out": 0, "boosted": 3, "neighbors": 6}
    assert {"embed", "dense", "graph", "total"} == result.trace["timings_ms"].keys()
    plain = memory.search("green tea", **ME, expand_graph=False)
    assert (plain.neighbors, plain.trace["routes"]) == ({}, ["embed", "dense"])
    assert {hit.id: hit.score for hit in plain.hits} == before


def test_how_far_links_are_followed_is_the_callers_choice(memory: Memory) -> None:
    names = "abcde"
    chain = [{"src_id": x, "dst_id": y, "rel_type": "NEXT"} for x, y in pairwise(names)]
    write(memory, *(note(f"step {n}", n) for n in names), links=chain)

    def near(**params: Any) -> list[str]:
        result = memory.search("step a", **ME, topk=1, graph_params=params)
        return [n.id for n in result.neighbors.get("a", ())]

    assert near() == ["b", "c", "d"]
    assert near(max_hops=1) == ["b"]
    assert near(neighbor_cap=2) == ["b", "c"]
    assert near(rel_types=["OTHER"]) == []
    for wrong in ({"max_hops": 4}, {"max_hops": 0}, {"hops": 1}, {"neighbor_cap": -1}):
        with pytest.raises(errors.InvalidArgument, match="graph_params"):
            near(**wrong)


def test_hits_can_be_kept_to_those_with_a_kind_of_link(memory: Memory) -> None:
    write(memory, *(note(f"tea number {n}", f"n{n}") for n in range(80)))
    write(memory, links=[{"src_id": "n7", "dst_id": "n70", "rel_type": "LIKE"}])
    assert set(found(memory, filters={"rel_types": ["LIKE", "x"]})) == {"n7", "n70"}
    assert len(memory.search("tea", **ME, topk=1, filters={"rel_types": ["LIKE"]}).hits) == 1
    assert found(memory, filters={"rel_types": ["like"]}) == found(memory, filters={"rel_types": []}) == []


def test_links_are_seen_by_those_who_see_both_ends(memory: Memory) -> None:
    link = {"src_id": "a", "dst_id": "b", "rel_type": "R"}
    write(memory, note("tea", "a", user_id=["pub"]), note("green tea", "b"), links=[link])
    assert memory.search("tea", **ME).neighbors.keys() == {"a", "b"}
    assert found(memory, who=BOB) == ["a"]
    assert memory.search("tea", **BOB).neighbors == {}


def test_undoing_a_write_takes_its_links_back(memory: Memory) -> None:
    link = {"src_id": "a", "dst_id": "b", "rel_type": "R", "weight": 0.25}
    write(memory, note("tea", "a"), note("green tea", "b"), links=[link])
    heavier = write(memory, links=[{**link, "weight": 0.75}])
    assert memory.search("tea", **ME).neighbors["a"][0].weight == 0.75
    memory.rollback(heavier.version, **ME)
    assert memory.search("tea", **ME).neighbors["a"][0].weight == 0.25
    more = write(memory, links=[{**link, "rel_type": "S"}])
    memory.rollback(more.version, **ME)
    assert [n.rel_type for n in memory.search("tea", **ME).neighbors["a"]] == ["R"]


def test_an_entry_links_to_what_a_session_said(memory: Memory) -> None:
    memory.session_write("t", "lin", "s", turns=[{"role": "user", "text": "I bought green tea"}], extract=False)
    turn = memory.bind("t", "lin").messages_list().items[0].message_id
    write(memory, note("Lin owns tea", "n1"), links=[{"src_id": "n1", "dst_id": turn, "rel_type": "FROM"}])
    near = memory.search("owns tea", **ME).neighbors["n1"]
    assert (near[0].id, near[0].kind, near[0].text) == (turn, "turn", "I bought green tea")


# --- found by strategies


def test_written_dialogue_is_found_like_a_session(memory: Memory) -> None:
    said = [
        {
            "id": f"t{n}",
            "kind": "episodic",
            "contents": [text],
            "metadata": {
                "memory_domain": "dialog",
                "run_id": "s1",
                "turn_id": n,
                "role": "user",
                "source": "conversation",
                "dedup_skip": True,
            },
        }
        for n, text in enumerate(["I went to Lisbon in May", "the tea there was green", "and then home"], 1)
    ]
    fact = note("Lin travelled to Lisbon", "f1", run_id="s1", source="mem0", source_turn_ids=[1, 2], fact_type="fact")
    stray = note("Lisbon is a city", "f2", run_id="s1", source="elsewhere")
    write(memory, *said, fact, stray, who={**ME})
    first = memory.retrieval("Lisbon", "t", "lin")
    by_source = {hit.source: [] for hit in first.hits}  # type: dict[str, list[str]]
    for hit in first.hits:
        by_source[hit.source].append(hit.id)
    assert by_source["fact_search"] == ["f1"], "a fact is one by its source"
    assert set(by_source["reference_trace"]) == {"t1", "t2"}
    assert by_source["event_search"] == ["t3"]
    fact_hit = next(hit for hit in first.hits if hit.id == "f1")
    assert [q.text for q in fact_hit.evidence] == ["I went to Lisbon in May", "the tea there was green"]
    assert fact_hit.entry.metadata["fact_type"] == "fact"
    second = memory.retrieval("When was Lin in Lisbon?", "t", "lin", strategy="dialog_v2")
    assert {"t1", "f1"} <= {hit.id for hit in second.hits}
    assert memory.retrieval("Lisbon", "t", "bob").hits == ()


def test_a_fact_finds_its_words_in_a_session_too(memory: Memory) -> None:
    memory.session_write("t", "lin", "s1", turns=[{"turn_id": "x", "role": "user", "text": "Lisbon!"}], extract=False)
    write(memory, note("Lin saw Lisbon", "f1", source_session_id="s1", source="mem0", source_turn_ids=["x"]))
    hits = {hit.source: hit for hit in memory.retrieval("saw Lisbon", "t", "lin").hits}
    assert hits["reference_trace"].entry.contents == ("Lisbon!",)


def test_markers_and_what_was_deleted_are_no_memories(memory: Memory) -> None:
    marker = note("session_marker s1", "m1", run_id="s1", source="dialog_session_marker", node_type="session_marker")
    write(memory, marker, note("session tea", "n1", source="mem0"), note("session cup", "n2", source="mem0"))
    memory.delete("n2", **ME)
    for strategy in ("dialog_v1", "dialog_v2"):
        assert [hit.id for hit in memory.retrieval("session", "t", "lin", strategy=strategy).hits] == ["n1"]
    assert found(memory, "session_marker s1") == ["n1"]
    assert found(memory, "session_marker s1", filters={"source": ["dialog_session_marker"], "run_id": "s1"}) == ["m1"]


def test_a_search_finds_what_sessions_hold_and_nothing_that_is_not_shown(memory: Memory) -> None:
    memory.session_write("t", "lin", "s", turns=[{"role": "user", "text": "我住在上海，喜欢绿茶。"}])
    hits = memory.search("绿茶", **ME).hits
    assert {hit.entry.kind for hit in hits} == {"episodic", "semantic"}
    assert not [hit for hit in hits if hit.entry.contents[0].startswith("session_marker")]
    assert found(memory, "绿茶", filters={"memory_type": ["episodic"], "run_id": "s"})


# --- truth


def test_a_rebuilt_index_holds_exactly_what_the_log_says(memory: Memory) -> None:
    write(memory, note("green tea", "n1"), note("a cup", "n2"), note("a pot", "n3"), links=[LINK])
    memory.update("n1", {"contents": ["black tea"]}, **ME)
    memory.delete("n3", **ME)
    before = memory.search("tea", **ME, topk=100)
    memory.rebuild()
    after = memory.search("tea", **ME, topk=100)
    assert (after.hits, after.neighbors) == (before.hits, before.neighbors)
    assert [v.op for v in memory.history("n3", **ME)] == ["delete", "write"]
    memory.rebuild(restart=True)
    assert memory.search("tea", **ME, topk=100).hits == before.hits


LINK = {"src_id": "n1", "dst_id": "n2", "rel_type": "R"}


def test_index_and_graph_that_are_lost_come_back_by_repair(home: Path, clock: FixedClock) -> None:
    with opened(home, clock) as memory:
        write(memory, note("green tea", "n1"), note("a cup", "n2"), links=[LINK])
        before = memory.search("tea", **ME)
    for name in ("index.db", "graph.db"):
        for path in home.glob(f"{name}*"):
            path.unlink()
        with opened(home, clock) as memory:
            told = memory.repair()
            assert bool([r for r in told.repairs if "entries" in r.where]) == (name == "index.db")
            assert memory.search("tea", **ME).neighbors == before.neighbors
            assert memory.search("tea", **ME).hits == before.hits
            assert [r for r in memory.repair().repairs if "entries" in r.where] == []


def test_what_was_logged_and_not_indexed_is_noticed_and_brought_up(home: Path, clock: FixedClock) -> None:
    with opened(home, clock) as memory:
        write(memory, note("green tea", "n1"))
    shutil.copy(home / "index.db", home.parent / "index.db")
    with opened(home, clock) as memory:
        write(memory, note("black tea", "n2"))
    for path in home.glob("index.db*"):
        path.unlink()
    shutil.copy(home.parent / "index.db", home / "index.db")
    with opened(home, clock) as memory:
        assert [n for n in memory.verify().notes if n.kind == "index_stale"]
        assert set(found(memory)) == {"n1", "n2"}, "the first question brings it up"
        assert memory.verify().notes == []


class Failing(HashEmbedder):
    """An embedder that does not answer while it is told not to."""

    down = False

    async def embed_texts(self, texts: Any, purpose: Purpose = "document") -> list[EmbeddingVector]:
        if self.down:
            raise EmbedderFailed
        return await super().embed_texts(texts, purpose)


def test_a_write_that_could_not_be_indexed_is_not_lost(home: Path, clock: FixedClock) -> None:
    embedder = Failing()
    with Memory(home, embedder=embedder, config=QUIET, clock=clock) as memory:
        write(memory, note("green tea", "n1"))
        embedder.down = True
        with pytest.raises(EmbedderFailed):
            write(memory, note("black tea", "n2"))
        embedder.down = False
        write(memory, note("black tea again", "n2"))
        assert [v.version for v in memory.history("n2", **ME)] == [3, 2]
        assert set(found(memory)) == {"n1", "n2"}


def test_two_memories_in_one_folder_keep_one_trail(home: Path, clock: FixedClock) -> None:
    with opened(home, clock) as one, opened(home, clock) as two:
        for n in range(5):
            write((one, two)[n % 2], note(f"tea {n}", "n1"))
        assert [v.version for v in one.history("n1", **ME)] == [5, 4, 3, 2, 1]
        assert texts(one) == texts(two) == {"tea 4"}


async def test_many_writers_at_once_lose_nothing(home: Path) -> None:
    async with AsyncMemory(home, embedder=HashEmbedder(), config=QUIET) as memory:
        done = await asyncio.gather(*(memory.write([note(f"tea {n}", f"n{n % 7}", n=n)], **ME) for n in range(40)))
        assert sorted(receipt.version for receipt in done) == list(range(1, 41))
        for n in range(7):
            versions = await memory.history(f"n{n}", **ME)
            assert len(versions) == len([x for x in range(40) if x % 7 == n])
        assert (await memory.verify()).ok


def test_an_exported_tenant_brings_its_entries_along(memory: Memory, tmp_path: Path, clock: FixedClock) -> None:
    write(memory, note("green tea", "n1"), note("a cup", "n2"), links=[LINK])
    memory.export(tmp_path / "all.zip", tenant_id="t")
    with opened(tmp_path / "other", clock) as other:
        other.import_archive(tmp_path / "all.zip")
        assert set(found(other)) == {"n1", "n2"}
        assert other.search("tea", **ME).neighbors.keys() == {"n1", "n2"}


# --- forgetting


def test_a_forgotten_person_leaves_none_of_their_entries(home: Path, clock: FixedClock) -> None:
    app = {**ME, "product_id": "app"}
    with opened(home, clock) as memory:
        write(memory, note("青花瓷 of mine", "n1"), note("tea for the app", "n2", user_id=["p:app"]), who=app)
        memory.update("n1", {"contents": ["青花瓷 still mine"]}, **app)
        write(memory, note("青花瓷 shared with me", "n3", user_id=["u:lin", "p:app"]), who=app, links=[
            {"src_id": "n1", "dst_id": "n2", "rel_type": "R"}
        ])  # fmt: skip
        write(memory, note("bob's tea", "n4"), who=BOB)
        receipt = memory.forget("t", "lin")
        assert receipt.complete
        assert (receipt.removed["entries"], receipt.removed["log_lines"]) == (2, 4)
        assert receipt.removed["cached_vectors"] >= 3
        assert found(memory, who=app) == ["n2"]
        assert found(memory, who=BOB) == ["n4"]
        assert memory.verify().ok
        memory.rebuild()
        assert found(memory, who=app) == ["n2"]
        write(memory, note("new tea", "n1"))
        assert [v.op for v in memory.history("n1", **ME)] == ["write"]
        assert memory.search("tea", **ME).neighbors == {}
    assert everywhere(home, "青花瓷") == []
    assert everywhere(home, "bob's tea")


def test_a_forgotten_tenant_starts_again_from_nothing(home: Path, clock: FixedClock) -> None:
    with opened(home, clock) as memory:
        write(memory, note("青花瓷", "n1"), note("tea", "n2"))
        receipt = memory.forget("t", everything=True)
        assert receipt.complete
        assert receipt.removed["log_lines"] == 2
        assert everywhere(home, "青花瓷") == []
        assert write(memory, note("new tea", "n3")).version == 1
        assert found(memory) == ["n3"]


def test_erasing_that_was_cut_off_is_finished_by_whoever_comes_next(
    home: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(home, clock) as memory:
        write(memory, note("青花瓷", "n1"), note("tea", "n2"))

        async def stop(*_: Any) -> int:
            raise errors.Unavailable("the power is gone")

        with monkeypatch.context() as cut:
            cut.setattr(type(memory.parts.archive), "forget_log", stop)
            with pytest.raises(errors.Unavailable):
                memory.delete("n1", soft=False, **ME)
        assert everywhere(home / "tenants", "青花瓷")
    with opened(home, clock) as memory:
        assert found(memory) == ["n2"]
    assert everywhere(home, "青花瓷") == []


def test_how_far_the_index_is_nobody_sees(memory: Memory) -> None:
    write(memory, note("tea", "n1"))

    async def seen() -> tuple[int, int]:
        index = memory.parts.index
        scopes = Scope.of("t", "lin", "log:entries", "log:entries"), Scope.steward_of("t")
        return (await index.count(scopes[0], Eq("kind", "entries_marker")),
                await index.count(scopes[1], Eq("kind", "entries_marker")))  # fmt: skip

    assert asyncio.run(seen()) == (0, 1)
