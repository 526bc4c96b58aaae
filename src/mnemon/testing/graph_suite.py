"""What every graph must do, as tests: subclass `GraphContract` and give it an `opener`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from mnemon.contracts.errors import BadCursor, InvalidArgument, PermissionDenied
from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy
from mnemon.contracts.graph import (
    Entity,
    Event,
    Evidence,
    GraphAsk,
    GraphBatch,
    GraphEdge,
    GraphItem,
    ItemKind,
    Knowledge,
    PendingEquiv,
    Place,
    Pointer,
    Provenance,
    Region,
    Saying,
    Segment,
    State,
    TimeSlice,
    UtteranceEvidence,
)
from mnemon.contracts.ports import Graph
from mnemon.contracts.scope import PUBLIC, Match, Scope

# Opens the same place each time it is called.
Opener = Callable[[], Graph]

ALICE = Scope.of("t1", user_id="alice")
BOB = Scope.of("t1", user_id="bob")
STEWARD = Scope.steward_of("t1")
ELSEWHERE = Scope.steward_of("t2")
DAY = datetime(2026, 3, 9, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

# Ids and principals that a careless comparison would take for each other.
LOOKALIKES = (
    "alice",
    "Alice",
    "ALICE",
    "alice ",
    "alicia",
    "al",
    "*",
    "%",
    "_lice",
    "a/l/i/c/e",
    "../alice",
    "alice:x",
    "alice#1",
    '"alice"',
    "'alice'",
    "alice\\",
    '["alice"]',
    "caf\u00e9",
    "cafe\u0301",
    "爱丽丝",
    "ａｌｉｃｅ",
    "аlice",
)


def whose(who: Iterable[str] = ("u:alice",), **rest: Any) -> dict[str, Any]:
    return {"user_id": tuple(who), "memory_domain": "dialog", **rest}


def event(id_: str, at: datetime | None = DAY, who: Iterable[str] = ("u:alice",), **rest: Any) -> Event:
    return Event(id=id_, t_abs_start=at, **whose(who, **{"summary": f"event {id_}", **rest}))


def entity(id_: str, name: str, who: Iterable[str] = ("u:alice",), **rest: Any) -> Entity:
    return Entity(id=id_, name=name, **whose(who, **rest))


def edge(src: str, rel: str, dst: str, who: Iterable[str] = ("u:alice",), **rest: Any) -> GraphEdge:
    return GraphEdge(src_id=src, rel_type=rel, dst_id=dst, **whose(who, **rest))


_LISTS = {
    Segment: "segments",
    UtteranceEvidence: "utterances",
    Evidence: "evidences",
    Entity: "entities",
    Event: "events",
    Place: "places",
    TimeSlice: "time_slices",
    Region: "regions",
    State: "states",
    Knowledge: "knowledge",
    GraphEdge: "edges",
    PendingEquiv: "pending_equivs",
}


def batch(*given: GraphItem | GraphEdge) -> GraphBatch:
    lists: dict[str, tuple[Any, ...]] = {}
    for one in given:
        name = _LISTS[type(one)]
        lists[name] = (*lists.get(name, ()), one)
    return GraphBatch(**lists)


def saying(origin: str, *given: GraphItem | GraphEdge, whole: bool = True, mark: str = "") -> Saying:
    return Saying(origin, batch(*given), whole, mark)


def given_back(one: Any, tenant: str = "t1") -> Any:
    """As a graph gives it back: it knows its tenant, and its principals are sorted."""
    return one.model_copy(update={"tenant_id": tenant, "user_id": tuple(sorted(set(one.user_id)))})


def ids(found: Iterable[GraphItem]) -> list[str]:
    return [item.id for item in found]


def ends(found: Iterable[GraphEdge]) -> list[tuple[str, str, str]]:
    return [(e.src_id, e.rel_type, e.dst_id) for e in found]


async def listed(graph: Graph, scope: Scope, ask: GraphAsk) -> list[GraphItem]:
    """A whole listing, page by page."""
    out: list[GraphItem] = []
    while True:
        page = await graph.find(scope, ask)
        assert len(page.items) <= ask.limit
        out += page.items
        if page.next_cursor is None:
            return out
        assert page.items
        ask = replace(ask, cursor=page.next_cursor)


async def seen(graph: Graph, scope: Scope, kind: ItemKind = "event", **rest: Any) -> list[str]:
    return ids(await listed(graph, scope, GraphAsk(kind, limit=7, **rest)))


ONE_OF_EACH: tuple[GraphItem | GraphEdge, ...] = (
    Segment(id="seg", source_id="s1", modality="video", t_abs_start=DAY, t_abs_end=DAY + HOUR, **whose()),
    UtteranceEvidence(
        id="全部/utterance 😀",
        raw_text="我住在杭州。\n\tI live in Hangzhou — “quoted” \0",
        speaker="Ann",
        lang="zh",
        segment_id="seg",
        turn_id="t7",
        t_abs_start=DAY,
        **whose(provenance=Provenance(source="user", confidence=0.5), created_at=DAY),
    ),
    Evidence(id="ev", utterance_id="u", span_start=0, span_end=2, text="我住", confidence=0.25, **whose()),
    Entity(id="ent", name="杭州", aliases=("Hangzhou",), type="city", **whose(created_at=DAY, updated_at=DAY)),
    Event(
        id="happened",
        summary="moved",
        t_abs_start=DAY,
        t_abs_end=DAY + HOUR,
        source_turn_ids=("t7", "t8"),
        evidence_status="weak",
        topic_path="life/home",
        tags=("a", "b"),
        keywords=("搬家",),
        time_bucket=("2026-03",),
        actor_id="ent",
        **whose(ttl=60, importance=0.75, expires_at=DAY + 9 * HOUR, forgetting_policy=ForgetPolicy.TEMPORARY),
    ),
    Place(id="pl", name="West Lake", region_id="r", latitude=30.25, longitude=120.15, **whose()),
    TimeSlice(
        id="ts",
        slice_kind="month",
        t_abs_start=DAY,
        t_abs_end=DAY + HOUR,
        granularity_level=2,
        parent_id="y",
        **whose(),
    ),
    Region(id="r", name="浙江", parent_id="cn", **whose()),
    State(
        id="st",
        subject_id="ent",
        property="home",
        value="Hangzhou",
        raw_value="杭州",
        valid_from=DAY,
        valid_to=DAY + HOUR,
        source_event_id="happened",
        evidence_level=EvidenceLevel.USER_CLAIM,
        **whose(),
    ),
    Knowledge(id="k", summary="lives in Hangzhou", data={"deep": [1, 2.5, None, {"字": True}]}, **whose()),
    PendingEquiv(id="pe", entity_id="ent", candidate_id="other", reason="alike", **whose()),
    GraphEdge(
        src_id="k",
        rel_type="SUPPORTED_BY",
        dst_id="全部/utterance 😀",
        weight=0.5,
        evidence=(
            Pointer(utterance_id="全部/utterance 😀", span_start=0, span_end=3),
            Pointer(utterance_id="another", span_start=1, span_end=2),
        ),
        **whose(
            created_at=DAY + timedelta(microseconds=1), expires_at=DAY + HOUR, importance=0.5, updated_at=DAY + HOUR
        ),
    ),
    edge("k", "DERIVED_FROM", "happened"),
)


class GraphContract:
    """`opener` opens the same, at first empty, place each time. Needs `asyncio_mode = "auto"` of pytest-asyncio."""

    @pytest.fixture
    def opener(self) -> Opener:
        raise NotImplementedError("a contract test says how its graph is opened")

    @pytest.fixture
    async def reopen(self, opener: Opener) -> AsyncIterator[Opener]:
        opened: list[Graph] = []

        def again() -> Graph:
            opened.append(opener())
            return opened[-1]

        yield again
        for graph in reversed(opened):
            await graph.close()

    @pytest.fixture
    def graph(self, reopen: Opener) -> Graph:
        return reopen()

    # --- writing and reading back

    async def test_gives_back_what_was_put_in(self, reopen: Opener) -> None:
        graph = reopen()
        counts = await graph.put(ALICE, [saying("o", *ONE_OF_EACH)])
        assert counts == batch(*ONE_OF_EACH).counts()
        items = [one for one in ONE_OF_EACH if isinstance(one, GraphItem)]
        for reader in (graph, reopen()):
            assert await reader.get(ALICE, ids(items)) == [given_back(one) for one in items]
            for one in items:
                assert await listed(reader, ALICE, GraphAsk(one.kind)) == [given_back(one)]
            edges = [given_back(one) for one in ONE_OF_EACH if isinstance(one, GraphEdge)]
            assert await reader.edges(ALICE, ["k"]) == sorted(edges, key=lambda e: e.rel_type)
            assert await reader.count(ALICE) == dict.fromkeys((one.kind for one in items), 1) | {"edges": 2}

    async def test_get_keeps_the_order_asked_for_and_leaves_out_what_is_not_visible(self, graph: Graph) -> None:
        await graph.put(STEWARD, [saying("o", *(event(f"e{n}") for n in range(9)), event("b", who=("u:bob",)))])
        assert ids(await graph.get(ALICE, ["e7", "nothing", "e0", "b", "e3", "e7"])) == ["e7", "e0", "e3", "e7"]
        assert await graph.get(ALICE, []) == []

    async def test_of_an_id_given_twice_the_later_one_counts(self, graph: Graph) -> None:
        twice = [edge("x", "MENTIONS", "y", weight=0.5), edge("x", "MENTIONS", "y", weight=0.25)]
        await graph.put(ALICE, [saying("o", event("x", summary="first"), event("x", summary="second"), *twice)])
        assert [e.summary for e in await graph.get(ALICE, ["x"]) if isinstance(e, Event)] == ["second"]
        assert [e.weight for e in await graph.edges(ALICE, ["x"])] == [0.25]
        assert await graph.count(ALICE) == {"event": 1, "edges": 1}

    async def test_nothing_to_say_is_fine(self, graph: Graph) -> None:
        assert await graph.put(ALICE, []) == {}
        assert await graph.put(ALICE, [saying("o", mark="7")]) == {}
        assert await graph.marks(ALICE, ["o"]) == {"o": "7"}
        assert await graph.count(ALICE) == {"edges": 0}
        await graph.put(ALICE, [saying("p"), saying("q", event("x"), mark="1")])
        await graph.put(ALICE, [saying("q"), saying("r", event("y"))])
        assert await graph.origins(ALICE) == ["o", "r"]
        assert await graph.marks(ALICE, ["p", "q", "r"]) == {"r": ""}
        assert await graph.count(ALICE) == {"event": 1, "edges": 0}

    async def test_a_large_saying_is_written_and_read(self, graph: Graph) -> None:
        many = [event(f"e{n:04}", DAY + n * HOUR) for n in range(1_500)]
        links = [edge(one.id, "NEXT_EVENT", other.id) for one, other in pairwise(many)]
        await graph.put(ALICE, [saying("o", *many, *links)])
        assert ids(await graph.get(ALICE, ids(many))) == ids(many)
        assert len(await graph.edges(ALICE, ids(many), direction="out", limit=5_000)) == 1_499

    async def test_what_nothing_can_store_is_refused_and_nothing_is_written(self, graph: Graph) -> None:
        half = Event.model_construct(id="x", summary="\ud83d half", **whose())
        with pytest.raises(InvalidArgument):
            await graph.put(
                ALICE, [saying("o", event("good")), Saying("p", GraphBatch.model_construct(events=(half,)))]
            )
        assert await graph.count(STEWARD) == {"edges": 0}

    # --- origins

    async def test_a_whole_saying_takes_the_place_of_all_before_and_an_added_one_does_not(self, graph: Graph) -> None:
        await graph.put(ALICE, [saying("o", event("a"), event("b"), edge("a", "NEXT_EVENT", "b"))])
        await graph.put(ALICE, [saying("o", event("b", summary="new"), event("c"), whole=False)])
        assert await seen(graph, ALICE) == ["a", "b", "c"]
        assert [e.summary for e in await graph.get(ALICE, ["b"]) if isinstance(e, Event)] == ["new"]
        assert ends(await graph.edges(ALICE, ["a"])) == [("a", "NEXT_EVENT", "b")]
        await graph.put(ALICE, [saying("o", event("d"))])
        assert await seen(graph, ALICE) == ["d"]
        assert await graph.edges(ALICE, ["a", "b"]) == []

    async def test_an_added_edge_replaces_the_same_one(self, graph: Graph) -> None:
        await graph.put(ALICE, [saying("o", edge("a", "MENTIONS", "b", weight=0.1), edge("a", "MENTIONS", "c"))])
        await graph.put(ALICE, [saying("o", edge("a", "MENTIONS", "b", weight=0.9), whole=False)])
        assert [(e.dst_id, e.weight) for e in await graph.edges(ALICE, ["a"])] == [("b", 0.9), ("c", 1.0)]

    async def test_an_item_is_there_while_one_origin_says_it(self, graph: Graph) -> None:
        for origin in ("one", "two"):
            await graph.put(ALICE, [saying(origin, event("x"), edge("x", "MENTIONS", "y"))])
        assert await graph.count(ALICE) == {"event": 1, "edges": 1}
        assert await graph.drop(ALICE, ["one"]) == 2
        assert await seen(graph, ALICE) == ["x"]
        assert ends(await graph.edges(ALICE, ["y"])) == [("x", "MENTIONS", "y")]
        assert await graph.drop(ALICE, ["two", "nobody"]) == 2
        assert await graph.count(STEWARD) == {"edges": 0}
        assert await graph.origins(STEWARD) == []

    async def test_the_newest_word_says_what_an_item_is_like_whoever_came_last(self, graph: Graph) -> None:
        newer = event("x", DAY + HOUR, summary="newer", created_at=DAY + HOUR)
        await graph.put(ALICE, [saying("two", newer)])
        await graph.put(ALICE, [saying("one", event("x", DAY, summary="older", created_at=DAY))])
        (found,) = await listed(graph, ALICE, GraphAsk("event"))
        assert isinstance(found, Event)
        assert (found.summary, found.t_abs_start, found.created_at) == ("newer", DAY + HOUR, DAY)

    async def test_an_entity_keeps_its_first_name_and_has_every_other(self, graph: Graph) -> None:
        later = entity("x", "Thomas", aliases=("TS",), created_at=DAY + HOUR, type="person")
        await graph.put(
            ALICE, [saying("two", later), saying("one", entity("x", "Tom", created_at=DAY, aliases=("T",)))]
        )
        (found,) = await graph.get(ALICE, ["x"])
        assert isinstance(found, Entity)
        assert (found.name, set(found.aliases), found.type) == ("Tom", {"Thomas", "T", "TS"}, "person")
        for name in ("tom", "THOMAS", "ts"):
            assert await seen(graph, ALICE, "entity", names=(name,)) == ["x"]
        await graph.drop(ALICE, ["two"])
        assert await seen(graph, ALICE, "entity", names=("thomas", "ts")) == []

    async def test_an_edge_that_two_name_rests_on_what_both_point_at(self, graph: Graph) -> None:
        one, two = (Pointer(utterance_id=u, span_start=0, span_end=2) for u in ("u1", "u2"))
        await graph.put(ALICE, [saying("one", edge("a", "MENTIONS", "b", evidence=(one,)))])
        await graph.put(ALICE, [saying("two", edge("a", "MENTIONS", "b", evidence=(two, one)))])
        (found,) = await graph.edges(ALICE, ["a"])
        assert set(found.evidence) == {one, two}

    async def test_marks_and_origins(self, graph: Graph) -> None:
        await graph.put(ALICE, [saying("one", event("a"), mark="m1"), saying("two", event("b"))])
        await graph.put(BOB, [saying("three", event("c", who=("u:bob",)), mark="m3")])
        assert await graph.marks(ALICE, ["one", "two", "three", "four"]) == {"one": "m1", "two": ""}
        assert await graph.origins(ALICE) == ["one", "two"]
        assert set(await graph.origins(STEWARD)) == {"one", "two", "three"}
        await graph.put(ALICE, [saying("one", event("z"), whole=False, mark="m9")])
        assert await graph.marks(STEWARD, ["one", "three"]) == {"one": "m9", "three": "m3"}
        await graph.put(STEWARD, [saying("one", mark="empty")])
        assert await graph.marks(STEWARD, ["one"]) == {"one": "empty"}
        await graph.drop(STEWARD, ["one"])
        assert await graph.marks(STEWARD, ["one"]) == {}

    async def test_all_sayings_are_put_in_one_step(self, graph: Graph) -> None:
        await graph.put(ALICE, [saying("o", event("before"), mark="1")])
        foreign = saying("p", event("ok"), event("no", who=("u:bob",)))
        with pytest.raises(PermissionDenied):
            await graph.put(ALICE, [saying("o", event("after"), mark="2"), foreign])
        assert await seen(graph, STEWARD) == ["before"]
        assert await graph.marks(ALICE, ["o", "p"]) == {"o": "1"}

    async def test_many_write_at_once_and_nothing_is_lost(self, reopen: Opener) -> None:
        graphs = [reopen() for _ in range(3)]

        async def work(n: int) -> None:
            for step in range(5):
                await graphs[n].put(ALICE, [saying(f"o{n}", event(f"e{n}-{step}"), whole=False, mark=str(step))])

        await asyncio.gather(*(work(n) for n in range(3)))
        assert set(await seen(graphs[0], ALICE)) == {f"e{n}-{step}" for n in range(3) for step in range(5)}
        assert await graphs[1].marks(ALICE, ["o0", "o1", "o2"]) == {"o0": "4", "o1": "4", "o2": "4"}

    # --- finding

    async def test_items_are_listed_oldest_first_then_by_id_and_those_without_a_time_before(self, graph: Graph) -> None:
        rng = random.Random(7)
        some = [event(f"e{n:02}", DAY + rng.randrange(5) * HOUR if n % 4 else None) for n in range(40)]
        await graph.put(STEWARD, [saying("o", *some), saying("p", event("pub", DAY - HOUR, who=(PUBLIC,)))])
        expected = sorted([*some, event("pub", DAY - HOUR)], key=lambda e: (str(e.t_abs_start or ""), e.id))
        for limit in (1, 3, 100):
            assert ids(await listed(graph, ALICE, GraphAsk("event", limit=limit))) == ids(expected)

    async def test_a_page_may_end_where_nothing_follows(self, graph: Graph) -> None:
        await graph.put(ALICE, [saying("o", event("a"), event("b"))])
        assert (await graph.find(ALICE, GraphAsk("event", limit=2))).next_cursor is None
        assert (await graph.find(ALICE, GraphAsk("event", limit=1))).next_cursor is not None

    @pytest.mark.parametrize("cursor", ["", "x", "W10=", "WyJuZXdlc3QiLDAsMCwiYSJd", "W251bGwsbnVsbCxudWxsLG51bGxd"])
    async def test_a_foreign_cursor_is_refused(self, graph: Graph, cursor: str) -> None:
        with pytest.raises(BadCursor):
            await graph.find(ALICE, GraphAsk("event", cursor=cursor))

    async def test_a_cursor_belongs_to_its_kind(self, graph: Graph) -> None:
        await graph.put(ALICE, [saying("o", event("a"), event("b"))])
        cursor = (await graph.find(ALICE, GraphAsk("event", limit=1))).next_cursor
        with pytest.raises(BadCursor):
            await graph.find(ALICE, GraphAsk("entity", cursor=cursor))
        with pytest.raises(InvalidArgument):
            await graph.find(ALICE, GraphAsk("event", limit=0))

    async def test_time_bounds_keep_what_overlaps(self, graph: Graph) -> None:
        await graph.put(
            ALICE,
            [
                saying(
                    "o",
                    event("point", DAY),
                    event("long", DAY - 5 * HOUR, t_abs_end=DAY + 5 * HOUR),
                    event("over", DAY - 5 * HOUR, t_abs_end=DAY),
                    event("later", DAY + 2 * HOUR),
                    event("timeless", None),
                )
            ],
        )
        assert await seen(graph, ALICE, since=DAY) == ["long", "point", "later"]
        assert await seen(graph, ALICE, until=DAY) == ["long", "over"]
        assert await seen(graph, ALICE, since=DAY, until=DAY + HOUR) == ["long", "point"]
        assert await seen(graph, ALICE, since=DAY + 6 * HOUR) == []

    async def test_a_state_without_an_end_goes_on(self, graph: Graph) -> None:
        def state(id_: str, end: datetime | None) -> State:
            return State(id=id_, subject_id="s", property=id_, value="v", valid_from=DAY, valid_to=end, **whose())

        await graph.put(ALICE, [saying("o", state("open", None), state("closed", DAY + HOUR))])
        assert await seen(graph, ALICE, "state", since=DAY + 9 * HOUR) == ["open"]
        assert await seen(graph, ALICE, "state", subjects=("s",), property="closed") == ["closed"]
        assert await seen(graph, ALICE, "state", subjects=("S", "s ")) == []

    async def test_names_are_compared_whatever_their_spelling(self, graph: Graph) -> None:
        await graph.put(ALICE, [saying("o", entity("x", "Tom  Smith", aliases=("汤姆",)), entity("y", "ＴＯＭ"))])
        assert await seen(graph, ALICE, "entity", names=("tom smith",)) == ["x"]
        assert await seen(graph, ALICE, "entity", names=("汤姆",)) == ["x"]
        assert await seen(graph, ALICE, "entity", names=("tom", "tom smith")) == ["x", "y"]
        assert await seen(graph, ALICE, "entity", names=("to%", "*", "汤")) == []

    async def test_what_is_linked_is_found_by_edges_and_by_what_it_is_about(self, graph: Graph) -> None:
        await graph.put(
            ALICE,
            [
                saying(
                    "o",
                    *(event(f"e{n}", DAY + n * HOUR) for n in range(4)),
                    event("acted", DAY + 5 * HOUR, actor_id="tom"),
                    edge("e1", "INVOLVES", "tom"),
                    edge("tom", "MENTIONS", "e2"),
                    edge("e3", "INVOLVES", "tim"),
                )
            ],
        )
        assert await seen(graph, ALICE, linked=("tom",)) == ["e1", "e2", "acted"]
        assert await seen(graph, ALICE, linked=("tom",), rel_types=("INVOLVES",)) == ["e1", "acted"]
        assert await seen(graph, ALICE, linked=("tom", "tim"), since=DAY + 2 * HOUR) == ["e2", "e3", "acted"]
        assert await seen(graph, ALICE, ids=("e3", "e0", "nothing")) == ["e0", "e3"]
        assert await seen(graph, ALICE, ids=()) == []

    async def test_slices_and_domains(self, graph: Graph) -> None:
        def slice_(id_: str, kind: str, domain: str) -> TimeSlice:
            return TimeSlice(
                id=id_,
                slice_kind=kind,
                t_abs_start=DAY,
                t_abs_end=DAY + HOUR,
                user_id=("u:alice",),
                memory_domain=domain,
            )

        await graph.put(ALICE, [saying("o", slice_("d", "day", "dialog"), slice_("m", "month", "lifelog"))])
        assert await seen(graph, ALICE, "time_slice", slice_kind="day") == ["d"]
        assert await seen(graph, ALICE, "time_slice", domain="lifelog") == ["m"]

    async def test_edges_by_direction_type_and_number(self, graph: Graph) -> None:
        await graph.put(
            ALICE,
            [
                saying(
                    "o",
                    edge("a", "MENTIONS", "b"),
                    edge("b", "MENTIONS", "a"),
                    edge("a", "INVOLVES", "c"),
                    edge("a", "X", "a"),
                )
            ],
        )
        assert ends(await graph.edges(ALICE, ["a"], direction="out")) == [
            ("a", "INVOLVES", "c"),
            ("a", "MENTIONS", "b"),
            ("a", "X", "a"),
        ]
        assert ends(await graph.edges(ALICE, ["a"], direction="in")) == [("a", "X", "a"), ("b", "MENTIONS", "a")]
        assert len(await graph.edges(ALICE, ["a"])) == 4
        assert ends(await graph.edges(ALICE, ["a", "c"], ["INVOLVES"])) == [("a", "INVOLVES", "c")]
        assert ends(await graph.edges(ALICE, ["a"], direction="out", without=["INVOLVES", "X"])) == [
            ("a", "MENTIONS", "b")
        ]
        assert ends(await graph.edges(ALICE, ["a"], ["X", "INVOLVES"], "out", without=["X"])) == [
            ("a", "INVOLVES", "c")
        ]
        assert len(await graph.edges(ALICE, ["a"], limit=2)) == 2
        assert await graph.edges(ALICE, []) == []

    # --- seen or not yet, no longer

    async def test_what_is_not_published_is_unseen_until_it_is(self, graph: Graph) -> None:
        hidden: list[GraphItem | GraphEdge] = [
            event("a", published=False),
            entity("x", "Tom", published=False),
            edge("a", "INVOLVES", "x", published=False),
        ]
        await graph.put(ALICE, [saying("o", *hidden), saying("p", event("b", DAY + HOUR, published=False))])
        for now, there in ((DAY, 0), (None, 1)):
            assert len(await graph.get(ALICE, ["a"], now)) == there
            assert len(await seen(graph, ALICE, "entity", names=("tom",), now=now)) == there
            assert len(await graph.edges(ALICE, ["a"], now=now)) == there
            assert len(await seen(graph, ALICE, linked=("x",), now=now)) == there
        assert await graph.publish(ALICE, ["o"]) == 3
        assert await seen(graph, ALICE, now=DAY) == ["a"]
        assert await seen(graph, ALICE, linked=("x",), now=DAY) == ["a"]
        (shown,) = await graph.get(ALICE, ["a"], DAY)
        assert shown.published
        assert await graph.publish(ALICE, ["o", "nobody"]) == 0

    async def test_what_one_origin_shows_is_seen_while_another_still_hides_it(self, graph: Graph) -> None:
        await graph.put(ALICE, [saying("shown", entity("x", "Tom", created_at=DAY))])
        hidden = entity("x", "Tom", aliases=("Secret Agent",), published=False, created_at=DAY + HOUR)
        await graph.put(ALICE, [saying("hidden", hidden)])
        assert await seen(graph, ALICE, "entity", now=DAY) == ["x"]
        assert await seen(graph, ALICE, "entity", names=("secret agent",), now=DAY) == []
        (found,) = await graph.get(ALICE, ["x"], DAY)
        assert isinstance(found, Entity)
        assert found.aliases == ()

    async def test_what_is_over_is_unseen_from_then_on(self, graph: Graph) -> None:
        short: list[GraphItem | GraphEdge] = [
            event("a", expires_at=DAY + HOUR),
            edge("a", "MENTIONS", "b", expires_at=DAY + HOUR),
        ]
        await graph.put(ALICE, [saying("o", *short, event("b"))])
        assert await seen(graph, ALICE, now=DAY) == ["a", "b"]
        assert await seen(graph, ALICE, now=DAY + HOUR) == ["b"]
        assert await graph.get(ALICE, ["a"], DAY + HOUR) == []
        assert await graph.edges(ALICE, ["a"], now=DAY + HOUR) == []
        assert len(await graph.edges(ALICE, ["a"], now=DAY)) == 1
        await graph.put(ALICE, [saying("p", event("a"))])
        (kept,) = await graph.get(ALICE, ["a"], DAY + 9 * HOUR)
        assert kept.expires_at is None

    # --- isolation

    @pytest.mark.parametrize("who", [("u:bob",), ("u:alice", "u:bob"), ("u:Alice",), (), ("g:alice",), ("u:*",)])
    async def test_items_and_edges_outside_the_scope_are_refused_and_nothing_is_written(
        self, graph: Graph, who: tuple[str, ...]
    ) -> None:
        for bad in (event("bad", who=who), edge("bad", "MENTIONS", "x", who=who)):
            with pytest.raises(PermissionDenied):
                await graph.put(ALICE, [saying("o", event("good"), bad)])
        with pytest.raises(PermissionDenied):
            await graph.put(ALICE, [saying("o", event("x", tenant_id="t2"))])
        assert await graph.count(STEWARD) == {"edges": 0}

    async def test_a_steward_writes_for_everybody_but_not_for_nobody(self, graph: Graph) -> None:
        await graph.put(STEWARD, [saying("o", event("x", who=("u:anybody",)))])
        with pytest.raises(PermissionDenied):
            await graph.put(STEWARD, [saying("o", event("y", who=()))])

    async def test_the_same_ids_and_origins_of_two_people_never_meet(self, graph: Graph) -> None:
        for scope, who in ((ALICE, "alice"), (BOB, "bob")):
            mine = (f"u:{who}",)
            await graph.put(
                scope,
                [
                    saying(
                        "o",
                        event("x", summary=who, who=mine),
                        entity("e", who, mine),
                        edge("x", "INVOLVES", "e", mine),
                        mark=who,
                    )
                ],
            )
        await graph.put(ELSEWHERE, [saying("o", event("x", summary="elsewhere"), mark="elsewhere")])
        for scope, who in ((ALICE, "alice"), (BOB, "bob")):
            assert [e.summary for e in await graph.get(scope, ["x"]) if isinstance(e, Event)] == [who]
            assert await graph.marks(scope, ["o"]) == {"o": who}
            assert [e.user_id for e in await graph.edges(scope, ["x", "e"])] == [(f"u:{who}",)]
            assert await graph.count(scope) == {"entity": 1, "event": 1, "edges": 1}
            other = "bob" if who == "alice" else "alice"
            assert await seen(graph, scope, "entity", names=(other,)) == []
        await graph.put(BOB, [saying("o", event("y", who=("u:bob",)))])
        assert await seen(graph, ALICE) == ["x"]
        assert await graph.drop(BOB, ["o"]) == 1
        assert await seen(graph, ALICE) == ["x"]
        assert await graph.erase(ALICE) == 3
        assert [e.summary for e in await graph.get(ELSEWHERE, ["x"]) if isinstance(e, Event)] == ["elsewhere"]

    async def test_what_anybody_may_write_never_hides_what_is_ones_own(self, graph: Graph) -> None:
        mine = entity("x", "Tom", created_at=DAY)
        await graph.put(ALICE, [saying("mine", mine)])
        loud = entity("x", "Mallory", (PUBLIC,), aliases=("Eve",), created_at=DAY + HOUR)
        await graph.put(BOB, [saying("theirs", loud)])
        assert await graph.get(ALICE, ["x"]) == [given_back(mine)]
        assert await graph.get(BOB, ["x"]) == [given_back(loud)]
        assert await listed(graph, ALICE, GraphAsk("entity")) == [given_back(mine)]
        assert await seen(graph, ALICE, "entity", names=("Eve", "Mallory")) == []
        assert await seen(graph, BOB, "entity", names=("Eve",)) == ["x"]

    async def test_publishing_and_dropping_never_lead_outside_the_scope(self, graph: Graph) -> None:
        hidden = [event("a", published=False), event("b", who=("u:bob",), published=False)]
        await graph.put(STEWARD, [saying("o", *hidden, event("ab", who=("u:alice", "u:bob"), published=False))])
        await graph.put(ELSEWHERE, [saying("o", event("a", published=False))])
        assert await graph.publish(ALICE, ["o"]) == 1
        assert await seen(graph, STEWARD, now=DAY) == ["a"]
        assert await seen(graph, ELSEWHERE, now=DAY) == []
        assert await graph.drop(ALICE, ["o"]) == 1
        assert await seen(graph, STEWARD) == ["ab", "b"]
        assert await seen(graph, ELSEWHERE) == ["a"]

    @pytest.mark.parametrize("match", ["any", "all"])
    async def test_narrowing_only_takes_away(self, graph: Graph, match: Match) -> None:
        scope = Scope.of("t1", user_id="alice", product_id="app", group_id="team")
        audiences = [
            ("u:alice",),
            ("p:app",),
            ("p:app", "u:alice"),
            ("g:team",),
            (PUBLIC,),
            ("u:bob", "p:app"),
            ("u:bob",),
        ]
        rows = [event(f"e{n}", who=who) for n, who in enumerate(audiences)]
        links = [edge("hub", "MENTIONS", f"e{n}", who=who) for n, who in enumerate(audiences)]
        await graph.put(STEWARD, [saying("o", *rows, *links)])
        for narrow in (["u:alice"], ["p:app"], ["u:alice", "p:app"], ["u:bob"], []):
            for base in (scope, STEWARD):
                narrowed = base.narrowed(match, narrow)
                visible = [one.id for one in rows if narrowed.sees(one.user_id)]
                assert await seen(graph, narrowed) == visible
                assert ids(await graph.get(narrowed, ids(rows))) == visible
                assert [e.dst_id for e in await graph.edges(narrowed, ["hub"])] == visible
                assert (await graph.count(narrowed)).get("event", 0) == len(visible)

    async def test_principals_and_ids_that_look_alike_are_strangers(self, graph: Graph) -> None:
        for name in LOOKALIKES:
            who = (f"u:{name}",)
            await graph.put(
                Scope.of("t1", user_id=name),
                [
                    saying(
                        "o",
                        event(f"e {name}", who=who),
                        entity("same id", name, who),
                        edge("hub", "MENTIONS", f"e {name}", who),
                        mark=name,
                    )
                ],
            )
        for name in LOOKALIKES:
            scope = Scope.of("t1", user_id=name)
            assert await seen(graph, scope) == [f"e {name}"]
            assert ids(await graph.get(scope, [f"e {n}" for n in LOOKALIKES])) == [f"e {name}"]
            assert [e.dst_id for e in await graph.edges(scope, ["hub"])] == [f"e {name}"]
            assert [e.name for e in await graph.get(scope, ["same id"]) if isinstance(e, Entity)] == [name]
            assert await graph.marks(scope, ["o"]) == {"o": name}
            assert await seen(graph, scope, linked=("hub",)) == [f"e {name}"]

    async def test_tenants_that_look_alike_are_strangers(self, graph: Graph) -> None:
        for tenant in LOOKALIKES:
            await graph.put(Scope.steward_of(tenant), [saying("o", event("x", summary=tenant), mark=tenant)])
        for tenant in LOOKALIKES:
            scope = Scope.of(tenant, user_id="alice")
            assert [e.summary for e in await graph.get(scope, ["x"]) if isinstance(e, Event)] == [tenant]
            assert await graph.marks(Scope.steward_of(tenant), ["o"]) == {"o": tenant}

    async def test_nothing_outside_the_scope_is_ever_seen(self, graph: Graph) -> None:
        rng = random.Random(11)
        people = ["u:a", "u:b", "p:x", "g:y", "a:z", PUBLIC]
        rows: list[Event] = []
        for n in range(60):
            rows.append(
                event(
                    f"e{n % 40}", DAY + rng.randrange(9) * HOUR, rng.sample(people, rng.randrange(1, 4)), summary=str(n)
                )
            )
        for n, row in enumerate(rows):
            links = [edge(row.id, "NEXT_EVENT", f"e{rng.randrange(40)}", row.user_id)]
            await graph.put(STEWARD, [saying(f"o{n}", row, *links)])
        for _ in range(40):
            scope = Scope("t1", frozenset(rng.sample(people, rng.randrange(len(people) + 1))))
            visible = {row.id for row in rows if scope.sees(row.user_id)}
            found = await listed(graph, scope, GraphAsk("event", limit=rng.randrange(1, 9)))
            assert sorted(ids(found)) == sorted(visible)
            assert all(scope.sees(item.user_id) for item in found)
            assert all(scope.sees(e.user_id) for e in await graph.edges(scope, [row.id for row in rows]))
            assert ids(await graph.get(scope, sorted(visible))) == sorted(visible)

    # --- forgetting

    async def test_erase_takes_what_the_scope_sees(self, graph: Graph) -> None:
        await graph.put(
            STEWARD, [saying("o", event("a"), event("b", who=("u:bob",)), event("p", who=(PUBLIC,)), mark="1")]
        )
        await graph.put(ELSEWHERE, [saying("o", event("a"))])
        assert await graph.erase(STEWARD.narrowed("any", ["u:alice"])) == 1
        assert await seen(graph, STEWARD) == ["b", "p"]
        assert await graph.erase(STEWARD) == 2
        assert await graph.origins(STEWARD) == []
        assert await seen(graph, ELSEWHERE) == ["a"]

    async def test_purge_leaves_what_is_there(self, graph: Graph) -> None:
        await graph.put(ALICE, [saying("o", event("a"))])
        await graph.purge()
        assert await seen(graph, ALICE) == ["a"]
