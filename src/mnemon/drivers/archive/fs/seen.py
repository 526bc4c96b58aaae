"""Which turns a session holds, by id: in memory what is new, and of a long session a sorted table beside its log.

The table is a copy of what the log says, made now and then so that whoever comes to a long session need not read all
of it. It names the line it reaches to and is believed only while that line stands where it stood; whoever takes words
away takes the table away first.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.durable import temporary_name
from mnemon.drivers.archive.fs.layout import SEEN

GONE = b"gone"
# Fewer turns than this are read again faster than a table is kept.
MANY = 1_024
_FORMAT = "mnemon-seen-1"
_NUMBERS = 3  # of each turn: two of its id, one of its content

_Table = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Reach:
    """A line of a log: its number and chain, where it begins and ends."""

    seq: int
    chain: str
    begin: int
    end: int


@dataclass(slots=True)
class Seen:
    """The fingerprint of each turn by its id; `GONE` for one that was forgotten."""

    fresh: dict[str, bytes] = field(default_factory=dict)
    table: _Table = field(default_factory=lambda: np.empty((0, _NUMBERS), np.uint64))

    def get(self, turn_id: str) -> bytes | None:
        known = self.fresh.get(turn_id)
        return known if known is not None or not len(self.table) else self._in_table(turn_id)

    def _in_table(self, turn_id: str) -> bytes | None:
        first, second = _numbers_of(turn_id)
        at = int(self.table[:, 0].searchsorted(np.uint64(first)))
        while at < len(self.table) and int(self.table[at, 0]) == first:
            if int(self.table[at, 1]) == second:
                print_ = int(self.table[at, 2])
                return print_.to_bytes(8, "big") if print_ else GONE
            at += 1
        return None

    def update(self, prints: Mapping[str, bytes]) -> None:
        self.fresh.update(prints)

    @property
    def is_due(self) -> bool:
        """Has enough come since the table was made? It grows by a share of itself each time, so it costs a constant
        for each turn all in all."""
        return len(self.fresh) >= max(MANY, len(self.table) // 8)

    def keep(self, log: Path, reach: Reach) -> None:
        """Write the table anew. It is never needed: nothing is said where it cannot be written, and nothing synced."""
        rows = [(*_numbers_of(i), 0 if p == GONE else int.from_bytes(p, "big")) for i, p in self.fresh.items()]
        whole = np.concatenate([self.table, np.array(rows, np.uint64)])
        whole = whole[np.argsort(whole[:, 0], kind="stable")]
        data = whole.tobytes()
        head = {"format": _FORMAT, "crc": zlib.crc32(data), **{n: getattr(reach, n) for n in Reach.__slots__}}
        temporary = temporary_name(log)
        with suppress(OSError):
            temporary.write_bytes(json.dumps(head).encode() + b"\n" + data)
            temporary.chmod(0o600)
            temporary.replace(log.with_name(SEEN))
        self.table, self.fresh = whole, {}


def _numbers_of(turn_id: str) -> tuple[int, int]:
    digest = hashlib.blake2b(turn_id.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


def remembered(log: Path) -> tuple[Seen, Reach | None]:
    """What the table beside a log tells and how far; nothing where there is none that can be believed."""
    try:
        head, _, data = log.with_name(SEEN).read_bytes().partition(b"\n")
        told = json.loads(head)
        reach = Reach(**{name: told[name] for name in Reach.__slots__})
        if told["format"] != _FORMAT or told["crc"] != zlib.crc32(data):
            return Seen(), None
        table = np.frombuffer(data, np.uint64).reshape(-1, _NUMBERS)
    except (OSError, ValueError, KeyError, TypeError):
        return Seen(), None
    return (Seen(table=table), reach) if _stands(log, reach) else (Seen(), None)


def _stands(log: Path, reach: Reach) -> bool:
    item = next(chainlog.read_lines(log, reach.begin), None)
    if not isinstance(item, tuple) or (line := chainlog.parse(item[1])) is None:
        return False
    return reach == Reach(line.seq, line.chain, item[0], item[0] + len(item[1]))


def forget_seen(log: Path) -> None:
    log.with_name(SEEN).unlink(missing_ok=True)
