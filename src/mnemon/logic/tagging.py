"""Stage 2's gates: what a tagging must be like, what is put right without asking, and what the program decides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mnemon.contracts.claims import Language
from mnemon.contracts.commits import Rejected
from mnemon.contracts.governance import EvidenceLevel, Kind, Status
from mnemon.contracts.models import Violation
from mnemon.contracts.tags import Hints, TaggingStats, TagSpan, ValueTag, ValueTaggingOutput, WriteAction
from mnemon.contracts.turns import Role, Turn, parse_time
from mnemon.logic import dates
from mnemon.logic.evidence import Conversation, asks_to_remember, judged, own_words
from mnemon.logic.governance import governed, row_for
from mnemon.logic.language import language_of
from mnemon.logic.spans import place_of, problem
from mnemon.logic.topics import is_topic, stands

REMEMBER = "the user asked to remember this"

# Numbers, and names inside a sentence.
_PARTICULAR = re.compile(r"\d+|(?<=[a-z,;] )[A-Z][a-z]+")
_WRITES = {
    Kind.FACT: WriteAction.FACT,
    Kind.PREFERENCE: WriteAction.PREFERENCE,
    Kind.TASK: WriteAction.TASK,
    Kind.RULE: WriteAction.RULE,
}


@dataclass(frozen=True, slots=True)
class TagInput:
    """A stretch of a session to be tagged."""

    session_id: str
    turns: tuple[Turn, ...]

    @property
    def by_id(self) -> dict[str, Turn]:
        return {turn.turn_id: turn for turn in self.turns}

    @property
    def language(self) -> Language:
        return language_of("\n".join(turn.text for turn in self.turns if turn.role is Role.USER))


def mend(given: TagInput, output: ValueTaggingOutput) -> ValueTaggingOutput:
    """A quote that stands in its turn exactly once, but elsewhere, gets its place; the words are never touched."""
    turns = given.by_id
    tags = tuple(_placed(tag, turns.get(tag.turn_id)) for tag in output.tags)
    return output.model_copy(update={"tags": tags})


def _placed(tag: ValueTag, turn: Turn | None) -> ValueTag:
    if turn is None or turn.text[tag.span.start : tag.span.end] == tag.span.text_exact:
        return tag
    place = place_of(turn, tag.span.text_exact)
    if place is None:
        return tag
    span = TagSpan(start=place[0], end=place[1], text_exact=tag.span.text_exact)
    return tag.model_copy(update={"span": span})


def check(given: TagInput, output: ValueTaggingOutput) -> list[Violation]:
    turns = given.by_id
    found: list[Violation] = []
    for n, tag in enumerate(output.tags):
        found += _tag_violations(n, tag, turns)
    found += _list_violations(output, turns)
    tagged = {tag.turn_id for tag in output.tags if tag.write_action is not WriteAction.ARCHIVE_ONLY}
    for turn in given.turns:
        if turn.role is Role.USER and turn.turn_id not in tagged and asks_to_remember(own_words(turn)):
            found.append(Violation(REMEMBER, f"turn {turn.turn_id}", "a tag with a write action", "none"))
    return found


def _tag_violations(n: int, tag: ValueTag, turns: dict[str, Turn]) -> list[Violation]:
    where = f"tag {tag.tag_id}"
    turn = turns.get(tag.turn_id)
    if turn is None:
        return [Violation("turn_id is not among the turns", where, "one of the given turn ids", tag.turn_id, n)]
    found = []
    wrong = problem(turn, tag.span.start, tag.span.end, tag.span.text_exact)
    if wrong:
        there = turn.text[tag.span.start : tag.span.end]
        found.append(Violation(wrong, f"{where} (turn {tag.turn_id})", repr(tag.span.text_exact), repr(there), n))
    if tag.write_action is WriteAction.DROP:
        found.append(Violation("a tag cannot drop; leave it out", where, "a write action or archive_only", "drop", n))
    return found


def _list_violations(output: ValueTaggingOutput, turns: dict[str, Turn]) -> list[Violation]:
    kept, dropped = set(output.kept_turn_ids), set(output.dropped_turn_ids)
    found = [
        Violation(f"{name} names a turn that is not among the turns", turn_id)
        for name, ids in (("kept_turn_ids", kept), ("dropped_turn_ids", dropped))
        for turn_id in sorted(ids - turns.keys())
    ]
    found += [Violation("a turn is both kept and dropped", turn_id) for turn_id in sorted(kept & dropped)]
    for turn_id in sorted({tag.turn_id for tag in output.tags if tag.turn_id in turns} - kept):
        found.append(Violation("kept_turn_ids must hold every tagged turn", f"turn {turn_id}", "kept", "not kept"))
    ids = [tag.tag_id for tag in output.tags]
    found += [
        Violation("two tags have the same tag_id", f"tag {i}") for i in sorted({i for i in ids if ids.count(i) > 1})
    ]
    return found


def settle(
    conversation: Conversation, session_id: str, subjects: Sequence[str], outputs: Sequence[ValueTaggingOutput]
) -> tuple[ValueTaggingOutput, list[Rejected]]:
    """The parts of a session as one output, with everything the program decides: evidence, lives, lists, numbers.

    `subjects` are those a tag may be about; one that names somebody else is about the first."""
    tags: list[ValueTag] = []
    notes: list[Rejected] = []
    for tag in (tag for output in outputs for tag in output.tags):
        ruled = _ruled(conversation, tag, subjects)
        if ruled.write_action is WriteAction.ARCHIVE_ONLY and tag.write_action is not WriteAction.ARCHIVE_ONLY:
            why = "nobody but the assistant says so: archived only"
            notes.append(Rejected("tag", tag.span.text_exact, why, (tag.turn_id,)))
        tags.append(ruled.model_copy(update={"tag_id": f"m{len(tags) + 1:04d}"}))
    wanted = {i for output in outputs for i in output.kept_turn_ids} | {tag.turn_id for tag in tags}
    kept = tuple(t.turn_id for t in conversation.turns if t.turn_id in wanted)
    dropped = tuple(t.turn_id for t in conversation.turns if t.turn_id not in wanted)
    stats = TaggingStats(
        input_turns=len(conversation.turns), kept_turns=len(kept), dropped_turns=len(dropped), tag_count=len(tags)
    )
    whole = ValueTaggingOutput(
        session_id=session_id, kept_turn_ids=kept, dropped_turn_ids=dropped, tags=tuple(tags), stats=stats
    )
    return whole, notes


def task_status(subtype: str) -> Status:
    """Open unless its subtype says that it is over."""
    words = subtype.casefold()
    if any(w in words for w in ("cancel", "取消")):
        return Status.CANCELLED
    return Status.DONE if any(w in words for w in ("done", "complete", "finish", "完成")) else Status.OPEN


def _ruled(conversation: Conversation, tag: ValueTag, subjects: Sequence[str]) -> ValueTag:
    bears = conversation.bears(tag.turn_id, tag.span.start, tag.span.end)
    evidence = judged(tag.evidence_level, bears)
    status = task_status(tag.subtype) if tag.category is Kind.TASK else Status.NONE
    life = governed(tag.category, status, evidence, importance=tag.importance, ttl_seconds=tag.ttl_seconds)
    action = tag.write_action
    if row_for(tag.category, status, evidence).archive_only:
        action = WriteAction.ARCHIVE_ONLY
    elif action is not WriteAction.ARCHIVE_ONLY:
        action = _WRITES[tag.category]
    if action is WriteAction.ARCHIVE_ONLY:
        life = governed(tag.category, status, EvidenceLevel.AI_INFERENCE, ttl_seconds=tag.ttl_seconds)
    return tag.model_copy(
        update={
            "evidence_level": evidence,
            "ttl_seconds": life.ttl_seconds,
            "forget_policy": life.forget_policy,
            "write_action": action,
            "subject": tag.subject if tag.subject in subjects else subjects[0],
            **_told(conversation.turns[conversation.places[tag.turn_id]], tag),
        }
    )


def _told(turn: Turn, tag: ValueTag) -> dict[str, Any]:
    """What a tag says beside its span, as far as its turn does: no name, number or date comes in this way."""
    text = turn.text
    hints = Hints(
        entity_names=tuple(name for name in tag.hints.entity_names if stands(name, text)),
        time_hint=tag.hints.time_hint if _is_time_of(tag.hints.time_hint, turn) else "",
        dedup_key=tag.hints.dedup_key if is_topic(tag.hints.dedup_key, text) else "",
    )
    return {
        "subtype": tag.subtype if is_topic(tag.subtype, text) else "",
        "reason": tag.reason if all(stands(word, text) for word in _PARTICULAR.findall(tag.reason)) else "",
        "hints": hints,
    }


def _is_time_of(hint: str, turn: Turn) -> bool:
    if stands(hint, turn.text) or turn.timestamp_iso is None:
        return stands(hint, turn.text)
    return hint in {d.begins.isoformat() for d in dates.find(turn.text, parse_time(turn.timestamp_iso))}


def kept_turns(output: ValueTaggingOutput) -> frozenset[str]:
    """The turns that are remembered: kept, and not only for the archive."""
    written = {tag.turn_id for tag in output.tags if tag.write_action is not WriteAction.ARCHIVE_ONLY}
    only = {tag.turn_id for tag in output.tags} - written
    return frozenset(output.kept_turn_ids) - only
