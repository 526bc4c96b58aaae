"""A clause that speaks of what was asked, and what speaks for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from mnemon.contracts.results import Message
from mnemon.logic.recall.saying import Saying
from mnemon.logic.recall.tables import Area
from mnemon.logic.recall.wording import Mention


@dataclass(frozen=True, slots=True)
class Fit:
    """A clause that speaks of what was asked. It `counts` when it is meant in earnest of the right person; what does
    not count may still explain why. `covers` is the share of what the question names; `named` how
    much of it stands in the clause itself; `side` is which of two alternatives it speaks for, -1 for neither;
    `linked` is the message whose matter it tells otherwise; `whole`: its message answers from beginning to end;
    `relevant` is how likely it is that it is meant at all."""

    saying: Saying
    area: Area | None
    covers: float
    counts: bool
    things: frozenset[Mention]
    value: frozenset[int | str]
    kinds: frozenset[str] = frozenset()
    side: int = -1
    named: int = 0
    due: date | None = None
    topic: str = ""
    linked: str = ""
    whole: bool = False
    relevant: float = 1.0
    also: tuple[str, ...] = ()

    @property
    def against(self) -> bool:
        """A vegetarian is against meat without a word of negation."""
        flipped = any(thing.flipped for thing in self.things)
        return self.saying.against or flipped

    @property
    def message(self) -> Message:
        return self.saying.message

    @property
    def tells(self) -> bool:
        """Does the clause itself say what it is about, not only the message it stands in?"""
        return self.area is not None or self.named > 0
