"""What held when, and what we knew of it when. A state says from when it held; whether it still does follows from
what else is known, so it is worked out here, from whatever was learnt by then, in whatever order it comes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy
from mnemon.contracts.graph import State
from mnemon.contracts.graph_results import HeldState, StateChange
from mnemon.logic.text import fold

_STRENGTH = {level: n for n, level in enumerate(EvidenceLevel)}

Property = tuple[str, str]


def in_time(
    states: Iterable[State], known_at: datetime | None = None, one: Mapping[str, str] | None = None
) -> tuple[HeldState, ...]:
    """Each state known by `known_at` (None: by now) with the time it held, oldest first; one that a later word took
    back from its first moment on is left out. `one` names subjects that are the same by one of their ids."""
    held: list[HeldState] = []
    for told in _by_property(states, known_at, one or {}).values():
        for place, state in enumerate(told):
            start = state.valid_from
            end = _end_of(state, told[place + 1 :])
            if end is None or end > start:
                held.append(HeldState(state, start, end))
    return tuple(sorted(held, key=lambda h: (h.held_from, *_learnt(h.state))))


def at_time(
    states: Iterable[State],
    when: datetime,
    known_at: datetime | None = None,
    one: Mapping[str, str] | None = None,
) -> tuple[HeldState, ...]:
    """What held at a moment; of the same said several times, what was said of the earliest."""
    found: dict[tuple[str, str, str], HeldState] = {}
    for held in in_time(states, known_at, one):
        if held.held_from <= when and (held.held_to is None or when < held.held_to):
            found.setdefault((*_property(held.state, one or {}), fold(held.state.value)), held)
    return tuple(found.values())


def current(
    states: Iterable[State],
    now: datetime,
    known_at: datetime | None = None,
    one: Mapping[str, str] | None = None,
) -> tuple[HeldState, ...]:
    """What holds, as far as is known."""
    return at_time(states, now, known_at, one)


def changes(
    states: Iterable[State], known_at: datetime | None = None, one: Mapping[str, str] | None = None
) -> tuple[StateChange, ...]:
    """Every moment at which a property got another value or lost it, oldest first."""
    subjects = one or {}
    lives: dict[Property, list[HeldState]] = defaultdict(list)
    for held in in_time(states, known_at, subjects):
        lives[_property(held.state, subjects)].append(held)
    found = [change for (subject, name), life in lives.items() for change in _changes_of(subject, name, life)]
    return tuple(sorted(found, key=lambda c: (c.changed_at, c.subject_id, c.property)))


def _changes_of(subject: str, name: str, life: Sequence[HeldState]) -> list[StateChange]:
    moments = sorted({h.held_from for h in life} | {h.held_to for h in life if h.held_to is not None})
    found: list[StateChange] = []
    before: HeldState | None = None
    for moment in moments:
        there = [h for h in life if h.held_from <= moment and (h.held_to is None or moment < h.held_to)]
        after = there[-1] if there else None
        told = after or before
        if told is not None and not _is_the_same(before, after):
            found.append(
                StateChange(
                    subject_id=subject,
                    property=name,
                    from_value=before.state.value if before else None,
                    to_value=after.state.value if after else None,
                    changed_at=moment,
                    learnt_at=told.state.created_at,
                    state_id=told.state.id,
                )
            )
        before = after
    return found


def _by_property(
    states: Iterable[State], known_at: datetime | None, one: Mapping[str, str]
) -> dict[Property, list[State]]:
    """Those known by then, each property's from the earliest on; of the same moment the one learnt last comes last."""
    told: dict[Property, list[State]] = defaultdict(list)
    for state in states:
        if _is_known(state, known_at) and (state.valid_to is None or state.valid_to > state.valid_from):
            told[_property(state, one)].append(state)
    for some in told.values():
        some.sort(key=lambda state: (state.valid_from, *_learnt(state)))
    return told


def _is_known(state: State, known_at: datetime | None) -> bool:
    return known_at is None or state.created_at is None or state.created_at <= known_at


def _property(state: State, one: Mapping[str, str]) -> Property:
    return one.get(state.subject_id, state.subject_id), state.property


def _end_of(state: State, later: Sequence[State]) -> datetime | None:
    """The end its own words give, or where a later state of the same property says otherwise before that."""
    for other in later:
        if state.valid_to is not None and state.valid_to <= other.valid_from:
            break  # it was over by then
        if not _says_the_same(other, state) and _counts_against(other, state):
            return other.valid_from
    return state.valid_to


def _says_the_same(one: State, other: State) -> bool:
    return fold(one.value) == fold(other.value)


def _is_the_same(before: HeldState | None, after: HeldState | None) -> bool:
    if before is None or after is None:
        return before is after
    return _says_the_same(before.state, after.state)


def _counts_against(new: State, old: State) -> bool:
    """As with claims: what a tool proved, or the user confirmed, is not undone in passing."""
    lasting = old.forgetting_policy is ForgetPolicy.PERMANENT
    if not lasting or new.evidence_level is None or old.evidence_level is None:
        return True
    return _STRENGTH[new.evidence_level] >= _STRENGTH[old.evidence_level]


def _learnt(state: State) -> tuple[datetime, str]:
    return state.created_at if state.created_at else datetime.min.replace(tzinfo=UTC), state.id
