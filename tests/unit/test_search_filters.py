"""What a search may be narrowed by: every field of the wire, nothing beyond the scope, and mistakes named."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from mnemon import Config, Memory, Scope, errors
from mnemon.contracts.memories import SearchFilters
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.logic.searching import narrowed
from mnemon.testing.clock import FixedClock

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
ME: dict[str, Any] = {"tenant_id": "t", "user_id": "lin", "product_id": "app"}
FIELDS: dict[str, Any] = {
    "memory_domain": "work",
    "run_id": "r1",
    "memory_scope": "notes",
    "source": "camera",
    "fact_type": "task",
    "status": "open",
    "importance": "high",
    "ttl": 3600,
    "entities": ["老周"],
    "topic_path": ["工作", "合同"],
    "tags": ["tea"],
    "keywords": ["green"],
    "time_bucket": ["2026-03"],
    "timestamp": "2026-02-01T00:00:00Z",
}
# For every filter: what finds the entry with these fields, and what finds neither it nor the bare one.
MATCHING: dict[str, tuple[Any, Any]] = {
    "memory_domain": ("work", "home"),
    "run_id": ("r1", "r"),
    "memory_scope": ("notes", "note%"),
    "source": (["camera", "x"], ["cam*"]),
    "fact_type": (["task"], ["rule"]),
    "status": (["open"], ["done"]),
    "importance_range": ({"gte": 0.9}, {"gt": 0.9}),
    "ttl_range": ({"gte": 1, "lt": 3601}, {"lte": 3599, "gt": 0}),
    "entities": (["老周", "nobody"], ["老_"]),
    "topic_path": (["合同"], ["%"]),
    "tags": (["tea"], ["*"]),
    "keywords": (["green"], ["gree"]),
    "time_bucket": (["2026-03"], ["2026"]),
    "time_range": ({"lte": "2026-02-01T00:00:00Z"}, {"gt": 1_769_904_000, "lt": 1_769_904_001_000}),
    "modality": (["text"], ["image"]),
    "memory_type": (["episodic"], ["chunk"]),
}


@pytest.fixture
def memory() -> Iterator[Memory]:
    clock = FixedClock(START)
    config = Config(background_worker=False)
    with Memory(":memory:", llm="rules", embedder=HashEmbedder(), config=config, clock=clock) as opened:
        yield opened


def ids(memory: Memory, who: dict[str, Any] | None = None, **filters: Any) -> set[str]:
    return {hit.id for hit in memory.search("words", **(who or ME), topk=100, filters=filters).hits}


def put(memory: Memory, id: str, who: dict[str, Any] | None = None, **metadata: Any) -> None:
    entry = {"id": id, "kind": "episodic", "contents": [f"words {id}"], "metadata": metadata}
    memory.write([entry], **(who or ME))


def test_every_field_of_the_wire_has_a_test() -> None:
    apart = {"tenant_id", "user_id", "user_match", "rel_types", "threshold", "published"}
    assert set(SearchFilters.model_fields) == MATCHING.keys() | apart


@pytest.mark.parametrize("field", MATCHING)
def test_a_field_keeps_what_has_it_and_nothing_else(memory: Memory, field: str) -> None:
    put(memory, "full", **FIELDS)
    put(memory, "bare")
    yes, no = MATCHING[field]
    assert "full" in ids(memory, **{field: yes})
    assert ids(memory, **{field: no}) == set()
    if isinstance(yes, list):
        assert ids(memory, **{field: []}) == set(), "an empty list matches nothing"


def test_what_is_given_must_hold_together(memory: Memory) -> None:
    put(memory, "full", **FIELDS)
    together = {name: yes for name, (yes, _) in MATCHING.items()}
    assert ids(memory, **together) == {"full"}
    assert ids(memory, **{**together, "tags": ["coffee"]}) == set()


def test_principals_only_narrow_what_the_caller_sees(memory: Memory) -> None:
    put(memory, "own", user_id=["u:lin"])
    put(memory, "both", user_id=["u:lin", "p:app"])
    put(memory, "shared", user_id=["p:app"])
    put(memory, "public", user_id=["pub"])
    put(memory, "bob's", {**ME, "user_id": "bob"}, user_id=["u:bob"])
    assert ids(memory) == {"own", "both", "shared", "public"}
    assert ids(memory, user_id=["u:lin"]) == {"own", "both"}
    assert ids(memory, user_id=["u:lin", "p:app"], user_match="any") == {"own", "both", "shared"}
    assert ids(memory, user_id=["u:lin", "p:app"], user_match="all") == {"both"}
    assert ids(memory, user_id=["u:lin"], user_match="within") == {"own"}
    assert ids(memory, user_id=["u:lin", "p:app", "u:bob"], user_match="within") == {"own", "both", "shared"}
    for match in ("any", "all", "within"):
        for wild in ([], ["*"], ["%"], ["_"], ["u:*"], ["u:bob"], ["u:LIN"], ["u:lin "]):
            assert ids(memory, user_id=wild, user_match=match) == set(), (match, wild)


def test_no_filter_leads_outside_the_scope() -> None:
    rng = random.Random(7)
    held = ["u:a", "u:b", "p:x", "g:y", "pub", "*", "u:%"]
    for _ in range(2_000):
        scope = Scope("t", frozenset(rng.sample(held, rng.randrange(5))))
        filters = SearchFilters(
            user_id=tuple(rng.sample(held, rng.randrange(4))), user_match=rng.choice(["any", "all", "within"])
        )
        row = frozenset(rng.sample(held, rng.randrange(1, 4)))
        if narrowed(scope, filters).sees(row):
            assert scope.sees(row)
            assert row & set(filters.user_id or ())


def test_another_tenant_is_refused(memory: Memory) -> None:
    put(memory, "own")
    assert ids(memory, tenant_id="t") == {"own"}
    for other in ("T", "t ", "*", ""):
        with pytest.raises(errors.PermissionDenied):
            ids(memory, tenant_id=other)


@pytest.mark.parametrize(
    ("filters", "field", "says"),
    [
        ({"usr_id": ["u:lin"]}, "filters.usr_id", "did you mean user_id"),
        ({"time_range": {"gteq": "2026-01-01"}}, "filters.time_range.gteq", "did you mean gte"),
        ({"time_range": {"since": "2026-01-01"}}, "filters.time_range.since", "known: gte, gt, lte, lt"),
        ({"time_range": {"gte": "soon"}}, "filters.time_range.gte", "ISO 8601"),
        ({"time_range": {"gte": True}}, "filters.time_range.gte", "should be"),
        ({"user_id": "*"}, "filters.user_id", "a list"),
        ({"user_match": "some"}, "filters.user_match", "'within'"),
        ({"tags": [1]}, "filters.tags[0]", "a valid string"),
        ({"importance_range": {"gte": "high"}}, "filters.importance_range.gte", "a valid number"),
        ({"importance_range": {"gte": float("nan")}}, "filters.importance_range.gte", "finite"),
        ({"memory_type": ["marker"]}, "filters.memory_type[0]", "'episodic'"),
        ({"published": "no"}, "filters.published", "boolean"),
        ({"run_id": ["r1"]}, "filters.run_id", "a valid string"),
    ],
)
def test_a_mistake_is_named(memory: Memory, filters: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(errors.InvalidArgument) as wrong:
        memory.search("words", **ME, filters=filters)
    assert wrong.value.field == field
    assert says in wrong.value.message


def test_a_threshold_leaves_out_what_is_far(memory: Memory) -> None:
    put(memory, "near")
    far = {"id": "far", "kind": "episodic", "contents": ["绿茶很好喝"]}
    memory.write([far], **ME)
    everything = memory.search("words near", **ME).hits
    assert [hit.id for hit in everything] == ["near", "far"]
    between = (everything[0].score + everything[1].score) / 2
    assert [h.id for h in memory.search("words near", **ME, threshold=between).hits] == ["near"]
    assert ids(memory, threshold=2.0) == set()
    strictest = memory.search("words near", **ME, threshold=-1.0, filters={"threshold": between})
    assert [h.id for h in strictest.hits] == ["near"]


def test_what_is_not_published_is_seen_by_those_who_ask_for_it(memory: Memory) -> None:
    entry = {"id": "later", "kind": "episodic", "contents": ["words later"], "published": False}
    memory.write([entry, {**entry, "id": "now", "contents": ["words now"], "published": True}], **ME)
    assert ids(memory) == ids(memory, published=True) == {"now"}
    assert ids(memory, published=False) == {"later"}
    memory.update("later", {"published": True}, tenant_id="t", user_id="lin", product_id="app")
    assert ids(memory) == {"now", "later"}


@pytest.mark.parametrize("wrong", [0, 201, -1])
def test_topk_has_bounds(memory: Memory, wrong: int) -> None:
    with pytest.raises(errors.InvalidArgument, match="topk"):
        memory.search("words", **ME, topk=wrong)
