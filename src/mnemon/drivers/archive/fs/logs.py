"""A tenant's append-only logs on disk, in segments chained one after the other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from mnemon.contracts.errors import Corrupt, PermissionDenied
from mnemon.contracts.ports import Clock, LogName
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import LogLine
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.durable import Step, locked
from mnemon.drivers.archive.fs.layout import Layout

LOGS: tuple[LogName, ...] = get_args(LogName)
_SEGMENT_BYTES = 64 << 20
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


class LogFiles:
    def __init__(self, layout: Layout, clock: Clock, entropy: Callable[[int], bytes], step: Step) -> None:
        self._layout = layout
        self._clock = clock
        self._entropy = entropy
        self._step = step
        self._tails: dict[Path, _Tail] = {}

    def append(self, scope: Scope, log: LogName, bodies: Sequence[dict[str, Any]]) -> list[LogLine]:
        folder = self._layout.log(scope.tenant_id, log)
        self._layout.make_named(self._layout.tenant(scope.tenant_id), scope.tenant_id)
        self._layout.make_named(folder, log)
        raw = [json.dumps(b, ensure_ascii=False, separators=(",", ":")).encode() for b in bodies]
        with locked(folder):
            tail = self._tail(folder, scope.tenant_id, log)
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
        for segment in segments(self._layout.log(scope.tenant_id, log)):
            for line in chainlog.lines(segment):
                if line.body is None or line.at is None or line.seq <= after:
                    continue
                if limit is not None and len(out) >= limit:
                    return out
                out.append(LogLine(line.seq, line.at, json.loads(line.body), line.chain))
        return out
