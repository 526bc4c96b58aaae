"""The shelves: which claims stand where, who fills them, how they merge, and under which name a claim is filed."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Literal
from urllib.parse import unquote

from mnemon.contracts.claims import Claim
from mnemon.contracts.governance import Kind
from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.scope import Owner
from mnemon.logic.ids import stable_id
from mnemon.logic.profiles import slug_of
from mnemon.logic.text import fold, pieces

PolicyName = Literal["profile", "aggregate_topic", "append_only", "skill_tool"]

_SLUG_LENGTH = 60


@dataclass(frozen=True, slots=True)
class ShelfRule:
    shelf: Shelf
    kinds: frozenset[Kind]
    extractor: str
    policy: PolicyName
    agent: bool


def _load() -> dict[Shelf, ShelfRule]:
    text = resources.files("mnemon.logic").joinpath("data/shelves.toml").read_text(encoding="utf-8")
    return {
        Shelf(name): ShelfRule(
            Shelf(name), frozenset(map(Kind, row["kinds"])), row["extractor"], row["policy"], row.get("agent", False)
        )
        for name, row in tomllib.loads(text).items()
    }


SHELVES = _load()
EXTRACTORS: dict[str, frozenset[Shelf]] = {
    name: frozenset(s for s, rule in SHELVES.items() if rule.extractor == name)
    for name in dict.fromkeys(rule.extractor for rule in SHELVES.values())
}


def slug(words: str) -> str:
    """A name for a folder people read: its words, folded, joined by hyphens; Chinese stays Chinese."""
    parts = [run or word for run, word in pieces(fold(words))]
    return re.sub(r"-+", "-", "-".join(parts))[:_SLUG_LENGTH].strip("-") or "general"


def node_key(claim: Claim) -> NodeKey:
    """Where a claim is filed: the profile is one node, happenings have one each, everything else goes by topic."""
    owner = Owner(claim.owner_kind, claim.owner_id)
    match SHELVES[claim.shelf].policy:
        case "profile":
            name = slug_of(claim.about)
        case "append_only":
            name = f"{claim.valid_from:%Y-%m-%d}-{slug(claim.routing_key)[:40].strip('-')}-{claim.claim_id[:8]}"
        case _:
            name = slug(claim.routing_key)
    return NodeKey(claim.tenant_id, owner, claim.shelf, name + _whose(claim.principals, owner))


def filed_key(claim: Claim) -> NodeKey:
    """Where a claim has been filed."""
    return key_at(claim.tenant_id, Owner(claim.owner_kind, claim.owner_id), claim.node_uri)


def key_at(tenant_id: str, owner: Owner, uri: str) -> NodeKey:
    """The address an owner's node has, from its URI."""
    shelf, _, name = uri.rpartition("/memories/")[2].partition("/")
    return NodeKey(tenant_id, owner, Shelf(shelf), unquote(name))


def _whose(principals: tuple[str, ...], owner: Owner) -> str:
    """What is not for the owner alone has nodes of its own, so that no node mixes what different people may see."""
    if principals == (owner.principal,):
        return ""
    return f"--{'-'.join(slug(p) for p in principals)[:40]}-{stable_id('principals', *principals)[:6]}"
