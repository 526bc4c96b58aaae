"""One profile out of the nodes somebody may see: a single head, the bodies one below the other, the lines that hold."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mnemon.contracts.chats import EntityType, Profile, ProfileDiff
from mnemon.contracts.claims import ClaimState
from mnemon.contracts.nodes import Node
from mnemon.contracts.turns import parse_time
from mnemon.logic.front_matter import split, with_head
from mnemon.logic.policies import Change, claims_in, edited_by_hand, plan
from mnemon.logic.profiles import TAGS, head_of
from mnemon.logic.rendering import known

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def without_over(node: Node, now: datetime) -> Node | None:
    """A node without the lines whose time is over, which the next sweep takes away; None where none is left."""
    over = frozenset(claim.claim_id for claim in claims_in(node) if not claim.alive(now))
    if not over:
        return node
    left = plan(Change(node.key, node.principals, node.metadata.get("title", ""), gone=over), node, now).after
    if left is None:
        return None
    return replace(left, version=node.version, created_at=node.created_at, updated_at=node.updated_at)


def best_lines(node: Node, now: datetime) -> list[str]:
    """What it says, without proof, what matters most first. A person's own words stay as they were put."""
    claims = claims_in(node)
    return known(claims, now) if claims and not edited_by_hand(node) else overview_of(node).splitlines()


def overview_of(node: Node) -> str:
    """The lines of a profile without their proof, also where a person has written into the file."""
    if not edited_by_hand(node):
        return node.overview
    lines = split(node.content)[1].splitlines()
    return "\n".join(line for line in lines if line.strip() and not line.startswith(("# ", "  > ")))


def composed(entity_type: EntityType, entity_id: str, nodes: Sequence[Node]) -> Profile:
    """What changed last is told first, and tells under which name."""
    ordered = sorted(nodes, key=lambda node: (_changed(node, head_in(node)), node.key.uri), reverse=True)
    heads = [head_in(node) for node in ordered]
    names = [name for head in heads if (name := str(head.get("name") or "")) and name != entity_id]
    tags = tuple(dict.fromkeys(tag for head in heads for tag in tags_in(head)))[:TAGS]
    values: dict[str, Any] = {
        "entity_type": entity_type,
        "entity_id": entity_id,
        "name": names[0] if names else entity_id,
        "tags": list(tags),
        "updated_at": _told(ordered[0], heads[0]),
        "source_event_id": str(heads[0].get("source_event_id") or ""),
    }
    body = "\n".join(_body(node, first=n == 0) for n, node in enumerate(ordered))
    return Profile(
        id=f"{entity_type}:{entity_id}",
        entity_type=entity_type,
        entity_id=entity_id,
        name=values["name"],
        tags=tags,
        updated_at=values["updated_at"],
        source_event_id=values["source_event_id"],
        text=with_head(values, body),
        body=body,
        overview="\n".join(_each_once(overview_of(node) for node in ordered)),
        versions={node.key.uri: node.version for node in ordered},
        nodes=tuple(ordered),
    )


def head_in(node: Node) -> dict[str, Any]:
    """The head of its file, or, of one that was written before there were heads, what it would be."""
    head, _ = split(node.content)
    if head:
        return head
    claims = claims_in(node)
    return head_of(node.key, claims) if claims else {}


def tags_in(head: dict[str, Any]) -> tuple[str, ...]:
    """People may have written anything there."""
    tags = head.get("tags")
    return tuple(str(tag) for tag in tags) if isinstance(tags, list) else ()


def difference(before: Node, after: Node) -> ProfileDiff:
    """Line by line as the files say it, and the statements that hold in one and not in the other."""
    old, new = (split(node.content)[1].splitlines() for node in (before, after))
    lines = difflib.unified_diff(old, new, f"version {before.version}", f"version {after.version}", lineterm="")
    held, holds = _held(before), _held(after)
    return ProfileDiff(
        uri=after.key.uri,
        from_version=before.version,
        to_version=after.version,
        text="\n".join(lines),
        added=tuple(statement for id, statement in holds.items() if held.get(id) != statement),
        removed=tuple(statement for id, statement in held.items() if holds.get(id) != statement),
    )


def _held(node: Node) -> dict[str, str]:
    return {claim.claim_id: claim.statement for claim in claims_in(node) if claim.state is ClaimState.ACTIVE}


def _told(node: Node, head: dict[str, Any]) -> str:
    """When it changed last, as its head says; as its page says where the head says nothing."""
    written = head.get("updated_at")
    try:
        return parse_time(written).isoformat() if isinstance(written, str) else _page(node).isoformat()
    except ValueError:
        return _page(node).isoformat()


def _changed(node: Node, head: dict[str, Any]) -> datetime:
    return parse_time(_told(node, head))


def _page(node: Node) -> datetime:
    return node.updated_at or _LONG_AGO


def _body(node: Node, first: bool) -> str:
    """What comes second needs no second title."""
    _, body = split(node.content)
    title, _, rest = body.partition("\n")
    return body if first or not title.startswith("# ") else rest.lstrip("\n")


def _each_once(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(line for text in texts for line in text.splitlines()))
