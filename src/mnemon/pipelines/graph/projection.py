"""The archive into the graph: a session's remembered turns beyond its mark, and its claims."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.contracts.claims import Claim
from mnemon.contracts.graph import GraphBatch, Knowledge, Saying, UtteranceEvidence
from mnemon.contracts.ports import Archive, Graph
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord, SessionStatus, StoredTurn
from mnemon.logic.chats import is_call_id
from mnemon.logic.graph.projecting import last_event, of_claims, of_turns
from mnemon.logic.ids import turn_id
from mnemon.pipelines.index.projection import Lives, added_claims, is_new, lives

# Turns of one step: a session of up to this many is seen wholly or not at all without a second step.
_BATCH = 2_000
_TURNS, _CLAIMS = "turns:", "claims:"
_NOTHING = GraphBatch()


def origins_of(key: SessionKey) -> tuple[str, str]:
    """Under which names a session speaks: as its turns, and as its claims."""
    return origins_at(key.uri)


def origins_at(uri: str) -> tuple[str, str]:
    return _TURNS + uri, _CLAIMS + uri


def session_uri(origin: str) -> str | None:
    """The session behind an origin, if it is one."""
    name, _, uri = origin.partition(":")
    return uri if f"{name}:" in (_TURNS, _CLAIMS) else None


@dataclass(frozen=True, slots=True)
class _Mark:
    """Which version of a session's page the graph holds, and of it: up to which turn and commit; the last event; how
    many claims, and which (`ids`)."""

    version: int = 0
    seq: int = 0
    head: str = ""
    commits: int = 0
    kept: str = ""
    last: str = ""
    claims: int = 0
    ids: str = ""

    @classmethod
    def of(cls, text: str | None) -> _Mark:
        return cls(**json.loads(text)) if text else cls()

    def told(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True)
class Grapher:
    archive: Archive
    graph: Graph

    async def project(
        self,
        key: SessionKey,
        fresh: Sequence[StoredTurn] = (),
        anew: bool = False,
        page: SessionRecord | None = None,
    ) -> None:
        """Bring one session up to date; `anew` also what was told before, where words were taken away. `fresh` are
        turns just archived and `page` the page just written, to spare reading them again. The page is read again
        afterwards: whoever changed it meanwhile may have been here before us."""
        scope = Scope.steward_of(key.tenant_id)
        seen = 0
        record = page or await self.archive.read_session(scope, key)
        while record is not None and record.version != seen:
            if not record.graph:
                if not is_new(record, fresh):
                    await self._take_back(scope, key)
            elif record.status is SessionStatus.COMPLETED:
                await self._project(scope, record, anew, shown=True, fresh=fresh)
            seen, fresh = record.version, ()
            record = await self.archive.read_session(scope, key)
        if record is None:
            await self._take_back(scope, key)

    async def _take_back(self, scope: Scope, key: SessionKey) -> None:
        if await self.graph.marks(scope, origins_of(key)):
            await self.graph.drop(scope, origins_of(key))

    async def stage(self, record: SessionRecord) -> None:
        """All of it, unseen: for whoever will not call a session complete that the graph does not hold."""
        await self._project(Scope.steward_of(record.tenant_id), record, anew=False, shown=False)

    async def is_behind(self, record: SessionRecord) -> bool:
        """Does the graph hold another version of a session than its page?"""
        mark = await self._mark(Scope.steward_of(record.tenant_id), record.key)
        return mark.version != record.version if record.graph else mark.version != 0

    async def differs(self, record: SessionRecord) -> bool:
        """Does the graph tell other than the archive what is known from a completed session, or what was said?"""
        scope = Scope.steward_of(record.tenant_id)
        if not record.graph:
            return await self.is_behind(record)
        turns: list[StoredTurn] = []
        after = 0
        while page := await self.archive.read_turns(scope, record.key, after, _BATCH):
            turns, after = [*turns, *page], page[-1].seq
        life = lives(record, await self.archive.read_tags(scope, record.key) if record.kept == "tagged" else [])
        told = {turn_id(record.key, t.turn.turn_id): t.turn.text for t in turns if life.keeps(t)}
        claims = await self.archive.read_claims(scope, record.key) if record.claim_ids else []
        known = {k.id: (k.summary, k.data) for k in of_claims(record, claims, {}, (), True).knowledge}
        held = {item.id: item for item in await self.graph.get(scope, [*told, *known])}
        return any(
            not isinstance(u := held.get(i), UtteranceEvidence) or u.raw_text != text for i, text in told.items()
        ) or any(not isinstance(k := held.get(i), Knowledge) or (k.summary, k.data) != v for i, v in known.items())

    async def _mark(self, scope: Scope, key: SessionKey) -> _Mark:
        turns, claims = origins_of(key)
        held = await self.graph.marks(scope, (turns, claims))
        mark = _Mark.of(held.get(turns))
        # Both are told together, if there are claims; a long session's turns come in steps before, as version 0.
        together = held[claims] == str(mark.version) if claims in held else mark.version > 0
        return mark if together else _Mark()

    async def _project(
        self, scope: Scope, record: SessionRecord, anew: bool, shown: bool, fresh: Sequence[StoredTurn] = ()
    ) -> None:
        origins = origins_of(record.key)
        mark = _Mark() if is_new(record, fresh) else await self._mark(scope, record.key)
        if shown and not anew and mark.version == record.version:
            return
        if anew or not await self._goes_on(scope, record, mark, fresh):
            mark = _Mark()
        life = lives(record, await self.archive.read_tags(scope, record.key) if record.kept == "tagged" else [])
        version = record.version if shown else 0  # what is staged counts for nothing until it is told again
        if not (fresh and fresh[0].seq == mark.seq + 1):
            fresh = await self.archive.read_turns(scope, record.key, after=mark.seq, limit=_BATCH)
        while len(fresh) == _BATCH and (
            more := await self.archive.read_turns(scope, record.key, after=fresh[-1].seq, limit=_BATCH)
        ):
            mark, piece = self._turns(record, fresh, life, mark, 0, shown=False)
            await self.graph.put(scope, [piece])
            fresh = more
        unseen = mark.seq > 0 and mark.version == 0
        added = None if unseen or not shown else _added(mark, record)
        mark, turns = self._turns(record, fresh, life, mark, version, shown)
        claims = Saying(origins[1], _NOTHING)
        if record.claim_ids or not shown:
            said = await self._told(scope, record, turns, added)
            batch = of_claims(record, said.claims, said.cited, said.unkept, shown)
            claims = Saying(origins[1], batch, whole=added is None, mark=str(version))
        await self.graph.put(scope, [turns, claims])
        if shown and unseen:
            await self.graph.publish(scope, origins)

    async def _goes_on(self, scope: Scope, record: SessionRecord, mark: _Mark, fresh: Sequence[StoredTurn]) -> bool:
        """Is what the graph holds the beginning of what there is to tell?"""
        if mark.seq == 0 or mark.kept != record.kept:
            return False
        follows = fresh and (fresh[0].seq - 1, fresh[0].hangs_on) == (mark.seq, mark.head)
        if follows and mark.commits == record.commits:
            return True
        at = await self.archive.read_turns(scope, record.key, after=mark.seq - 1, limit=1)
        if not at or (at[0].seq, at[0].chain) != (mark.seq, mark.head):
            return False
        if mark.commits == record.commits:
            return True
        commits = await self.archive.read_commits(scope, record.key, after=mark.commits)
        return all(c.first_seq > mark.seq for c in commits)  # else turns that were told have been judged since

    def _turns(
        self, record: SessionRecord, turns: Sequence[StoredTurn], life: Lives, mark: _Mark, version: int, shown: bool
    ) -> tuple[_Mark, Saying]:
        kept = [stored for stored in turns if life.keeps(stored)]
        batch = of_turns(record, kept, shown, mark.last)
        seq, head = (turns[-1].seq, turns[-1].chain) if turns else (mark.seq, mark.head)
        last = last_event(record, kept) or mark.last
        ids = _digest(record.claim_ids)
        after = _Mark(version, seq, head, record.commits, record.kept, last, len(record.claim_ids), ids)
        return after, Saying(origins_of(record.key)[0], batch, whole=mark.seq == 0, mark=after.told())

    async def _told(self, scope: Scope, record: SessionRecord, turns: Saying, added: Sequence[str] | None) -> _Said:
        """The claims that stand, or those of them that were added, and the utterances they cite: just told, told
        before, or for their sake only."""
        settled = set(record.claim_ids if added is None else added)
        claims = (
            [c for c in await self.archive.read_claims(scope, record.key) if c.claim_id in settled] if settled else []
        )
        cited = {id: turn for c in claims for turn in c.source_turn_ids if (id := turn_id(record.key, turn))}
        found = {u.id: u for u in turns.batch.utterances if u.id in cited}
        if not turns.whole and record.kept != "none":
            # A bot's notes are told by the claims alone, so with them or not at all.
            told = [id for id, turn in cited.items() if id not in found and not is_call_id(turn)]
            known = await self.graph.get(scope, told)
            found |= {u.id: u for u in known if isinstance(u, UtteranceEvidence)}
        unkept: list[StoredTurn] = []
        if found.keys() != cited.keys():
            missing = {turn for id, turn in cited.items() if id not in found}
            stored = await self.archive.read_turns(scope, record.key)
            unkept = [t for t in stored if t.turn.turn_id in missing]
            found |= {u.id: u for u in of_turns(record, unkept, published=False).utterances}
        return _Said(claims, {cited[id]: u for id, u in found.items()}, unkept)


def _added(mark: _Mark, record: SessionRecord) -> tuple[str, ...] | None:
    """The claims to tell beside those told before; None where all are to be told anew."""
    known = record.claim_ids[: mark.claims]
    return added_claims(mark.version, known, record) if mark.version and _digest(known) == mark.ids else None


def _digest(claim_ids: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(claim_ids).encode()).hexdigest()[:16] if claim_ids else ""


@dataclass(frozen=True, slots=True)
class _Said:
    claims: list[Claim]
    cited: dict[str, UtteranceEvidence]
    unkept: list[StoredTurn]
