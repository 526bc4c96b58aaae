"""What held when, and what we knew when: found in whatever order it was learnt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy
from mnemon.contracts.graph import State
from mnemon.logic.graph.states import at_time, changes, current, in_time

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def day(n: int) -> datetime:
    return BEGIN + timedelta(days=n)


def state(
    value: str,
    since: int,
    until: int | None = None,
    *,
    learnt: int | None = None,
    of: str = "ann",
    what: str = "home",
    id_: str = "",
) -> State:
    known = since if learnt is None else learnt
    return State(
        id=id_ or f"{of} {what} {value} {since} {until} {known}",
        subject_id=of,
        property=what,
        value=value,
        valid_from=day(since),
        valid_to=None if until is None else day(until),
        created_at=day(known),
    )


def told(states: list[State], known: int | None = None) -> list[tuple[str, int, int | None]]:
    def number(moment: datetime | None) -> int | None:
        return None if moment is None else (moment - BEGIN).days

    held = in_time(states, None if known is None else day(known))
    return [(h.state.value, number(h.held_from) or 0, number(h.held_to)) for h in held]


def values(states: list[State], when: int, known: int | None = None) -> list[str]:
    return [h.state.value for h in at_time(states, day(when), None if known is None else day(known))]


MOVES = [state("Paris", 0), state("Rome", 10), state("Berlin", 20)]


def test_a_later_value_ends_an_open_one() -> None:
    assert told(MOVES) == [("Paris", 0, 10), ("Rome", 10, 20), ("Berlin", 20, None)]
    assert [h.state.value for h in current(MOVES, day(99))] == ["Berlin"]
    assert [values(MOVES, when) for when in (-1, 0, 9, 10, 25)] == [[], ["Paris"], ["Paris"], ["Rome"], ["Berlin"]]


def test_what_was_not_known_yet_ends_nothing() -> None:
    """Learnt on day 30 that she had moved on day 10."""
    states = [state("Paris", 0), state("Rome", 10, learnt=30)]
    assert values(states, 15, known=20) == ["Paris"]
    assert values(states, 15, known=30) == ["Rome"]
    assert values(states, 15) == ["Rome"]
    assert values(states, 5, known=30) == ["Paris"]


def test_what_is_learnt_late_of_earlier_days_does_not_end_what_came_after() -> None:
    states = [state("Rome", 10), state("Paris", 0, learnt=30)]
    assert told(states) == [("Paris", 0, 10), ("Rome", 10, None)]


def test_of_two_from_the_same_moment_the_one_learnt_last_counts() -> None:
    states = [state("Rome", 10, learnt=10), state("Milan", 10, learnt=12)]
    assert told(states) == [("Milan", 10, None)]
    assert told(states, known=11) == [("Rome", 10, None)]


def test_an_end_in_the_words_stays() -> None:
    states = [state("Paris", 0, 5), state("Rome", 10)]
    assert told(states) == [("Paris", 0, 5), ("Rome", 10, None)]
    assert values(states, 7) == []


def test_an_end_in_the_words_does_not_outlast_what_is_said_after() -> None:
    assert told([state("Paris", 0, 30), state("Rome", 10)]) == [("Paris", 0, 10), ("Rome", 10, None)]


def test_what_was_confirmed_is_not_undone_by_a_guess() -> None:
    lasting = {"forgetting_policy": ForgetPolicy.PERMANENT, "evidence_level": EvidenceLevel.USER_CONFIRMED}
    sure = state("Paris", 0).model_copy(update=lasting)
    guess = state("Rome", 10).model_copy(update={"evidence_level": EvidenceLevel.AI_INFERENCE})
    word = state("Berlin", 20).model_copy(update={"evidence_level": EvidenceLevel.USER_CONFIRMED})
    assert told([sure, guess]) == [("Paris", 0, None), ("Rome", 10, None)]
    assert told([sure, guess, word]) == [("Paris", 0, 20), ("Rome", 10, 20), ("Berlin", 20, None)]


def test_the_same_value_again_is_no_change_and_is_told_once() -> None:
    states = [state("Paris", 0), state("Paris", 10), state("Rome", 20)]
    assert values(states, 15) == ["Paris"]
    assert [(c.from_value, c.to_value) for c in changes(states)] == [(None, "Paris"), ("Paris", "Rome")]


def test_a_state_that_ends_before_it_begins_never_held() -> None:
    assert told([state("Paris", 0), state("Rome", 10, 10)]) == [("Paris", 0, None)]


def test_changes_say_from_what_to_what_when_and_when_we_learnt_it() -> None:
    states = [state("Paris", 0, 5), state("Rome", 10, learnt=30), state("Berlin", 20)]
    found = [(c.from_value, c.to_value, c.changed_at, c.learnt_at) for c in changes(states)]
    assert found == [
        (None, "Paris", day(0), day(0)),
        ("Paris", None, day(5), day(0)),
        (None, "Rome", day(10), day(30)),
        ("Rome", "Berlin", day(20), day(20)),
    ]
    assert [c.to_value for c in changes(states, known_at=day(25))] == ["Paris", None, "Berlin"]


def test_subjects_that_are_one_share_their_states() -> None:
    states = [state("Paris", 0, of="ann"), state("Rome", 10, of="annie")]
    assert values(states, 15) == ["Paris", "Rome"]
    one = {"ann": "ann", "annie": "ann"}
    assert [h.state.value for h in at_time(states, day(15), one=one)] == ["Rome"]
    assert {c.subject_id for c in changes(states, one=one)} == {"ann"}


def test_times_without_a_zone_count_as_utc() -> None:
    plain = State(id="x", subject_id="ann", property="home", value="Paris", valid_from=datetime(2026, 1, 1))
    assert values([plain, state("Rome", 10)], 5) == ["Paris"]
    assert plain.valid_from.tzinfo is UTC


days = st.integers(0, 12)
states = st.builds(
    lambda value, since, length, learnt, of, what, n: state(
        value, since, since + length if length else None, learnt=learnt, of=of, what=what, id_=f"s{n}"
    ),
    st.sampled_from("ABC"),
    days,
    st.integers(0, 4),
    days,
    st.sampled_from(["ann", "bob"]),
    st.sampled_from(["home", "job"]),
    st.integers(0, 10**9),
)
some = st.lists(states, max_size=12, unique_by=lambda s: s.id)


@given(some, st.randoms(use_true_random=False), days)
def test_the_order_in_which_states_come_does_not_matter(given_: list[State], rng: object, known: int) -> None:
    shuffled = sorted(given_, key=lambda _: rng.random())  # type: ignore[attr-defined]
    assert in_time(shuffled, day(known)) == in_time(given_, day(known))
    assert changes(shuffled) == changes(given_)
    assert set(at_time(shuffled, day(5))) == set(at_time(given_, day(5)))


@given(some, states)
def test_an_unrelated_state_never_ends_another(given_: list[State], stranger: State) -> None:
    strange = stranger.model_copy(update={"id": "stranger", "property": "shoe size"})
    foreign = stranger.model_copy(update={"id": "foreigner", "subject_id": "zoe"})
    before = in_time(given_)
    assert [h for h in in_time([*given_, strange, foreign]) if h.state.id not in ("stranger", "foreigner")] == list(
        before
    )


@given(some, states)
def test_intervals_that_do_not_overlap_never_end_each_other(given_: list[State], added: State) -> None:
    added = added.model_copy(update={"id": "added"})
    before = {h.state.id: h for h in in_time(given_)}
    after = {h.state.id: h for h in in_time([*given_, added])}
    for id_, held in before.items():
        apart = (held.held_to is not None and held.held_to <= added.valid_from) or (
            added.valid_to is not None and added.valid_to <= held.held_from
        )
        if apart:
            assert after[id_] == held


@given(some, days, days)
def test_what_was_known_then_does_not_depend_on_what_came_later(given_: list[State], known: int, when: int) -> None:
    by_then = [s for s in given_ if s.created_at is not None and s.created_at <= day(known)]
    assert at_time(given_, day(when), day(known)) == at_time(by_then, day(when))


@given(some)
def test_every_value_that_held_began_with_a_change(given_: list[State]) -> None:
    found = changes(given_)
    for of, what in {(s.subject_id, s.property) for s in given_}:
        own = [c for c in found if (c.subject_id, c.property) == (of, what)]
        assert [c.from_value for c in own[1:]] == [c.to_value for c in own[:-1]]
        assert all(c.from_value != c.to_value for c in own)
