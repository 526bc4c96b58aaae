"""Who asks, and what they may see: every read and every write carries a Scope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, Self

from mnemon.contracts.errors import InvalidArgument

PUBLIC = "pub"
MAX_ID = 512


class OwnerKind(StrEnum):
    USERS = "users"
    GROUPS = "groups"
    AGENTS = "agents"


_PREFIX = {OwnerKind.USERS: "u", OwnerKind.GROUPS: "g", OwnerKind.AGENTS: "a"}

Match = Literal["within", "any", "all"]


def checked_id(name: str, value: object) -> str:
    """An id as people choose it: any text of 1 to 512 characters without control characters."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(f"{name} must be a non-empty string", field=name)
    if len(value) > MAX_ID:
        raise InvalidArgument(f"{name} is longer than {MAX_ID} characters", field=name)
    if any(ord(c) < 32 or 0xD800 <= ord(c) <= 0xDFFF or ord(c) == 127 for c in value):
        raise InvalidArgument(f"{name} holds a control character", field=name)
    return value


_IN_ADDRESSES = str.maketrans({"%": "%25", "/": "%2F", "#": "%23", "?": "%3F"})


def in_address(name: str) -> str:
    """An id as a part of a `ctx://` address, so that no id can pass for somebody else's path."""
    return name.translate(_IN_ADDRESSES)


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """Whose folder a session or memory lies in."""

    kind: OwnerKind
    id: str

    def __hash__(self) -> int:
        return hash(self.id)  # looked up for every turn; the made one would hash an enum member each time

    @property
    def principal(self) -> str:
        return f"{_PREFIX[self.kind]}:{self.id}"

    @property
    def space(self) -> str:
        return f"{self.kind.value}/{self.id}"

    def uri(self, tenant_id: str) -> str:
        return f"ctx://{in_address(tenant_id)}/{self.kind.value}/{in_address(self.id)}"

    @classmethod
    def of(cls, principal: str) -> Self | None:
        """Whose principal it is; None for one that owns nothing."""
        prefix, _, name = principal.partition(":")
        return next((cls(kind, name) for kind, letter in _PREFIX.items() if letter == prefix and name), None)

    @classmethod
    def user(cls, user_id: str) -> Self:
        return cls(OwnerKind.USERS, user_id)

    @classmethod
    def group(cls, group_id: str) -> Self:
        return cls(OwnerKind.GROUPS, group_id)

    @classmethod
    def agent(cls, agent_id: str) -> Self:
        return cls(OwnerKind.AGENTS, agent_id)


@dataclass(frozen=True, slots=True)
class Scope:
    """A tenant and the principals somebody holds in it: `u:` user, `p:` product, `g:` group, `a:` agent, `pub`.

    A row is visible when its principals are a subset of these (`within`). `any` and `all` with `narrow` can only
    take rows away: `any` keeps rows that carry at least one of `narrow`, `all` those that carry every one. To narrow
    `within` some principals leaves those of them that are here.
    """

    tenant_id: str
    principals: frozenset[str]
    match: Match = "within"
    narrow: frozenset[str] = frozenset()
    steward: bool = False
    trace_id: str = field(default="", compare=False)

    @classmethod
    def of(
        cls,
        tenant_id: str,
        user_id: str | None = None,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
        trace_id: str = "",
    ) -> Self:
        """The scope of somebody named by plain ids; what is public in the tenant is always within it."""
        named = {"u": user_id, "p": product_id, "g": group_id, "a": agent_id}
        words = {"u": "user_id", "p": "product_id", "g": "group_id", "a": "agent_id"}
        principals = {f"{k}:{checked_id(words[k], v)}" for k, v in named.items() if v is not None}
        return cls(checked_id("tenant_id", tenant_id), frozenset({*principals, PUBLIC}), trace_id=trace_id)

    @classmethod
    def steward_of(cls, tenant_id: str) -> Self:
        """For upkeep (verify, rebuild, export): everything of one tenant. No surface hands this to a user."""
        return cls(checked_id("tenant_id", tenant_id), frozenset(), steward=True)

    def narrowed(self, match: Match, principals: Iterable[str]) -> Self:
        """A part of what this scope sees. Narrowed `within` some principals, nobody is a steward any more."""
        named = frozenset(principals)
        if match != "within":
            return replace(self, match=match, narrow=named)
        return replace(self, principals=named if self.steward else named & self.principals, steward=False)

    def sees(self, principals: Iterable[str]) -> bool:
        """Is a row with these principals visible? A row with none is visible to nobody but a steward."""
        row = frozenset(principals)
        if not self.steward and (not row or not row <= self.principals):
            return False
        if self.match == "any":
            return bool(row & self.narrow)
        if self.match == "all":
            return bool(self.narrow) and self.narrow <= row
        return True


@dataclass(frozen=True, slots=True, order=True)
class SessionKey:
    """A session belongs to an owner in a tenant, so two users may use the same session id without meeting."""

    tenant_id: str
    owner: Owner
    session_id: str

    def __hash__(self) -> int:
        return hash((self.session_id, self.owner.id))

    @property
    def uri(self) -> str:
        return f"{self.owner.uri(self.tenant_id)}/sessions/{in_address(self.session_id)}"
