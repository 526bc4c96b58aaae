"""What holds when depends on what was said and when, never on the order in which it was learnt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from made_claims import day, made

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.governance import EvidenceLevel, Kind, Status
from mnemon.logic.superseding import in_time, same_matter

LIVES = {"kind": Kind.FACT, "key": "residence"}


def held(claims: Sequence[Claim]) -> dict[str, tuple[str, int | None]]:
    """What became of each: its state, and the day on which it ended."""
    return {
        c.claim_id: (c.state.value, (c.valid_to - day(1)).days + 1 if c.valid_to else None) for c in in_time(claims)
    }


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        ("用户住在成都。", "用户住在上海。", "residence"),
        ("The user lives in Rome.", "The user lives in Oslo.", "residence"),
        ("用户喜欢咖啡。", "用户不喜欢咖啡。", ""),
        ("The user likes coffee.", "The user no longer likes coffee.", ""),
    ],
)
def test_a_later_claim_about_the_same_matter_supersedes_and_the_old_one_keeps_its_interval(
    first: str, second: str, key: str
) -> None:
    claims = [made(first, 1, key=key), made(second, 5, key=key)]
    assert held(claims) == {claims[0].claim_id: ("superseded", 5), claims[1].claim_id: ("active", None)}
    assert in_time(claims)[0].superseded_by == claims[1].claim_id


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (made("用户喜欢茶。"), made("用户喜欢爬山。", 2)),
        (made("The user likes tea."), made("The user does not like coffee.", 2)),
        (made("用户住在成都。", key="residence"), made("用户叫小雨。", 2, key="name")),
        (made("用户住在成都。", key="residence"), made("妹妹住在上海。", 2, key="residence", subject="妹妹")),
        (made("The user lives in Rome.", key="x", kind=Kind.FACT), made("Use Rome time.", 2, key="x", kind=Kind.RULE)),
        (made("用户住在成都。", **LIVES), made("用户住在上海。", 2, state=ClaimState.PENDING, **LIVES)),
    ],
)
def test_unrelated_claims_never_touch_each_other(a: Claim, b: Claim) -> None:
    assert [c.superseded_by for c in in_time([a, b])] == ["", ""]


def test_claims_whose_own_words_set_an_end_before_the_next_begins_stay_as_they_are() -> None:
    there = made("用户住在成都。", 1, said_until=day(3), valid_to=day(3), **LIVES)
    later = made("用户住在上海。", 5, **LIVES)
    assert held([there, later])[there.claim_id] == ("active", 3)
    overlapping = made("用户住在上海。", 2, **LIVES)
    assert held([there, overlapping])[there.claim_id] == ("superseded", 2)


CITIES = [made(f"用户住在{city}。", on, **LIVES) for on, city in ((1, "成都"), (4, "上海"), (9, "北京"))]


def test_three_changes_follow_each_other_in_whatever_order_they_are_learnt() -> None:
    expected = {
        CITIES[0].claim_id: ("superseded", 4),
        CITIES[1].claim_id: ("superseded", 9),
        CITIES[2].claim_id: ("active", None),
    }
    for order in permutations(CITIES):
        assert held(order) == expected
        # One at a time, as sessions come in out of order.
        known: list[Claim] = []
        for claim in order:
            known = in_time([*known, claim])
        assert held(known) == expected


def test_doing_it_again_changes_nothing() -> None:
    once = in_time(CITIES)
    assert in_time(once) == once


def test_a_claim_comes_back_when_the_one_that_superseded_it_is_taken_away() -> None:
    judged = in_time(CITIES)
    assert held(judged[:2]) == {CITIES[0].claim_id: ("superseded", 4), CITIES[1].claim_id: ("active", None)}
    assert held(judged[:1]) == {CITIES[0].claim_id: ("active", None)}


@pytest.mark.parametrize("statement", ["用户喜欢茶。", "The user likes tea."])
def test_the_same_statement_said_again_repeats_the_first(statement: str) -> None:
    first, again, third = (made(statement, on) for on in (1, 3, 6))
    assert held([third, first, again]) == {
        first.claim_id: ("active", None),
        again.claim_id: ("repeated", None),
        third.claim_id: ("repeated", None),
    }
    assert {c.repeats for c in in_time([first, again, third])} == {"", first.claim_id}


def test_there_and_back_again_is_three_intervals() -> None:
    there, away, back = (
        made("用户住在成都。", 1, **LIVES),
        made("用户住在上海。", 4, **LIVES),
        made("用户住在成都。", 9, **LIVES),
    )
    for order in permutations([there, away, back]):
        assert held(order) == {
            there.claim_id: ("superseded", 4),
            away.claim_id: ("superseded", 9),
            back.claim_id: ("active", None),
        }


def test_what_a_tool_proved_is_not_undone_in_passing() -> None:
    proven = made("The order is shipped.", 1, kind=Kind.FACT, key="order", evidence=EvidenceLevel.TOOL_GROUNDED)
    said = made("The order is lost.", 2, kind=Kind.FACT, key="order")
    assert held([proven, said]) == {proven.claim_id: ("active", None), said.claim_id: ("active", None)}
    again = made("The order is returned.", 3, kind=Kind.FACT, key="order", evidence=EvidenceLevel.TOOL_GROUNDED)
    assert held([proven, said, again])[proven.claim_id] == ("superseded", 3)


def test_a_task_that_is_done_supersedes_the_open_one() -> None:
    due = made("交房租", 1, kind=Kind.TASK, key="rent", status=Status.OPEN)
    done = made("交房租", 2, kind=Kind.TASK, key="rent", status=Status.DONE)
    assert held([due, done])[due.claim_id] == ("superseded", 2)


def test_the_same_matter_is_a_key_or_the_same_words_for_and_against() -> None:
    assert same_matter(made("a b", key="K"), made("c d", key="k"))
    assert same_matter(made("用户喜欢香菜。"), made("用户讨厌香菜。"))
    assert not same_matter(made("The user likes tea."), made("The user loves tea."))
    assert not same_matter(made("用户喜欢。"), made("用户不喜欢。"))
