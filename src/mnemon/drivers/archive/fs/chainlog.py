"""An append-only log whose every line is chained to the one before it.

A line is `{"seq":1,"at":"…","salt":"…","chain":"…","body":{…}}`. Its digest is sha256(salt, at, body bytes) and its
chain is sha256(chain before, seq, digest). Because the chain is over digests, a line can be forgotten: the body and the
salt go, the digest stays, and without the salt nobody can find out by guessing what was said. A line of which only some
words are forgotten keeps its digest in the same way, and carries what is left of its body under a seal of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from mnemon.contracts.errors import Corrupt
from mnemon.drivers.archive.fs.durable import Step, no_step, sync_dir, write_all
from mnemon.drivers.os_errors import named

_LIVE = re.compile(
    rb'\{"seq":(\d{1,18}),"at":"([0-9T:.+-]{20,40})","salt":"([0-9a-f]{32})","chain":"([0-9a-f]{64})","body":(.*)\}\n',
    re.DOTALL,
)
_NUMBER = re.compile(rb'\{"seq":(\d{1,18}),')
_PROBE = 1 << 12
# Up to here reading from the beginning is as fast as looking for the place.
_NEAR = 16
_GONE = re.compile(
    rb'\{"seq":(\d{1,18}),"digest":"([0-9a-f]{64})","chain":"([0-9a-f]{64})","gone":(\{.*\}),"seal":"([0-9a-f]{64})"\}\n'
)
_MASKED = re.compile(
    rb'\{"seq":(\d{1,18}),"digest":"([0-9a-f]{64})","chain":"([0-9a-f]{64})","at":"([0-9T:.+-]{20,40})","body":(.*)'
    rb',"seal":"([0-9a-f]{64})"\}\n',
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it stands in the file; `body` is None once it is forgotten, `gone` then says when and why. Of a
    `masked` one some words are forgotten."""

    seq: int
    at: datetime | None
    chain: str
    body: bytes | None
    gone: dict[str, Any] | None = None
    masked: bool = False


@dataclass(frozen=True, slots=True)
class Torn:
    """What a crash left behind the last whole line; it was never acknowledged."""

    offset: int
    raw: bytes

    @property
    def length(self) -> int:
        return len(self.raw)


class Stamp(NamedTuple):
    """Tells a file as it was left from one that somebody has written to since, or put in its place."""

    inode: int
    size: int
    changed_ns: int


NO_FILE = Stamp(0, 0, 0)


def genesis(*names: str) -> str:
    """Where a chain begins: no log can pass for another one's."""
    return hashlib.sha256(json.dumps(["mnemon-chain-1", *names], ensure_ascii=False).encode()).hexdigest()


def _digest(salt: bytes, at: bytes, body: bytes) -> str:
    return hashlib.sha256(b"%b\n%b\n%b" % (salt, at, body)).hexdigest()


def _link(previous: str, seq: int, digest: str) -> str:
    return hashlib.sha256(f"{previous}\n{seq}\n{digest}".encode()).hexdigest()


def render(seq: int, when: bytes, body: bytes, previous: str, salt: bytes) -> tuple[bytes, str]:
    """A new line and its chain."""
    salted = salt.hex().encode()
    chain = _link(previous, seq, _digest(salted, when, body))
    line = b'{"seq":%d,"at":"%b","salt":"%b","chain":"%b","body":%b}\n' % (seq, when, salted, chain.encode(), body)
    return line, chain


