"""What a well-behaved model answers, made of a conversation's own words: for the scripts of `ScriptedLLM`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemon.testing.scripted import Said, ScriptedLLM

TAGGING = "tagging.value_tags"
SUMMARY = "compression.archive_summary"
PROFILE = "extraction.profile"
PREFERENCES = "extraction.preferences"
ENTITY_EVENT = "extraction.entity_event"
PROCEDURE = "extraction.procedure"
DEDUP = "policy.dedup_decision"
MERGE = "policy.merge_bundle"
EXTRACTORS = (PROFILE, PREFERENCES, ENTITY_EVENT, PROCEDURE)

_EXTRACTOR_OF = {
    "profile": PROFILE,
    "preferences": PREFERENCES,
    "rules": PREFERENCES,
    "entities": ENTITY_EVENT,
    "events": ENTITY_EVENT,
    "tasks": ENTITY_EVENT,
    "cases": PROCEDURE,
    "patterns": PROCEDURE,
    "skills": PROCEDURE,
}
_ACTIONS = {
    "fact": "write_fact",
    "preference": "write_preference",
    "task": "write_task",
    "rule": "write_rule",
}

Answer = dict[str, Any]


def place(text: str, words: str) -> Answer:
    start = text.index(words)
    return {"start": start, "end": start + len(words), "text_exact": words}


def tag(turn: Mapping[str, Any], words: str, category: str = "fact", **changes: Any) -> Answer:
    """A tag on words of a turn, with what a model is likely to say besides."""
    return {
        "tag_id": f"m-{turn['turn_id']}-{words}",
        "turn_id": turn["turn_id"],
        "span": place(turn["text"], words),
        "category": category,
        "evidence_level": "S0_user_claim",
        "importance": 0.7,
        "ttl_seconds": 0,
        "forget_policy": "until_changed",
        "write_action": _ACTIONS[category],
        "reason": "said by the user",
        **changes,
    }


def tagging(*tags: Answer, kept: tuple[str, ...] = (), dropped: tuple[str, ...] = ()) -> Answer:
    ids = dict.fromkeys([*kept, *(tag["turn_id"] for tag in tags)])
    return {"kept_turn_ids": list(ids), "dropped_turn_ids": list(dropped), "tags": list(tags)}


def fact(turn: Mapping[str, Any], words: str, statement: str, category: str = "profile", **changes: Any) -> Answer:
    """A claim that cites words of a turn."""
    kinds = {"preferences": "preference", "rules": "rule", "tasks": "task"}
    return {
        "type": kinds.get(category, "fact"),
        "category": category,
        "routing_key": category,
        "statement": statement,
        "confidence": 0.9,
        "spans": [{"turn_id": turn["turn_id"], **place(turn["text"], words)}],
        **changes,
    }


def script(
    tags: Answer, *facts: Answer, summary: Said | None = None, more: Mapping[str, list[Said]] | None = None
) -> dict[str, list[Said]]:
    """One session's answers, each fact from the extractor its category belongs to. `more` is said after or instead."""
    said: dict[str, list[Said]] = {TAGGING: [tags], SUMMARY: [summary or {"summary": ""}]}
    for name in EXTRACTORS:
        said[name] = [{"facts": [f for f in facts if _EXTRACTOR_OF[f["category"]] == name]}]
    return {**said, **(more or {})}


def model(*sessions: Mapping[str, list[Said]]) -> ScriptedLLM:
    """A model for these sessions, one after the other."""
    whole: dict[str, list[Said]] = {}
    for session in sessions:
        for name, answers in session.items():
            whole.setdefault(name, []).extend(answers)
    return ScriptedLLM(by_prompt=whole)
