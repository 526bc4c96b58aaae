"""What was promised to be forgotten, until it is: enough to finish it and to look for it, and none of its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from mnemon.contracts.scope import Owner, OwnerKind, SessionKey

What = Literal["claim", "session", "user", "tenant"]


class Intent(BaseModel):
    """Written and synced before the first byte goes; erased when a scan has found nothing left. `claims` are those to
    go, by session; `masks` the places in turns that are taken out, `turns` those that go whole; `sessions` those that
    go whole, and `nodes` the memories that change, both by address. `words` and `names` are prints of what to look for:
    what was said and drawn from it, and what memories were called and held."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    intent_id: str
    tenant_id: str
    what: What
    target: dict[str, Any]
    claims: dict[str, tuple[str, ...]] = {}
    masks: dict[str, dict[str, tuple[tuple[int, int], ...]]] = {}
    turns: dict[str, tuple[str, ...]] = {}
    sessions: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    salt: str = ""
    words: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def owner(self) -> Owner | None:
        whose = self.target.get("owner_id")
        return None if whose is None else Owner(OwnerKind(self.target["owner_kind"]), whose)

    def session(self, session_id: str) -> SessionKey:
        assert self.owner is not None
        return SessionKey(self.tenant_id, self.owner, session_id)


@dataclass(frozen=True, slots=True)
class Traces:
    """What a look at every file found: where pieces of the forgotten words still stand, and how many of the pieces
    could not be looked for because somebody else said the same."""

    files: int
    bytes: int
    pieces: int
    said_elsewhere: int
    left: tuple[str, ...]
