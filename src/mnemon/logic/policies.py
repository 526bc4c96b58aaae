"""How what is new meets what is there: four policies, pure, each giving the whole node as it shall be."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mnemon.contracts.claims import Claim, ClaimState, ToolStats
from mnemon.contracts.commits import PlanAction, WritePlan
from mnemon.contracts.nodes import Node, NodeKey, Shelf
from mnemon.logic.front_matter import split, with_head
from mnemon.logic.governance import join
from mnemon.logic.profiles import entity_of, head_of, title_of
from mnemon.logic.rendering import Levels, language_of_claims, render, with_statistics
from mnemon.logic.shelves import SHELVES, PolicyName
from mnemon.logic.superseding import by_arrival, in_time, same_statement
from mnemon.logic.toolwork import added

# How many repetitions of one statement a node keeps beside its first.
REPETITIONS_KEPT = 10


@dataclass(frozen=True, slots=True)
class Change:
    """What is to happen at one address: claims that come, and ids of claims that go. `moved` ones were learnt
    elsewhere, so that when they come here says nothing about them."""

    key: NodeKey
    principals: tuple[str, ...]
    title: str
    incoming: tuple[Claim, ...] = ()
    gone: frozenset[str] = frozenset()
    moved: bool = False


def claims_in(node: Node | None) -> list[Claim]:
    return [Claim.model_validate(row) for row in node.metadata.get("claims", [])] if node else []


def plan(change: Change, existing: Node | None, now: datetime) -> WritePlan:
    """The plan of the policy that rules the shelf."""
    return _POLICIES[SHELVES[change.key.shelf].policy](change, existing, now)


def _fixed(change: Change, existing: Node | None, now: datetime) -> WritePlan:
    """Profile and skills: one node under one name, everything merges into it."""
    return _merged(change, existing, now, PlanAction.MERGE)


def _topic(change: Change, existing: Node | None, now: datetime) -> WritePlan:
    """Preferences, entities, patterns, tasks, rules: one node a topic."""
    return _merged(change, existing, now, PlanAction.MERGE)


def _append_only(change: Change, existing: Node | None, now: datetime) -> WritePlan:
    """Events and cases: a node each. One that is there already is the same one, said again."""
    return _merged(change, existing, now, PlanAction.APPEND)


_POLICIES: dict[PolicyName, Callable[[Change, Node | None, datetime], WritePlan]] = {
    "profile": _fixed,
    "aggregate_topic": _topic,
    "append_only": _append_only,
    "skill_tool": _fixed,
}


def _merged(change: Change, existing: Node | None, now: datetime, action: PlanAction) -> WritePlan:
    before = claims_in(existing)
    rows = {c.claim_id: c for c in before if c.claim_id not in change.gone}
    fresh = [c for c in change.incoming if c.claim_id not in rows]
    rows |= {c.claim_id: c for c in change.incoming}
    if not change.moved:
        rows |= {c.claim_id: c for c in by_arrival(fresh, before)}
    # What is over stays until the sweep says so: a clock that is wrong for an hour must not empty a node.
    after = _bounded(in_time([c for c in rows.values() if c.state is not ClaimState.EXPIRED]))
    ids = tuple(sorted({c.claim_id for c in change.incoming} | (change.gone & {c.claim_id for c in before})))
    told = _reason(change, before, after)
    shown = any(c.alive(now) for c in after)
    node = rendered(change.key, change.principals, change.title, after, now, existing) if shown else None
    if node is None:
        action, told = (PlanAction.DELETE, told) if existing else (PlanAction.SKIP, "nothing to keep")
    elif existing is None:
        action = PlanAction.CREATE
    elif same_node(node, existing):
        node, action, told = existing, PlanAction.SKIP, "already there"
    return WritePlan(
        action,
        change.key.uri,
        node,
        existing,
        reason=told,
        claim_ids=ids,
        claims_before=tuple(before),
        claims_after=tuple(after),
    )


def _bounded(claims: Sequence[Claim]) -> list[Claim]:
    """What is said over and over is proven by its first and its latest words; the rest stay with their sessions."""
    newer: Counter[str] = Counter()
    kept: list[Claim] = []
    for claim in reversed(claims):
        if claim.repeats and claim.tool is None:  # what a tool did is added up, and every use counts
            newer[claim.repeats] += 1
            if newer[claim.repeats] > REPETITIONS_KEPT:
                continue
        kept.append(claim)
    return kept[::-1]


def _reason(change: Change, before: Sequence[Claim], after: Sequence[Claim]) -> str:
    parts = []
    known = {c.claim_id for c in before}
    fresh = [c for c in change.incoming if c.claim_id not in known]
    again = [c for c in fresh if any(same_statement(c, old) for old in before)]
    over = {c.claim_id for c in after if c.superseded_by} - {c.claim_id for c in before if c.superseded_by}
    for count, what in (
        (len(fresh) - len(again), "new"),
        (len(again), "said again: evidence added"),
        (len(over), "superseded"),
        (len(change.gone & known), "no longer extracted"),
    ):
        if count:
            parts.append(f"{count} {what}")
    return ", ".join(parts) or "rendered anew"


def rendered(
    key: NodeKey,
    principals: tuple[str, ...],
    title: str,
    claims: Sequence[Claim],
    now: datetime,
    existing: Node | None = None,
    merged: Mapping[str, Any] | None = None,
) -> Node:
    """A node of these claims. A model's wording is used only for the very claims it was made of, and what a person
    wrote into the file stays: what is new is written below it."""
    kept = merged or (existing.metadata.get("merged") if existing else None)
    fits = kept and kept["claim_ids"] == current_ids(claims, now)
    wording = Levels(kept["abstract"], kept["overview"], kept["content"]) if kept and fits else None
    edited = existing if existing is not None and edited_by_hand(existing) else None
    levels = render(_heading(key, title, claims), claims, now, wording)
    stats = tool_stats(claims)
    if stats:
        levels = with_statistics(levels, stats, language_of_claims(claims))
    levels = _headed(key, claims, levels, edited)
    metadata: dict[str, Any] = {
        "title": title,
        "language": language_of_claims(claims),
        "governance": join([c.governance for c in claims]).model_dump(mode="json"),
        "claims": [c.model_dump(mode="json", exclude_defaults=True) for c in claims],
        "rendered": _digest(levels.content),
    }
    if kept and fits:
        metadata["merged"] = dict(kept)
    if stats:
        metadata["tool"] = stats.model_dump(mode="json")
    if edited is not None:
        levels = _headed(key, claims, _below(edited, claims, levels, now), edited)
        metadata["rendered"] = edited.metadata["rendered"]
    return Node(key, principals, levels.abstract, levels.overview, levels.content, metadata)


def _heading(key: NodeKey, title: str, claims: Sequence[Claim]) -> str:
    if key.shelf is not Shelf.PROFILE:
        return title
    return title_of(entity_of(key, claims)[0], language_of_claims(claims))


def _headed(key: NodeKey, claims: Sequence[Claim], levels: Levels, edited: Node | None) -> Levels:
    """A profile's file begins with who it is about."""
    if key.shelf is not Shelf.PROFILE:
        return levels
    return levels._replace(content=with_head(head_of(key, claims, edited), split(levels.content)[1]))


