"""Seed 003, §3: the four message tools, bound to a person, from the front door."""

from __future__ import annotations

import base64
import inspect
import json
from typing import Any

import pytest

from mnemon import Memory
from mnemon.contracts.errors import BadCursor, BadQuery, InvalidArgument, NotFound
from mnemon.engine.sync import BoundMemory

SAID = [
    ("2026-01-01T08:00:00Z", "user", "我不吃辣，也不吃海鲜。"),
    ("2026-01-01T08:00:10Z", "assistant", "好的，记住了：不吃辣。"),
    ("2026-01-10T09:00:00Z", "user", "I moved to Hangzhou for the new job."),
    ("2026-01-10T09:01:00Z", "assistant", "Congratulations on the new job!"),
    ("2026-02-01T10:00:00Z", "user", "Summaries as bullet points, please."),
]


@pytest.fixture
def lin(memory: Memory) -> BoundMemory:
    turns = [{"role": r, "text": text, "timestamp_iso": when} for when, r, text in SAID]
    memory.session_write("acme", "lin", "s1", turns=turns, extract=False)
    memory.session_write("acme", "wang", "s1", turns=[{"role": "user", "text": "我不吃辣 secret"}], extract=False)
    return memory.bind("acme", "lin")


@pytest.mark.parametrize("tool", ["messages_list", "lexical_search", "semantic_search", "neighbors", "attachment"])
def test_no_tool_takes_a_user(tool: str) -> None:
    names = set(inspect.signature(getattr(BoundMemory, tool)).parameters)
    assert not names & {"user_id", "user", "tenant_id", "tenant", "scope", "principals"}


def test_messages_list_newest_first(lin: BoundMemory) -> None:
    assert [m.content for m in lin.messages_list().items] == [text for _, _, text in reversed(SAID)]


def test_messages_list_since_counts_until_does_not(lin: BoundMemory) -> None:
    page = lin.messages_list(since="2026-01-01T08:00:10Z", until="2026-01-10T09:01:00Z")
    assert [m.content for m in page.items] == [SAID[2][2], SAID[1][2]]
    same = lin.messages_list(since="2026-01-01T16:00:10+08:00", until="2026-01-10T09:01:00")
    assert same == page


def test_messages_list_by_role_and_by_pages(lin: BoundMemory) -> None:
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(3):
        page = lin.messages_list(role="user", page_size=1, cursor=cursor)
        seen += [m.content for m in page.items]
        cursor = page.next_cursor
    assert seen == [SAID[4][2], SAID[2][2], SAID[0][2]]
    assert cursor is None


def test_a_message_tells_its_place(lin: BoundMemory) -> None:
    message = lin.lexical_search("Hangzhou").items[0].message
    assert (message.role, message.session_id, message.ts) == ("user", "s1", "2026-01-10T09:00:00.000Z")
    assert (message.meta["turn_id"], message.meta["seq"]) == ("t0003", 3)
    assert message.meta["uri"] == "ctx://acme/users/lin/sessions/s1"


@pytest.mark.parametrize(
    ("query", "turns"),
    [
        ("辣", {1, 2}),
        ("海鲜", {1}),
        ('"不吃辣"', {1, 2}),
        ('"不吃辣" AND 海鲜', {1}),
        ("不吃辣 -好的", {1}),
        ("job", {3, 4}),
        ("jobs", {3, 4}),
        ("job AND moving", {3}),
        ('"new job" -congratulations', {3}),
        ("Hangzhou OR bullet", {3, 5}),
        ("(海鲜 OR Hangzhou) AND 不吃辣", {1}),
        ("上海", set()),
    ],
)
def test_lexical_search_finds_words(lin: BoundMemory, query: str, turns: set[int]) -> None:
    hits = lin.lexical_search(query).items
    assert {h.message.meta["seq"] for h in hits} == turns
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_lexical_search_highlights_are_exact(lin: BoundMemory) -> None:
    hit = lin.lexical_search("海鲜 OR 辣").items[0]
    assert [hit.message.content[a:b] for a, b in hit.highlights] == ["辣", "海鲜"]
    hit = lin.lexical_search("congratulate").items[0]
    assert [hit.message.content[a:b] for a, b in hit.highlights] == ["Congratulations"]


