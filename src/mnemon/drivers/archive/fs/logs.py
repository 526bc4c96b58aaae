"""A tenant's append-only logs on disk, in segments chained one after the other."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, get_args

from mnemon.contracts.errors import Corrupt, PermissionDenied, VersionConflict
from mnemon.contracts.ports import Clock, LogName
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import LogLine
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.aside import drop_aside
from mnemon.drivers.archive.fs.durable import Step, locked, replace_file, sweep
from mnemon.drivers.archive.fs.layout import Layout

LOGS: tuple[LogName, ...] = get_args(LogName)
_SEGMENT_BYTES = 64 << 20
_STRIDE = 64
_SEGMENT = re.compile(r"[1-9][0-9]{0,8}\.jsonl")


def log_genesis(tenant_id: str, log: str) -> str:
    return chainlog.genesis(log, tenant_id)


def segments(folder: Path) -> list[Path]:
    found = [p for p in folder.glob("*.jsonl") if _SEGMENT.fullmatch(p.name)] if folder.is_dir() else []
    return sorted(found, key=lambda p: int(p.stem))


@dataclass(frozen=True, slots=True)
class _Tail:
    """Where the next line goes, and the last line's number and chain; `stamp` is the file as it was then."""

    path: Path
    size: int
    seq: int
    head: str
    stamp: chainlog.Stamp = chainlog.NO_FILE


def _scan(segment: Path, before: _Tail) -> _Tail:
    stamp = chainlog.stamp(str(segment))
    size, seq, head = 0, before.seq, before.head
    for item in chainlog.read_lines(segment):
        if isinstance(item, chainlog.Torn):
            break
        line = chainlog.parse(item[1])
        if line is None:
            raise Corrupt(f"{segment}: unreadable line at byte {item[0]}", where=str(segment))
        size, seq, head = item[0] + len(item[1]), line.seq, line.chain
    return _Tail(segment, size, seq, head, stamp)


@dataclass(slots=True)
class _Marks:
    """Where every so many lines of a segment begin, as far as it was read; the file only grows until it is replaced."""

    inode: int
    end: int = 0
    count: int = 0
    first: int = 0
    places: array[int] = field(default_factory=lambda: array("Q"))

    def go_on(self, segment: Path) -> None:
        for item in chainlog.read_lines(segment, self.end):
            if isinstance(item, chainlog.Torn):
                return
            if self.count == 0:
                line = chainlog.parse(item[1])
                if line is None:
                    return
                self.first = line.seq
            if self.count % _STRIDE == 0:
                self.places.append(item[0])
            self.count += 1
            self.end = item[0] + len(item[1])

    def at_or_before(self, seq: int) -> int:
        at = (min(seq, self.first + self.count - 1) - self.first) // _STRIDE
        return self.places[at] if 0 <= at < len(self.places) else 0


class LogFiles:
    def __init__(self, layout: Layout, clock: Clock, entropy: Callable[[int], bytes], step: Step) -> None:
        self._layout = layout
        self._clock = clock
        self._entropy = entropy
        self._step = step
        self._tails: dict[Path, _Tail] = {}
        self._marks: dict[Path, _Marks] = {}
        self._guard = Lock()

    def append(
        self, scope: Scope, log: LogName, bodies: Sequence[dict[str, Any]], expect: int | None = None
    ) -> list[LogLine]:
        folder = self._layout.log(scope.tenant_id, log)
        self._layout.make_named(self._layout.tenant(scope.tenant_id), scope.tenant_id)
        self._layout.make_named(folder, log)
        raw = [json.dumps(b, ensure_ascii=False, separators=(",", ":")).encode() for b in bodies]
        with locked(folder):
            tail = self._tail(folder, scope.tenant_id, log)
            if expect is not None and expect != tail.seq:
                raise VersionConflict(f"the log has {tail.seq} lines by now, not {expect}", last=tail.seq)
            at = self._clock.now()
            data, chains = chainlog.chained(raw, at, tail.seq, tail.head, self._entropy(16 * len(raw)))
            if chains:
                left = chainlog.append(str(tail.path), data, tail.size, self._step, log)
                self._tails[folder] = _Tail(tail.path, left.size, tail.seq + len(chains), chains[-1], left)
        lines = enumerate(zip(bodies, chains, strict=True), tail.seq + 1)
        return [LogLine(seq, at, dict(body), chain) for seq, (body, chain) in lines]

    def _tail(self, folder: Path, tenant_id: str, log: LogName) -> _Tail:
        """The segment to write to; read again only when somebody else has written."""
        there = segments(folder)
        known = self._tails.get(folder)
        if known is None or not there or there[-1] != known.path or chainlog.stamp(str(known.path)) != known.stamp:
            known = _Tail(folder / "1.jsonl", 0, 0, log_genesis(tenant_id, log))
            for segment in there[-2:]:
                known = _scan(segment, known)
        if known.size >= _SEGMENT_BYTES:
            return _Tail(folder / f"{int(known.path.stem) + 1}.jsonl", 0, known.seq, known.head)
        return known

    def read(self, scope: Scope, log: LogName, after: int, limit: int | None) -> list[LogLine]:
        if not scope.steward:
            raise PermissionDenied("a tenant's logs hold everybody's words; only its steward reads them")
        out: list[LogLine] = []
        for segment in self._from(segments(self._layout.log(scope.tenant_id, log)), after + 1):
            for line in chainlog.lines(segment, self._begins(segment, after + 1)):
                if line.body is None or line.at is None or line.seq <= after:
                    continue
                if limit is not None and len(out) >= limit:
                    return out
                out.append(LogLine(line.seq, line.at, json.loads(line.body), line.chain))
        return out

    def _from(self, there: list[Path], seq: int) -> list[Path]:
        """The segment a line is in and those behind it."""
        for at in range(len(there) - 1, 0, -1):
            first = next(chainlog.lines(there[at]), None)
            if first is not None and first.seq <= seq:
                return there[at:]
        return there

    def _begins(self, segment: Path, seq: int) -> int:
        """A place in a segment at or shortly before a line, so that one line of many is read without the others."""
        stamp = chainlog.stamp(str(segment))
        with self._guard:
            marks = self._marks.get(segment)
            if marks is None or marks.inode != stamp.inode or marks.end > stamp.size:
                marks = self._marks[segment] = _Marks(stamp.inode)
            marks.go_on(segment)
            return marks.at_or_before(seq)

    def forget(self, tenant_id: str, log: LogName, seqs: Collection[int], reason: str) -> int:
        """A segment at a time, each replaced as a whole: after a crash, doing it again finishes it."""
        folder = self._layout.log(tenant_id, log)
        if not seqs or not folder.is_dir():
            return 0
        wanted = frozenset(seqs)
        gone = {"at": self._clock.now().isoformat(), "reason": reason}
        forgotten = 0
        with locked(folder):
            for segment in self._from(segments(folder), min(wanted)):
                kept: list[bytes] = []
                before = forgotten
                for item in chainlog.read_lines(segment):
                    if isinstance(item, chainlog.Torn):
                        break
                    line = chainlog.parse(item[1])
                    buried = line is not None and line.body is not None and line.seq in wanted
                    forgotten += buried
                    kept.append(chainlog.render_gone(item[1], gone) if buried else item[1])
                if forgotten > before:
                    replace_file(segment, b"".join(kept), self._step, "forget_log")
            drop_aside(folder)
            sweep(folder, held=True)  # one that was cut off has left a copy of what it was to keep
            self._tails.pop(folder, None)
        return forgotten
