"""What a session says of the graph: every claim down to the words, what held when, and nothing that was forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mnemon import Config, Memory
from mnemon.contracts.errors import NotFound, Unavailable
from mnemon.contracts.graph import GraphAsk, GraphEdge
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.graph.sqlite import SqliteGraph
from mnemon.logic.ids import turn_id
from mnemon.testing.clock import FixedClock

STEWARD = Scope.steward_of("acme")
TURNS = [
    {"turn_id": "t1", "role": "user", "speaker": "Ann", "timestamp_iso": "2025-03-01T10:00:00+08:00",
     "text": "I live in Berlin and I work at Siemens. My sister Lea is a doctor."},
    {"turn_id": "t2", "role": "assistant", "timestamp_iso": "2025-03-01T10:01:00+08:00", "text": "Good to know!"},
    {"turn_id": "t3", "role": "user", "speaker": "Ann", "timestamp_iso": "2025-03-01T10:02:00+08:00",
     "text": "我喜欢喝绿茶。昨天我去了杭州。"},
]  # fmt: skip


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    config = Config(background_worker=False)
    with Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=config, clock=FixedClock()) as made:
        yield made


def say(memory: Memory, session: str, *texts: str, at: str = "2025-03-01T10:00:00Z", **options: Any) -> Any:
    turns = [
        {"turn_id": f"{session}-{n}", "role": "user", "speaker": "Ann", "timestamp_iso": at, "text": text}
        for n, text in enumerate(texts)
    ]
    return memory.session_write("acme", "ann", session, turns=turns, **options)


def run(memory: Memory, work: Any) -> Any:
    return memory._loop.run(work)


def everything(memory: Memory) -> tuple[dict[str, Any], set[tuple[Any, ...]]]:
    """The whole graph of the tenant: items by id, and edges."""

    async def read() -> Any:
        graph = memory.parts.graph
        items: dict[str, Any] = {}
        kinds = ("segment", "utterance", "evidence", "entity", "event", "time_slice", "state", "knowledge")
        for kind in kinds:
            page = await graph.find(STEWARD, GraphAsk(kind, limit=500))
            assert page.next_cursor is None
            items |= {item.id: item for item in page.items}
        edges: list[GraphEdge] = await graph.edges(STEWARD, list(items), limit=5000)
        return items, {(e.src_id, e.rel_type, e.dst_id, e.evidence, e.published) for e in edges}

    result: tuple[dict[str, Any], set[tuple[Any, ...]]] = run(memory, read())
    return result


def test_every_claim_is_explained_down_to_the_words(memory: Memory) -> None:
    result = memory.session_write("acme", "ann", "s1", turns=TURNS)
    assert result.debug["graph_upsert_status"] == "ok"
    texts = {t["turn_id"]: t["text"] for t in TURNS}
    view = memory.graph("acme", "ann")
    assert result.claims
    for claim in result.claims:
        why = view.explain_knowledge(claim.claim_id)
        assert why.knowledge is not None
        assert why.knowledge.summary == claim.statement
        quoted = [(u.utterance, q) for u in why.utterances for q in u.quotes]
        assert {(s.turn_id, s.start, s.end, s.text_exact) for s in claim.spans} == {
            (u.turn_id, q.span_start, q.span_end, q.text_exact) for u, q in quoted
        }
        assert all(q.text_exact == texts[u.turn_id][q.span_start : q.span_end] for u, q in quoted)
        said_in = {u.utterance.turn_id for e in why.events for u in e.utterances}
        assert said_in == set(claim.source_turn_ids), "by way of the events it was derived from"


def test_edges_of_every_kind_join_what_is_there_and_carry_their_words(memory: Memory) -> None:
    memory.session_write("acme", "ann", "s1", turns=TURNS)
    say(memory, "s2", "I live in Munich now.", at="2025-06-01T10:00:00Z")
    items, edges = everything(memory)
    kinds = {edge[1] for edge in edges}
    assert kinds == {
        "CONTAINS_EVIDENCE", "TEMPORALLY_CONTAINS", "SPOKEN_BY", "OCCURS_AT", "SUPPORTED_BY", "DERIVED_FROM",
        "INVOLVES", "MENTIONS", "NEXT_EVENT", "STATED_BY", "SUPERSEDES",
    }  # fmt: skip
    for src, rel, dst, evidence, _ in edges:
        assert src in items, rel
        assert dst in items, rel
        for pointer in evidence:
            assert items[pointer.utterance_id].raw_text[pointer.span_start : pointer.span_end]
        assert evidence or rel in ("TEMPORALLY_CONTAINS", "NEXT_EVENT")


def test_only_what_is_remembered_is_told(memory: Memory) -> None:
    memory.session_write("acme", "ann", "s1", turns=TURNS)
    items, _ = everything(memory)
    said = [i.turn_id for i in items.values() if i.kind == "utterance"]
    assert sorted(said) == ["t1", "t3"], "the assistant's politeness is in the archive, not in the graph"


def test_a_day_is_the_day_of_whoever_spoke(memory: Memory) -> None:
    turn = {"turn_id": "t1", "role": "user", "text": "我喜欢喝绿茶。", "timestamp_iso": "2025-03-02T00:30:00+08:00"}
    memory.session_write("acme", "ann", "s1", turns=[turn])
    view = memory.graph("acme", "ann")
    assert [e.time_bucket for e in view.events().items] == [("2025-03-02", "2025-03")]
    (month,) = view.timeslices("2025-03-02T00:00:00Z", "2025-03-03T00:00:00Z", "month").items
    assert month.t_abs_start == datetime(2025, 2, 28, 16, tzinfo=UTC)


def test_what_held_when_and_what_was_known_when(tmp_path: Path) -> None:
    clock = FixedClock(datetime(2025, 3, 2, tzinfo=UTC))
    config = Config(background_worker=False)
    with Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=config, clock=clock) as memory:
        say(memory, "s1", "I live in Berlin.", at="2025-03-01T10:00:00Z")
        clock.tick(days=100)
        say(memory, "s2", "I live in Munich.", at="2025-06-01T10:00:00Z")
        view = memory.graph("acme", "ann")
        ann = view.resolve("ann").entity
        assert ann is not None

        def lives(states: Any) -> list[str]:
            return [s.state.raw_value for s in states]

        assert lives(view.states_current(ann.id, "residence")) == ["I live in Munich"]
        assert lives(view.states_at(ann.id, "2025-04-01T00:00:00Z", "residence")) == ["I live in Berlin"]
        assert lives(view.states_at(ann.id, "2025-02-01T00:00:00Z", "residence")) == []
        as_known = view.states_at(ann.id, "2025-06-05T00:00:00Z", "residence", known_at="2025-06-05T00:00:00Z")
        assert lives(as_known) == ["I live in Berlin"], "the move was told on the 10th"
        moves = view.states_changes(ann.id, "residence")
        assert [(m.from_value, m.to_value) for m in moves] == [
            (None, "Ann lives in Berlin"), ("Ann lives in Berlin", "Ann lives in Munich")
        ]  # fmt: skip
        assert [m.changed_at.month for m in moves] == [3, 6]


def test_an_appended_turn_goes_on_where_the_graph_was(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    say(memory, "s1", "I live in Berlin.", "我喜欢喝绿茶。")
    told: list[int] = []
    put = SqliteGraph.put

    async def counting(self: Any, scope: Any, sayings: Any) -> Any:
        told.extend(len(s.batch.utterances) for s in sayings if s.origin.startswith("turns:"))
        return await put(self, scope, sayings)

    monkeypatch.setattr(SqliteGraph, "put", counting)
    turn = {"turn_id": "more", "role": "user", "text": "I work at Bosch.", "timestamp_iso": "2025-03-02T10:00:00Z"}
    memory.session_write("acme", "ann", "s1", turns=[turn], mode="append")
    assert told == [1]
    monkeypatch.undo()
    events = sorted(memory.graph("acme", "ann").events().items, key=lambda e: (e.t_abs_start, e.source_turn_ids))
    _, edges = everything(memory)
    after = {src: dst for src, rel, dst, *_ in edges if rel == "NEXT_EVENT"}
    assert [after.get(e.id) for e in events] == [events[1].id, events[2].id, None]


def test_told_turn_by_turn_or_at_once_or_anew_it_is_the_same_graph(tmp_path: Path) -> None:
    graphs = []
    for way in ("at once", "turn by turn", "anew"):
        config = Config(background_worker=False)
        with Memory(tmp_path / way, llm="rules", embedder=HashEmbedder(), config=config, clock=FixedClock()) as memory:
            if way == "turn by turn":
                for turn in TURNS:
                    memory.session_write("acme", "ann", "s1", turns=[turn], mode="append")
            else:
                memory.session_write("acme", "ann", "s1", turns=TURNS)
            if way == "anew":
                run(memory, memory.parts.graph.erase(STEWARD))
                assert everything(memory) == ({}, set())
                memory.rebuild()
            graphs.append(everything(memory))
    assert graphs[0] == graphs[1] == graphs[2]


def test_a_long_session_is_told_in_pieces_and_seen_as_a_whole(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemon.pipelines.graph.projection._BATCH", 2)
    say(memory, "s1", *(f"I like tea number {n}." for n in range(7)), extract=False)
    items, edges = everything(memory)
    assert sum(i.kind == "utterance" for i in items.values()) == 7
    assert all(i.published for i in items.values())
    assert all(edge[-1] for edge in edges)
    assert sum(edge[1] == "NEXT_EVENT" for edge in edges) == 6


def test_words_that_nobody_asked_to_keep_are_there_for_the_claims_they_prove(memory: Memory) -> None:
    result = say(memory, "s1", "I live in Berlin.", "好的好的", write_events=False)
    items, _ = everything(memory)
    assert [i.raw_text for i in items.values() if i.kind == "utterance"] == ["I live in Berlin."]
    assert memory.graph("acme", "ann").explain_knowledge(result.claims[0].claim_id).events


def test_a_claim_said_again_is_further_evidence_not_a_second_piece_of_knowledge(memory: Memory) -> None:
    first = say(memory, "s1", "我对花生过敏。").claims[0]
    say(memory, "s2", "我对花生过敏。", at="2025-04-01T10:00:00Z")
    why = memory.graph("acme", "ann").explain_knowledge(first.claim_id)
    assert len({u.utterance.segment_id for u in why.utterances}) == 2
    items, _ = everything(memory)
    assert sum(i.kind == "knowledge" for i in items.values()) == 1


# --- what is not told, and what is taken back


def test_without_graph_upsert_nothing_is_told_and_repair_leaves_it_so(memory: Memory) -> None:
    result = say(memory, "s1", "I live in Berlin.", graph_upsert=False)
    assert result.debug["graph_upsert_status"] == "skipped"
    assert memory.repair().reindexed_sessions == 0
    assert everything(memory) == ({}, set())
    again = say(memory, "s1", "I live in Berlin.", overwrite_existing=True)
    assert again.debug["graph_upsert_status"] == "ok"
    assert everything(memory)[0]
    say(memory, "s1", "I live in Berlin.", overwrite_existing=True, graph_upsert=False)
    assert everything(memory) == ({}, set())


def test_what_is_forgotten_leaves_the_graph(memory: Memory, tmp_path: Path) -> None:
    kept = say(memory, "s1", "I live in Berlin.")
    say(memory, "s2", "My sister Zaphod is a doctor.")
    gone = memory.claims("acme", "ann", session_id="s2").items[0]
    memory.forget("acme", "ann", claim_id=gone.claim_id)
    view = memory.graph("acme", "ann")
    with pytest.raises(NotFound):
        view.explain_knowledge(gone.claim_id)
    assert not view.entities("Zaphod").items
    key = SessionKey("acme", Owner.user("ann"), "s2")
    assert not run(memory, memory.parts.graph.get(STEWARD, [turn_id(key, "s2-0")]))
    assert b"Zaphod" not in (tmp_path / "graph.db").read_bytes()
    assert view.explain_knowledge(kept.claims[0].claim_id)
    assert memory.forget("acme", "ann", session_id="s1").removed["graph_rows"]
    assert everything(memory) == ({}, set())


def test_repair_tells_the_graph_what_it_lacks_and_takes_away_what_is_lost(memory: Memory) -> None:
    say(memory, "s1", "I live in Berlin.")
    before = everything(memory)
    run(memory, memory.parts.graph.erase(STEWARD))
    assert memory.repair().reindexed_sessions == 1
    assert everything(memory) == before
    folder = next(Path(memory.parts.home).rglob("sessions/s1"))
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    assert any("graph" in r.what for r in memory.repair().repairs)
    assert everything(memory) == ({}, set())


# --- 001 §6.2.3


class Down:
    """A graph that does not answer while it is down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.down = True
        put = SqliteGraph.put

        async def refuse(graph: Any, *args: Any) -> Any:
            if self.down:
                raise Unavailable("the graph is away")
            return await put(graph, *args)

        monkeypatch.setattr(SqliteGraph, "put", refuse)


