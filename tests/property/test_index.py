"""What holds for every query and every text: parsing, finding, and agreement with the SQLite index."""

from __future__ import annotations

import asyncio
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mnemon.contracts.entries import Ask
from mnemon.contracts.errors import BadQuery
from mnemon.contracts.scope import Scope
from mnemon.drivers.index.sqlite import SqliteIndex
from mnemon.drivers.index.sqlite.segment import build
from mnemon.logic import lexical
from mnemon.logic.lexical import highlights, holds, parse, row_grams, scoring_grams
from mnemon.logic.listing import Place, cursor_after, place_of
from mnemon.logic.text import located, terms
from mnemon.testing.index_suite import entry

WORDS = ("北京", "京", "北京大学", "大学", "猫", "cats", "cat", "Dog", "the", "１０", "café", "iPhone手机", "，", "😀")
TEXTS = st.lists(st.sampled_from((*WORDS, " ", "。")), max_size=12).map("".join)
OPERATORS = ("AND", "OR", "NOT", "-", "(", ")", "-(", '"', "“", "”", "「", "」", " ", " ")
QUERIES = st.lists(st.sampled_from((*WORDS, *OPERATORS, " ", " ")), max_size=12).map("".join)
WELL_FORMED = st.recursive(
    st.sampled_from(("北京", "京", "北京大学", "猫", "cat", "dog", '"cat dog"', "「北京大学」", '"猫，京"')),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from((" AND ", " OR ", " ", " -", " AND -")), inner).map("".join),
        inner.map(lambda q: f"({q})"),
    ),
    max_leaves=5,
)


def matching(query: lexical.Query, text: str) -> bool:
    numbers = terms(text)
    return holds(query, numbers, set(row_grams(numbers)))


@given(st.one_of(st.text(max_size=60), QUERIES))
def test_parsing_raises_nothing_but_bad_query(text: str) -> None:
    try:
        query = parse(text)
    except BadQuery:
        return
    assert scoring_grams(query)


@given(st.text(max_size=80), st.data())
def test_a_term_taken_from_a_text_finds_that_text(text: str, data: st.DataObject) -> None:
    places = list(located(text))
    assume(places)
    number, start, end = data.draw(st.sampled_from(places))
    taken = text[start:end]
    assume(terms(taken) == [number])  # but for signs that stand for several, like ¼
    assert matching(parse(f'"{taken}"'), text)
    assert highlights(parse(f'"{taken}"'), text)


@given(TEXTS, st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=1, max_size=8), TEXTS)
def test_a_piece_of_chinese_finds_every_text_it_stands_in(before: str, piece: str, after: str) -> None:
    text = before + piece + after
    assert matching(parse(piece), text)
    assert matching(parse(f"「{piece}」"), text)


@given(WELL_FORMED, TEXTS)
def test_highlights_mark_only_what_the_query_says(query: str, text: str) -> None:
    read = parse(query)
    spans = highlights(read, text)
    assert all(0 <= a < b <= len(text) for a, b in spans)
    assert all(one[1] < other[0] for one, other in pairwise(spans))
    wanted = set(scoring_grams(read))
    assert all(wanted & row_grams(terms(text[a:b])).keys() for a, b in spans)
    if matching(read, text):
        assert spans


@given(st.lists(TEXTS, min_size=1, max_size=8), st.lists(WELL_FORMED, min_size=1, max_size=4))
def test_a_segment_matches_what_holds_says(texts: list[str], queries: list[str]) -> None:
    packed = [np.array(terms(t), dtype=np.uint64).tobytes() for t in texts]
    segment = build(list(range(len(texts))), [str(i) for i in range(len(texts))], packed, [None] * len(texts), 4)
    for query in map(parse, queries):
        expected = [matching(query, t) for t in texts]
        assert segment.matching(query).tolist() == expected
        if lexical.is_ranked(query):
            held = [bool(set(scoring_grams(query)) & row_grams(terms(t)).keys()) for t in texts]
            assert held == expected


@settings(max_examples=25, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=10), st.lists(WELL_FORMED, min_size=1, max_size=5))
def test_the_sqlite_index_finds_what_holds_says(texts: list[str], queries: list[str]) -> None:
    async def check(folder: str) -> None:
        index = SqliteIndex(Path(folder) / "index.db", "m", 4)
        scope = Scope.of("t", user_id="alice")
        await index.upsert(scope, [entry(f"e{i}", t) for i, t in enumerate(texts)])
        for query in queries:
            hits = await index.search(scope, Ask(text=query, limit=100))
            expected = {f"e{i}" for i, t in enumerate(texts) if matching(parse(query), t)}
            assert {h.entry.id for h in hits} == expected
            assert all(h.score > 0 for h in hits)
        await index.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(folder))


@given(
    st.sampled_from(("newest", "oldest", "position", "position_desc")),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=512),
)
def test_a_cursor_leads_back_to_its_place(order: str, at: int, position: int, id_: str) -> None:
    place = Place(at, position, id_)
    assert place_of(order, cursor_after(order, place)) == place  # type: ignore[arg-type]
