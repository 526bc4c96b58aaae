"""The end of a session's log: what must be known of it to write behind it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mnemon.contracts.errors import Conflict, Corrupt
from mnemon.contracts.scope import SessionKey
from mnemon.contracts.sessions import EXPIRED, SessionRecord, StoredTurn
from mnemon.contracts.turns import Turn
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.seen import GONE, MANY, Reach, Seen, remembered
from mnemon.logic.adapters.turns import position_id

_ID_FIRST = re.compile(rb'\{"turn_id":("(?:[^"\\]|\\.)*")')


@dataclass(slots=True)
class Tail:
    """Where the whole lines of a log end, which turns it holds, and the file as it was then."""

    session_id: str
    path: str
    stamp: chainlog.Stamp
    size: int
    count: int
    head: str
    principals: frozenset[str]
    seen: Seen

    def numbered(self, turns: Sequence[Turn]) -> list[Turn]:
        """Each with the number of its place as its id, or the next one that nobody has."""
        out: list[Turn] = []
        number = self.count
        for turn in turns:
            number += 1
            while self.seen.get(turn_id := position_id(number)) is not None:
                number += 1
            out.append(turn.model_copy(update={"turn_id": turn_id}))
        return out

    def unseen(self, turns: Sequence[Turn]) -> tuple[list[Turn], list[bytes], dict[str, bytes]]:
        """The turns the session does not hold yet, their lines, and their fingerprints by id."""
        new: list[Turn] = []
        bodies: list[bytes] = []
        batch: dict[str, bytes] = {}
        for turn in turns:
            body = turn_body(turn)
            print_ = fingerprint(body)
            known = self.seen.get(turn.turn_id) or batch.get(turn.turn_id)
            if known is None:
                batch[turn.turn_id] = print_
                new.append(turn)
                bodies.append(body)
            elif known not in (print_, GONE):
                raise Conflict(
                    f"turn {turn.turn_id} of session {self.session_id} is archived with other content; "
                    "words are never rewritten: use a new turn_id or a new session_id",
                    turn_id=turn.turn_id,
                )
        return new, bodies, batch


def session_genesis(key: SessionKey) -> str:
    return chainlog.genesis("turns", key.tenant_id, key.owner.space, key.session_id)


def turn_body(turn: Turn) -> bytes:
    return turn.model_dump_json(exclude_defaults=True).encode()


def _turn_id(body: bytes) -> str:
    """Of the many lines of a long session only the ids are wanted, and each begins with its own."""
    match = _ID_FIRST.match(body)
    return str(json.loads(match[1])) if match else Turn.model_validate_json(body).turn_id


def fingerprint(body: bytes) -> bytes:
    if b'"salvaged":"' in body:
        return b"gone"  # what was salvaged may lack what nobody remembered: the same turn sent again is no conflict
    return hashlib.blake2b(body, digest_size=8).digest()


def scan(record: SessionRecord, path: Path) -> Tail:
    """The tail of a log that others may have written to; `Corrupt` where it holds less than its page promises."""
    stamp = chainlog.stamp(str(path))
    seen, reach = remembered(path)
    reach = reach or Reach(0, session_genesis(record.key), 0, 0)
    tail = Tail(
        record.session_id, str(path), stamp, reach.end, reach.seq, reach.chain, frozenset(record.principals), seen
    )
    for item in chainlog.read_lines(path, reach.end):
        if isinstance(item, chainlog.Torn):
            break
        line = chainlog.parse(item[1])
        if line is None:
            raise Corrupt(f"{path}: unreadable line at byte {item[0]}", where=str(path))
        tail.count, tail.head, tail.size = line.seq, line.chain, item[0] + len(item[1])
        reach = Reach(line.seq, line.chain, item[0], tail.size)
        if line.body is not None:
            # What was masked is not taken for another turn when it is sent again as it was: it stays masked.
            seen.fresh[_turn_id(line.body)] = GONE if line.masked else fingerprint(line.body)
        elif line.gone and line.gone["reason"] != EXPIRED:
            seen.fresh[line.gone["turn_id"]] = GONE
    if tail.count < record.turn_count:
        # Writing on would cut off what is left of them.
        raise Corrupt(f"{path}: {record.turn_count} turns were acknowledged, {tail.count} are here", where=str(path))
    if tail.count:
        chainlog.settle(path)
        if len(seen.fresh) >= MANY:  # so that the next one need not read them again
            seen.keep(path, reach)
    return tail


def stored(
    turns: Sequence[Turn], chains: Sequence[str], at: datetime, before: int, head: str
) -> tuple[StoredTurn, ...]:
    """Turns behind the turn numbered `before`, whose chain is `head`."""
    links = zip(turns, chains, (head, *chains), strict=False)
    return tuple(
        StoredTurn(turn, n, at, chain, hangs_on) for n, (turn, chain, hangs_on) in enumerate(links, before + 1)
    )
