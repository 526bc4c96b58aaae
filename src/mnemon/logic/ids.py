"""Deterministic ids: the same thing always has the same id, and nobody else's thing has it."""

from __future__ import annotations

import hashlib
import json
import uuid
from functools import lru_cache
from typing import Literal

from mnemon.contracts.scope import SessionKey

_NAMESPACE = uuid.UUID("6f1de2b0-6c0e-5d0a-9d55-7a3b8f0c2a41").bytes
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
_to_json = json.JSONEncoder(ensure_ascii=False).encode


def stable_id(*parts: str) -> str:
    """uuid5 over the parts; JSON keeps ("a", "b:c") apart from ("a:b", "c")."""
    return within(_NAMESPACE, _to_json(parts))


@lru_cache(maxsize=4096)
def space_of(kind: Literal["turns", "events"], key: SessionKey) -> bytes:
    """The namespace of a session's ids; see `turn_id` and `event_id`."""
    return uuid.UUID(stable_id(kind, key.tenant_id, key.owner.space, key.session_id)).bytes


def turn_id(key: SessionKey, turn: str) -> str:
    return within(space_of("turns", key), turn)


def event_id(key: SessionKey, turn: str) -> str:
    """Of the event that a turn is."""
    return within(space_of("events", key), turn)


def within(space: bytes, name: str) -> str:
    """uuid5 of a name in a namespace, written out by hand: it is made for every turn."""
    text = hashlib.sha1(space + name.encode(), usedforsecurity=False).hexdigest()
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:32]}"


def marker_id(key: SessionKey) -> str:
    return stable_id("session_marker", key.tenant_id, key.owner.space, key.session_id)
