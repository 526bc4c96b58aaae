"""Knowing words again without keeping them: salted prints of pieces of a text, and bytes searched for all of them.

A text is cut into pieces of a few words, none of which holds a character that some file writes in another way. Of each
piece a print is kept: a hash of its end, its length, and a keyed digest. So what was to be forgotten can be looked for
after it is gone, by whoever comes next, and the prints themselves say nothing that could be read.
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
        self._factors = _factors(salt)
        self._kept: dict[str, str] = {}

    def add(self, texts: Iterable[str], least: int = _WINDOW) -> None:
        """Pieces of texts, none shorter than `least` bytes."""
        self.add_whole(piece for text in texts for piece in pieces(text) if len(piece) >= least)

    def add_whole(self, data: Iterable[bytes]) -> None:
        """What is looked for in one piece, such as an address."""
        for piece in data:
            if _WINDOW <= len(piece) <= _LONGEST:
                digest = _digest(self._salt, piece)
                self._kept[digest] = f"{self._key(piece):010x}{len(piece):04x}{digest}"
        if len(self._kept) > 2 * MOST_PRINTS:
            self._kept = dict(sorted(self._kept.items())[:MOST_PRINTS])

    def made(self) -> list[str]:
        return [self._kept[digest] for digest in sorted(self._kept)[:MOST_PRINTS]]

    def _key(self, piece: bytes) -> int:
        end = _end(len(piece))
        windows = (piece[len(piece) - end + at :][:_WINDOW] for at in range(0, end, _WINDOW))
        total = sum(int.from_bytes(w, "little") * f for w, f in zip(windows, self._factors, strict=False))
        return (total & 0xFFFF_FFFF_FFFF_FFFF) >> (64 - _KEY_BITS)


def _end(length: int) -> int:
    """How many of its last bytes a piece is found by: all of most, so that next to nothing is found in vain."""
    return PIECE if length >= PIECE else _WINDOW


_Keys = np.ndarray[tuple[int], np.dtype[np.uint64]]


class _Sieve:
    """The prints found by ends of one length."""

    def __init__(self, prints: Sequence[tuple[int, str]], end: int) -> None:
        self.rows: dict[int, list[tuple[int, str, int]]] = {}
        for at, made in prints:
            length = int(made[10:14], 16)
            if _end(length) == end:
                self.rows.setdefault(int(made[:10], 16), []).append((length, made[14:], at))
        self._keys = np.array(sorted(self.rows), np.uint64)
        self._filter = np.zeros(1 << _FILTER_BITS, bool)
        self._filter[_low(self._keys)] = True

    def caught(self, keys: _Keys) -> list[int]:
        likely = np.flatnonzero(self._filter[_low(keys)])
        places = np.searchsorted(self._keys, keys[likely]).clip(max=len(self._keys) - 1)
        return [int(at) for at in likely[self._keys[places] == keys[likely]]]


class Matcher:
    """Finds every piece of which there is a print, in one pass over the bytes, however many prints there are."""

    def __init__(self, salt: bytes, prints: Sequence[str]) -> None:
        self._salt = salt
        self._factors = [np.uint64(f) for f in _factors(salt)]
        self._sieves = {end: _Sieve(list(enumerate(prints)), end) for end in (_WINDOW, PIECE)}
        self.longest = max((int(made[10:14], 16) for made in prints), default=0)

    def find(self, data: bytes) -> set[int]:
        """The numbers of the prints whose pieces stand in these bytes."""
        found: set[int] = set()
        for end, sieve in self._sieves.items():
            for shift in range(min(_WINDOW, len(data) - end + 1)) if sieve.rows else ():
                keys = self._keys(data, shift, end // _WINDOW)
                for at in sieve.caught(keys):
                    stop = shift + at * _WINDOW + end
                    for length, digest, number in sieve.rows[int(keys[at])]:
                        # What was found is its end; where it began may lie before these bytes.
                        piece = data[max(stop - length, 0) : stop] if number not in found else b""
                        if len(piece) == length and _digest(self._salt, piece) == digest:
                            found.add(number)
        return found

    def _keys(self, data: bytes, shift: int, windows: int) -> _Keys:
        """For every eighth place from `shift` on, the key of what stands there."""
        words = np.frombuffer(data, "<u8", (len(data) - shift) // _WINDOW, shift)
        count = len(words) - windows + 1
        total = words[:count] * self._factors[0]
        for n in range(1, windows):
            total += words[n : n + count] * self._factors[n]
        return total >> np.uint64(64 - _KEY_BITS)


def _low(keys: _Keys) -> _Keys:
    return keys & np.uint64((1 << _FILTER_BITS) - 1)


def _factors(salt: bytes) -> tuple[int, int, int]:
    one, two, three = (int.from_bytes(salt[at : at + 8], "little") | 1 for at in (0, 8, 16))
    return one, two, three


def _digest(salt: bytes, piece: bytes) -> str:
    return hashlib.blake2b(piece, digest_size=12, key=salt).hexdigest()
