"""Turns without ids of their own, beside what a session holds: the same conversation grown, or a piece that follows."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from mnemon.contracts.turns import Turn
from mnemon.logic.masking import MASK

# What a turn says, in short; None for one that was taken away or of which words were, which nobody can compare.
Content = bytes | None

# Where it stands and under which name is not what it says.
_PLACE = {"turn_id", "source_ref", "drop_candidate"}


def content(turn: Turn) -> Content:
    if MASK in turn.text:
        return None
    body = turn.model_dump_json(exclude=_PLACE, exclude_defaults=True)
    return hashlib.blake2b(body.encode(), digest_size=16).digest()


def overlap(there: Sequence[Content], answered: int, given: Sequence[Content]) -> int:
    """How many of the given turns, from the first on, the session holds already.

    All that is there, where the given ones begin with it: then they are the conversation so far, sent again. Else those
    of a call that was begun after the first `answered` turns and got no good answer, where it is sent again. Else
    none: they follow on what is there."""
    if len(given) >= len(there) and _agree(there, given):
        return len(there)
    begun = there[answered:]
    return min(len(begun), len(given)) if _agree(begun, given) else 0


def unseen(there: Sequence[Content], given: Sequence[Content]) -> list[int]:
    """The places among the given turns of what the session does not hold; said twice is held twice."""
    if known := overlap(there, len(there), given):
        return list(range(known, len(given)))
    left = Counter(there)
    missing = []
    for place, said in enumerate(given):
        if left[said] > 0:
            left[said] -= 1
        else:
            missing.append(place)
    return missing


def _agree(there: Sequence[Content], given: Sequence[Content]) -> bool:
    return all(a is None or a == b for a, b in zip(there, given, strict=False))
