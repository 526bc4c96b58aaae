"""What holds when: of claims about the same matter, each holds until the next one that says otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy
from mnemon.contracts.sessions import StoredTurn
from mnemon.contracts.turns import parse_time
from mnemon.logic.memo import remembered
from mnemon.logic.polarity import negative
from mnemon.logic.support import content_terms
from mnemon.logic.text import fold

_JUDGED = (ClaimState.ACTIVE, ClaimState.SUPERSEDED, ClaimState.REPEATED)
_STRENGTH = {level: n for n, level in enumerate(EvidenceLevel)}
_APART = timedelta(microseconds=1)
# Two who write at the same time may overtake each other by as long as a model takes; a clock that was set back by less
# is not told from that.
_OVERTAKEN = timedelta(minutes=10)


class _Said(NamedTuple):
    """What a statement says, to be compared: its words folded, what they are about, and whether it is against it."""

    folded: str
    about: frozenset[int | str]
    against: bool


@remembered(50_000)
def _said(statement: str) -> _Said:
    return _Said(fold(statement), frozenset(content_terms(statement)), negative(statement))


def same_statement(a: Claim, b: Claim) -> bool:
    return _said(a.statement).folded == _said(b.statement).folded and a.status == b.status


def same_matter(a: Claim, b: Claim) -> bool:
    """Can only one of them hold at a time? They name the same key, or say the same thing for and against."""
    if a.kind is not b.kind or a.subject != b.subject:
        return False
    if a.dedup_key and fold(a.dedup_key) == fold(b.dedup_key):
        return True
    mine, other = _said(a.statement), _said(b.statement)
    return mine.against != other.against and bool(mine.about) and mine.about == other.about


def said_in_turn(turns: Sequence[StoredTurn]) -> dict[str, datetime]:
    """When each turn of a session was said. What came in at one moment, or is dated alike, came one after the other
    all the same: a microsecond apart."""
    moments: dict[str, datetime] = {}
    taken: dict[datetime, int] = defaultdict(int)
    for stored in turns:
        said = stored.turn.timestamp_iso
        moment = parse_time(said) if said else stored.archived_at
        moments[stored.turn.turn_id] = moment + taken[moment] * _APART
        taken[moment] += 1
    return moments


def by_arrival(incoming: Sequence[Claim], before: Sequence[Claim]) -> list[Claim]:
    """What comes in now, behind what came in before it. Where the clock went back in between, what is there was
    learnt after what is new; of two whose times are those of the clock, the later one is then the one that came
    later. Times that people gave stay as they are."""
    there = [c for c in before if c.arrived]
    out: list[Claim] = []
    for claim in sorted(incoming, key=_when):
        ahead = [c.valid_from for c in there if max(c.recorded_at, c.valid_from) > claim.recorded_at + _OVERTAKEN]
        # One from before the clock went back is dated behind the moment it was learnt at.
        if claim.arrived and claim.valid_from <= claim.recorded_at and ahead and max(ahead) >= claim.valid_from:
            claim = claim.model_copy(update={"valid_from": max(ahead) + _APART})
            there.append(claim)
        out.append(claim)
    return out


def in_time(claims: Sequence[Claim]) -> list[Claim]:
    """The same claims, each with the interval in which it holds. Depends on the set alone: not on the order in which
    they were learnt, and doing it again changes nothing."""
    rows = sorted(claims, key=_when)
    rivals: dict[object, list[Claim]] = defaultdict(list)
    for claim in rows:
        for matter in _matters(claim):
            rivals[matter].append(claim)
    return _said_again([_judged(claim, _after(claim, rivals)) for claim in rows])


def _when(claim: Claim) -> tuple[datetime, datetime, str]:
    return claim.valid_from, claim.recorded_at, claim.claim_id


def _matters(claim: Claim) -> list[object]:
    """What it can be compared by, so that a node of many claims is not compared each with each."""
    found: list[object] = [_said(claim.statement).about]
    return [fold(claim.dedup_key), *found] if claim.dedup_key else found


def _after(claim: Claim, rivals: dict[object, list[Claim]]) -> list[Claim]:
    found = {other.claim_id: other for matter in _matters(claim) for other in rivals[matter]}
    return sorted((other for other in found.values() if _when(other) > _when(claim)), key=_when)


def _said_again(rows: Sequence[Claim]) -> list[Claim]:
    """Of claims that say the same while nothing else was said in between, the first holds; the others repeat it. So
    what is said a hundred times is one piece of knowledge, and one change when it changes."""
    first: dict[tuple[str, str, str, str], Claim] = {}
    out: list[Claim] = []
    for claim in rows:
        if claim.state in _JUDGED:
            same = (claim.kind, claim.subject, _said(claim.statement).folded, claim.status)
            there = first.get(same)
            if there is not None and there.valid_to == claim.valid_to and there.superseded_by == claim.superseded_by:
                claim = claim.model_copy(
                    update={
                        "state": ClaimState.REPEATED,
                        "repeats": there.claim_id,
                        "valid_to": None,
                        "superseded_by": "",
                    }
                )
            else:
                first[same] = claim
        out.append(claim)
    return out


def undecided(claim: Claim) -> Claim:
    """The claim by itself, before it meets others about the same matter."""
    if claim.state not in _JUDGED:
        return claim
    return claim.model_copy(
        update={"state": ClaimState.ACTIVE, "valid_to": claim.said_until, "superseded_by": "", "repeats": ""},
    )


def _judged(claim: Claim, later: Sequence[Claim]) -> Claim:
    if claim.state not in _JUDGED:
        return claim
    free = undecided(claim)
    for other in later:
        if free.said_until is not None and free.said_until <= other.valid_from:
            break  # it was over by then
        if _overrules(other, free):
            end = {"state": ClaimState.SUPERSEDED, "valid_to": other.valid_from, "superseded_by": other.claim_id}
            return free.model_copy(update=end)
    return free


def _overrules(new: Claim, old: Claim) -> bool:
    if new.state not in _JUDGED or not same_matter(old, new):
        return False
    if same_statement(old, new):
        return False
    lasting = old.governance.forget_policy is ForgetPolicy.PERMANENT
    weaker = _STRENGTH[new.governance.evidence_level] < _STRENGTH[old.governance.evidence_level]
    return not (lasting and weaker)  # what a tool proved, or the user confirmed, is not undone in passing
