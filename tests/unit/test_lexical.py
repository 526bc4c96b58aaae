"""The search language: what can be read, what it means, what is marked."""

from __future__ import annotations

import pytest

from mnemon.contracts.errors import BadQuery
from mnemon.logic import lexical
from mnemon.logic.lexical import AllOf, AnyOf, Leaf, Query, highlights, holds, idf, is_ranked, parse, row_grams, weight
from mnemon.logic.text import grams, pair, terms, word_number


def leaf(text: str, strict: bool = False) -> Leaf:
    return Leaf(tuple(terms(text)), strict)


def matches(query: str, text: str) -> bool:
    numbers = terms(text)
    return holds(parse(query), numbers, set(row_grams(numbers)))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("tea", leaf("tea")),
        ("北京大学", leaf("北京大学")),
        ("green tea", AnyOf((leaf("green"), leaf("tea")))),
        ("green OR tea", AnyOf((leaf("green"), leaf("tea")))),
        ("green AND tea", AllOf((leaf("green", True), leaf("tea", True)))),
        ('"green tea"', leaf("green tea", True)),
        ("tea -milk", AnyOf((leaf("tea"),), (leaf("milk", True),))),
        ("tea NOT milk", AnyOf((leaf("tea"),), (leaf("milk", True),))),
        ("tea AND NOT milk", AnyOf((leaf("tea", True),), (leaf("milk", True),))),
        ("tea NOT NOT milk", AnyOf((leaf("tea"), leaf("milk")))),
        ("tea NOT -milk", AnyOf((leaf("tea"), leaf("milk")))),
        ("(tea)", leaf("tea")),
        ("((tea))", leaf("tea")),
        ("tea ()", leaf("tea")),
        ("tea !?", leaf("tea")),
        ("the tea", AnyOf((leaf("tea"),))),
        ("and", leaf("and")),
        (
            "a1 OR b1 AND -c1",
            AnyOf((leaf("a1"), AnyOf((leaf("b1", True),), (leaf("c1", True),)))),
        ),
        ("tea -(milk OR sugar)", AnyOf((leaf("tea"),), (AnyOf((leaf("milk"), leaf("sugar"))),))),
    ],
)
def test_queries_are_read(text: str, query: Query) -> None:
    assert parse(text) == query


@pytest.mark.parametrize("quoted", ['"北京大学"', "“北京大学”", "「北京大学」", "『北京大学』"])
def test_four_kinds_of_quotes(quoted: str) -> None:
    assert parse(quoted) == leaf("北京大学", True)
    assert parse(f"tea -{quoted}") == AnyOf((leaf("tea"),), (leaf("北京大学", True),))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no word"),
        ("  \n", "no word"),
        ("😀", "no word"),
        ("()", "no word"),
        ('""', "no word"),
        ("-", "no word"),
        ("tea)", "closing bracket too many"),
        ("(tea", "no closing bracket"),
        ("-(tea", "no closing bracket"),
        ('say "tea', "no closing quote for the one at character 5"),
        ("“tea", "no closing quote"),
        ("「tea", "no closing quote"),
        ("『tea", "no closing quote"),
        ("tea”", "no closing quote"),
        ("AND tea", "need a word on their right"),
        ("tea AND", "need a word on their right"),
        ("tea AND OR milk", "need a word on their right"),
        ("tea NOT", "need a word on their right"),
        ("(tea AND) milk", "need a word on their right"),
        ("-tea", "not excluded"),
        ("NOT tea", "not excluded"),
        ("-(tea)", "not excluded"),
        ("(-tea) milk", "not excluded"),
        ("(" * 22 + "tea" + ")" * 22, "nested deeper than 20"),
        ("x" * 10_001, "longer than 10000"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, says: str) -> None:
    with pytest.raises(BadQuery, match=says) as error:
        parse(text)
    assert error.value.field == "query_text"


