"""What two homes know of one session, made one: in whichever order they meet, the same comes of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.logic.superseding import undecided


@dataclass(frozen=True, slots=True)
class Side:
    """The claims a home holds of a session, and the ids of all it has ever made of it."""

    claims: Sequence[Claim]
    learnt: Collection[str] = ()

    def took_away(self, claim_id: str) -> bool:
        """It knew the claim, and somebody has rejected or forgotten it since."""
        return claim_id in self.learnt and all(c.claim_id != claim_id for c in self.claims)


def merged(here: Side, there: Side) -> tuple[list[Claim], frozenset[str]]:
    """Every claim that one of them holds and the other did not take away, and the ids of those that go. What holds when
    follows from all claims about a matter, and is worked out where they are filed."""
    rows: dict[str, Claim] = {}
    for claim in (*here.claims, *there.claims):
        known = rows.get(claim.claim_id)
        rows[claim.claim_id] = claim if known is None else _better(known, claim)
    gone = frozenset(id_ for id_ in rows if here.took_away(id_) or there.took_away(id_))
    return [claim for id_, claim in rows.items() if id_ not in gone], gone


def same_claims(a: Sequence[Claim], b: Sequence[Claim]) -> bool:
    """Equal but for what follows from other claims."""
    return {c.claim_id: undecided(c) for c in a} == {c.claim_id: undecided(c) for c in b}


def _better(one: Claim, other: Claim) -> Claim:
    """Of two tellings of one claim the one a person or the sweep has had a hand in, else the one said last."""
    if undecided(one) == undecided(other):
        return one
    return max(one, other, key=_decided)


def _decided(claim: Claim) -> tuple[bool, bool, bool, datetime, str]:
    return (
        bool(claim.corrected_from),
        claim.state is not ClaimState.PENDING,
        claim.state is ClaimState.EXPIRED,
        claim.valid_from,
        claim.model_dump_json(),
    )
