"""What people decide about claims: list them, confirm, reject, correct. The archive first, then its replica."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.commits import PlanAction, WritePlan
from mnemon.contracts.errors import Conflict, InvalidArgument, NotFound, VersionConflict
from mnemon.contracts.filters import Eq, every
from mnemon.contracts.governance import EvidenceLevel
from mnemon.contracts.jobs import Job
from mnemon.contracts.ports import Archive, Index, Queue, Timekeeper
from mnemon.contracts.results import ClaimPage
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.logic.governance import governed
from mnemon.logic.language import language_of
from mnemon.logic.policies import Change, claims_in, plan
from mnemon.logic.shelves import filed_key, key_at, node_key
from mnemon.pipelines.index.projection import CLAIM, claim_of
from mnemon.pipelines.index.reading import scroll_shown
from mnemon.pipelines.index.worker import LEASE
from mnemon.pipelines.jobs import claims_job, session_of
from mnemon.pipelines.replicas import Replicas
from mnemon.pipelines.write.placing import change_for, changed_by
from mnemon.pipelines.write.refiling import node_at, refile
from mnemon.pipelines.write.settling import settle_others


@dataclass(frozen=True, slots=True)
class ClaimKeeper:
    archive: Archive
    index: Index
    replicas: Replicas
    clock: Timekeeper
    queue: Queue
    worker: str

    async def listed(
        self,
        scope: Scope,
        state: str | None = "active",
        kind: str | None = None,
        shelf: str | None = None,
        session_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ClaimPage:
        """Newest first. What is over is not listed."""
        where = every(
            Eq("kind", CLAIM),
            *(Eq(name, value) for name, value in _given(state, kind, shelf, session_id).items()),
        )
        now = self.clock.now()
        if state in (ClaimState.PENDING, ClaimState.REPEATED):  # not published, and asked for by name
            page = await self.index.scroll(scope, where, "newest", limit, cursor)
        else:
            page = await scroll_shown(self.index, scope, where, "newest", limit, cursor, now)
        claims = (claim_of(entry) for entry in page.entries)
        return ClaimPage(tuple(c for c in claims if c.alive(now)), page.next_cursor)

    async def get(self, scope: Scope, claim_id: str) -> Claim:
        """From the archive; the index only says where to look, and where it is behind every session is asked."""
        for entry in await self.index.get(scope, [claim_id]):
            if entry.kind == CLAIM and (found := await self._in(scope, claim_of(entry).session, claim_id)):
                return found
        async for record in self.archive.sessions(scope):
            if claim_id in record.claim_ids and (found := await self._in(scope, record.key, claim_id)):
                return found
        raise NotFound(f"no claim {claim_id} in this scope", claim_id=claim_id)

    async def _in(self, scope: Scope, key: SessionKey, claim_id: str) -> Claim | None:
        try:
            claims = await self.archive.read_claims(scope, key)
        except NotFound:
            return None
        found = next((c for c in claims if c.claim_id == claim_id), None)
        return found if found and scope.sees(found.principals) and found.alive(self.clock.now()) else None

    async def confirm(self, scope: Scope, claim_id: str) -> Claim:
        """What waited becomes knowledge, with the user's word for it."""
        claim = await self.get(scope, claim_id)
        if claim.state is not ClaimState.PENDING:
            raise Conflict(f"claim {claim_id} is {claim.state}; only a pending one can be confirmed", claim_id=claim_id)
        sure = self._vouched(claim)
        key = node_key(sure)
        sure = sure.model_copy(update={"state": ClaimState.ACTIVE, "node_uri": key.uri})
        return await self._filed(scope, sure, "confirm")

    async def correct(self, scope: Scope, claim_id: str, statement: str, reason: str) -> Claim:
        """The sentence is a person's from now on; the words it was drawn from stay cited."""
        if not isinstance(statement, str) or not statement.strip():
            raise InvalidArgument("statement must be a non-empty string", field="statement")
        claim = await self.get(scope, claim_id)
        if claim.state is ClaimState.PENDING:
            raise Conflict(f"claim {claim_id} waits for confirmation; confirm it first", claim_id=claim_id)
        better = self._vouched(claim).model_copy(
            update={
                "statement": statement.strip(),
                "overview": "",
                "content": "",
                "language": language_of(statement),
                "corrected_from": claim.corrected_from or claim.statement,
                "rationale": reason,
            }
        )
        return await self._filed(scope, better, "correct")

    async def reject(self, scope: Scope, claim_id: str) -> Claim:
        """Taken away, wherever it stands."""
        claim = await self.get(scope, claim_id)
        async with self._intended(claim, gone=[claim_id]):
            await self.remove(scope, [claim])
            await self.note(scope, "reject", [claim_id])
        return claim

    async def remove(self, scope: Scope, claims: Sequence[Claim]) -> None:
        """Claims out of their nodes, their sessions and the index."""
        await self.take_from_nodes(scope, claims)
        await self.take_from_sessions(scope, claims)

    async def take_from_nodes(self, scope: Scope, claims: Sequence[Claim]) -> list[str]:
        """The URIs of the nodes that changed. As long as the sessions hold the claims, this can be done again."""
        changed: list[str] = []
        for key in dict.fromkeys(filed_key(c) for c in claims if c.node_uri):
            here = [c for c in claims if c.node_uri == key.uri]
            change = change_for(key, (), frozenset(c.claim_id for c in here), here)
            if await self._refile(scope, change, "claims removed"):
                changed.append(key.uri)
        return changed

    async def take_from_sessions(self, scope: Scope, claims: Sequence[Claim]) -> None:
        for session in dict.fromkeys(c.session for c in claims):
            await self.settle(scope, session, gone={c.claim_id for c in claims if c.session == session})

    async def put(self, scope: Scope, claims: Sequence[Claim], reason: str) -> None:
        """Claims of one session as they are now, into its file, their nodes and the index."""
        for key in dict.fromkeys(filed_key(c) for c in claims if c.node_uri):
            here = [c for c in claims if c.node_uri == key.uri]
            await self._refile(scope, change_for(key, here, frozenset()), reason)
        await self.settle(scope, claims[0].session, claims)

    async def settle(
        self, scope: Scope, session: SessionKey, claims: Sequence[Claim] = (), gone: Collection[str] = ()
    ) -> None:
        """A session with these claims as they are now, and without those gone: its file, its page, then the replicas.
        Doing it again changes nothing."""
        await self.archive.put_claims(scope, session, claims, gone=sorted(gone))
        named = [c.claim_id for c in claims]
        await self._turn_page(scope, session, lambda record: {
            "claim_ids": tuple(i for i in dict.fromkeys([*record.claim_ids, *named]) if i not in gone)
        })  # fmt: skip
        await self.replicas.bring_up(session)

    def _vouched(self, claim: Claim) -> Claim:
        """With a person behind it; its life is counted from when it was learnt."""
        sure = governed(claim.kind, claim.status, EvidenceLevel.USER_CONFIRMED, importance=claim.governance.importance)
        return claim.model_copy(update={"governance": sure, "expires_at": sure.expires_at(claim.recorded_at)})

    async def _filed(self, scope: Scope, claim: Claim, verb: str) -> Claim:
        async with self._intended(claim):
            await self.put(scope, [claim], verb)
            await self.note(scope, verb, [claim.claim_id])
        return await self.get(scope, claim.claim_id)

    @asynccontextmanager
    async def _intended(self, claim: Claim, gone: Sequence[str] = ()) -> AsyncIterator[None]:
        """Intent first: where this is cut off, whoever takes up the job brings files and replicas to what the node
        says, and the same call made again finishes the rest."""
        job = claims_job(claim.session, [claim.node_uri] if claim.node_uri else [], gone)
        await self.queue.put([job], claim_by=self.worker, lease=LEASE)
        try:
            yield
        except BaseException:
            await self.queue.release(job.job_id)
            raise
        await self.queue.done(job.job_id)

    async def carry_out(self, job: Job) -> None:
        """What was cut off: the node is changed first, so what it says holds. What it says may have been told to a
        session's file already and not to its page: each page is turned once more."""
        scope, session = Scope.steward_of(job.tenant_id), session_of(job)
        sessions = {session: None}
        for uri in job.payload["nodes"]:
            filed = key_at(job.tenant_id, session.owner, uri)
            node = await node_at(self.archive, scope, filed)
            claims = claims_in(node) if node else []
            await settle_others(self.archive, scope, claims)
            await self.replicas.index_node(filed)
            sessions |= dict.fromkeys(c.session for c in claims)
        if job.payload["gone"]:
            with suppress(NotFound):  # the session is forgotten
                await self.archive.put_claims(scope, session, (), gone=job.payload["gone"])
        for key in sessions:
            await self._turn_page(scope, key, lambda record: {
                "claim_ids": tuple(i for i in record.claim_ids if i not in job.payload["gone"])
            })  # fmt: skip
            await self.replicas.bring_up(key)

    async def _refile(self, scope: Scope, change: Change, reason: str) -> bool:
        async def planned() -> WritePlan:
            return plan(change, await node_at(self.archive, scope, change.key), self.clock.over_by())

        made = await refile(self.archive, scope, change.key, planned, reason)
        if made.action is PlanAction.SKIP:
            await self.replicas.index_node(change.key)  # whoever made it so may have been cut off before this
            return False
        others = changed_by([made], {c.claim_id for c in change.incoming})
        await settle_others(self.archive, scope, others)
        await self.replicas.index_node(change.key)
        for key in dict.fromkeys(c.session for c in others):
            await self.replicas.bring_up(key)
        return True

    async def _turn_page(self, scope: Scope, key: SessionKey, update: Any) -> SessionRecord | None:
        while True:
            record = await self.archive.read_session(scope, key)
            if record is None:
                return None
            try:
                page = record.model_copy(update=update(record))
                return await self.archive.write_session(scope, page, record.version)
            except VersionConflict:
                continue

    async def note(self, scope: Scope, verb: str, claim_ids: Sequence[str]) -> None:
        """In the ledger, by id: it outlives what it speaks of, so it holds no words."""
        rows: list[dict[str, Any]] = [{"op": verb, "claim_id": claim_id} for claim_id in claim_ids]
        await self.archive.append_log(Scope.steward_of(scope.tenant_id), "ledger", rows)


def _given(state: str | None, kind: str | None, shelf: str | None, session_id: str | None) -> dict[str, str]:
    named = {"state": state, "fact_type": kind, "shelf": shelf, "session_id": session_id}
    return {name: str(value) for name, value in named.items() if value is not None}
