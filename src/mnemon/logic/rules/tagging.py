"""Stage 2 by rules: which words of which turns are worth keeping, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mnemon.contracts.governance import EvidenceLevel, Kind, Status
from mnemon.contracts.tags import Hints, TaggingStats, TagSpan, ValueTag, ValueTaggingOutput, WriteAction
from mnemon.contracts.turns import Role, Turn, parse_time
from mnemon.logic import dates
from mnemon.logic.evidence import confirms
from mnemon.logic.governance import governed
from mnemon.logic.language import language_of
from mnemon.logic.rules.cutting import masked
from mnemon.logic.rules.filing import dedup_key, entity_names
from mnemon.logic.rules.reading import Reading, readings
from mnemon.logic.rules.tables import BOOKS, WORDING
from mnemon.logic.rules.tools import Result, plain_result

USER = "user"

_ACTIONS = {
    Kind.FACT: WriteAction.FACT,
    Kind.PREFERENCE: WriteAction.PREFERENCE,
    Kind.TASK: WriteAction.TASK,
    Kind.RULE: WriteAction.RULE,
}


@dataclass(frozen=True, slots=True)
class Held:
    """A reading that may be believed: in which turn, on what evidence, and the turn that confirms it, if one has to."""

    turn: Turn
    reading: Reading
    evidence: EvidenceLevel
    confirmed_by: Turn | None = None


def tag(turns: Sequence[Turn], session_id: str) -> ValueTaggingOutput:
    """Tags in the order of the turns. Kept are turns with a tag, and the turns that confirm one."""
    by_turn: dict[str, list[Held]] = {}
    for found in held(turns):
        by_turn.setdefault(found.turn.turn_id, []).append(found)
    tags: list[ValueTag] = []
    kept: set[str] = set()
    for turn in turns:
        if turn.role is Role.TOOL and (result := plain_result(turn)) is not None:
            tags.append(_tool_tag(len(tags) + 1, turn, result))
        for found in by_turn.get(turn.turn_id, ()):
            tags.append(_tag(len(tags) + 1, found))
            if found.confirmed_by is not None:
                kept.add(found.confirmed_by.turn_id)
    kept.update(tag.turn_id for tag in tags)
    kept_ids = tuple(turn.turn_id for turn in turns if turn.turn_id in kept)
    dropped = tuple(turn.turn_id for turn in turns if turn.turn_id not in kept)
    stats = TaggingStats(
        input_turns=len(turns), kept_turns=len(kept_ids), dropped_turns=len(dropped), tag_count=len(tags)
    )
    return ValueTaggingOutput(
        session_id=session_id, kept_turn_ids=kept_ids, dropped_turn_ids=dropped, tags=tuple(tags), stats=stats
    )


def held(turns: Sequence[Turn]) -> Iterator[Held]:
    """What users say of themselves, and what the assistant says of them where the next turn plainly says yes."""
    for place, turn in enumerate(turns):
        after = turns[place + 1] if place + 1 < len(turns) else None
        if turn.role is Role.USER and not _taken_back(turns, place):
            for reading in readings(masked(turn)):
                sure = EvidenceLevel.USER_CONFIRMED if reading.remembered else EvidenceLevel.USER_CLAIM
                yield Held(turn, reading, sure)
        elif turn.role is Role.ASSISTANT and after and after.role is Role.USER and confirms(after.text):
            for reading in readings(masked(turn), of_you=True):
                yield Held(turn, reading, EvidenceLevel.USER_CONFIRMED, after)


def _taken_back(turns: Sequence[Turn], place: int) -> bool:
    """Does the user's next turn call it a joke?"""
    after = next((turn for turn in turns[place + 1 : place + 3] if turn.role is Role.USER), None)
    return after is not None and any(book.traps.joke.search(after.text) for book in BOOKS.values())


def _tag(number: int, found: Held) -> ValueTag:
    turn, reading, pattern = found.turn, found.reading, found.reading.pattern
    status = Status.OPEN if reading.kind is Kind.TASK else Status.NONE
    life = governed(reading.kind, status, found.evidence, importance=pattern.importance)
    reasons = WORDING["reasons"][reading.book.language]
    why = "confirmed" if found.confirmed_by else "remembered" if reading.remembered else reading.kind.value
    return ValueTag(
        tag_id=f"m{number:04d}",
        turn_id=turn.turn_id,
        span=_span(turn, reading.start, reading.end),
        category=reading.kind,
        subtype=pattern.subtype,
        subject=reading.who.name or reading.who.kin or USER,
        evidence_level=found.evidence,
        importance=life.importance,
        ttl_seconds=life.ttl_seconds,
        forget_policy=life.forget_policy,
        write_action=_ACTIONS[reading.kind],
        reason=reasons[why],
        hints=Hints(
            entity_names=entity_names(reading),
            time_hint=_time_hint(turn, reading),
            dedup_key=dedup_key(reading),
        ),
    )


def _span(turn: Turn, start: int, end: int) -> TagSpan:
    return TagSpan(start=start, end=end, text_exact=turn.text[start:end])


def _time_hint(turn: Turn, reading: Reading) -> str:
    """The first day meant, where it is known when the words were said; else the words."""
    if turn.timestamp_iso is None:
        words = turn.text[reading.start : reading.end]
        return next(iter(dates.relative(words)), "")
    found = dates.find(turn.text[reading.start : reading.end], parse_time(turn.timestamp_iso))
    return next((dated.begins.isoformat() for dated in found if dated.precision != "time"), "")


def _tool_tag(number: int, turn: Turn, result: Result) -> ValueTag:
    life = governed(Kind.FACT, Status.NONE, EvidenceLevel.TOOL_GROUNDED, importance=0.5)
    start = len(turn.text) - len(turn.text.lstrip())
    return ValueTag(
        tag_id=f"m{number:04d}",
        turn_id=turn.turn_id,
        span=_span(turn, start, len(turn.text.rstrip())),
        category=Kind.FACT,
        subtype="tool_grounded_fact",
        subject=result.about,
        evidence_level=EvidenceLevel.TOOL_GROUNDED,
        importance=life.importance,
        ttl_seconds=life.ttl_seconds,
        forget_policy=life.forget_policy,
        write_action=WriteAction.FACT,
        reason=WORDING["reasons"][language_of(turn.text)]["tool"],
        hints=Hints(entity_names=(result.about,) if result.fields else ()),
    )
