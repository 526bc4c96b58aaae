"""Deterministic ids: the same thing always has the same id, and nobody else's thing has it."""

from __future__ import annotations

import json
import uuid

from mnemon.contracts.scope import SessionKey

_NAMESPACE = uuid.UUID("6f1de2b0-6c0e-5d0a-9d55-7a3b8f0c2a41")


def stable_id(*parts: str) -> str:
    """uuid5 over the parts; JSON keeps ("a", "b:c") apart from ("a:b", "c")."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps(parts, ensure_ascii=False)))


def turn_id(key: SessionKey, turn: str) -> str:
    return stable_id("turn", key.tenant_id, key.owner.space, key.session_id, turn)


def marker_id(key: SessionKey) -> str:
    return stable_id("session_marker", key.tenant_id, key.owner.space, key.session_id)
