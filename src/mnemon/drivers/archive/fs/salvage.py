"""A damaged log made whole again: from its own lines, from the chain that proves them, from what a replica remembers.

Three ways, the best first. A line is *restored* when the chain proves that what takes its place is what stood there. It
is *salvaged* when a replica still has the words, or the line can be read and not proven: the turn says so in its
`meta`, and the chain is made anew from there on. It is *lost* when nobody has it: a tombstone keeps its place."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mnemon.contracts.reports import How
from mnemon.drivers.archive.fs import chainlog

SALVAGED = "salvaged"
_SEQ = re.compile(rb'"seq":(\d{1,18})')
_DIGEST = re.compile(rb'"digest":"([0-9a-f]{64})"')
_PLACE = re.compile(rb'\{"seq":\d{1,18},"digest":"[0-9a-f]{64}","chain":"[0-9a-f]{64}"')
_PARTS = re.compile(
    rb'.*?"at":"(?P<at>[0-9T:.+-]{20,40})","salt":"(?P<salt>[0-9a-f]{32})","chain":"(?P<chain>.{64})","body":(?P<body>.*)\}.{0,2}',
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Memory:
    """What somebody else remembers of a line: when, and the body as far as it is known."""

    at: datetime
    body: dict[str, object]


@dataclass(slots=True)
class Salvage:
    """A log's lines as they shall be, the chain at each, and by number which were not simply there."""

    lines: list[bytes] = field(default_factory=list)
    chains: list[str] = field(default_factory=list)
    restored: list[int] = field(default_factory=list)
    salvaged: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    @property
    def same_chain(self) -> bool:
        """Is every link the one that was acknowledged?"""
        return not self.salvaged and not self.lost

    @property
    def how(self) -> How:
        return "set aside" if self.lost else "salvaged" if self.salvaged else "mended"

    def told(self) -> str:
        named = (("restored", self.restored), ("salvaged", self.salvaged), ("lost", self.lost))
        return ", ".join(f"{what} {_ranges(seqs)}" for what, seqs in named if seqs)


@dataclass(frozen=True, slots=True)
class _Piece:
    """What can be read of a damaged line."""

    at: bytes
    salt: bytes
    body: bytes
    chain: str


def salvage(
    raws: Sequence[bytes],
    genesis: str,
    last: int,
    heads: Mapping[int, str],
    memory: Mapping[int, Memory],
    now: datetime,
    entropy: Callable[[int], bytes],
    first: int = 1,
) -> Salvage:
    """Lines `first` to `last` from the raw lines there are. `heads` are links of the chain that papers vouch for."""
    out = Salvage()
    here = _placed(raws, first, last)
    before: str | None = genesis  # the link as it was acknowledged, where it is known
    link = genesis  # the link as it will be
    for seq in range(first, last + 1):
        found = here.get(seq, ())
        whole = _proven(found, before, seq)
        if whole is None and before is not None:
            whole = _restored(found, memory.get(seq), before, seq, heads, here.get(seq + 1, ()))
            if whole is not None:
                out.restored.append(seq)
        if whole is None:
            raw, before = _saved(found, memory.get(seq), seq, link, now, entropy, out), _stated(found, heads, seq)
        else:
            raw, before = rechained(whole, link, seq), _chain(whole)
        link = _chain(raw)
        out.lines.append(raw)
        out.chains.append(link)
    return out


def _placed(raws: Sequence[bytes], first: int, last: int) -> dict[int, list[bytes]]:
    """Every raw line under the numbers it may have: the one it states, and the one of its place."""
    here: dict[int, list[bytes]] = {}
    at = first
    for raw in raws:
        stated = _SEQ.search(raw[:40])
        seq = int(stated[1]) if stated and first <= int(stated[1]) <= last else 0
        for number in dict.fromkeys((seq or at, at)):
            here.setdefault(number, []).append(raw)
        at = (seq or at) + 1
    return here


def _proven(found: Sequence[bytes], before: str | None, seq: int) -> bytes | None:
    if before is None:
        return None
    return next((raw for raw in found if isinstance(chainlog.prove(raw, before, seq), chainlog.Line)), None)


def _restored(
    found: Sequence[bytes],
    memory: Memory | None,
    before: str,
    seq: int,
    heads: Mapping[int, str],
    following: Sequence[bytes],
) -> bytes | None:
    """A line that the chain proves to be the one that stood here, though no byte of it is trusted."""
    for piece in (p for p in map(_piece, found) if p):
        for body in _bodies(piece, memory):
            digest = hashlib.sha256(b"%b\n%b\n%b" % (piece.salt, piece.at, body)).hexdigest()
            chain = hashlib.sha256(f"{before}\n{seq}\n{digest}".encode()).hexdigest()
            witnessed = chain in (piece.chain, heads.get(seq)) or _proven(following, chain, seq + 1) is not None
            line = _line(seq, piece.at, piece.salt, chain, body)
            if witnessed and isinstance(chainlog.prove(line, before, seq), chainlog.Line):
                return line
    return None


