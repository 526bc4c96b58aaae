"""JSON documents that carry the hash of themselves: one changed byte and the seal is broken."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from mnemon.contracts.errors import Corrupt

_SEAL = "seal"


def _render(body: dict[str, Any]) -> bytes:
    return (json.dumps(body, ensure_ascii=False, sort_keys=True, indent=1) + "\n").encode()


def seal(body: dict[str, Any]) -> bytes:
    """The document's bytes, readable by people, sealed."""
    return _render({**body, _SEAL: hashlib.sha256(_render(body)).hexdigest()})


def unseal(data: bytes, where: str) -> dict[str, Any]:
    """The document, or `Corrupt` when any byte of it is not as it was written."""
    try:
        body = json.loads(data)
        holds = isinstance(body, dict) and seal({k: v for k, v in body.items() if k != _SEAL}) == data
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{where}: not a sealed document ({error})", where=where) from None
    if not holds:
        raise Corrupt(f"{where}: its bytes do not match its seal", where=where)
    del body[_SEAL]
    return dict(body)


def read_sealed(path: Path) -> dict[str, Any] | None:
    """The document at a path, or None where there is none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return unseal(data, str(path))