def test_as_deep_and_as_long_as_allowed() -> None:
    assert parse("(" * 20 + "tea" + ")" * 20) == leaf("tea")
    assert isinstance(parse("tea " * 2_500), AnyOf)
    assert isinstance(parse("NOT " * 2_000 + "tea"), Leaf)


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("北京大学", "我在北京", True),
        ('"北京大学"', "我在北京", False),
        ("北京大学 AND 我", "我在北京", False),
        ("tea -北京大学", "tea 北京", True),
        ("tea -北京", "tea 北京大学", False),
        ('"green tea"', "green, tea!", True),
        ('"green tea"', "tea green", False),
        ('"你好世界"', "你好，世界", False),
        ('"你好，世界"', "你好。世界", True),
        ('"a b c d e"', "a b", False),
        ("京", "北京", True),
        ("a1 OR b1 AND -c1", "a1 c1", True),
        ("a1 OR b1 AND -c1", "b1 c1", False),
        ("a1 b1 -c1", "a1 c1", False),
    ],
)
def test_what_a_query_matches(query: str, text: str, expected: bool) -> None:
    assert matches(query, text) is expected


def test_stop_words_go_only_from_plain_words_and_never_all() -> None:
    assert parse("where is the tea") == AnyOf((leaf("tea"),))
    assert parse("to be or") == AnyOf((leaf("to"), leaf("be"), leaf("or")))
    assert parse("the AND tea") == AllOf((leaf("the", True), leaf("tea", True)))
    assert parse('"the tea" the') == AnyOf((leaf("the tea", True), leaf("the")))


def test_ranked_queries_match_exactly_where_a_gram_is() -> None:
    for text in ("tea", "green tea", "北京大学", '"北京"', "tea OR (green milk)"):
        assert is_ranked(parse(text)), text
    for text in ('"北京大学"', "a1 AND b1", "a1 -b1", '"green tea"'):
        assert not is_ranked(parse(text)), text


def test_scoring_grams_come_once_and_not_from_what_is_excluded() -> None:
    assert lexical.scoring_grams(parse("tea teas tea -milk")) == [word_number("tea")]
    assert lexical.scoring_grams(parse("北京 AND 北京大")) == grams(terms("北京大"))


def test_row_grams_count_words_characters_and_pairs() -> None:
    assert row_grams(terms("好好，好 tea tea")) == {
        ord("好"): 3,
        pair(ord("好"), ord("好")): 1,
        word_number("tea"): 2,
    }
    assert row_grams([]) == {}


def test_weights_go_the_right_way() -> None:
    assert weight(2, 10) > weight(1, 10) > weight(1, 100) > 0
    assert idf(100, 1) > idf(100, 50) > idf(100, 100) > 0


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("tea", "Green tea, TEAS!", ["tea", "TEAS"]),
        ("hello", "hello世界", ["hello"]),
        ("世", "hello世界", ["世"]),
        ("世界", "hello世界 世，界", ["世界"]),
        ("北京大学", "在北京大学和北京", ["北京大学", "北京"]),
        ("京", "北京京剧", ["京京"]),
        ("python", "用 Ｐｙｔｈｏｎ３ 和 Ｐｙｔｈｏｎ", ["Ｐｙｔｈｏｎ"]),
        ("cafe\u0301", "un café, un cafe\u0301!", ["café", "cafe\u0301"]),
        ("テレビ", "ﾃﾚﾋﾞを見る", ["ﾃﾚﾋﾞ"]),
        ("tea -milk", "tea milk", ["tea"]),
        ('"green tea"', "green tea", ["green", "tea"]),
        ("😀tea", "😀😀 tea 😀", ["tea"]),
        ("x1", "nothing here", []),
    ],
)
def test_highlights_are_exact_places_in_the_text(query: str, text: str, marked: list[str]) -> None:
    assert [text[start:end] for start, end in highlights(parse(query), text)] == marked
