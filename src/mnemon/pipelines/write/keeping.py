"""The words of a call into their session: which of them are there already, and where the rest goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from mnemon.contracts.ports import Archive
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import EXPIRED, SessionRecord, StoredTurn, Tombstone
from mnemon.contracts.turns import Turn
from mnemon.logic.masking import MASK
from mnemon.logic.toolwork import is_account
from mnemon.logic.transcripts import Content, content, overlap, unseen
from mnemon.pipelines.index.indexing import BATCH
from mnemon.pipelines.write.telling import Telling

_APPEND = 2_000
# Turns the caller's own count does not know: those that came back, beside the place they had, and accounts of tools.
BESIDE = "beside"


@dataclass(frozen=True, slots=True)
class Appended:
    before: int
    written: int
    already_there: int
    turn_count: int
    chain_head: str
    fresh: list[StoredTurn]
    forgotten: int = 0
    returned: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """What of the given turns the session holds: the first `count` of them, those of them in `back` only until their
    time was over, `forgotten` of them only as places. The rest is `numbered` on."""

    before: int = 0
    head: str = ""
    count: int = 0
    forgotten: int = 0
    back: tuple[Turn, ...] = ()
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    """A turn's place, what it says, and what is left of it where it was taken away."""

    seq: int
    said: Content
    gone: Tombstone | None = None


@dataclass(frozen=True, slots=True)
class WordKeeper:
    archive: Archive

    async def nothing_new(self, scope: Scope, record: SessionRecord, telling: Telling) -> Appended:
        """The session as it is, and what of the given turns it does not hold."""
        ids = await self.turn_ids(scope, record)
        given = list(telling.intake.spool.turns())
        if telling.intake.named:
            missing = [turn.turn_id for turn in given if turn.turn_id not in ids]
        else:
            there = [row.said for row in await self._contents(scope, record.key)]
            missing = [given[n].turn_id for n in unseen(there, [content(turn) for turn in given])]
        if missing:
            some = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
            why = f"{len(missing)} turns are not in the completed session ({some}); write them with mode='append'"
            telling.degrade("unseen_turns", why)
        telling.counts |= {"turns_in_session": len(ids), "turns_unseen": len(missing)}
        count = record.turn_count
        return Appended(count, 0, len(given) - len(missing), count, record.chain_head, [])

    async def append(self, scope: Scope, record: SessionRecord, known: Known, telling: Telling) -> Appended:
        spool = telling.intake.spool
        for blob in spool.blobs():
            await self.archive.put_blob(scope, blob)
        fresh: list[StoredTurn] = []
        written, forgotten = 0, known.forgotten
        already = known.count - len(known.back)
        count, head = known.before, known.head
        new = islice(spool.turns(), known.count, None)
        batches = [(batch, False) for batch in _batches(iter(known.back))]
        for batch, numbered in chain(batches, ((batch, known.numbered) for batch in _batches(new))):
            result = await self.archive.append_turns(scope, record.key, batch, numbered)
            written += len(result.appended)
            already += result.already_there
            forgotten += result.forgotten
            count, head = result.turn_count, result.chain_head
            # A long session is read back from the archive a page at a time instead of being held in memory.
            fresh = [*fresh, *result.appended] if written <= BATCH else []
        return Appended(known.before, written, already, count, head, fresh, forgotten, len(known.back))

    async def known(self, scope: Scope, record: SessionRecord | None, telling: Telling) -> Known:
        """Of turns without ids of their own: which are there already (see `logic.transcripts`), and where the rest
        goes. With ids the archive sees to it."""
        if record is None:
            return Known()
        end = await self.archive.append_turns(scope, record.key, ())
        here = Known(end.turn_count, end.chain_head)
        if telling.intake.named or not end.turn_count:
            return here
        spool = telling.intake.spool
        new = replace(here, numbered=telling.order.mode == "append")
        answered = record.turn_count if record.answered is None else min(record.answered, record.turn_count)
        if spool.count < end.turn_count - record.counts.get(BESIDE, 0) and answered == end.turn_count:
            return new
        there = await self._contents(scope, record.key)
        begun = sum(row.seq <= answered for row in there)
        given = list(islice(spool.turns(), len(there)))
        count = overlap([row.said for row in there], begun, [content(turn) for turn in given])
        if count == 0:
            return new
        matched = there if count == len(there) else there[begun : begun + count]
        gone = [(turn, row.gone) for turn, row in zip(given, matched, strict=False) if row.gone is not None]
        back = [turn.model_copy(update={"turn_id": g.turn_id}) for turn, g in gone if g.reason == EXPIRED]
        return replace(here, count=count, forgotten=len(gone) - len(back), back=tuple(back), numbered=True)

    async def _contents(self, scope: Scope, key: SessionKey) -> list[_Row]:
        """What every turn of a session says, in their order. One that came back after its time was over counts where it
        first stood; accounts of tools are no part of what was said. What is not whole any more cannot be compared: it
        keeps its place, so that words masked there do not come back as new ones."""
        turns = [t for t in await self.archive.read_turns(scope, key) if not is_account(t.turn.turn_id)]
        gone = [t for t in await self.archive.read_tombstones(scope, key) if not is_account(t.turn_id)]
        held = {t.turn.turn_id: _comparable(t.turn) for t in turns}
        left = {t.turn_id for t in gone}
        rows = [_Row(t.seq, held[t.turn.turn_id]) for t in turns if t.turn.turn_id not in left]
        rows += [_Row(t.seq, held.get(t.turn_id), None if t.turn_id in held else t) for t in gone]
        return sorted(rows, key=lambda row: row.seq)

    async def turn_ids(self, scope: Scope, record: SessionRecord) -> set[str]:
        there = {t.turn.turn_id for t in await self.archive.read_turns(scope, record.key)}
        return there | {t.turn_id for t in await self.archive.read_tombstones(scope, record.key)}


def _batches(turns: Iterator[Turn]) -> Iterator[list[Turn]]:
    while batch := list(islice(turns, _APPEND)):
        yield batch


def _comparable(turn: Turn) -> Content:
    return None if MASK in turn.text or "salvaged" in turn.meta else content(turn)
