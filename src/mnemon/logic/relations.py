"""Which memory has to do with which, as far as their claims prove it.

`references`: it names somebody or something that has a memory of its own, or a case used the tool. `part_of`: it
happened to, or is to be done for, whom or what the other is about; or a case is one of those a pattern is made of.
`derived_from`: it rests on nothing but what a tool said, or is the pattern of those cases. `related_to`: both rest on
the same words, and nothing closer is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import WritePlan
from mnemon.contracts.nodes import Edge, NodeKey, Shelf
from mnemon.contracts.turns import Span
from mnemon.logic.rules.tools import STEP
from mnemon.logic.shelves import SHELVES, node_key

# What is done or happens belongs to whom or what it is done for.
_OCCASIONS = (Shelf.EVENTS, Shelf.TASKS)
# A sentence that says many things relates each of them to a few.
_MOST_RELATED = 8


def named(claim: Claim, uri: str) -> list[tuple[NodeKey, Edge]]:
    """Whom and what a claim of this memory names, each with the edge there would be if it has a memory."""
    found: dict[str, tuple[NodeKey, Edge]] = {}
    about = claim.subject if ":" not in claim.subject else ""
    for name in dict.fromkeys((*claim.entities, about)):
        if not name.strip():
            continue
        key = node_key(claim.model_copy(update={"shelf": Shelf.ENTITIES, "routing_key": name}))
        kind = "part_of" if name == about and claim.shelf in _OCCASIONS else "references"
        if key.uri != uri:
            found[key.uri] = (key, Edge(uri, key.uri, kind, name))
    return list(found.values())


def lost(plan: WritePlan, edges: Sequence[Edge]) -> list[Edge]:
    """Those of a memory's edges that only claims made which are no longer there."""
    after = {c.claim_id for c in plan.claims_after}
    gone = [c for c in plan.claims_before if c.claim_id not in after]
    if not gone:
        return []
    was, stays = (_grounds(claims, plan.target_uri) for claims in (gone, plan.claims_after))
    return [e for e in edges if (e.to_uri in was or e.reason in was) and not (e.to_uri in stays or e.reason in stays)]


def _grounds(claims: Sequence[Claim], uri: str) -> set[str]:
    """What edges rest on: whom the claims name, and where their words stand."""
    return {e.to_uri for c in claims for _, e in named(c, uri)} | {_where(c, s) for c in claims for s in c.spans}


def _where(claim: Claim, span: Span) -> str:
    """The words two memories share, by their place: an edge outlives them, so it does not quote them."""
    return f"{claim.session_id}#{span.turn_id}"


def among(plans: Sequence[WritePlan], same_steps: Mapping[str, Sequence[Claim]]) -> dict[str, list[Edge]]:
    """Edges between what one commit writes, and from a pattern to the cases it is made of, by where they begin."""
    said = {p.target_uri: _incoming(p) for p in plans if p.after is not None}
    skills = {uri: c for uri, claims in said.items() for c in claims if c.shelf is Shelf.SKILLS and c.tool}
    patterns = {c.title: uri for uri, claims in said.items() for c in claims if c.shelf is Shelf.PATTERNS and c.title}
    found: dict[str, list[Edge]] = {}
    for uri, claims in said.items():
        edges = (e for c in claims for e in _worked(uri, c, skills, patterns, same_steps))
        found[uri] = list({(e.to_uri, e.relation_type): e for e in edges}.values())
    return found


def together(plans: Sequence[WritePlan], known: Mapping[str, Sequence[Edge]]) -> dict[str, list[Edge]]:
    """Those that rest on the same words and are not related otherwise."""
    related = {frozenset((e.from_uri, e.to_uri)) for edges in known.values() for e in edges}
    by_turn: dict[str, list[tuple[str, Span]]] = {}
    for p in plans:
        for claim in _incoming(p) if p.after is not None else ():
            if not SHELVES[claim.shelf].agent:  # how an agent's own memories hang together is known better
                for span in claim.spans:
                    by_turn.setdefault(_where(claim, span), []).append((p.target_uri, span))
    found: dict[str, list[Edge]] = {}
    for where, places in by_turn.items():
        for n, (a, mine) in enumerate(places):
            for b, other in places[n + 1 : n + 1 + _MOST_RELATED]:
                if a != b and _overlap(mine, other) and frozenset((a, b)) not in related:
                    related.add(frozenset((a, b)))
                    found.setdefault(a, []).append(Edge(a, b, "related_to", where))
    return found


def _incoming(plan: WritePlan) -> list[Claim]:
    return [c for c in plan.claims_after if c.claim_id in plan.claim_ids]


def _worked(
    uri: str,
    claim: Claim,
    skills: Mapping[str, Claim],
    patterns: Mapping[str, str],
    same_steps: Mapping[str, Sequence[Claim]],
) -> Iterator[Edge]:
    match claim.shelf:
        case Shelf.SKILLS:
            return
        case Shelf.PATTERNS:
            for case in same_steps.get(claim.title, ()):
                yield Edge(uri, case.node_uri or node_key(case).uri, "derived_from", case.session_id)
        case Shelf.CASES:
            for other, skill in skills.items():
                if skill.tool and skill.tool.tool_name in claim.title.split(STEP):
                    yield Edge(uri, other, "references", skill.tool.tool_name)
            if claim.title in patterns:
                yield Edge(uri, patterns[claim.title], "part_of", claim.title)
        case _:
            for other, skill in skills.items():
                if {*claim.source_turn_ids} <= {*skill.source_turn_ids}:
                    yield Edge(uri, other, "derived_from", _where(claim, claim.spans[0]))


def _overlap(a: Span, b: Span) -> bool:
    return a.turn_id == b.turn_id and a.start < b.end and b.start < a.end
