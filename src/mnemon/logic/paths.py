"""Ids as path components: readable where that is safe, never two ids on one path, never a way out of the folder."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

_PLAIN = re.compile(r"[a-z0-9_-]")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])$")
_LONGEST = 150
_HEAD = 60


def _is_ideograph(char: str) -> bool:
    # Unified ideographs have no case and no second normal form; compatibility ideographs do and are escaped.
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf"


def _escape_char(char: str) -> str:
    if _PLAIN.match(char) or _is_ideograph(char):
        return char
    return "".join(f"~{byte:02x}" for byte in char.encode())


@lru_cache(maxsize=16384)
def escape(name: str) -> str:
    """A path component for any id.

    Lower-case ASCII letters, digits, `-`, `_` and Chinese characters stand for themselves, everything else becomes
    `~xx` a byte, so ids that differ only in case or in Unicode form stay apart on file systems that fold them.
    An id too long for a file name keeps its beginning and ends in `~~` and its sha256.
    """
    if not name:
        raise ValueError("an id must not be empty")
    pieces = [_escape_char(c) for c in name]
    if _RESERVED.match(name):
        pieces[0] = f"~{ord(name[0]):02x}"
    whole = "".join(pieces)
    if len(whole.encode()) <= _LONGEST:
        return whole
    head = ""
    for piece in pieces:
        if len((head + piece).encode()) > _HEAD:
            break
        head += piece
    return f"{head}~~{hashlib.sha256(name.encode()).hexdigest()}"


def unescape(component: str) -> str | None:
    """The id behind a component, or None where only its hash was kept (or where it comes from no id at all)."""
    if "~~" in component:
        return None
    try:
        raw = re.sub(rb"~([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), component.encode())
        return raw.decode()
    except UnicodeError:
        return None