def current_ids(claims: Collection[Claim], now: datetime) -> list[str]:
    return sorted(c.claim_id for c in claims if c.holds(now))


def same_node(a: Node, b: Node) -> bool:
    """Equal but for versions and times."""
    return replace(a, version=0, created_at=None, updated_at=None) == replace(
        b, version=0, created_at=None, updated_at=None
    )


def edited_by_hand(node: Node) -> bool:
    return "rendered" in node.metadata and node.metadata["rendered"] != _digest(node.content)


def handwritten(node: Node) -> list[str]:
    """The lines a person wrote into its file, in their order."""
    if not edited_by_hand(node):
        return []
    rendered_at = node.updated_at or datetime.max.replace(tzinfo=UTC)
    wording = (node.metadata.get("merged") or {}).get("content", "")
    ours = {*_lines(claims_in(node), rendered_at), *wording.splitlines()}
    lines = split(node.content)[1].splitlines()
    return [line.strip() for line in lines if line not in ours and not line.startswith("#") and line.strip()]


def _below(existing: Node, claims: Sequence[Claim], levels: Levels, now: datetime) -> Levels:
    before, after = claims_in(existing), {c.claim_id for c in claims}
    known = {c.claim_id for c in before}
    fresh = [c for c in claims if c.claim_id not in known]
    gone = [c for c in before if c.claim_id not in after]
    if not fresh and not gone:
        return Levels(existing.abstract, existing.overview, existing.content)
    # What went was written by us, line by line, and goes in the same way.
    ours = {*_lines(gone, now)} - {*levels.content.splitlines(), ""}
    content = "\n".join(line for line in existing.content.splitlines() if line not in ours)
    added = "\n".join(["", "", *_lines(fresh, now)]) if fresh else ""
    return Levels(levels.abstract, levels.overview, f"{content.rstrip()}{added}\n")


def _lines(claims: Sequence[Claim], now: datetime) -> list[str]:
    """How claims are written, without the heading."""
    return render("", claims, now).content.splitlines()[2:]


def tool_stats(claims: Sequence[Claim]) -> ToolStats | None:
    """What is known of a tool, added up over every session that used it."""
    known = [c.tool for c in claims if c.tool]
    return added(known) if known else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