def test_best_effort_completes_without_the_graph_and_the_same_call_makes_it_good(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Down(monkeypatch)
    first = say(memory, "s1", "I live in Berlin.")
    assert first.status == "ok"
    assert first.counts["facts_written"] == 1
    assert (first.debug["graph_upsert_status"], first.debug["graph_error"]) == ("failed", "the graph is away")
    assert "graph_pending" in {d.what for d in first.degraded}
    assert memory.claims("acme", "ann").items, "what matters is there"
    still = say(memory, "s1", "I live in Berlin.")
    assert (still.status, still.debug["graph_upsert_status"]) == ("skipped_existing", "failed")
    graph.down = False
    again = say(memory, "s1", "I live in Berlin.")
    assert (again.status, again.debug["graph_upsert_status"]) == ("skipped_existing", "ok")
    assert memory.graph("acme", "ann").explain_knowledge(first.claims[0].claim_id).events


def test_the_worker_makes_it_good_too(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Down(monkeypatch)
    first = say(memory, "s1", "I live in Berlin.")
    graph.down = False
    memory.parts.clock.tick(hours=1)  # type: ignore[attr-defined]
    assert memory.run_jobs().succeeded == 1
    assert memory.graph("acme", "ann").explain_knowledge(first.claims[0].claim_id).events


@pytest.mark.parametrize("extract", [True, False])
def test_require_fails_the_session_until_the_graph_takes_it(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, extract: bool
) -> None:
    graph = Down(monkeypatch)
    first = say(memory, "s1", "I live in Berlin.", graph_policy="require", extract=extract)
    assert first.status == "failed"
    assert first.error_reason is not None
    assert "graph" in first.error_reason
    assert first.debug["graph_upsert_status"] == "failed"
    key = SessionKey("acme", Owner.user("ann"), "s1")
    page = run(memory, memory.parts.archive.read_session(STEWARD, key))
    assert page.status == "failed"
    assert not memory.retrieval("Berlin", "acme", "ann").hits
    graph.down = False
    again = say(memory, "s1", "I live in Berlin.", graph_policy="require", extract=extract)
    assert (again.status, again.debug["graph_upsert_status"]) == ("ok", "ok")
    assert len(memory.claims("acme", "ann").items) == extract, "and nothing twice"
    items, edges = everything(memory)
    assert sum(i.kind == "utterance" for i in items.values()) == 1
    assert all(i.published for i in items.values())
    assert all(edge[-1] for edge in edges)


def test_what_is_staged_is_seen_by_nobody_before_the_page_is_written(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    write = type(memory.parts.archive).write_session

    async def looking(archive: Any, scope: Any, record: Any, expect: int) -> Any:
        if record.status == "completed":
            page = await memory.parts.graphs.events(Scope.of("acme", "ann"), None, None, 10, None)
            seen.append(len(page.items))
        return await write(archive, scope, record, expect)

    monkeypatch.setattr(type(memory.parts.archive), "write_session", looking)
    say(memory, "s1", "I live in Berlin.", graph_policy="require")
    assert seen == [0]
    assert memory.graph("acme", "ann").events().items


def test_a_subject_may_be_named_as_long_as_one_is_called_so(memory: Memory) -> None:
    say(memory, "s1", "I live in Berlin.")
    view = memory.graph("acme", "ann")
    assert [s.state.raw_value for s in view.states_current("ANN")] == ["I live in Berlin"]
    assert view.timeline("Ann").items
    with pytest.raises(NotFound):
        view.states_current("Nobody")