def test_lexical_search_filters_and_pages(lin: BoundMemory) -> None:
    where: dict[str, Any] = {"role": "user", "time_range": {"since": "2026-01-02T00:00:00Z"}}
    assert {h.message.meta["seq"] for h in lin.lexical_search("job 不吃辣 please", where).items} == {3, 5}
    first = lin.lexical_search("辣 job", page_size=3)
    rest = lin.lexical_search("辣 job", page_size=3, cursor=first.next_cursor)
    ids = [h.message.message_id for h in (*first.items, *rest.items)]
    assert len(ids) == len(set(ids)) == 4
    assert rest.next_cursor is None
    assert lin.lexical_search("辣", {"session_id": "other"}).items == ()


def test_semantic_search_by_text_and_by_vector(lin: BoundMemory, memory: Memory) -> None:
    hits = lin.semantic_search("the new job in Hangzhou", top_k=2)
    assert hits[0].message.meta["seq"] in (3, 4)
    vector = [1.0] + [0.0] * (memory.parts.embedder.dimension - 1)
    assert len(lin.semantic_search(query_embedding=vector)) == 5
    assert lin.semantic_search("Hangzhou", min_score=2.0) == ()
    assert {h.message.role for h in lin.semantic_search("job", filter={"role": "assistant"})} == {"assistant"}


def test_neighbors_in_the_order_they_were_said(lin: BoundMemory) -> None:
    anchor = lin.lexical_search("Hangzhou").items[0].message
    assert [m.meta["seq"] for m in lin.neighbors(anchor.message_id)] == [1, 2, 3]
    assert [m.meta["seq"] for m in lin.neighbors(anchor.message_id, before=1, after=1)] == [2, 3, 4]
    assert [m.meta["seq"] for m in lin.neighbors(anchor.message_id, before=0, after=9)] == [3, 4, 5]


def test_another_persons_message_is_not_there(lin: BoundMemory, memory: Memory) -> None:
    theirs = memory.bind("acme", "wang").messages_list().items[0]
    with pytest.raises(NotFound):
        lin.neighbors(theirs.message_id)
    with pytest.raises(NotFound):
        lin.attachment(theirs.message_id, "0" * 64)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda b: b.messages_list(page_size=0), "page_size"),
        (lambda b: b.messages_list(page_size=201), "page_size"),
        (lambda b: b.messages_list(role="boss"), "role"),
        (lambda b: b.messages_list(since="last week"), "since"),
        (lambda b: b.lexical_search("x", {"rolle": "user"}), "filter.rolle"),
        (lambda b: b.lexical_search("x", {"time_range": {"from": "x"}}), "filter.time_range.from"),
        (lambda b: b.semantic_search(), "query_text"),
        (lambda b: b.semantic_search("x", query_embedding=[1.0]), "query_text"),
        (lambda b: b.semantic_search(query_embedding=[1.0]), "query_embedding"),
        (lambda b: b.semantic_search("x", top_k=0), "top_k"),
        (lambda b: b.neighbors("x", before=-1), "before"),
        (lambda b: b.neighbors(""), "message_id"),
    ],
)
def test_bad_arguments_name_the_field(lin: BoundMemory, call: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call(lin)
    assert caught.value.field == field


def test_bad_queries_and_cursors(lin: BoundMemory) -> None:
    for query in ('"open', "(open", "-only", "AND", "…"):
        with pytest.raises(BadQuery):
            lin.lexical_search(query)
    page = lin.lexical_search("辣 job", page_size=1)
    with pytest.raises(BadCursor):
        lin.lexical_search("other", page_size=1, cursor=page.next_cursor)
    for cursor in ("x", "", "e30=", page.next_cursor):
        with pytest.raises(BadCursor):
            lin.messages_list(cursor=cursor)
    for parts in ([[], "id", "辣 job"], [1.0, None, "辣 job"], [float("nan"), "\ud800", "辣 job"], {"a": 1}, 5):
        foreign = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()
        with pytest.raises(BadCursor):
            lin.lexical_search("辣 job", cursor=foreign)
