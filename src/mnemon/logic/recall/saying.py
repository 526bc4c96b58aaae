"""One clause of a message: whose it is, how it is meant, whether it is for or against."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mnemon.contracts.results import Message
from mnemon.contracts.turns import parse_time

# `plain` is said in earnest of how things are; `vague` so too, but not for certain; `over` of how they were; `wished`
# of how they shall be. The others say nothing about anybody.
Standing = Literal[
    "plain",
    "vague",
    "over",
    "wished",
    "asked",
    "request",
    "supposed",
    "joked",
    "told",
    "hearer",
    "denied",
    "corrected",
    "echo",
]
EARNEST: frozenset[Standing] = frozenset({"plain", "vague", "over", "wished"})


@dataclass(frozen=True, slots=True)
class Saying:
    """One clause in its sentence. `own` is the whole message with what is not its speaker's blanked out; `who` is ""
    for the one who speaks, else somebody else; `named` that it is a name nobody explains, which may be a thing;
    `of_thing` that it opens with a thing. `turning`: it says that something is no more as it was. `told` is what its
    sentence tells of the same one."""

    message: Message
    own: str
    start: int
    end: int
    sentence: tuple[int, int]
    who: str
    named: bool
    of_thing: bool
    standing: Standing
    against: bool
    turning: bool
    elliptic: bool = False
    rule: str = ""
    told: str = ""

    @property
    def text(self) -> str:
        """The clause in the speaker's own words."""
        return self.own[self.start : self.end]

    @property
    def whole(self) -> str:
        """The sentence in the speaker's own words."""
        return self.own[slice(*self.sentence)]

    @property
    def said_at(self) -> datetime:
        return parse_time(self.message.ts)


def place(message: Message) -> tuple[datetime, int, str]:
    return parse_time(message.ts), int(message.meta.get("seq", 0)), message.message_id
