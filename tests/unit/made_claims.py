"""Claims for tests, made of what the test is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from mnemon.contracts.claims import Claim
from mnemon.contracts.governance import EvidenceLevel, Kind, Status
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.scope import OwnerKind
from mnemon.contracts.turns import Span
from mnemon.logic.governance import governed
from mnemon.logic.language import language_of

DAY_ONE = datetime(2026, 1, 1, tzinfo=UTC)


def day(n: int) -> datetime:
    return DAY_ONE + timedelta(days=n - 1)


def made(
    statement: str,
    on: int = 1,
    *,
    id: str = "",
    kind: Kind = Kind.PREFERENCE,
    key: str = "",
    evidence: EvidenceLevel = EvidenceLevel.USER_CLAIM,
    quote: str = "",
    **more: Any,
) -> Claim:
    """A claim that began to hold on a day, learnt on the same day unless told otherwise."""
    fields: dict[str, Any] = {
        "claim_id": id or f"{statement}@{on}",
        "tenant_id": "t",
        "owner_kind": OwnerKind.USERS,
        "owner_id": "ann",
        "session_id": f"s{on}",
        "principals": ("u:ann",),
        "kind": kind,
        "shelf": Shelf.PREFERENCES,
        "routing_key": "topic",
        "statement": statement,
        "confidence": 0.9,
        "language": language_of(statement),
        "subject": "u:ann",
        "dedup_key": key,
        "spans": (Span(turn_id="t1", start=0, end=len(quote or statement), text_exact=quote or statement),),
        "governance": governed(kind, more.get("status", Status.NONE), evidence),
        "valid_from": day(on),
        "recorded_at": day(on),
    }
    return Claim(**{**fields, **more})
