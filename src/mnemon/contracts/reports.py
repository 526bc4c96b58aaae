"""What upkeep says: defects found, repairs made, jobs run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mnemon.contracts.nodes import Edge, Node
from mnemon.contracts.scope import Owner, SessionKey


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong: where, what kind, and what was expected."""

    where: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Degraded:
    """Something that was not done as asked, and why."""

    what: str
    why: str


@dataclass(slots=True)
class VerifyReport:
    """The proof of an archive: how much was checked, and every defect by name.

    Notes are no defects: a torn line that was never acknowledged, a leftover of a crash, an unknown file."""

    sessions: int = 0
    turns: int = 0
    tombstones: int = 0
    tags: int = 0
    claims: int = 0
    commits: int = 0
    nodes: int = 0
    revisions: int = 0
    blobs: int = 0
    log_lines: int = 0
    bytes: int = 0
    defects: list[Defect] = field(default_factory=list)
    notes: list[Defect] = field(default_factory=list)
    # The sessions some of the defects are in: what a replica remembers of them can help.
    damaged: list[SessionKey] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.defects


# Mended: as it was. Salvaged: from what else remembers it, and marked so. Set aside: the damaged bytes are kept beside
# what took their place. Left: nothing could be done here; verify goes on naming it.
How = Literal["mended", "salvaged", "set aside", "left"]


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was put right, and how."""

    where: str
    what: str
    how: How = "mended"


@dataclass(frozen=True, slots=True)
class IndexBatchResult:
    """What one round of the index worker did."""

    claimed: int
    succeeded: int
    failed: int
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeMet:
    """A node as an export tells it where another is here, and which of its files were named as conflicts."""

    node: Node
    edges: tuple[Edge, ...]
    files: tuple[str, ...]


@dataclass(slots=True)
class LoadReport:
    """What an import did, file by file. For whoever files what came in: whose it is (`owners`), the nodes that are new
    here (`new_nodes`) or differ from those here (`nodes`), and the claims that were taken away elsewhere (`gone`)."""

    added: int = 0
    already_there: int = 0
    sessions: int = 0
    conflicts: list[str] = field(default_factory=list)
    owners: set[Owner] = field(default_factory=set)
    new_nodes: set[str] = field(default_factory=set)
    nodes: list[NodeMet] = field(default_factory=list)
    gone: frozenset[str] = frozenset()