def render_gone(line: bytes, gone: dict[str, Any]) -> bytes:
    """A live line turned into a tombstone: the same place in the chain, nothing of the words."""
    if (place := _place(line)) is None:
        return line
    note = json.dumps(gone, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    return _sealed(b'%b,"gone":%b' % (place, note))


def render_masked(line: bytes, body: bytes) -> bytes:
    """A live line with another body: the same place in the chain, without the words that are forgotten."""
    if (place := _place(line)) is None:
        return line
    at = re.search(rb'"at":"([0-9T:.+-]{20,40})"', line)
    assert at is not None  # every live line has it before its body
    return _sealed(b'%b,"at":"%b","body":%b' % (place, at[1], body))


def _place(line: bytes) -> bytes | None:
    """The beginning of what stays of a live line: its number, the digest of what was said, its chain."""
    if match := _LIVE.fullmatch(line):
        seq, digest, chain = match[1], _digest(match[3], match[2], match[5]).encode(), match[4]
    elif match := _MASKED.fullmatch(line):
        seq, digest, chain = match[1], match[2], match[3]
    else:
        return None
    return b'{"seq":%b,"digest":"%b","chain":"%b"' % (seq, digest, chain)


def _sealed(rest: bytes) -> bytes:
    return b'%b,"seal":"%b"}\n' % (rest, hashlib.sha256(rest).hexdigest().encode())


def parse(line: bytes) -> Line | None:
    """A line without proof; None where it is no line at all."""
    try:
        if match := _LIVE.fullmatch(line):
            return Line(int(match[1]), datetime.fromisoformat(match[2].decode()), match[4].decode(), match[5])
        if match := _GONE.fullmatch(line):
            return Line(int(match[1]), None, match[3].decode(), None, json.loads(match[4]))
        if match := _MASKED.fullmatch(line):
            at = datetime.fromisoformat(match[4].decode())
            return Line(int(match[1]), at, match[3].decode(), match[5], masked=True)
    except (ValueError, RecursionError):
        return None
    return None


def prove(line: bytes, previous: str, seq: int) -> Line | str:
    """The line if every byte of it holds, else what is wrong with it."""
    if match := _LIVE.fullmatch(line):
        digest = _digest(match[3], match[2], match[5])
        chain = match[4].decode()
    elif match := _GONE.fullmatch(line) or _MASKED.fullmatch(line):
        if hashlib.sha256(line[: line.rindex(b',"seal":"')]).hexdigest().encode() != match[match.lastindex or 0]:
            return f"the {'tombstone' if match.lastindex == 5 else 'masked line'} does not match its seal"
        digest, chain = match[2].decode(), match[3].decode()
    else:
        return "not a line of this log"
    if int(match[1]) != seq or match[1] != str(seq).encode():
        return f"expected line {seq}, found {match[1].decode()}"
    if _link(previous, seq, digest) != chain:
        return "its words or its place do not match the hash chain"
    parsed = parse(line)
    if parsed is None:
        return "not a line of this log"
    try:
        json.loads(parsed.body or b"{}")
    except (ValueError, RecursionError):
        return "its body is not JSON"
    return parsed


def lost_its_end(torn: Torn, previous: str, seq: int) -> bool:
    """A crash leaves the beginning of a line. A whole line with another byte in place of its end was damaged later."""
    return isinstance(prove(torn.raw[:-1] + b"\n", previous, seq), Line)


def read_lines(path: Path, offset: int = 0) -> Iterator[tuple[int, bytes] | Torn]:
    """(offset, line) for every whole line from an offset on; last, what is torn off after them, if anything."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    yield Torn(offset, raw)
                    return
                yield offset, raw
                offset += len(raw)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        raise Corrupt(f"{path}: a folder in place of a file", where=str(path)) from None


def place_after(path: Path, seq: int) -> int:
    """Where line `seq + 1` begins, found by halving the file, since lines stand in the order of their numbers; 0 where
    it is not found so (a damaged or missing line): whoever reads on skips what comes before. Where no line stands
    behind `seq`, the end."""
    if seq < _NEAR:
        return 0
    try:
        with path.open("rb") as file:
            low, high = 0, _whole_end(file)
            end, any_behind = high, False
            while low < high:
                middle = (low + high) // 2
                begin = _line_from(file, middle, high)
                if begin is None:  # no line begins in the second half
                    high = middle
                    continue
                number = _number_at(file, begin)
                if number is None:
                    return 0
                if number == seq + 1:
                    return begin
                if number <= seq:
                    low = begin + 1
                else:
                    high, any_behind = middle, True
            return 0 if any_behind else end
    except FileNotFoundError:
        return 0


def _whole_end(file: BinaryIO) -> int:
    """Where the last whole line ends."""
    end = file.seek(0, os.SEEK_END)
    while end:
        size = min(_PROBE, end)
        file.seek(end - size)
        if (found := file.read(size).rfind(b"\n")) >= 0:
            return end - size + found + 1
        end -= size
    return 0


def _line_from(file: BinaryIO, offset: int, end: int) -> int | None:
    """Where the first line begins at or behind an offset and before `end`; never reads further than that."""
    if offset == 0:
        return 0
    at = offset - 1
    file.seek(at)
    while at < end:
        chunk = file.read(min(_PROBE, end - at))
        if not chunk:
            break
        if (found := chunk.find(b"\n")) >= 0:
            return at + found + 1 if at + found + 1 < end else None
        at += len(chunk)
    return None


def _number_at(file: BinaryIO, begin: int) -> int | None:
    file.seek(begin)
    match = _NUMBER.match(file.read(32))
    return int(match[1]) if match else None


def lines(path: Path, offset: int = 0) -> Iterator[Line]:
    """Every whole line from an offset on, trusted; `Corrupt` where one cannot be read."""
    for item in read_lines(path, offset):
        if isinstance(item, Torn):
            return
        line = parse(item[1])
        if line is None:
            raise Corrupt(f"{path}: unreadable line at byte {item[0]}", where=str(path))
        yield line


def stamp(path: str) -> Stamp:
    try:
        return stamped(os.stat(path))  # noqa: PTH116  a string is faster, and this is hot
    except FileNotFoundError:
        return NO_FILE


def stamped(status: os.stat_result) -> Stamp:
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


def readable_lines(path: Path) -> Iterator[Line]:
    """Every line that can be read, without proof; what is damaged or torn off is passed over."""
    for item in read_lines(path):
        line = parse(item[1]) if isinstance(item, tuple) else None
        if line is not None:
            yield line


def append(path: str, data: bytes, size: int, step: Step = no_step, what: str = "log") -> Stamp:
    """Write behind the first `size` bytes (cutting off what is torn) and sync; how the file was left."""
    fresh = size == 0
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | (0 if not fresh else os.O_TRUNC), 0o600)
    try:
        if os.fstat(fd).st_size != size:
            os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)
        step(f"{what}.before_write")
        with named(path):
            write_all(fd, data)
            step(f"{what}.before_sync")
            os.fdatasync(fd) if hasattr(os, "fdatasync") else os.fsync(fd)
        left = stamped(os.fstat(fd))
    finally:
        os.close(fd)
    if fresh:
        step(f"{what}.before_dir_sync")
        sync_dir(Path(path).parent)
    step(f"{what}.synced")
    return left


def settle(path: Path) -> None:
    """Sync what somebody else wrote: they may have died between their write and their sync."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    sync_dir(path.parent)


def chained(bodies: Sequence[bytes], at: datetime, seq: int, head: str, entropy: bytes) -> tuple[bytes, list[str]]:
    """New lines for bodies after line `seq` with chain `head`: their bytes, and the chain of each."""
    when = at.isoformat().encode()
    out: list[bytes] = []
    chains: list[str] = []
    for i, body in enumerate(bodies):
        raw, head = render(seq + i + 1, when, body, head, entropy[16 * i : 16 * i + 16])
        out.append(raw)
        chains.append(head)
    return b"".join(out), chains
