"""Whose profile a node is, and the head it carries: who, under which name, about what, as of when, from which event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mnemon.contracts.claims import Claim, Language
from mnemon.contracts.nodes import Node, NodeKey
from mnemon.contracts.scope import OwnerKind
from mnemon.logic.front_matter import split

OWN = "profile"
TAGS = 8
_KIND = {OwnerKind.USERS: "user", OwnerKind.GROUPS: "group", OwnerKind.AGENTS: "agent"}
_TITLES: dict[Language, dict[str, str]] = {
    "zh": {"user": "用户侧写", "group": "群聊侧写", "agent": "智能体侧写"},
    "en": {"user": "User profile", "group": "Group profile", "agent": "Agent profile"},
}


def slug_of(about: str) -> str:
    """The owner's own profile, or a member's in the folder of the group that knows him."""
    return about.replace(":", "-", 1) if about else OWN


def entity_of(key: NodeKey, claims: Sequence[Claim]) -> tuple[str, str]:
    """What it describes: `("user", "1708213363")`."""
    about = next((c.about for c in claims if c.about), "")
    if about:
        kind, _, id = about.partition(":")
        return kind, id
    return _KIND[key.owner.kind], key.owner.id


def title_of(entity_type: str, language: Language) -> str:
    return _TITLES[language][entity_type]


def head_of(key: NodeKey, claims: Sequence[Claim], edited: Node | None = None) -> dict[str, Any]:
    """From the claims alone, so that the same claims give the same file. What a person wrote into the head of an
    `edited` file as name and tags stays."""
    kind, id = entity_of(key, claims)
    latest = max(claims, key=lambda c: (c.recorded_at, c.claim_id))
    kept = split(edited.content)[0] if edited else {}
    return {
        "entity_type": kind,
        "entity_id": id,
        "name": kept.get("name") or _name(kind, id, claims),
        "tags": kept["tags"] if isinstance(kept.get("tags"), list) else _tags(claims),
        "updated_at": _local(latest.recorded_at, latest).isoformat(timespec="seconds"),
        "source_event_id": latest.occasion.event_id if latest.occasion else latest.session_id,
    }


def _name(kind: str, id: str, claims: Sequence[Claim]) -> str:
    """What they were called last."""
    for claim in sorted(claims, key=lambda c: c.recorded_at, reverse=True):
        at = claim.occasion
        if at and kind == "user" and at.sender_id == id and at.sender_name:
            return at.sender_name
        if at and kind == "group" and at.group_name:
            return at.group_name
    return id


def _tags(claims: Sequence[Claim]) -> list[str]:
    """What most of what is known speaks of, the latest first where it is equally much."""
    latest = sorted(claims, key=lambda c: c.recorded_at, reverse=True)
    counts = Counter(name for claim in latest for name in claim.entities)
    return [name for name, _ in counts.most_common(TAGS)]


def _local(moment: datetime, claim: Claim) -> datetime:
    at = claim.occasion
    return moment.astimezone(datetime.fromisoformat(at.timestamp_local).tzinfo) if at else moment
