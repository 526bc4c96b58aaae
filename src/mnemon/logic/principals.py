"""How a store finds what somebody may see without looking at what they may not, and whose word counts first."""

from __future__ import annotations

from collections.abc import Iterable

_RANK = {"u": 0, "g": 1, "a": 2, "p": 3}
_ANYBODY = 9


def handle(principals: Iterable[str]) -> str:
    """The most particular of some principals: a user before a group before an agent before a product; of none, ""."""
    return min(principals, key=lambda p: (_rank(p), p), default="")


def closeness(principals: Iterable[str]) -> int:
    """How particular they are: what is for one person counts more with them than what everybody may write."""
    return _ANYBODY - min((_rank(p) for p in principals), default=_ANYBODY)


def _rank(principal: str) -> int:
    return _RANK.get(principal.partition(":")[0], _ANYBODY)
