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
# The seal in a document: a line of its own, with a comma where more follows. Only the first level is indented by one.
_SEAL_ENTRY = re.compile(rb'\n "seal": "([0-9a-f]{64})"(,?)(?=\n)')
# Everything below the first level stands on one line: encoding it costs a tenth of what pretty printing does.
_compact = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(", ", ": ")).encode


class Encoded(str):
    """JSON that is written as it stands: what is long and was written before need not be encoded again."""

    __slots__ = ()

    @classmethod
    def of(cls, value: object) -> Encoded:
        return cls(_compact(value))

    @classmethod
    def listed(cls, values: Sequence[Encoded]) -> Encoded:
        return cls(f"[{', '.join(values)}]")


def _json(value: object) -> str:
    return value if isinstance(value, Encoded) else _compact(value)


def _render(lines: dict[str, str]) -> bytes:
    if not lines:
        return b"{}\n"
    return "{{\n{}\n}}\n".format(",\n".join(lines[key] for key in sorted(lines))).encode()


def seal(body: dict[str, Any]) -> bytes:
    """The document's bytes, readable by people, sealed."""
    lines = {key: f" {_compact(key)}: {_json(value)}" for key, value in body.items()}
    return _render({**lines, _SEAL: f' "{_SEAL}": "{hashlib.sha256(_render(lines)).hexdigest()}"'})


def unseal(data: bytes, where: str) -> dict[str, Any]:
    """The document, or `Corrupt` when any byte of it is not as it was written."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{where}: not a sealed document ({error})", where=where) from None
    if not isinstance(body, dict) or not _holds(data, body):
        raise Corrupt(f"{where}: its bytes do not match its seal", where=where)
    del body[_SEAL]
    return body


def _holds(data: bytes, body: dict[str, Any]) -> bool:
    """The seal is the hash of the document without its line, as whoever sealed it wrote it."""
    found = _SEAL_ENTRY.search(data)
    if found is None or body.get(_SEAL) != found[1].decode():
        return False
    before, after = data[: found.start()], data[found.end() :]
    if len(body) == 1:
        unsealed = b"{}\n" if before + after == b"{\n}\n" else b""
    elif found[2]:
        unsealed = before + after
    else:  # the last line: the comma before it is its own
        unsealed = before[:-1] + after if before.endswith(b",") else b""
    return hashlib.sha256(unsealed).hexdigest().encode() == found[1]


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
    except IsADirectoryError:
        raise Corrupt(f"{path}: a folder in place of a file", where=str(path)) from None
    return unseal(data, str(path))
