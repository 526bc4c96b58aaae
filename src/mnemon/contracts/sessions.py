"""What the archive keeps about a session, and how it gives turns back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from mnemon.contracts.claims import Claim
from mnemon.contracts.scope import Owner, OwnerKind, SessionKey
from mnemon.contracts.turns import Turn, epoch_ms, parse_time


class SessionStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


# Why a turn was taken away, where nobody asked for it: its time was over.
EXPIRED = "expired"

# Which turns count as remembered: those stage 2 kept, every one, those people said (not a bot's own notes), or none.
KeptRule = Literal["tagged", "all", "said", "none"]


class SessionRecord(BaseModel):
    """The session's own page (001's session_marker): rewritten only when its status changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant_id: str
    owner_kind: OwnerKind
    owner_id: str
    session_id: str
    principals: tuple[str, ...]
    status: SessionStatus = SessionStatus.IN_PROGRESS
    version: int = 0
    turn_count: int = 0
    chain_head: str = ""
    kept: KeptRule = "all"
    graph: bool = Field(default=True, description="is it told to the graph?")
    commits: int = 0
    claim_ids: tuple[str, ...] = ()
    counts: dict[str, int] = Field(default_factory=dict)
    error_reason: str | None = None
    owes: int = Field(default=0, description="the first turn of which memories are still to be made; 0: none")
    order: dict[str, Any] | None = Field(default=None, description="what is asked of it and not done yet")
    answered: int | None = Field(
        default=None, description="how many turns were there before the call that got no good answer, if there is one"
    )
    created_at: datetime
    updated_at: datetime

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.tenant_id, Owner(self.owner_kind, self.owner_id), self.session_id)

    def with_words(self, turn_count: int, chain_head: str) -> Self:
        """The page that vouches for the words up to here."""
        counts = {**self.counts, "events": turn_count} if self.counts else self.counts
        return self.model_copy(update={"turn_count": turn_count, "chain_head": chain_head, "counts": counts})


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn in its place: the n-th of its session (from 1), archived at a moment, under its link of the chain. Of one
    just archived it is known which link that one hangs on."""

    turn: Turn
    seq: int
    archived_at: datetime
    chain: str
    hangs_on: str | None = field(default=None, compare=False)

    @property
    def ts_ms(self) -> int:
        """When it was said; where the export does not know, when it was archived."""
        said = self.turn.timestamp_iso
        return epoch_ms(parse_time(said) if said else self.archived_at)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is left of a turn that was taken away: its place in the chain, and nothing that could tell what was said.
    What was forgotten stays refused when it is sent again; what had only expired comes back."""

    turn_id: str
    seq: int
    forgotten_at: datetime
    reason: str
    chain: str


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What an append did: turns already there are not written again, nor those of them that were forgotten."""

    appended: tuple[StoredTurn, ...]
    already_there: int
    turn_count: int
    chain_head: str
    forgotten: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """A page and the words it now vouches for."""

    record: SessionRecord
    words: AppendResult


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of an append-only log (entries, ledger)."""

    seq: int
    at: datetime
    body: dict[str, Any]
    chain: str


@dataclass(frozen=True, slots=True)
class Witness:
    """What replicas remember of a session whose files are damaged. Where they hold its page in a version (`version`),
    they know how it was kept and how far; `turns` carry no link of the chain."""

    session: SessionKey
    principals: tuple[str, ...] = ()
    version: int = 0
    completed: bool = False
    kept: KeptRule = "all"
    graph: bool = True
    commits: int = 0
    head: tuple[int, str] = (0, "")
    claim_ids: tuple[str, ...] = ()
    turns: tuple[StoredTurn, ...] = ()
    claims: tuple[Claim, ...] = ()
