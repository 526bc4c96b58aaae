"""What every index must do, as tests: subclass `IndexContract` and give it an `opener`."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from mnemon.contracts.entries import Ask, Entry, Hit, Vector
from mnemon.contracts.errors import (
    BadCursor,
    BadQuery,
    Conflict,
    EmbedderMismatch,
    InvalidArgument,
    MnemonError,
    PermissionDenied,
)
from mnemon.contracts.filters import (
    EVERYTHING,
    FIELDS,
    And,
    Eq,
    In,
    Missing,
    Not,
    Or,
    OrderBy,
    Range,
    Where,
    every,
    matches,
)
from mnemon.contracts.ports import Index
from mnemon.contracts.scope import PUBLIC, Match, Scope

MODEL = "contract/8"
DIMENSION = 8
ORDERS: tuple[OrderBy, ...] = get_args(OrderBy)

# opener(model, dimension, any_model) opens the same place each time it is called.
Opener = Callable[[str, int, bool], Index]
Reopen = Callable[..., Index]

ALICE = Scope.of("t1", user_id="alice")
STEWARD = Scope.steward_of("t1")

# Principals that a careless comparison would take for each other.
LOOKALIKES = (
    "u:alice",
    "u:Alice",
    "u:ALICE",
    "u:alice ",
    "u:alicia",
    "u:al",
    "g:alice",
    "p:alice",
    "a:alice",
    "u:*",
    "u:%",
    "u:_lice",
    "u:alice:x",
    "u:a",
    'u:"alice"',
    "u:'alice'",
    "u:caf\u00e9",
    "u:cafe\u0301",
    "u:爱丽丝",
    "u:ａｌｉｃｅ",
    "u:alice\\",
    PUBLIC,
)

WORDS: dict[str, tuple[Any, ...]] = {
    "session_id": ("s1", "s2", "S1"),
    "role": ("user", "assistant", ""),
    "shelf": ("tasks", "rules"),
    "status": ("open", "done", "100%", "o'clock"),
    "seq": (0, 1, 2, 3, 7),
    "ts": (-5, 0, 1_000, 1_700_000_000_000),
    "level": (0, 1, 2),
    "importance": (0.0, 0.3, 0.5, 1),
    "published": (True, False),
    "kept": (True, False),
    "tags": (["a"], ["a", "b"], ["b", "c"], []),
    "topic_path": (["生活", "旅行"], ["工作"], ("生活",)),
    "time_bucket": (["2026-03"], ["2026-03", "2026-03-01"]),
    "ttl": (0, 60, 86_400),
    "memory_scope": ("notes", "*", "%"),
    "folded": ("a", "b"),
}


def entry(
    id_: str, text: str = "", who: Sequence[str] = ("u:alice",), vector: Vector | None = None, **rest: Any
) -> Entry:
    kind, metadata = rest.pop("kind", "turn"), rest.pop("metadata", {})
    return Entry(id_, tuple(who), text, kind, rest, metadata, vector)


def given_back(one: Entry) -> Entry:
    """An entry as an index gives it back: without its vector, principals sorted, nothing empty among its fields."""
    fields = {k: list(v) if isinstance(v, tuple) else v for k, v in one.fields.items() if v not in (None, [], ())}
    return replace(one, principals=tuple(sorted(set(one.principals))), fields=fields, vector=None)


def toward(cosine: float) -> Vector:
    """A vector of length one whose cosine with the first axis is as given."""
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[0], vector[1] = cosine, np.sqrt(max(0.0, 1 - cosine * cosine))
    return vector


FIRST_AXIS = toward(1.0)


def ids(found: Iterable[Entry | Hit]) -> list[str]:
    return [f.entry.id if isinstance(f, Hit) else f.id for f in found]


async def listed(
    index: Index, scope: Scope, where: Where = EVERYTHING, order: OrderBy = "newest", limit: int = 7
) -> list[Entry]:
    """A whole listing, page by page."""
    out: list[Entry] = []
    cursor: str | None = None
    while True:
        page = await index.scroll(scope, where, order, limit, cursor)
        assert len(page.entries) <= limit
        assert page.entries or cursor is None
        out += page.entries
        cursor = page.next_cursor
        if cursor is None:
            return out


async def paged(index: Index, scope: Scope, ask: Ask) -> list[Hit]:
    """A whole search, page by page."""
    out: list[Hit] = []
    while hits := await index.search(scope, ask):
        assert len(hits) <= ask.limit
        out += hits
        ask = replace(ask, after=(hits[-1].score, hits[-1].entry.id))
    return out


async def found(index: Index, text: str, scope: Scope = ALICE, where: Where = EVERYTHING) -> set[str]:
    return set(ids(await index.search(scope, Ask(text=text, where=where, limit=1000))))


def random_entry(rng: random.Random, number: int, who: Sequence[str] = ("u:alice",)) -> Entry:
    fields = {name: rng.choice(values) for name, values in WORDS.items() if rng.random() < 0.6}
    text = " ".join(rng.choice(("猫在屋顶", "dogs bark", "下雨了", "red apple", "北京")) for _ in range(3))
    vector = np.array([rng.gauss(0, 1) for _ in range(DIMENSION)], dtype=np.float32)
    kind = rng.choice(("turn", "turn", "node", "marker"))
    return entry(f"e{number:03}", text, who, vector if rng.random() < 0.9 else None, kind=kind, **fields)


def random_where(rng: random.Random, depth: int = 3) -> Where:
    choice = rng.randrange(8 if depth else 4)
    if choice >= 4:
        parts = tuple(random_where(rng, depth - 1) for _ in range(rng.randrange(4)))
        return (And(parts), Or(parts), Not(random_where(rng, depth - 1)), And(parts))[choice - 4]
    name = rng.choice((*WORDS, "kind", "id", "speaker"))
    values: tuple[Any, ...] = WORDS.get(name, ("turn", "node", "e001", "nobody"))
    flat = [v for one in values for v in (one if isinstance(one, list | tuple) else (one,))] + ["5", 5, 1.0]
    if choice == 3 and FIELDS[name] in (int, float):
        bounds = {side: rng.choice((-5, 0, 0.3, 1, 2.5, 1_000)) for side in rng.sample(["gte", "gt", "lte", "lt"], 2)}
        return Range(name, **bounds)
    if choice == 2:
        return Missing(name)
    if choice == 1:
        return In(name, tuple(rng.choice(flat) for _ in range(rng.randrange(4))))
    return Eq(name, rng.choice(flat))


class IndexContract:
    """`opener` opens the same, at first empty, place each time. Needs `asyncio_mode = "auto"` of pytest-asyncio."""

    @pytest.fixture
    def opener(self) -> Opener:
        raise NotImplementedError("a contract test says how its index is opened")

    @pytest.fixture
    async def reopen(self, opener: Opener) -> AsyncIterator[Reopen]:
        opened: list[Index] = []

        def again(model: str = MODEL, dimension: int = DIMENSION, any_model: bool = False) -> Index:
            opened.append(opener(model, dimension, any_model))
            return opened[-1]

        yield again
        for index in reversed(opened):
            await index.close()

    @pytest.fixture
    def index(self, reopen: Reopen) -> Index:
        return reopen()

    # --- writing and reading back

    async def test_gives_back_what_was_put_in(self, index: Index) -> None:
        one = entry(
            "全部/fields 😀",
            "我住在杭州。\n\tI live in Hangzhou — “quoted” \0",
            ("p:app", "u:alice", "u:alice"),
            FIRST_AXIS,
            kind="node",
            metadata={"deep": {"list": [1, 2.5, None, True, "字"]}, "": "empty key"},
            session_id="s",
            seq=1 << 40,
            ts=-1,
            importance=0.25,
            published=False,
            kept=True,
            tags=["a", "b"],
            topic_path=("生活", "旅行"),
            entities=[],
            speaker=None,
            role="",
        )
        scope = Scope.of("t1", user_id="alice", product_id="app")
        await index.upsert(scope, [one])
        assert await index.get(scope, [one.id]) == [given_back(one)]
        assert list((await index.scroll(scope, EVERYTHING)).entries) == [given_back(one)]
        assert [h.entry for h in await index.search(scope, Ask(vector=FIRST_AXIS))] == [given_back(one)]
        assert [h.entry for h in await index.search(scope, Ask(text="杭州"))] == [given_back(one)]

    async def test_an_entry_with_the_same_id_is_replaced_wholly(self, index: Index) -> None:
        await index.upsert(ALICE, [entry("x", "old words", vector=FIRST_AXIS, seq=1, tags=["a"], role="user")])
        await index.search(ALICE, Ask(text="old"))
        new = entry("x", "new words", seq=2, kind="node")
        await index.upsert(ALICE, [new])
        assert await index.get(ALICE, ["x"]) == [given_back(new)]
        assert await index.count(ALICE, EVERYTHING) == 1
        assert await index.count(ALICE, Or((Eq("role", "user"), Eq("tags", "a"), Eq("kind", "turn")))) == 0
        assert await found(index, "old") == set()
        assert await found(index, "new") == {"x"}
        assert await index.search(ALICE, Ask(vector=FIRST_AXIS)) == []

    async def test_of_an_id_given_twice_the_later_one_counts(self, index: Index) -> None:
        await index.upsert(ALICE, [entry("x", "first"), entry("y", "other"), entry("x", "second")])
        assert [e.text for e in await index.get(ALICE, ["x", "y"])] == ["second", "other"]
        assert await index.count(ALICE, EVERYTHING) == 2

    async def test_an_entry_can_move_to_other_principals(self, index: Index) -> None:
        bob = Scope.of("t1", user_id="bob")
        await index.upsert(ALICE, [entry("x", "secret plan", vector=FIRST_AXIS)])
        assert await index.get(bob, ["x"]) == []
        await index.upsert(ALICE, [entry("x", "secret plan", ("pub",), FIRST_AXIS)])
        assert ids(await index.get(bob, ["x"])) == ["x"]
        assert await found(index, "secret", bob) == {"x"}
        await index.upsert(STEWARD, [entry("x", "secret plan", ("u:bob",), FIRST_AXIS)])
        assert await index.get(ALICE, ["x"]) == []
        assert await found(index, "secret") == set()
        assert await index.search(ALICE, Ask(vector=FIRST_AXIS)) == []
        assert await index.count(STEWARD, EVERYTHING) == 1

    @pytest.mark.parametrize("who", [("u:bob",), ("u:alice", "u:bob"), ("u:Alice",), (), ("g:alice",)])
    async def test_entries_outside_the_scope_are_refused_and_nothing_is_written(
        self, index: Index, who: tuple[str, ...]
    ) -> None:
        with pytest.raises(PermissionDenied):
            await index.upsert(ALICE, [entry("good"), entry("bad", who=who)])
        assert await index.count(STEWARD, EVERYTHING) == 0

    async def test_a_steward_writes_for_everybody_but_not_for_nobody(self, index: Index) -> None:
        await index.upsert(STEWARD, [entry("x", who=("u:anybody",))])
        with pytest.raises(PermissionDenied):
            await index.upsert(STEWARD, [entry("y", who=())])

    async def test_what_somebody_does_not_see_they_cannot_replace(self, index: Index) -> None:
        await index.upsert(STEWARD, [entry("x", "bob's words", ("u:bob",))])
        with pytest.raises(PermissionDenied):
            await index.upsert(ALICE, [entry("new"), entry("x", "alice was here")])
        assert [e.text for e in await index.get(STEWARD, ["x", "new"])] == ["bob's words"]

    @pytest.mark.parametrize(
        "bad",
        [
            {"colour": "red"},
            {"id": "y"},
            {"seq": "three"},
            {"seq": True},
            {"seq": 1 << 63},
            {"seq": 1.5},
            {"importance": float("nan")},
            {"published": 1},
            {"tags": "abc"},
            {"tags": [1]},
            {"role": 7},
        ],
    )
    async def test_a_field_that_is_unknown_or_of_another_type_is_named(self, index: Index, bad: dict[str, Any]) -> None:
        wrong = replace(entry("bad"), fields=bad)
        with pytest.raises(InvalidArgument) as error:
            await index.upsert(ALICE, [entry("good"), wrong])
        assert error.value.field == next(iter(bad))
        assert await index.count(ALICE, EVERYTHING) == 0

    @pytest.mark.parametrize("vector", [np.ones(7), np.ones((1, 8)), np.full(8, np.nan), np.full(8, np.inf)])
    async def test_a_vector_of_another_shape_or_not_finite_is_refused(self, index: Index, vector: Vector) -> None:
        vector = vector.astype(np.float32)
        with pytest.raises(InvalidArgument):
            await index.upsert(ALICE, [entry("good"), entry("bad", vector=vector)])
        with pytest.raises(InvalidArgument):
            await index.search(ALICE, Ask(vector=vector))
        assert await index.count(ALICE, EVERYTHING) == 0

    @pytest.mark.parametrize("odd", [entry("x", "\ud83d half"), entry("x", metadata={"a": object()})])
    async def test_what_nothing_can_store_is_refused(self, index: Index, odd: Entry) -> None:
        with pytest.raises(InvalidArgument):
            await index.upsert(ALICE, [entry("good"), odd])
        assert await index.count(ALICE, EVERYTHING) == 0

    async def test_nothing_to_write_is_fine(self, index: Index) -> None:
        await index.upsert(ALICE, [])
        assert await index.count(ALICE, EVERYTHING) == 0

    async def test_get_keeps_the_order_asked_for_and_leaves_out_what_is_not_visible(self, index: Index) -> None:
        await index.upsert(STEWARD, [entry(f"e{i}") for i in range(9)] + [entry("b", who=("u:bob",))])
        asked = ["e7", "nothing", "e0", "b", "e3", "e7"]
        assert ids(await index.get(ALICE, asked)) == ["e7", "e0", "e3", "e7"]
        assert await index.get(ALICE, []) == []
        assert await index.get(Scope.steward_of("t2"), ["e7"]) == []

    async def test_a_large_batch_is_written_and_read(self, index: Index) -> None:
        many = [entry(f"e{i:04}", f"word{i}", vector=FIRST_AXIS, seq=i) for i in range(1_200)]
        await index.upsert(ALICE, many)
        assert await index.count(ALICE, EVERYTHING) == 1_200
        assert ids(await index.get(ALICE, ids(many))) == ids(many)

    # --- deleting and counting

    async def test_delete_takes_what_matches_within_the_scope_only(self, index: Index) -> None:
        await index.upsert(
            STEWARD,
            [
                entry("a1", seq=1),
                entry("a2", seq=2),
                entry("b1", who=("u:bob",), seq=1),
                entry("p1", who=("pub",), seq=1),
            ],
        )
        await index.upsert(Scope.steward_of("t2"), [entry("a1", seq=1)])
        assert await index.delete(ALICE, Eq("seq", 1)) == 2
        assert ids(await listed(index, STEWARD)) == ["a2", "b1"]
        assert await index.count(Scope.steward_of("t2"), EVERYTHING) == 1
        assert await index.delete(ALICE, Eq("seq", 1)) == 0
        assert await index.delete(ALICE, Or(())) == 0
        assert await index.delete(STEWARD, EVERYTHING) == 2
        assert await index.count(STEWARD, EVERYTHING) == 0

    async def test_what_was_deleted_is_found_by_nothing(self, index: Index) -> None:
        await index.upsert(ALICE, [entry("x", "red apple", vector=FIRST_AXIS), entry("y", "red pear")])
        await index.search(ALICE, Ask(text="red"))
        await index.search(ALICE, Ask(vector=FIRST_AXIS))
        assert await index.delete(ALICE, Eq("id", "x")) == 1
        assert await found(index, "red") == {"y"}
        assert await index.search(ALICE, Ask(vector=FIRST_AXIS)) == []
        assert await index.get(ALICE, ["x"]) == []
        await index.upsert(ALICE, [entry("x", "red again")])
        assert await found(index, "red") == {"x", "y"}

    # --- publishing

    async def test_entries_are_hidden_until_they_are_published(self, reopen: Reopen) -> None:
        """In every way of asking, also for those who have looked before, and for whoever has it open elsewhere."""
        one, two = reopen(), reopen()
        shown = Eq("published", True)
        written = [
            entry("a", "red apple", vector=FIRST_AXIS, published=False, uri="ctx://1", tags=["x"], metadata={"n": 1}),
            entry("b", "red pear", vector=toward(0.5), published=False, uri="ctx://1"),
            entry("c", "red plum", vector=toward(0.4), published=False, uri="ctx://2"),
            entry("d", "red rose", vector=toward(0.3), uri="ctx://1", kind="node"),
        ]
        await one.upsert(ALICE, written)

        async def seen(index: Index) -> list[set[str]]:
            by_vector = await index.search(ALICE, Ask(vector=FIRST_AXIS, where=shown))
            return [
                set(ids(by_vector)),
                await found(index, "red", where=shown),
                set(ids(await listed(index, ALICE, shown))),
            ]

        for index in (one, two):
            assert await seen(index) == [set()] * 3
            assert [h.entry.fields.get("published") for h in await index.search(ALICE, Ask(text="apple"))] == [False]
        assert await one.publish(ALICE, Eq("uri", "ctx://1")) == 3
        for index in (one, two):
            assert await seen(index) == [{"a", "b", "d"}] * 3
            assert await index.count(ALICE, shown) == 3
            apple = replace(written[0], fields={**written[0].fields, "published": True})
            assert [h.entry for h in await index.search(ALICE, Ask(text="apple"))] == [given_back(apple)]
            assert await index.get(ALICE, ["a"]) == [given_back(apple)]
            assert set(ids(await listed(index, ALICE, Eq("published", False)))) == {"c"}
        assert await two.publish(ALICE, EVERYTHING) == 4
        assert await seen(one) == [{"a", "b", "c", "d"}] * 3
        assert await one.publish(ALICE, Eq("uri", "ctx://3")) == 0

    async def test_publishing_never_leads_outside_the_scope(self, index: Index) -> None:
        hidden = [entry("a", published=False), entry("b", who=("u:bob",), published=False)]
        await index.upsert(STEWARD, [*hidden, entry("ab", who=("u:alice", "u:bob"), published=False)])
        await index.upsert(Scope.steward_of("t2"), [entry("a", published=False)])
        assert await index.publish(ALICE, EVERYTHING) == 1
        assert ids(await listed(index, STEWARD, Eq("published", True))) == ["a"]
        assert await index.count(Scope.steward_of("t2"), Eq("published", True)) == 0
        assert await index.publish(ALICE.narrowed("any", ["g:x"]), EVERYTHING) == 0
        assert await index.publish(STEWARD, Eq("id", "b")) == 1
        assert set(ids(await listed(index, STEWARD, Eq("published", True)))) == {"a", "b"}

    async def test_many_entries_are_published_at_once(self, index: Index) -> None:
        await index.upsert(ALICE, [entry(f"e{n:04}", "apple", published=False, uri="ctx://1") for n in range(1_200)])
        assert await index.publish(ALICE, every(Eq("uri", "ctx://1"), Eq("kind", "turn"))) == 1_200
        assert await index.count(ALICE, Eq("published", True)) == 1_200

    # --- vectors

    async def test_vectors_are_ranked_by_cosine_higher_is_closer(self, index: Index) -> None:
        cosines = {f"e{i:02}": i / 20 - 1 for i in range(41)}
        mixed = [entry(i, vector=toward(c) * (1 + n % 7)) for n, (i, c) in enumerate(cosines.items())]
        random.Random(1).shuffle(mixed)
        await index.upsert(ALICE, mixed)
        for scale in (1.0, 0.01, 250.0):  # the length of a vector does not matter, neither here nor there
            hits = await index.search(ALICE, Ask(vector=(FIRST_AXIS * scale).astype(np.float32), limit=50))
            assert ids(hits) == sorted(cosines, reverse=True)
            assert all(abs(h.score - cosines[h.entry.id]) < 2e-3 for h in hits)

    async def test_vectors_agree_with_numpy(self, index: Index) -> None:
        rng = np.random.default_rng(7)
        matrix = rng.normal(size=(80, DIMENSION)).astype(np.float32)
        await index.upsert(ALICE, [entry(f"e{i:02}", vector=matrix[i]) for i in range(80)])
        unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        for question in rng.normal(size=(5, DIMENSION)).astype(np.float32):
            exact = unit @ (question / np.linalg.norm(question))
            hits = await index.search(ALICE, Ask(vector=question, limit=80))
            assert len(hits) == 80
            assert all(abs(h.score - exact[int(h.entry.id[1:])]) < 2e-3 for h in hits)
            assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
            best = await index.search(ALICE, Ask(vector=question, limit=9))
            assert best == hits[:9]

    async def test_ties_are_ordered_by_id_and_paged_through_without_loss(self, index: Index) -> None:
        rng = random.Random(3)
        rows = [entry(f"e{i:03}", "same words", vector=toward(rng.choice((0.1, 0.5, 0.9)))) for i in range(60)]
        rng.shuffle(rows)
        for start in range(0, 60, 15):
            await index.upsert(ALICE, rows[start : start + 15])
        for ask in (Ask(vector=FIRST_AXIS, limit=60), Ask(text="words", limit=60)):
            whole = await index.search(ALICE, ask)
            assert len(whole) == 60
            assert [(-h.score, h.entry.id) for h in whole] == sorted((-h.score, h.entry.id) for h in whole)
            for limit in (1, 7, 59):
                pages = await paged(index, ALICE, replace(ask, limit=limit))
                assert [(h.entry.id, h.score) for h in pages] == [(h.entry.id, h.score) for h in whole]

    async def test_paging_with_a_filter_is_complete(self, index: Index) -> None:
        rng = random.Random(5)
        rows = [entry(f"e{i:03}", "w", vector=toward(rng.choice((0.2, 0.4))), seq=i % 3) for i in range(50)]
        await index.upsert(ALICE, rows)
        where = Not(Eq("seq", 1))
        expected = {e.id for e in rows if e.fields["seq"] != 1}
        for ask in (Ask(vector=FIRST_AXIS, where=where, limit=4), Ask(text="w", where=where, limit=4)):
            pages = ids(await paged(index, ALICE, ask))
            assert len(pages) == len(expected)
            assert set(pages) == expected

    async def test_min_score_cuts_off(self, index: Index) -> None:
        await index.upsert(ALICE, [entry(f"e{i}", "x " * (i + 1), vector=toward(i / 10)) for i in range(10)])
        assert ids(await index.search(ALICE, Ask(vector=FIRST_AXIS, min_score=0.65))) == ["e9", "e8", "e7"]
        assert await index.search(ALICE, Ask(vector=FIRST_AXIS, min_score=0.95)) == []
        hits = await index.search(ALICE, Ask(text="x"))
        assert await index.search(ALICE, Ask(text="x", min_score=hits[3].score)) == hits[:4]
        pages = await paged(index, ALICE, Ask(vector=FIRST_AXIS, min_score=0.45, limit=2))
        assert ids(pages) == ["e9", "e8", "e7", "e6", "e5"]

    async def test_entries_without_a_vector_are_not_found_by_one(self, index: Index) -> None:
        await index.upsert(ALICE, [entry("with", "words", vector=toward(-1)), entry("without", "words")])
        assert ids(await index.search(ALICE, Ask(vector=FIRST_AXIS))) == ["with"]
        assert await found(index, "words") == {"with", "without"}
        await index.upsert(ALICE, [entry("with", "words")])
        assert await index.search(ALICE, Ask(vector=FIRST_AXIS)) == []

    async def test_an_empty_index_finds_nothing(self, index: Index) -> None:
        assert await index.search(ALICE, Ask(vector=FIRST_AXIS)) == []
        assert await index.search(ALICE, Ask(text="anything")) == []
        assert await listed(index, ALICE) == []
        assert await index.count(ALICE, EVERYTHING) == 0

    @pytest.mark.parametrize(
        "ask", [Ask(), Ask(vector=FIRST_AXIS, text="both"), Ask(text="x", limit=0), Ask(text="x", limit=-1)]
    )
    async def test_a_search_that_makes_no_sense_is_refused(self, index: Index, ask: Ask) -> None:
        with pytest.raises(InvalidArgument):
            await index.search(ALICE, ask)

    # --- words

    async def test_chinese_words_of_any_length_are_found(self, index: Index) -> None:
        texts = {
            "home": "我住在杭州西湖区，喜欢喝龙井茶。",
            "work": "他在北京大学教书",
            "trip": "下周去北京，再去杭州",
            "apart": "北方的风，京城的雪",
            "kana": "東京タワーに行きました",
            "compat": "豈有此理",  # the first character in its compatibility form
        }
        await index.upsert(ALICE, [entry(i, t) for i, t in texts.items()])
        assert await found(index, "茶") == {"home"}
        assert await found(index, "京") == {"work", "trip", "apart", "kana"}
        assert await found(index, "杭州") == {"home", "trip"}
        assert await found(index, "北京") == {"work", "trip"}
        assert await found(index, "龙井茶") == {"home"}
        assert await found(index, '"北京大学"') == {"work"}
        assert await found(index, "北京大学") == {"work", "trip"}  # any two neighbouring characters rank
        assert ids(await index.search(ALICE, Ask(text="北京大学")))[0] == "work"
        assert await found(index, "杭北") == set()
        assert await found(index, "州，再") == {"home", "trip"}  # two words: parted by punctuation
        assert await found(index, "タワー") == {"kana"}
        assert await found(index, "豈") == {"compat"}

    async def test_english_words_meet_in_their_stem_and_case(self, index: Index) -> None:
        texts = {"a": "She was running late", "b": "He RUNS daily", "c": "the runner's shoes", "d": "a café in Paris"}
        await index.upsert(ALICE, [entry(i, t) for i, t in texts.items()])
        assert await found(index, "run") == {"a", "b"}
        assert await found(index, "Running") == {"a", "b"}
        assert await found(index, "shoe") == {"c"}
        assert await found(index, "CAFÉ") == {"d"}
        assert await found(index, "cafe\u0301") == {"d"}
        assert await found(index, "runn") == set()

    async def test_mixed_full_width_and_odd_text(self, index: Index) -> None:
        texts = {
            "mixed": "我用iPhone15拍照",
            "wide": "ＰｙＴｈｏｎ ３版本",
            "half": "ﾃﾚﾋﾞを見る",
            "emoji": "太好了😀😀great",
            "nothing": "😀 ……！？",
            "empty": "",
        }
        await index.upsert(ALICE, [entry(i, t) for i, t in texts.items()])
        assert await found(index, "iphone15") == {"mixed"}
        assert await found(index, "拍照") == {"mixed"}
        assert await found(index, "python") == {"wide"}
        assert await found(index, "ｐｙｔｈｏｎ") == {"wide"}
        assert await found(index, "テレビ") == {"half"}
        assert await found(index, "great") == {"emoji"}
        assert await found(index, "好了") == {"emoji"}
        assert await index.count(ALICE, EVERYTHING) == 6

    async def test_phrases_operators_and_brackets(self, index: Index) -> None:
        texts = {
            "both": "the cat and the dog sleep",
            "cat": "a cat alone",
            "dog": "a dog barks",
            "dogcat": "dog cat",
            "猫": "一只猫在睡觉",
            "狗": "一只狗在睡觉",
        }
        await index.upsert(ALICE, [entry(i, t) for i, t in texts.items()])
        expected = {
            "cat AND dog": {"both", "dogcat"},
            "cat OR 猫": {"both", "cat", "dogcat", "猫"},
            "cat 猫": {"both", "cat", "dogcat", "猫"},
            "cat -dog": {"cat"},
            "cat NOT dog": {"cat"},
            "cat AND -dog": {"cat"},
            '"dog cat"': {"dogcat"},
            "“cat alone”": {"cat"},
            "「在睡觉」 -狗": {"猫"},
            "『只猫』": {"猫"},
            "(cat OR 狗) AND (alone OR 睡觉)": {"cat", "狗"},
            "barks OR cat AND -dog": {"dog", "cat"},
            "(cat OR dog) -(alone OR barks)": {"both", "dogcat"},
            '睡觉 -"一只猫"': {"狗"},
            "睡觉 AND 一只猫": {"猫"},
            "unicorn": set(),
            "cat AND unicorn": set(),
            '"cat dog"': set(),
            '"a cat alone and then some more words than there are"': set(),
        }
        for text, wanted in expected.items():
            assert await found(index, text) == wanted, text

    async def test_stop_words_do_not_find_but_can_be_asked_for(self, index: Index) -> None:
        await index.upsert(ALICE, [entry("a", "where is the key"), entry("b", "the door"), entry("c", "is it")])
        assert await found(index, "where is the key") == {"a"}
        assert await found(index, "the") == {"a", "b"}
        assert await found(index, '"is the"') == {"a"}
        assert await found(index, "the AND door") == {"b"}

    @pytest.mark.parametrize(
        "text",
        ["", "   ", "!?", "😀", "-only", '"open', "(open", "close)", "a AND", "AND a", "a NOT", "(" * 50, "x" * 20_000],
    )
    async def test_a_search_text_that_cannot_be_read_is_a_bad_query(self, index: Index, text: str) -> None:
        with pytest.raises(BadQuery):
            await index.search(ALICE, Ask(text=text))

    async def test_more_words_rarer_words_and_shorter_texts_score_higher(self, index: Index) -> None:
        rows = [entry(f"common{i}", f"tea and filler number {i}") for i in range(20)]
        rows += [entry("both", "tea with bergamot"), entry("one", "cup with bergamot")]
        rows += [entry("twice", "bergamot bergamot cup"), entry("long", "bergamot " + "filler " * 80)]
        await index.upsert(ALICE, rows)
        best = ids(await index.search(ALICE, Ask(text="tea bergamot", limit=30)))
        assert best.index("both") < best.index("one") < best.index("long")
        assert best.index("twice") < best.index("one")
        assert set(best[:4]) == {"both", "one", "twice", "long"}
        assert set(best[4:]) == {f"common{i}" for i in range(20)}

    async def test_how_rare_a_word_is_depends_on_what_the_asker_sees(self, index: Index) -> None:
        bob = Scope.of("t1", user_id="bob")
        await index.upsert(ALICE, [entry("a1", "tea"), entry("a2", "coffee")])
        before = await index.search(ALICE, Ask(text="tea"))
        await index.upsert(bob, [entry(f"b{i}", "tea", ("u:bob",)) for i in range(30)])
        await index.upsert(Scope.of("t2", user_id="alice"), [entry(f"o{i}", "tea") for i in range(30)])
        await index.upsert(ALICE, [entry(f"m{i}", "tea", kind="marker") for i in range(5)])
        assert await index.search(ALICE, Ask(text="tea", where=Eq("kind", "turn"))) == before
        await index.upsert(ALICE, [entry(f"a{i}", "tea") for i in range(3, 9)])
        assert (await index.search(ALICE, Ask(text="tea", where=Eq("id", "a1"))))[0].score < before[0].score

    async def test_filters_do_not_change_scores(self, index: Index) -> None:
        await index.upsert(ALICE, [entry(f"e{i}", f"tea {'green ' * (i % 3)}", seq=i) for i in range(12)])
        scores = {h.entry.id: h.score for h in await index.search(ALICE, Ask(text="green tea", limit=20))}
        hits = await index.search(ALICE, Ask(text="green tea", where=Range("seq", gte=6), limit=20))
        assert {h.entry.id: h.score for h in hits} == {f"e{i}": scores[f"e{i}"] for i in range(6, 12)}

    # --- listings

    @pytest.mark.parametrize("order", ORDERS)
    async def test_listings_are_complete_and_in_order(self, index: Index, order: OrderBy) -> None:
        rng = random.Random(order)
        rows = [entry(f"e{i:03}", ts=rng.choice((None, 0, 5, 9)), seq=rng.choice((None, 1, 2))) for i in range(70)]
        rows = [replace(e, kind=rng.choice(("turn", "node"))) for e in rows]
        await index.upsert(ALICE, rows)

        def key(e: Entry) -> tuple[int, int, str]:
            at, position = e.fields.get("ts") or 0, e.fields.get("seq") or 0
            first, second = (at, position) if order in ("newest", "oldest") else (position, at)
            sign = -1 if order in ("newest", "position_desc") else 1
            return sign * first, sign * second, e.id

        expected = [e.id for e in sorted(rows, key=key)]
        for limit in (1, 7, 70, 1000):
            assert ids(await listed(index, ALICE, EVERYTHING, order, limit)) == expected
        where = every(Eq("kind", "node"), Not(Missing("ts")))
        kept = [i for i in expected if matches(where, next(e for e in rows if e.id == i).values())]
        assert ids(await listed(index, ALICE, where, order, 3)) == kept

    @pytest.mark.parametrize("order", ORDERS)
    async def test_a_listing_under_way_is_stable_while_rows_come_and_go(self, index: Index, order: OrderBy) -> None:
        await index.upsert(ALICE, [entry(f"e{i:02}", ts=100 + i // 3, seq=i) for i in range(30)])
        cursor: str | None = None
        seen: list[str] = []
        for step in range(100):
            page = await index.scroll(ALICE, Not(Eq("kind", "late")), order, 4, cursor)
            seen += ids(page.entries)
            cursor = page.next_cursor
            if cursor is None:
                break
            await index.upsert(ALICE, [entry(f"late{step}", ts=step * 40, seq=step * 9, kind="late")])
            await index.delete(ALICE, Eq("id", seen[-1]))
        assert sorted(seen) == [f"e{i:02}" for i in range(30)]

    async def test_a_cursor_of_something_else_is_a_bad_cursor(self, index: Index) -> None:
        await index.upsert(ALICE, [entry(f"e{i}", ts=i) for i in range(5)])
        cursor = (await index.scroll(ALICE, EVERYTHING, "newest", 2)).next_cursor
        assert cursor is not None
        with pytest.raises(BadCursor):
            await index.scroll(ALICE, EVERYTHING, "oldest", 2, cursor)

        def made(value: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()

        good = json.loads(base64.urlsafe_b64decode(cursor))
        odd = [None, 7, {}, [], "newest", ["newest"], good[:-1], [*good, 1], ["newest", "a", "b", "c"]]
        odd += [["newest", 1 << 70, 1, "x"], ["newest", 1, 1, 5], ["newest", 1, 1, "\ud800"], ["newest", True, 1, "x"]]
        garbled = ["", "garbage", "not base64!", cursor[:-3], "字", "[" * 5_000, "A" * 100_000]
        for bad in [*garbled, *map(made, odd)]:
            with pytest.raises(BadCursor):
                await index.scroll(ALICE, EVERYTHING, "newest", 2, bad)

    async def test_a_listing_that_makes_no_sense_is_refused(self, index: Index) -> None:
        with pytest.raises(InvalidArgument):
            await index.scroll(ALICE, EVERYTHING, limit=0)
        with pytest.raises(InvalidArgument):
            await index.scroll(ALICE, EVERYTHING, "random")  # type: ignore[arg-type]

    # --- filters

    async def test_filters_mean_what_matches_says(self, index: Index) -> None:
        rng = random.Random(11)
        rows = [random_entry(rng, i) for i in range(80)]
        await index.upsert(ALICE, rows)
        stored = {e.id: given_back(e) for e in rows}
        assert set(ids(await listed(index, ALICE, limit=50))) == stored.keys()
        for _ in range(120):
            where = random_where(rng)
            expected = {i for i, e in stored.items() if matches(where, e.values())}
            assert await index.count(ALICE, where) == len(expected), where
            assert set(ids(await listed(index, ALICE, where, limit=80))) == expected, where

    async def test_searches_keep_to_the_filter(self, index: Index) -> None:
        rng = random.Random(13)
        rows = [random_entry(rng, i) for i in range(60)]
        await index.upsert(ALICE, rows)
        for _ in range(40):
            where = random_where(rng)
            passing = [e for e in rows if matches(where, given_back(e).values())]
            dense = await index.search(ALICE, Ask(vector=FIRST_AXIS, where=where, limit=100))
            assert set(ids(dense)) == {e.id for e in passing if e.vector is not None}, where
            expected = {e.id for e in passing if "猫" in e.text or "apple" in e.text}
            assert await found(index, "猫 apples", where=where) == expected, where

    async def test_wide_and_long_filters_work(self, index: Index) -> None:
        await index.upsert(ALICE, [entry(f"e{i}", seq=i, tags=[f"t{i}"]) for i in range(10)])
        assert await index.count(ALICE, In("id", tuple(f"e{i}" for i in range(5, 3_000)))) == 5
        assert await index.count(ALICE, In("seq", tuple(range(5, 3_000)))) == 5
        assert await index.count(ALICE, In("tags", tuple(f"t{i}" for i in range(5, 3_000)))) == 5
        assert await index.count(ALICE, Or(tuple(Eq("seq", i) for i in range(5, 1_505)))) == 5
        assert await index.count(ALICE, And(tuple(Not(Eq("seq", i)) for i in range(5, 1_505)))) == 5
        assert await index.count(ALICE, Range("seq", lt=10**30, gt=-(10**30))) == 10
        assert await index.count(ALICE, In("seq", (10**30, 3))) == 1

    @pytest.mark.parametrize("make", [Eq, lambda f, v: In(f, (v,)), lambda f, v: Missing(f)])
    def test_a_filter_on_an_unknown_field_names_it(self, make: Callable[[str, str], Where]) -> None:
        with pytest.raises(InvalidArgument) as error:
            make("colour", "red")
        assert error.value.field == "colour"

    # --- who sees what

    async def test_a_row_is_visible_when_all_its_principals_are_the_askers(self, index: Index) -> None:
        rows = [
            entry("u", who=("u:alice",)),
            entry("up", who=("u:alice", "p:app")),
            entry("p", who=("p:app",)),
            entry("ug", who=("u:alice", "g:team")),
            entry("ua", who=("u:alice", "a:bot")),
            entry("pub", who=("pub",)),
            entry("bob", who=("u:bob",)),
        ]
        await index.upsert(STEWARD, rows)

        async def sees(scope: Scope) -> set[str]:
            return set(ids(await listed(index, scope)))

        assert await sees(ALICE) == {"u", "pub"}
        app = Scope.of("t1", user_id="alice", product_id="app")
        assert await sees(app) == {"u", "up", "p", "pub"}
        assert await sees(Scope.of("t1", product_id="app")) == {"p", "pub"}
        assert await sees(Scope.of("t1", user_id="alice", group_id="team", agent_id="bot")) == {"u", "ug", "ua", "pub"}
        assert await sees(Scope("t1", frozenset())) == set()
        assert await sees(STEWARD) == {e.id for e in rows}
        assert await sees(app.narrowed("any", ["p:app", "pub"])) == {"up", "p", "pub"}
        assert await sees(app.narrowed("all", ["u:alice", "p:app"])) == {"up"}
        assert await sees(app.narrowed("any", ["u:bob"])) == set()
        assert await sees(app.narrowed("any", [])) == await sees(app.narrowed("all", [])) == set()
        assert await sees(STEWARD.narrowed("any", ["u:bob"])) == {"bob"}
        assert await sees(app.narrowed("within", ["u:alice", "p:app"])) == {"u", "up", "p"}
        assert await sees(app.narrowed("within", ["u:alice", "u:bob"])) == {"u"}
        assert await sees(app.narrowed("within", [])) == await sees(app.narrowed("within", ["*"])) == set()
        assert await sees(app.narrowed("any", ["p:app"]).narrowed("within", ["p:app"])) == {"p"}
        assert await sees(STEWARD.narrowed("within", ["u:bob", "u:alice"])) == {"u", "bob"}

    async def test_principals_that_look_alike_are_not_alike(self, index: Index) -> None:
        rows = [entry(f"e{i}", "words", (who,), FIRST_AXIS) for i, who in enumerate(LOOKALIKES)]
        await index.upsert(STEWARD, rows)
        for i, who in enumerate(LOOKALIKES):
            scope = Scope("t1", frozenset({who}))
            assert ids(await listed(index, scope)) == [f"e{i}"]
            assert await found(index, "words", scope) == {f"e{i}"}
            assert ids(await index.search(scope, Ask(vector=FIRST_AXIS))) == [f"e{i}"]
            assert await index.count(STEWARD.narrowed("any", [who]), EVERYTHING) == 1

    async def test_no_way_of_asking_leads_outside_the_scope(self, index: Index) -> None:
        rng = random.Random(17)
        tenants = {"t1": [], "t2": [], "T1": []}  # type: dict[str, list[Entry]]
        for tenant, rows in tenants.items():
            for i in range(50):
                rows.append(random_entry(rng, i, rng.sample(LOOKALIKES, rng.choice((1, 1, 2, 3)))))
            await index.upsert(Scope.steward_of(tenant), rows)
        everybody = [f"e{i:03}" for i in range(50)]
        modes: tuple[Match, ...] = ("within", "within", "any", "all")
        for _ in range(40):
            tenant, mode = rng.choice(list(tenants)), rng.choice(modes)
            held, narrow = rng.sample(LOOKALIKES, rng.randrange(12)), rng.sample(LOOKALIKES, rng.randrange(3))
            scope = Scope(tenant, frozenset(held), mode, frozenset(narrow), steward=rng.random() < 0.1)
            where = rng.choice((EVERYTHING, EVERYTHING, Eq("kind", "turn"), random_where(rng, 1)))
            visible = [e for e in tenants[tenant] if scope.sees(e.principals)]
            kept = {e.id: e for e in visible if matches(where, given_back(e).values())}
            assert set(ids(await index.get(scope, everybody))) == set(ids(visible))
            listing = await listed(index, scope, where, rng.choice(ORDERS), 20)
            assert {e.id: e for e in listing} == {i: given_back(e) for i, e in kept.items()}
            assert await index.count(scope, where) == len(kept)
            dense = await index.search(scope, Ask(vector=FIRST_AXIS, where=where, limit=200))
            assert set(ids(dense)) == {i for i, e in kept.items() if e.vector is not None}
            expected = {i for i, e in kept.items() if "北京" in e.text or "dogs" in e.text}
            assert await found(index, "北京 dog", scope, where) == expected

    async def test_deleting_never_leads_outside_the_scope(self, index: Index) -> None:
        rng = random.Random(19)
        rows = [random_entry(rng, i, rng.sample(LOOKALIKES, rng.choice((1, 2)))) for i in range(60)]
        await index.upsert(STEWARD, rows)
        there = {e.id: e for e in rows}
        for _ in range(12):
            scope = Scope("t1", frozenset(rng.sample(LOOKALIKES, 6)))
            where = rng.choice((EVERYTHING, random_where(rng, 1)))
            gone = {i for i, e in there.items() if scope.sees(e.principals) and matches(where, given_back(e).values())}
            assert await index.delete(scope, where) == len(gone)
            there = {i: e for i, e in there.items() if i not in gone}
            assert set(ids(await listed(index, STEWARD, limit=100))) == there.keys()

    # --- upkeep

    async def test_info_tells_the_model_and_how_much_there_is(self, index: Index) -> None:
        await index.upsert(ALICE, [entry("a"), entry("b")])
        await index.upsert(Scope.of("t2", user_id="alice"), [entry("a")])
        info = await index.info()
        assert (info.model, info.dimension, info.entries, info.building) == (MODEL, DIMENSION, 3, None)

    async def test_what_was_written_is_there_after_opening_again(self, reopen: Reopen) -> None:
        first = reopen()
        await first.upsert(ALICE, [entry("x", "red apple", vector=FIRST_AXIS)])
        second = reopen()
        await first.close()
        assert await found(second, "apple") == {"x"}

    async def test_two_open_at_once_see_what_the_other_writes(self, reopen: Reopen) -> None:
        one, two = reopen(), reopen()
        for step in range(4):
            writer, reader = (one, two) if step % 2 else (two, one)
            await writer.upsert(ALICE, [entry(f"e{step}", "apple", vector=FIRST_AXIS)])
            assert len(await found(reader, "apple")) == step + 1
            assert len(await reader.search(ALICE, Ask(vector=FIRST_AXIS))) == step + 1
        await one.upsert(ALICE, [entry("e0", "pear")])
        assert await found(two, "apple") == {"e1", "e2", "e3"}
        await two.delete(ALICE, Eq("id", "e1"))
        assert await found(one, "apple") == {"e2", "e3"}

    @pytest.mark.parametrize(("model", "dimension"), [("other/8", DIMENSION), (MODEL, 16)])
    async def test_opening_with_another_model_says_what_to_do(self, reopen: Reopen, model: str, dimension: int) -> None:
        await reopen().upsert(ALICE, [entry("x", "red apple", vector=FIRST_AXIS)])
        with pytest.raises(EmbedderMismatch, match="mnemon rebuild") as error:
            await reopen(model, dimension).info()
        assert (error.value.built_with, error.value.embedder) == (MODEL, model)

    async def test_any_model_opens_it_to_look_but_not_to_mix_vectors(self, reopen: Reopen) -> None:
        await reopen().upsert(ALICE, [entry("x", "red apple", vector=FIRST_AXIS)])
        other = reopen("other/16", 16, any_model=True)
        assert (await other.info()).model == MODEL
        assert ids(await listed(other, ALICE)) == ["x"]
        assert await found(other, "apple") == {"x"}
        with pytest.raises(EmbedderMismatch):
            await other.upsert(ALICE, [entry("y")])
        with pytest.raises(EmbedderMismatch):
            await other.search(ALICE, Ask(vector=np.ones(16, dtype=np.float32)))
        assert await other.delete(ALICE, EVERYTHING) == 1

    async def test_closing_twice_is_fine_and_a_closed_one_says_so(self, index: Index) -> None:
        await index.upsert(ALICE, [entry("x")])
        await index.close()
        await index.close()
        with pytest.raises(MnemonError, match=r"(?i)closed"):
            await index.count(ALICE, EVERYTHING)

    async def test_writing_and_searching_at_the_same_time(self, reopen: Reopen) -> None:
        one, two = reopen(), reopen()
        batches = [[entry(f"e{b}-{i}", f"apple {b}", vector=FIRST_AXIS) for i in range(5)] for b in range(12)]

        async def look(index: Index) -> None:
            for _ in range(6):
                hits = await index.search(ALICE, Ask(text="apple", limit=100))
                dense = await index.search(ALICE, Ask(vector=FIRST_AXIS, limit=100))
                for some in (hits, dense):
                    assert len({h.entry.id for h in some}) == len(some)
                await index.scroll(ALICE, EVERYTHING, limit=20)

        async def write(index: Index, batch: list[Entry]) -> None:
            await index.upsert(ALICE, batch)
            await index.delete(ALICE, Eq("id", batch[0].id))

        work = [write((one, two)[n % 2], b) for n, b in enumerate(batches)] + [look(one), look(two), look(one)]
        await asyncio.gather(*work)
        for index in (one, two):
            assert await found(index, "apple") == {f"e{b}-{i}" for b in range(12) for i in range(1, 5)}

    # --- building a second one beside the first

    @pytest.fixture
    def rebuilding(self, index: Index) -> Index:
        if not index.abilities.rebuild_beside:
            pytest.skip("this index cannot be rebuilt beside itself")
        return index

    async def test_the_old_index_answers_until_the_new_one_is_finished(self, rebuilding: Index, reopen: Reopen) -> None:
        watching = reopen()
        await rebuilding.upsert(ALICE, [entry("x", "old words", vector=FIRST_AXIS)])
        new = await rebuilding.begin_rebuild(MODEL, DIMENSION)
        try:
            await new.upsert(ALICE, [entry("x", "new words", vector=toward(0.5)), entry("y", "new words")])
            for old in (rebuilding, watching):
                assert await found(old, "words") == {"x"}
                assert await found(old, "new") == set()
                info = await old.info()
                assert (info.entries, info.building) == (1, MODEL)
            assert await found(new, "words") == {"x", "y"}
            await new.finish_rebuild()
            for after in (rebuilding, watching, new, reopen()):
                assert await found(after, "new") == {"x", "y"}
                assert await found(after, "old") == set()
                assert [round(h.score, 2) for h in await after.search(ALICE, Ask(vector=FIRST_AXIS))] == [0.5]
                info = await after.info()
                assert (info.entries, info.building) == (2, None)
            await rebuilding.upsert(ALICE, [entry("z", "new words")])
            assert await found(watching, "new") == {"x", "y", "z"}
        finally:
            await new.close()

    async def test_after_a_rebuild_with_another_model_those_still_open_notice(
        self, rebuilding: Index, reopen: Reopen
    ) -> None:
        await rebuilding.upsert(ALICE, [entry("x", "words", vector=FIRST_AXIS)])
        new = await rebuilding.begin_rebuild("other/4", 4)
        try:
            four = np.ones(4, dtype=np.float32)
            await new.upsert(ALICE, [entry("x", "words", vector=four)])
            await new.finish_rebuild()
            assert ids(await new.search(ALICE, Ask(vector=four))) == ["x"]
            for call in (
                rebuilding.search(ALICE, Ask(vector=FIRST_AXIS)),
                rebuilding.search(ALICE, Ask(text="words")),
                rebuilding.upsert(ALICE, [entry("y")]),
                rebuilding.count(ALICE, EVERYTHING),
            ):
                with pytest.raises(EmbedderMismatch):
                    await call
            assert (await reopen("other/4", 4).info()).entries == 1
        finally:
            await new.close()

    async def test_an_unfinished_rebuild_is_picked_up_or_begun_anew(self, rebuilding: Index, reopen: Reopen) -> None:
        opened: list[Index] = []

        async def begin(model: str, restart: bool = False) -> Index:
            opened.append(await rebuilding.begin_rebuild(model, DIMENSION, restart))
            return opened[-1]

        await rebuilding.upsert(ALICE, [entry("old")])
        try:
            await (await begin("new/8")).upsert(ALICE, [entry("x")])
            again = await begin("new/8")
            assert ids(await listed(again, ALICE)) == ["x"]
            await again.upsert(ALICE, [entry("y")])
            anew = await begin("new/8", restart=True)
            assert await listed(anew, ALICE) == []
            await anew.upsert(ALICE, [entry("z")])
            other = await begin("newer/8")
            assert await listed(other, ALICE) == []
            assert (await rebuilding.info()).building == "newer/8"
            await other.upsert(ALICE, [entry("w")])
            for stale in opened[:-1]:
                with pytest.raises(Conflict):
                    await stale.finish_rebuild()
            assert ids(await listed(rebuilding, ALICE)) == ["old"]
            await other.finish_rebuild()
            assert ids(await listed(reopen("newer/8"), ALICE)) == ["w"]
        finally:
            for one in opened:
                await one.close()

    async def test_only_what_is_under_construction_can_be_finished(self, rebuilding: Index) -> None:
        await rebuilding.upsert(ALICE, [entry("x")])
        with pytest.raises(MnemonError):
            await rebuilding.finish_rebuild()
        assert await rebuilding.count(ALICE, EVERYTHING) == 1
