"""JSON documents that carry the hash of themselves: one changed byte and the seal is broken."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mnemon.contracts.errors import Corrupt

_SEAL = "seal"
_SEAL_LINE = re.compile(rb'\{"seal":"([0-9a-f]{64})"\}\n')


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


def seal_lines(lines: Sequence[bytes]) -> bytes:
    """JSON lines, and a last one that seals them."""
    data = b"".join(line + b"\n" for line in lines)
    return b'%b{"seal":"%b"}\n' % (data, hashlib.sha256(data).hexdigest().encode())


def unseal_lines(data: bytes, where: str) -> list[bytes]:
    """The lines, or `Corrupt` when any byte of them is not as it was written."""
    begin = data.rfind(b"\n", 0, -1) + 1
    match = _SEAL_LINE.fullmatch(data, begin)
    if match is None or hashlib.sha256(data[:begin]).hexdigest().encode() != match[1]:
        raise Corrupt(f"{where}: its bytes do not match its seal", where=where)
    return data[:begin].split(b"\n")[:-1]


def read_sealed(path: Path) -> dict[str, Any] | None:
    """The document at a path, or None where there is none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return unseal(data, str(path))
