"""Quotes hold code point by code point, and a lost place is found only where there is no doubt."""

from __future__ import annotations

import pytest

from mnemon.contracts.turns import Role, Span, Turn
from mnemon.logic.denoise import TRUNCATED_MARK, DenoiseRules, denoise
from mnemon.logic.spans import place_of, problem

THUMB, FAMILY, FLAG = "👍🏽", "👨‍👩‍👧", "🇨🇳"
ACCENT, KEYCAP, SCOTLAND, KOREAN = "e\u0301", "1\ufe0f\u20e3", "🏴\U000e0067\U000e0062\U000e007f", "\u1112\u1161\u11ab"


def turn(text: str, role: Role = Role.USER) -> Turn:
    return Turn(turn_id="t1", role=role, text=text)


def wrong(text: str, start: int, end: int) -> str:
    return problem(turn(text), start, end, text[start:end])


@pytest.mark.parametrize("sign", [THUMB, FAMILY, FLAG, ACCENT, KEYCAP, SCOTLAND, KOREAN, "\r\n"])
@pytest.mark.parametrize(("before", "after"), [("我喜欢", "茶"), ("I like", " tea")])
def test_a_character_of_several_parts_is_quoted_whole_or_not_at_all(sign: str, before: str, after: str) -> None:
    text = before + sign + after
    at, end = len(before), len(before + sign)
    assert wrong(text, 0, end) == wrong(text, 0, at) == wrong(text, end, len(text)) == ""
    for middle in range(at + 1, end):
        assert wrong(text, 0, middle) == wrong(text, middle, len(text)) == "the quote cuts a character in two"


def test_flags_are_pairs_however_many_stand_in_a_row() -> None:
    flags = "🇨🇳🇫🇷🇩🇪"
    assert [wrong(flags, 0, n) == "" for n in range(1, 7)] == [False, True, False, True, False, True]


@pytest.mark.parametrize("quote", ["", " ", "\n\t", "\u3000"])
def test_an_empty_quote_proves_nothing(quote: str) -> None:
    assert problem(turn(f"a{quote}b"), 1, 1 + len(quote), quote) == "the quote is empty"
    assert place_of(turn(f"a{quote}b"), quote) is None


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("I live in São Paulo", "Sao Paulo"),
        ("我住在臺北", "我住在台北"),
        ("caf\u00e9", "cafe\u0301"),
        ("Ｔｅａ", "Tea"),
    ],
)
def test_a_quote_that_only_looks_the_same_does_not_stand_there(text: str, quote: str) -> None:
    assert problem(turn(text), 0, len(text), quote) == "the quote does not stand there"
    assert place_of(turn(text), quote) is None


@pytest.mark.parametrize(
    ("text", "quote"), [("😀😀 我对花生过敏", "我对花生过敏"), ("👨‍👩‍👧 I live in Rome", "I live in Rome")]
)
def test_places_counted_in_utf16_are_put_right_where_the_quote_stands_once(text: str, quote: str) -> None:
    start = len(text[: text.index(quote)].encode("utf-16-le")) // 2
    assert problem(turn(text), start, start + len(quote), quote) != ""
    place = place_of(turn(text), quote)
    assert place is not None
    assert Span.cut(turn(text), *place).text_exact == quote


@pytest.mark.parametrize(("text", "quote"), [("tea or tea", "tea"), ("茶，茶", "茶"), ("aaa", "aa"), ("tea", "wine")])
def test_a_place_is_never_guessed(text: str, quote: str) -> None:
    assert place_of(turn(text), quote) is None


def test_a_quote_may_touch_the_mark_of_a_cut_and_not_reach_into_it() -> None:
    cut = next(denoise([turn("日志 log " * 50, Role.TOOL)], DenoiseRules(tool_text_limit=60))).turn
    assert cut is not None
    assert cut.text.endswith(TRUNCATED_MARK)
    own = len(cut.text) - len(TRUNCATED_MARK)
    assert problem(cut, 0, own, cut.text[:own]) == ""
    assert problem(cut, 0, own + 1, cut.text[: own + 1]) == "the quote reaches into the mark of a cut"
    assert problem(cut, own, len(cut.text), TRUNCATED_MARK) == "the quote reaches into the mark of a cut"
    # Somebody who merely writes the mark has said it.
    said = turn(f"what does {TRUNCATED_MARK} mean")
    assert problem(said, 0, len(said.text), said.text) == ""
