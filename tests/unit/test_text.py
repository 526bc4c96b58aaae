"""Cutting Chinese, English and mixed text into numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon.logic import text as text_module
from mnemon.logic.text import (
    GAP,
    PAIR_BIT,
    STOP_WORDS,
    WORD_BIT,
    grams,
    is_character,
    located,
    pair,
    terms,
    word_number,
)

MIXED = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("北京大学上海猫狗abcAB ,，。'’-_１Ａ가각가ﾃﾋﾞがé😀\u0301豈"),
    ),
    max_size=40,
)


def spelled(text: str) -> list[str]:
    """Terms as people would write them: characters as they are, words as `w`, gaps as `|`."""
    return ["|" if n == GAP else chr(n) if is_character(n) else "w" for n in terms(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("我住在杭州", "我住在杭州"),
        ("你好，世界", "你好|世界"),
        ("你好 世界！再见", "你好|世界|再见"),
        ("hello world", "ww"),
        ("hello, world", "ww"),
        ("我用iPhone15拍照", "我用w拍照"),
        ("第3章", "第w章"),
        ("太好了😀😀great", "太好了w"),
        ("😀！？……", ""),
        ("don't stop", "ww"),
        ("snake_case", "ww"),
        ("C++ 和 C#", "w和w"),
        ("東京タワー", "東京タワー"),
        ("한국어 말", "한국어|말"),
        ("々〇", "々〇"),
        ("𠮷野家", "𠮷野家"),
    ],
)
def test_text_is_cut_into_words_and_characters(text: str, expected: str) -> None:
    assert "".join(spelled(text)) == expected


@pytest.mark.parametrize(
    "same",
    [
        ("Running", "runs", "RUN", "ｒｕｎ"),
        ("café", "CAFÉ", "cafe\u0301"),
        ("don't", "don’t", "DON'T"),
        ("豈", "豈"),
        ("ガ", "ｶﾞ", "カ\u3099"),
        ("각", "\u1100\u1161\u11a8"),
        ("ﬁle", "file", "files"),
        ("2024", "２０２４"),
    ],
)
def test_ways_of_writing_one_word_have_one_number(same: tuple[str, ...]) -> None:
    assert len({tuple(terms(word)) for word in same}) == 1


def test_different_words_have_different_numbers() -> None:
    words = ["cat", "dog", "猫", "狗", "cafe", "café", "universe", "Müller", "1", "2"]
    assert len({tuple(terms(w)) for w in words}) == len(words)


def test_numbers_of_words_pairs_and_characters_never_meet() -> None:
    assert word_number("cat") & WORD_BIT
    assert pair(0x10FFFF, 0x10FFFF) < WORD_BIT
    assert pair(1, 1) > PAIR_BIT > 0x10FFFF
    assert pair(ord("北"), ord("京")) != pair(ord("京"), ord("北"))


def test_grams_are_words_pairs_and_lone_characters() -> None:
    cat, (n, j, d) = word_number("cat"), map(ord, "北京大")
    assert grams(terms("cat")) == [cat]
    assert grams(terms("北")) == [n]
    assert grams(terms("北京")) == [pair(n, j)]
    assert grams(terms("北京大")) == [pair(n, j), pair(j, d)]
    assert grams(terms("北，京")) == [n, j]
    assert grams(terms("北cat京大")) == [n, cat, pair(j, d)]
    assert grams([]) == []


def test_stop_words_are_english_words_that_say_nothing() -> None:
    assert word_number("The") in STOP_WORDS
    assert word_number("tea") not in STOP_WORDS


def test_threads_do_not_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"{a}{b}{c}ing" for a in ("walk", "relat", "nation") for b in ("al", "iz", "ful") for c in range(300)]
    monkeypatch.setattr(text_module, "_numbers", {})
    alone = {w: word_number(w) for w in words}
    for _ in range(3):
        monkeypatch.setattr(text_module, "_numbers", {})
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(word_number, words, chunksize=5))
        assert together == list(alone.values())


@given(MIXED)
def test_located_terms_are_the_terms_and_stand_where_they_say(text: str) -> None:
    found = list(located(text))
    assert [n for n, _, _ in found] == [n for n in terms(text) if n != GAP]
    last = 0
    for number, start, end in found:
        assert 0 <= start < end <= len(text)
        assert start >= last  # parts of one expanded character share its place
        assert number in terms(text[start:end])
        last = start


@given(MIXED)
def test_gaps_stand_only_between_characters(text: str) -> None:
    numbers = terms(text)
    for i, number in enumerate(numbers):
        if number == GAP:
            assert is_character(numbers[i - 1])
            assert is_character(numbers[i + 1])
