"""Knowing words again without keeping them: salted prints of pieces of a text, and bytes searched for all of them.

A text is cut into pieces of a few words, none of which holds a character that some file writes in another way. Of each
piece a print is kept: a hash of its first eight bytes, its length, and a keyed digest. So what was to be forgotten can
be looked for after it is gone, by whoever comes next, and the prints themselves say nothing that could be read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

# Eight Chinese characters or four or five English words: long enough not to stand anywhere by chance, and short enough
# that a quote of a clause holds one whole. Shorter texts are one piece; what is shorter than a window is in every file.
PIECE = 24
_WINDOW = 8
_LONGEST = 0xFFFF
# Of what is larger than this a fair sample is looked for: the pieces whose digests are lowest.
MOST_PRINTS = 100_000
_KEY_BITS = 40
_FILTER_BITS = 22
# JSON, Markdown and SQLite write these differently, or not at all.
_BREAKS = re.compile(r'[\x00-\x1f"\\]+')


def pieces(text: str) -> Iterator[bytes]:
    for part in _BREAKS.split(text):
        data = part.strip().encode("utf-8", "surrogatepass")
        if len(data) <= PIECE:
            yield data
            continue
        yield from (data[at : at + PIECE] for at in range(0, len(data) - PIECE + 1, PIECE))
        yield data[-PIECE:]


class Prints:
    """Prints in the making: each `key length digest`, in hexadecimal."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._kept: dict[str, str] = {}

    def add(self, texts: Iterable[str], least: int = _WINDOW) -> None:
        """Pieces of texts, none shorter than `least` bytes."""
        self.add_whole(piece for text in texts for piece in pieces(text) if len(piece) >= least)

    def add_whole(self, data: Iterable[bytes]) -> None:
        """What is looked for in one piece, such as an address."""
        for piece in data:
            if _WINDOW <= len(piece) <= _LONGEST:
                digest = _digest(self._salt, piece)
                key = _key(int.from_bytes(piece[:_WINDOW], "little"), _factor(self._salt))
                self._kept[digest] = f"{key:010x}{len(piece):04x}{digest}"
        if len(self._kept) > 2 * MOST_PRINTS:
            self._kept = dict(sorted(self._kept.items())[:MOST_PRINTS])

    def made(self) -> list[str]:
        return [self._kept[digest] for digest in sorted(self._kept)[:MOST_PRINTS]]


class Matcher:
    """Finds every piece of which there is a print, in one pass over the bytes, however many prints there are."""

    def __init__(self, salt: bytes, prints: Sequence[str]) -> None:
        self._salt = salt
        self._factor = np.uint64(_factor(salt))
        self._by_key: dict[int, list[tuple[int, str, int]]] = {}
        for at, made in enumerate(prints):
            self._by_key.setdefault(int(made[:10], 16), []).append((int(made[10:14], 16), made[14:], at))
        self._keys = np.array(sorted(self._by_key), np.uint64)
        self._filter = np.zeros(1 << _FILTER_BITS, bool)
        self._filter[_low(self._keys)] = True
        self.longest = max((length for rows in self._by_key.values() for length, _, _ in rows), default=0)

    def find(self, data: bytes) -> set[int]:
        """The numbers of the prints whose pieces stand in these bytes."""
        found: set[int] = set()
        if not len(self._keys):
            return found
        for shift in range(min(_WINDOW, len(data) - _WINDOW + 1)):
            windows = np.frombuffer(data, "<u8", (len(data) - shift) // _WINDOW, shift)
            keys = (windows * self._factor) >> np.uint64(64 - _KEY_BITS)
            likely = np.flatnonzero(self._filter[_low(keys)])
            for at in likely[np.isin(keys[likely], self._keys)].tolist():
                for length, digest, number in self._by_key[int(keys[at])]:
                    piece = data[shift + at * _WINDOW :][:length] if number not in found else b""
                    if len(piece) == length and _digest(self._salt, piece) == digest:
                        found.add(number)
        return found


def _low(keys: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return keys & np.uint64((1 << _FILTER_BITS) - 1)


def _factor(salt: bytes) -> int:
    return int.from_bytes(salt[:8], "little") | 1


def _key(window: int, factor: int) -> int:
    return ((window * factor) & 0xFFFF_FFFF_FFFF_FFFF) >> (64 - _KEY_BITS)


def _digest(salt: bytes, piece: bytes) -> str:
    return hashlib.blake2b(piece, digest_size=12, key=salt).hexdigest()
