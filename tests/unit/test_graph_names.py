"""Names: which are the same, which may be, and that thousands of them are compared quickly enough."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon.contracts.graph import Entity
from mnemon.logic.graph import names
from mnemon.logic.graph.names import likely, likely_pairs, same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tom Smith", "  tom   SMITH "),
        ("ＴＯＭ", "tom"),
        ("Straße", "STRASSE"),
        ("小 明", "小  明"),
        ("王小明", "王小明"),
    ],
)
def test_spellings_of_one_name_are_the_same(one: str, other: str) -> None:
    assert same(one) == same(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Tom", "Tim"), ("王小明", "王晓明"), ("陳伟", "陈伟"), ("café", "cafe"), ("Tom Smith", "TomSmith")],
)
def test_different_names_stay_different(one: str, other: str) -> None:
    assert same(one) != same(other)


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("Tom", "Tom Smith", "part"),
        ("Smith", "Dr. Tom Smith", "part"),
        ("Dr. Smith", "Tom Smith", "part"),
        ("T. Smith", "Tom Smith", "initials"),
        ("TS", "Tom Smith", "initials"),
        ("J. R. Tolkien", "John Ronald Tolkien", "initials"),
        ("Katherine", "Katharine", "spelt"),
        ("Jonathan", "Jonathon", "spelt"),
        ("Micheal", "Michael", "spelt"),
        ("Anders", "Andes", "spelt"),
        ("小王", "王小明", "short"),
        ("老王", "王建国", "short"),
        ("阿明", "王小明", "short"),
        ("小明", "王小明", "short"),
        ("建国", "王建国", "given name"),
        ("张老师", "张伟", "title"),
        ("欧阳教授", "欧阳修远", "title"),
        ("王总", "王建国", "title"),
        ("陳偉", "陈伟", "simplified"),
        ("小張", "张伟", "short"),
    ],
)
def test_a_likely_name_says_why(one: str, other: str, why: str) -> None:
    assert why in (likely(one, other) or "")
    assert likely(one, other) == likely(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tom", "tom"),
        ("Tom", "Tim"),
        ("Anna", "Hanna Berg"),
        ("Tom Smith", "Tom Jones"),
        ("Room 1011", "Room 1012"),
        ("Project 2024", "Project 2025"),
        ("Dr.", "Dr. Smith"),
        ("T", "Tom Smith"),
        ("小王", "老王"),
        ("小王", "李小明"),
        ("张老师", "李伟"),
        ("张老师", "王老师"),
        ("王小明", "王建国"),
        ("北京", "北京大学"),
        ("", "Tom"),
    ],
)
def test_what_nothing_speaks_for_is_not_likely(one: str, other: str) -> None:
    assert likely(one, other) is None


@given(st.text(max_size=12), st.text(max_size=12))
def test_likeness_has_no_direction_and_never_holds_for_the_same_name(one: str, other: str) -> None:
    assert likely(one, other) == likely(other, one)
    assert likely(one, one) is None
    assert same(same(one)) == same(one)


def entity(id_: str, name: str, *aliases: str, who: str = "u:a", type_: str = "thing") -> Entity:
    return Entity(id=id_, name=name, aliases=aliases, user_id=(who,), memory_domain="dialog", type=type_)


def pairs(*entities: Entity) -> set[tuple[str, str]]:
    return {(one.id, two.id) for one, two, _ in likely_pairs(entities)}


def test_pairs_are_found_by_any_name_and_only_among_the_same_people() -> None:
    assert pairs(entity("1", "Tom"), entity("2", "Tom Smith"), entity("3", "Ann", "T. Smith")) == {
        ("1", "2"),
        ("2", "3"),
    }
    assert pairs(entity("1", "Tom"), entity("2", "Tom Smith", who="u:b")) == set()
    assert pairs(entity("1", "小王"), entity("2", "王小明"), entity("3", "李雷")) == {("1", "2")}


def test_those_who_are_one_already_or_of_another_sort_are_no_pair() -> None:
    assert pairs(entity("1", "Tom", "Tom Smith"), entity("2", "tom smith")) == set()
    assert pairs(entity("1", "Paris", type_="person"), entity("2", "Paris Texas", type_="city")) == set()
    assert pairs(entity("1", "Paris", type_="person"), entity("2", "Paris Texas")) == {("1", "2")}


def test_a_short_form_that_fits_many_fits_nobody_in_particular() -> None:
    many = [entity(f"n{n}", f"王小{c}") for n, c in enumerate("明红刚强军华")]
    assert pairs(entity("short", "小王"), *many[:3]) == {("n0", "short"), ("n1", "short"), ("n2", "short")}
    assert pairs(entity("short", "小王"), *many) == set()


def test_pairs_are_those_that_comparing_each_with_each_would_find() -> None:
    rng = random.Random(3)
    first = ["Tom", "Anna", "Katherine", "Katharine", "T.", "Dr.", "Jon", "Maria"]
    last = ["Smith", "Smyth", "Berg", "Jones", "Johnson", "Jonson"]
    called = {rng.choice(first) if rng.random() < 0.3 else f"{rng.choice(first)} {rng.choice(last)}" for _ in range(12)}
    called |= {"小王", "王小明", "张老师", "张伟", "建国", "王建国", "TS"}
    everybody = [entity(str(n), name) for n, name in enumerate(sorted(called))]
    slow = {tuple(sorted((one.id, two.id))) for one in everybody for two in everybody if likely(one.name, two.name)}
    found = pairs(*everybody)
    assert found <= slow
    crowded = {i for i in {e.id for e in everybody} if sum(i in pair for pair in slow) > names._MOST}
    assert {pair for pair in slow if not crowded & set(pair)} <= found


def test_thousands_of_names_are_not_compared_each_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    syllables = ["ka", "ro", "min", "tel", "su", "vor", "an", "li", "pet", "go"]
    surnames = "王李张刘陈杨黄赵周吴"
    made = {"".join(rng.choices(syllables, k=4)) + " " + "".join(rng.choices(syllables, k=4)) for _ in range(2_000)}
    made |= {
        rng.choice(surnames) + chr(0x4E00 + rng.randrange(2_000)) + chr(0x4E00 + rng.randrange(2_000))
        for _ in range(2_000)
    }
    compared = 0
    reason = names._reason

    def counted(a: names._Name, b: names._Name) -> str | None:
        nonlocal compared
        compared += 1
        return reason(a, b)

    monkeypatch.setattr(names, "_reason", counted)
    likely_pairs([entity(str(n), name) for n, name in enumerate(sorted(made))])
    assert compared < 20 * len(made)