def _bodies(piece: _Piece, memory: Memory | None) -> Iterator[bytes]:
    yield piece.body
    yield piece.body + b"}"  # the last byte of the line is another one
    if memory is None:
        return
    try:
        read = json.loads(piece.body)
    except (ValueError, RecursionError):
        read = {}
    if isinstance(read, dict):
        yield _compact({**read, **memory.body})
    # Where a flipped byte broke the JSON itself, what follows the text may still be read.
    known = _compact(memory.body)
    yield known
    for name in (b',"source_ref":', b',"attachments":', b',"meta":', b',"drop_candidate":'):
        if name in piece.body:
            yield known[:-1] + piece.body[piece.body.index(name) :]


def _saved(
    found: Sequence[bytes],
    memory: Memory | None,
    seq: int,
    link: str,
    now: datetime,
    entropy: Callable[[int], bytes],
    out: Salvage,
) -> bytes:
    for raw in found:
        line = chainlog.parse(raw)
        if line is not None and line.seq == seq and (line.gone or (line.masked and _is_sealed(raw))):
            return rechained(raw, link, seq)  # with a seal of its own, it has nothing to prove but its place
    read = next((words for raw in found if (words := _readable(raw)) is not None), None)
    if memory is not None:
        body = {**(read[1] if read else {}), **memory.body}
        source, at = "index", memory.at
    elif read is not None:
        body, source, at = read[1], "unproven", read[0]
    else:
        out.lost.append(seq)
        gone = {"turn_id": f"lost-{seq}", "at": now.isoformat(), "reason": "damaged, and nobody else has it"}
        nothing = f'"{entropy(16).hex()}"'.encode()
        raw, _ = chainlog.render(seq, now.isoformat().encode(), nothing, link, entropy(16))
        return chainlog.render_gone(raw, gone)
    out.salvaged.append(seq)
    if "turn_id" in body:
        meta = body.get("meta")
        body["meta"] = {**(meta if isinstance(meta, dict) else {}), SALVAGED: source}
    raw, _ = chainlog.render(seq, at.isoformat().encode(), _compact(body), link, entropy(16))
    return raw


def _readable(raw: bytes) -> tuple[datetime, dict[str, object]] | None:
    """The words of a line that nothing proves."""
    piece = _piece(raw)
    line = chainlog.parse(raw)
    at = piece.at.decode() if piece else line.at.isoformat() if line and line.at else ""
    try:
        body = json.loads(piece.body if piece else (line.body if line else None) or b"null")
        return (datetime.fromisoformat(at), body) if isinstance(body, dict) else None
    except (ValueError, RecursionError):
        return None


def _stated(found: Sequence[bytes], heads: Mapping[int, str], seq: int) -> str | None:
    """The link as it was acknowledged, from the line itself or from a paper that names it."""
    if seq in heads:
        return heads[seq]
    for line in map(chainlog.parse, found):
        if line is not None and line.seq == seq:
            return line.chain
    return next((p.chain for p in map(_piece, found) if p and re.fullmatch("[0-9a-f]{64}", p.chain)), None)


def rechained(raw: bytes, previous: str, seq: int) -> bytes:
    """The same line behind another link."""
    if isinstance(chainlog.prove(raw, previous, seq), chainlog.Line):
        return raw
    if (piece := _piece(raw)) is not None:
        line, _ = chainlog.render(seq, piece.at, piece.body, previous, bytes.fromhex(piece.salt.decode()))
        return line
    rest = raw[: raw.rindex(b',"seal":"')]  # a tombstone, or a line of which some words are forgotten
    digest = _DIGEST.search(rest)
    assert digest is not None
    chain = hashlib.sha256(b"%b\n%d\n%b" % (previous.encode(), seq, digest[1])).hexdigest()
    rest = _PLACE.sub(b'{"seq":%d,"digest":"%b","chain":"%b"' % (seq, digest[1], chain.encode()), rest, count=1)
    return b'%b,"seal":"%b"}\n' % (rest, hashlib.sha256(rest).hexdigest().encode())


def _is_sealed(raw: bytes) -> bool:
    rest, _, seal = raw.rpartition(b',"seal":"')
    return seal[:64] == hashlib.sha256(rest).hexdigest().encode()


def _piece(raw: bytes) -> _Piece | None:
    match = _PARTS.fullmatch(raw.rstrip(b"\n") + b"\n")
    if match is None:
        return None
    return _Piece(match["at"], match["salt"], match["body"], match["chain"].decode(errors="replace"))


def _line(seq: int, at: bytes, salt: bytes, chain: str, body: bytes) -> bytes:
    return b'{"seq":%d,"at":"%b","salt":"%b","chain":"%b","body":%b}\n' % (seq, at, salt, chain.encode(), body)


def _chain(raw: bytes) -> str:
    line = chainlog.parse(raw)
    assert line is not None
    return line.chain


def _compact(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _ranges(seqs: Sequence[int]) -> str:
    told: list[str] = []
    begin = 0
    for at, seq in enumerate(seqs):
        if at + 1 == len(seqs) or seqs[at + 1] != seq + 1:
            told.append(str(seq) if seqs[begin] == seq else f"{seqs[begin]}-{seq}")
            begin = at + 1
    return ("line " if len(seqs) == 1 else "lines ") + ", ".join(told)
