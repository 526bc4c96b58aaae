"""The temporal graph through the front door: told from outside, asked, explained to the words, decided, replayed."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from made_graph import SAID, edge, payload, span, state

from mnemon import AsyncMemory, Config, Memory
from mnemon.contracts.errors import Corrupt, InvalidArgument, NotFound, PermissionDenied
from mnemon.contracts.graph import Entity, Event, Evidence, GraphBatch, GraphPage, Saying, UtteranceEvidence
from mnemon.contracts.scope import Scope
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.graph import AsyncGraphView
from mnemon.pipelines.graph.replaying import outside_lines_of, replay
from mnemon.testing.clock import FixedClock

QUIET = Config(background_worker=False)
STEWARD = Scope.steward_of("t")


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(datetime(2026, 6, 1, tzinfo=UTC))


@pytest.fixture
async def memory(tmp_path: Path, clock: FixedClock) -> AsyncIterator[AsyncMemory]:
    async with AsyncMemory(
        tmp_path / "home", llm="rules", embedder=HashEmbedder(), config=QUIET, clock=clock
    ) as memory:
        yield memory


@pytest.fixture
async def ann(memory: AsyncMemory) -> AsyncGraphView:
    view = memory.graph("t", "ann")
    receipt = await view.upsert(payload())
    assert receipt.ok
    assert receipt.counts["edges"] == 7
    return view


def ids(page: GraphPage) -> list[str]:
    return [item.id for item in page.items]


async def approve(view: AsyncGraphView, *pair: str) -> str:
    (equiv,) = [e for e in await view.pending_equivs() if {e.entity_id, e.candidate_id} == set(pair)]
    return (await view.approve(equiv.id)).id


# --- asking


async def test_events_and_slices_are_listed_by_time(ann: AsyncGraphView) -> None:
    assert ids(await ann.events()) == ["moved", "visit", "tea"]
    assert ids(await ann.events(since="2026-03-02", until="2026-03-03T08:00:00Z")) == ["visit"]
    first = await ann.events(limit=2)
    assert ids(await ann.events(limit=2, cursor=first.next_cursor)) == ["tea"]
    assert (await ann.event("visit")).summary == "Tom Smith visited"
    assert ids(await ann.timeslices("2026-03-05", "2026-03-06")) == ["m"]
    assert ids(await ann.timeslices(kind="day")) == ["d"]


async def test_what_was_learnt_is_dated(ann: AsyncGraphView, clock: FixedClock) -> None:
    assert (await ann.event("visit")).created_at == clock.now()


async def test_a_name_resolves_to_whom_it_means_and_lists_whom_it_may_mean(ann: AsyncGraphView) -> None:
    found = await ann.resolve("TOM")
    assert found.entity is not None
    assert (found.entity.id, found.same_as) == ("tom", ("tom",))
    assert [(c.entity.id, c.reason) for c in found.candidates] == [("tom-smith", "part of the other name")]
    short = await ann.resolve("老王")
    assert short.entity is None
    assert [c.entity.id for c in short.candidates] == ["wang"]
    assert ids(await ann.entities("王小明")) == ["wang"]
    assert len((await ann.entities()).items) == 5


async def test_a_timeline_holds_what_somebody_does_and_where_they_are_named(ann: AsyncGraphView) -> None:
    assert ids(await ann.timeline("me")) == ["moved"]
    assert ids(await ann.timeline("tom")) == ["tea"]
    assert ids(await ann.timeline("wang", until="2026-03-01")) == []


async def test_evidences_are_the_exact_words(ann: AsyncGraphView) -> None:
    found = (await ann.evidences("tom-smith")).items
    assert [(e.utterance_id, e.text) for e in found if isinstance(e, Evidence)] == [("u2", "Tom Smith")]


@pytest.mark.parametrize("limit", [0, 501])
async def test_a_page_has_a_size(ann: AsyncGraphView, limit: int) -> None:
    with pytest.raises(InvalidArgument):
        await ann.events(limit=limit)


async def test_what_is_not_there_is_not_found_and_a_wrong_time_is_named(ann: AsyncGraphView) -> None:
    for asked in (ann.event("nothing"), ann.event("tom"), ann.timeline("moved"), ann.explain_knowledge("moved")):
        with pytest.raises(NotFound):
            await asked
    with pytest.raises(InvalidArgument) as error:
        await ann.events(since="yesterday")
    assert error.value.field == "since"


# --- why


async def test_knowledge_is_explained_down_to_the_words(ann: AsyncGraphView) -> None:
    told = await ann.explain_knowledge("lives")
    assert told.knowledge is not None
    assert told.knowledge.summary == "Ann lives in Hangzhou"
    assert [e.event.id for e in told.events] == ["moved"]
    (own,) = told.utterances
    assert [q.text_exact for q in own.quotes] == ["搬到杭州", "杭州"]
    (said,) = told.events[0].utterances
    assert [q.text_exact for q in said.quotes] == ["我搬到杭州了"]
    for quoted in (own, said):
        for q in quoted.quotes:
            assert quoted.utterance.raw_text[q.span_start : q.span_end] == q.text_exact
    assert [e.id for e in told.entities] == ["wang"]


async def test_an_event_is_explained_with_what_follows_from_it(ann: AsyncGraphView) -> None:
    told = await ann.explain_event("moved")
    assert [k.id for k in told.known] == ["lives"]
    assert [q.text_exact for q in told.events[0].utterances[0].quotes] == ["我搬到杭州了"]
    whole = (await ann.explain_event("visit")).events[0].utterances[0]
    assert [q.text_exact for q in whole.quotes] == [SAID["u2"]]


async def test_words_that_do_not_stand_there_are_corrupt(memory: AsyncMemory, ann: AsyncGraphView) -> None:
    whose = {"user_id": ("u:ann",), "memory_domain": "dialog"}
    cut = UtteranceEvidence(
        id="u1", raw_text="我搬到苏州了，和王小明一起住。", created_at=datetime(2027, 1, 1, tzinfo=UTC), **whose
    )
    await memory.parts.graph.put(STEWARD, [Saying("tampered", GraphBatch(utterances=(cut,)))])
    with pytest.raises(Corrupt):
        await ann.explain_knowledge("lives")
    shorter = cut.model_copy(update={"raw_text": "我"})
    await memory.parts.graph.put(STEWARD, [Saying("tampered", GraphBatch(utterances=(shorter,)))])
    with pytest.raises(Corrupt):
        await ann.explain_event("moved")


async def test_what_a_session_says_is_explained_too(memory: AsyncMemory) -> None:
    turns = [{"turn_id": "t1", "role": "user", "text": "我对花生过敏。", "timestamp_iso": "2026-03-09T11:03:10Z"}]
    written = await memory.session_write("t", "ann", "s", turns=turns)
    view = memory.graph("t", "ann")
    (claim,) = written.claims
    told = await view.explain_knowledge(claim.claim_id)
    assert [q.text_exact for u in told.utterances for q in u.quotes] == [s.text_exact for s in claim.spans]
    assert [u.utterance.raw_text for e in told.events for u in e.utterances] == ["我对花生过敏。"]


# --- what held when


async def test_states_are_bitemporal(ann: AsyncGraphView) -> None:
    assert [h.state.value for h in await ann.states_current("me")] == ["杭州"]
    assert [h.state.value for h in await ann.states_at("me", "2025-06-01")] == ["Rome"]
    assert [h.state.value for h in await ann.states_current("me", known_at="2026-02-01")] == ["Rome"]
    assert await ann.states_current("me", property="job") == ()
    changes = await ann.states_changes("me", since="2026-01-01")
    assert [(c.from_value, c.to_value) for c in changes] == [("Rome", "杭州")]
    assert len(await ann.states_changes("me", until="2026-01-01")) == 1


# --- who is one


async def test_likely_names_wait_until_somebody_decides_and_can_be_parted_again(ann: AsyncGraphView) -> None:
    pending = {frozenset((e.entity_id, e.candidate_id)): e for e in await ann.pending_equivs()}
    assert pending.keys() == {frozenset(("tom", "tom-smith")), frozenset(("wang", "xiaowang"))}
    assert ids(await ann.timeline("tom")) == ["tea"]

    equiv = await approve(ann, "tom", "tom-smith")
    assert len(await ann.pending_equivs()) == 1
    for name in ("tom", "tom-smith"):
        assert ids(await ann.timeline(name)) == ["visit", "tea"]
        assert [e.text for e in (await ann.evidences(name)).items if isinstance(e, Evidence)] == ["Tom Smith", "Tom"]
    found = await ann.resolve("tom smith")
    assert found.entity is not None
    assert set(found.same_as) == {"tom", "tom-smith"}
    assert {found.entity.name, *found.entity.aliases} == {"Tom", "Tom Smith"}
    assert found.candidates == ()

    assert (await ann.reject(equiv)).status == "rejected"
    assert ids(await ann.timeline("tom")) == ["tea"]
    assert (await ann.resolve("tom")).candidates == ()
    assert len(await ann.pending_equivs()) == 1
    with pytest.raises(NotFound):
        await ann.approve("nothing")


async def test_states_of_two_who_are_one_are_ones(ann: AsyncGraphView) -> None:
    late = {**state("s3", "Oslo", "2026-05-01T00:00:00Z"), "subject_id": "annie"}
    other = {"id": "annie", "name": "Ann Lee", "type": "person"}
    whose = {"user_id": ["u:ann"], "memory_domain": "dialog"}
    await ann.upsert({"entities": [{**other, **whose}], "states": [{**late, **whose}]})
    assert [h.state.value for h in await ann.states_current("me")] == ["杭州"]
    await approve(ann, "me", "annie")
    for subject in ("me", "annie"):
        assert [h.state.value for h in await ann.states_current(subject)] == ["Oslo"]
    assert [c.to_value for c in await ann.states_changes("me")] == ["Rome", "杭州", "Oslo"]


async def test_equal_names_are_one_among_the_same_people_only(memory: AsyncMemory, ann: AsyncGraphView) -> None:
    twin = {"id": "tom-2", "name": "  tom", "aliases": ["T."], "memory_domain": "dialog"}
    await ann.upsert({"entities": [{**twin, "user_id": ["u:ann"]}]})
    assert set((await ann.resolve("Tom")).same_as) == {"tom", "tom-2"}
    public = {**twin, "id": "tom-3", "user_id": ["pub"]}
    await memory.graph_upsert({"entities": [public]}, "t", "mallory")
    found = await ann.resolve("Tom")
    assert found.entity is None
    assert {c.entity.id for c in found.candidates if c.reason == "called so"} == {"tom", "tom-3"}
    assert ids(await ann.timeline("tom-3")) == []
    assert not [e for e in await ann.pending_equivs() if "tom-3" in (e.entity_id, e.candidate_id)]


async def test_an_equivalence_from_outside_waits_too_but_never_reaches_across(
    memory: AsyncMemory, ann: AsyncGraphView
) -> None:
    whose = {"user_id": ["u:ann"], "memory_domain": "dialog"}
    told = {"id": "pe", "entity_id": "me", "candidate_id": "wang", "reason": "a hunch", **whose}
    await ann.upsert({"pending_equivs": [told]})
    assert "pe" in [e.id for e in await ann.pending_equivs()]
    await ann.approve("pe")
    assert set((await ann.resolve("Ann")).same_as) == {"me", "wang"}
    await ann.reject("pe")
    assert (await ann.resolve("Ann")).same_as == ("me",)
    await memory.graph_upsert(
        {"entities": [{"id": "pub-1", "name": "X", "user_id": ["pub"], "memory_domain": "dialog"}]}, "t", "bob"
    )
    await ann.upsert({"pending_equivs": [{**told, "id": "across", "candidate_id": "pub-1"}]})
    assert "across" not in [e.id for e in await ann.pending_equivs()]
    with pytest.raises(NotFound):
        await ann.approve("across")


# --- from outside


def without(*path: str) -> dict[str, Any]:
    made = payload()
    made[path[0]][-1].pop(path[1])
    return made


def changed(name: str, **values: Any) -> dict[str, Any]:
    made = copy.deepcopy(payload())
    made[name][-1] |= values
    return made


@pytest.mark.parametrize(
    ("given", "reason", "item"),
    [
        (without("events", "user_id"), "graph_scope_missing", "event tea"),
        (without("edges", "memory_domain"), "graph_scope_missing", "edge moved MENTIONS wang"),
        (changed("states", user_id=[]), "graph_scope_missing", "state s2"),
        (changed("entities", user_id=["u:ann", "p:app"]), "graph_scope_mismatch", "entity xiaowang"),
        (changed("knowledge", memory_domain="other"), "graph_scope_mismatch", "knowledge lives"),
        (changed("edges", rel_type="LIKES"), "graph_rel_type", "edge moved LIKES wang"),
        (changed("evidences", text="Tim Smith"), "graph_evidence_mismatch", "evidence ev u2 Tom Smith"),
        (changed("evidences", span_end=999), "graph_evidence_mismatch", "evidence ev u2 Tom Smith"),
        (changed("evidences", utterance_id="u9"), "graph_evidence_missing", "evidence ev u2 Tom Smith"),
        (
            changed("edges", evidence=[{"utterance_id": "u1", "span_start": 3, "span_end": 3}]),
            "graph_evidence_mismatch",
            "edge moved MENTIONS wang",
        ),
        (
            {
                "pending_equivs": [
                    {
                        "id": "p",
                        "entity_id": "a",
                        "candidate_id": "b",
                        "status": "approved",
                        "user_id": ["u:ann"],
                        "memory_domain": "d",
                    }
                ]
            },
            "graph_equiv_decided",
            "pending_equiv p",
        ),
    ],
)
async def test_what_does_not_hold_together_is_refused_whole_and_named(
    memory: AsyncMemory, given: dict[str, Any], reason: str, item: str
) -> None:
    with pytest.raises(InvalidArgument) as error:
        await memory.graph_upsert(given, "t", "ann", product_id="app")
    assert (error.value.details["reason"], error.value.details["item"]) == (reason, item)
    assert await memory.parts.graph.count(STEWARD) == {"edges": 0}
    assert await memory.parts.archive.read_log(STEWARD, "ledger") == []


@pytest.mark.parametrize(
    "given", [payload("u:bob"), payload("u:ann", "u:bob"), payload("u:*"), changed("events", tenant_id="t2")]
)
async def test_nobody_writes_for_somebody_else(memory: AsyncMemory, given: dict[str, Any]) -> None:
    with pytest.raises(PermissionDenied):
        await memory.graph_upsert(given, "t", "ann")
    assert await memory.parts.graph.count(STEWARD) == {"edges": 0}


async def test_a_form_that_is_not_the_wires_is_named(memory: AsyncMemory) -> None:
    for given, where in (
        ({"event": []}, "event"),
        ({"events": [{"id": "x", "colour": "red"}]}, "events.0"),
        ({"states": [{"id": "x", "valid_from": "soon"}]}, "states.0"),
    ):
        with pytest.raises(InvalidArgument) as error:
            await memory.graph_upsert(given, "t", "ann")
        assert error.value.field.startswith(where)


async def test_nothing_given_is_nothing_done(memory: AsyncMemory) -> None:
    assert (await memory.graph_upsert({}, "t", "ann")).counts == {}
    assert await memory.parts.archive.read_log(STEWARD, "ledger") == []


async def test_words_that_are_stored_are_never_rewritten_but_may_be_cited(ann: AsyncGraphView) -> None:
    whose = {"user_id": ["u:ann"], "memory_domain": "dialog"}
    with pytest.raises(InvalidArgument) as error:
        await ann.upsert({"utterances": [{"id": "u1", "raw_text": "something else", **whose}]})
    assert error.value.details["reason"] == "graph_words_differ"
    later = {**edge("tea", "SUPPORTED_BY", "u3", span("u3", "likes tea")), **whose}
    assert (await ann.upsert({"edges": [later]})).counts == {"edges": 1}
    told = await ann.explain_event("tea")
    assert [q.text_exact for q in told.events[0].utterances[0].quotes] == ["likes tea"]


async def test_the_same_upsert_again_changes_nothing(memory: AsyncMemory, ann: AsyncGraphView) -> None:
    before = await memory.parts.graph.count(STEWARD)
    await ann.upsert(GraphBatch.model_validate(payload()))
    assert await memory.parts.graph.count(STEWARD) == before


# --- isolation


async def test_nobody_sees_or_touches_anothers_graph(memory: AsyncMemory, ann: AsyncGraphView) -> None:
    await approve(ann, "tom", "tom-smith")
    for stranger in (
        memory.graph("t", "bob"),
        memory.graph("t2", "ann"),
        memory.graph("t", "*"),
        memory.graph("t", "ANN"),
    ):
        assert ids(await stranger.events()) == []
        assert ids(await stranger.entities()) == []
        assert (await stranger.resolve("Tom")).entity is None
        assert await stranger.pending_equivs() == ()
        for asked in (
            stranger.event("moved"),
            stranger.timeline("tom"),
            stranger.evidences("tom"),
            stranger.explain_knowledge("lives"),
            stranger.states_current("me"),
        ):
            with pytest.raises(NotFound):
                await asked


async def test_an_edge_that_anybody_may_write_is_no_evidence_of_mine(memory: AsyncMemory, ann: AsyncGraphView) -> None:
    whose = {"user_id": ["pub"], "memory_domain": "dialog"}
    lies = {
        "utterances": [{"id": "lie", "raw_text": "Ann stole it", **whose}],
        "events": [
            {"id": "theft", "summary": "Ann stole it", "t_abs_start": "2026-03-05T00:00:00Z", "actor_id": "me", **whose}
        ],
        "states": [{**state("s9", "jail", "2026-05-01T00:00:00Z"), **whose}],
        "edges": [
            {**edge("lives", "SUPPORTED_BY", "lie"), **whose},
            {**edge("moved", "SUPPORTED_BY", "lie"), **whose},
            {**edge("theft", "INVOLVES", "me"), **whose},
            {**edge("lives", "DERIVED_FROM", "theft"), **whose},
        ],
    }
    await memory.graph_upsert(lies, "t", "mallory")
    told = await ann.explain_knowledge("lives")
    assert [u.utterance.id for u in told.utterances] == ["u1"]
    assert [(e.event.id, len(e.utterances)) for e in told.events] == [("moved", 1)]
    assert ids(await ann.timeline("me")) == ["moved"]
    assert [h.state.value for h in await ann.states_current("me")] == ["杭州"]


async def test_what_others_decide_among_themselves_says_nothing_of_mine(
    memory: AsyncMemory, ann: AsyncGraphView
) -> None:
    mallory = memory.graph("t", "mallory")
    whose = {"user_id": ["pub"], "memory_domain": "dialog"}
    same_ids = [{"id": "tom", "name": "Tom", **whose}, {"id": "tom-smith", "name": "Tom Smith", **whose}]
    await mallory.upsert({"entities": same_ids})
    await approve(mallory, "tom", "tom-smith")
    assert set((await mallory.resolve("Tom")).same_as) == {"tom", "tom-smith"}
    assert ids(await ann.timeline("tom")) == ["tea"]
    assert (await ann.resolve("Tom")).same_as == ("tom",)
    assert frozenset(("tom", "tom-smith")) in {
        frozenset((e.entity_id, e.candidate_id)) for e in await ann.pending_equivs()
    }


async def test_what_is_over_or_not_published_is_not_seen(memory: AsyncMemory, clock: FixedClock) -> None:
    given = changed("events", expires_at="2026-06-02T00:00:00Z")
    given["events"][0]["published"] = False
    view = memory.graph("t", "ann")
    await view.upsert(given)
    assert ids(await view.events()) == ["visit", "tea"]
    clock.tick(days=1)
    assert ids(await view.events()) == ["visit"]
    assert (await view.explain_knowledge("lives")).events == ()


# --- the ledger


async def test_repair_tells_the_graph_what_only_the_ledger_holds(memory: AsyncMemory, ann: AsyncGraphView) -> None:
    await approve(ann, "tom", "tom-smith")
    before = [await ann.events(), await ann.entities(), await ann.pending_equivs(), await ann.resolve("Tom")]
    await memory.parts.graph.erase(STEWARD)
    await memory.repair()
    assert [await ann.events(), await ann.entities(), await ann.pending_equivs(), await ann.resolve("Tom")] == before


async def test_the_ledger_brings_everything_back(memory: AsyncMemory, ann: AsyncGraphView) -> None:
    graph, archive = memory.parts.graph, memory.parts.archive
    await approve(ann, "tom", "tom-smith")
    before = [await ann.events(), await ann.entities(), await ann.timeline("tom"), await ann.pending_equivs()]
    told = await ann.explain_knowledge("lives")
    assert await graph.erase(STEWARD) > 0
    assert ids(await ann.events()) == []
    assert await replay(archive, graph, "t") == 2
    assert await replay(archive, graph, "t") == 2
    assert [await ann.events(), await ann.entities(), await ann.timeline("tom"), await ann.pending_equivs()] == before
    assert await ann.explain_knowledge("lives") == told


async def test_the_ledger_speaks_of_decisions_without_names(memory: AsyncMemory, ann: AsyncGraphView) -> None:
    await approve(ann, "tom", "tom-smith")
    line = (await memory.parts.archive.read_log(STEWARD, "ledger"))[-1].body
    assert line.keys() == {"op", "status", "entity_id", "candidate_id", "user_id", "memory_domain"}


async def test_the_lines_that_hold_somebodys_words_are_found(memory: AsyncMemory, ann: AsyncGraphView) -> None:
    await memory.graph_upsert(payload("u:bob"), "t", "bob")
    await approve(ann, "tom", "tom-smith")
    archive = memory.parts.archive
    assert await outside_lines_of(archive, "t", "u:ann") == [1, 3]
    assert await outside_lines_of(archive, "t", "u:bob") == [2]
    assert await outside_lines_of(archive, "t") == [1, 2, 3]
    assert await outside_lines_of(archive, "t", "u:an") == []


async def test_what_the_ledger_no_longer_holds_does_not_come_back(memory: AsyncMemory, ann: AsyncGraphView) -> None:
    graph = memory.parts.graph
    await ann.upsert({"entities": [{"id": "new", "name": "Zoe", "user_id": ["u:ann"], "memory_domain": "dialog"}]})
    await graph.put(
        STEWARD, [Saying("outside:gone", GraphBatch(events=(Event(id="gone", summary="", user_id=("u:x",)),)))]
    )
    assert await replay(memory.parts.archive, graph, "t") == 2
    assert await graph.get(STEWARD, ["gone"]) == []
    assert [e.name for e in (await ann.entities("zoe")).items if isinstance(e, Entity)] == ["Zoe"]


def test_the_sync_face_answers_alike(tmp_path: Path) -> None:
    with Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=QUIET) as memory:
        assert memory.graph_upsert(payload(), "t", "ann").ok
        view = memory.graph("t", "ann")
        assert ids(view.events()) == ["moved", "visit", "tea"]
        assert view.scope == Scope.of("t", "ann", agent_id="default")
        assert view.explain_knowledge("lives").knowledge is not None
