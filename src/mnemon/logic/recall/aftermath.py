"""What the messages after one make of it: put right, taken back, confirmed."""

from __future__ import annotations

from collections.abc import Sequence

from mnemon.contracts.results import Message
from mnemon.contracts.turns import Role, parse_time
from mnemon.logic.evidence import confirms
from mnemon.logic.recall.saying import Saying, Standing, place
from mnemon.logic.recall.tables import CORRECTS, DISOWNS, JOKES, LONGEST_CORRECTION

_NEAR = 3
_NEAR_SECONDS = 1800


def taken_back(said: Saying, after: Sequence[Message]) -> Standing | None:
    """What one of the speaker's next messages makes of it: a joke, or somebody else's words."""
    for message in after:
        if message.role == said.message.role and _follows(said.message, message):
            if JOKES.search(message.content):
                return "joked"
            if DISOWNS.search(message.content):
                return "told"
    return None


def correction(message: Message, later: Sequence[Message]) -> Message | None:
    """The speaker's next message, where it puts this one right."""
    after = sorted((m for m in later if m.role == message.role and _follows(message, m)), key=place)
    return after[0] if after and is_correction(after[0]) else None


def is_correction(message: Message) -> bool:
    return len(message.content) <= LONGEST_CORRECTION and CORRECTS.search(message.content) is not None


def confirmed(message: Message, later: Sequence[Message]) -> Message | None:
    """The user's plain yes to what the assistant said right before."""
    after = sorted((m for m in later if _follows(message, m)), key=place)
    return after[0] if after and after[0].role == Role.USER and confirms(after[0].content) else None


def _follows(first: Message, second: Message) -> bool:
    """Is it said soon after, in the same session?"""
    if first.session_id != second.session_id or first.message_id == second.message_id:
        return False
    if "seq" in first.meta and "seq" in second.meta:
        return 0 < int(second.meta["seq"]) - int(first.meta["seq"]) <= _NEAR
    seconds = (parse_time(second.ts) - parse_time(first.ts)).total_seconds()
    return 0 < seconds <= _NEAR_SECONDS
