"""How much one user or one tenant may keep, checked before the first byte is written."""

from __future__ import annotations

from dataclasses import dataclass

from mnemon.contracts.errors import ResourceExhausted
from mnemon.contracts.filters import Eq
from mnemon.contracts.ports import Index
from mnemon.contracts.scope import Owner, Scope
from mnemon.pipelines.index.projection import CLAIM, TURN


@dataclass(frozen=True, slots=True)
class Quotas:
    """0 is no limit."""

    max_turns_per_user: int = 0
    max_turns_per_tenant: int = 0
    max_claims_per_user: int = 0
    max_claims_per_tenant: int = 0


async def check(index: Index, quotas: Quotas, tenant_id: str, owner: Owner, turns: int) -> None:
    """`turns` are those that shall be added; claims are counted as they stand."""
    whole = Scope.steward_of(tenant_id)
    own = whole.narrowed("any", [owner.principal])
    for name, scope, kind, adding in (
        ("max_turns_per_user", own, TURN, turns),
        ("max_turns_per_tenant", whole, TURN, turns),
        ("max_claims_per_user", own, CLAIM, 1),
        ("max_claims_per_tenant", whole, CLAIM, 1),
    ):
        limit = getattr(quotas, name)
        if limit and (there := await index.count(scope, Eq("kind", kind))) + adding > limit:
            raise ResourceExhausted(
                f"quotas.{name} is {limit}: {there} are kept, {adding} more do not fit", field=f"quotas.{name}"
            )
