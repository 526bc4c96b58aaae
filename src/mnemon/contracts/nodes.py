"""A node is a readable memory on a shelf, in three levels: L0 abstract, L1 overview, L2 content."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from mnemon.contracts.scope import Owner, in_address

Level = Literal["abstract", "overview", "content"]
LEVELS: tuple[Level, ...] = ("abstract", "overview", "content")
RELATION_TYPES = ("related_to", "derived_from", "part_of", "references")
REVISIONS_KEPT = 5


class Shelf(StrEnum):
    """Where a claim lives and how it merges (004's MemoryCategory, with tasks and rules)."""

    PROFILE = "profile"
    PREFERENCES = "preferences"
    ENTITIES = "entities"
    EVENTS = "events"
    CASES = "cases"
    PATTERNS = "patterns"
    SKILLS = "skills"
    TASKS = "tasks"
    RULES = "rules"


@dataclass(frozen=True, slots=True, order=True)
class NodeKey:
    """The address of a node: whose it is, on which shelf, under which slug."""

    tenant_id: str
    owner: Owner
    shelf: Shelf
    slug: str

    @property
    def uri(self) -> str:
        return f"{self.owner.uri(self.tenant_id)}/memories/{self.shelf.value}/{in_address(self.slug)}"


@dataclass(frozen=True, slots=True)
class Node:
    """One memory as people read it (004's ContextNode)."""

    key: NodeKey
    principals: tuple[str, ...]
    abstract: str
    overview: str = ""
    content: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """An earlier version of a node, kept so that it can be read and rolled back to."""

    node: Node
    reason: str
    saved_at: datetime


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed relation from one node to another."""

    from_uri: str
    to_uri: str
    relation_type: str
    reason: str = ""
    weight: float = 1.0
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeStat:
    """Does it exist, in which version, how large is its folder."""

    uri: str
    exists: bool
    version: int
    size: int
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A line of a listing."""

    uri: str
    name: str
    is_dir: bool
    has_children: bool
    category: str
    updated_at: datetime | None = None
