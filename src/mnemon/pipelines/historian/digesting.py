"""The historian: a bot's turn from its job into the archive, the profiles, the index and the graph.

Each step can be done again: words are appended once, an event has one claim, a claim stands in a node once. So a
worker that dies anywhere leaves a job that the next one finishes, and what a model said once is not asked again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mnemon.contracts.chats import Alert, EndCall
from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import PlanAction, WritePlan
from mnemon.contracts.errors import Conflict
from mnemon.contracts.jobs import Job
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.ports import Archive, Index, Timekeeper
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import AppendResult, SessionRecord, SessionStatus, StoredTurn
from mnemon.contracts.turns import Turn
from mnemon.logic import chats
from mnemon.logic.governance import lives_begin
from mnemon.logic.shelves import filed_key, node_key
from mnemon.pipelines.ask import Asker, Rules
from mnemon.pipelines.govern import quotas
from mnemon.pipelines.govern.quotas import Quotas
from mnemon.pipelines.historian.absolutising import Rewrite, absolutise
from mnemon.pipelines.historian.ending import call_of
from mnemon.pipelines.index.projection import claim_of
from mnemon.pipelines.replicas import Replicas
from mnemon.pipelines.write.pages import open_page, turn_page
from mnemon.pipelines.write.placing import Placed, Placer, change_for, changed_by
from mnemon.pipelines.write.refiling import refile
from mnemon.pipelines.write.settling import settle_others

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Historian:
    archive: Archive
    index: Index
    replicas: Replicas
    placer: Placer
    clock: Timekeeper
    quotas: Quotas
    rewrite_max_retry: int
    own_asker: Callable[[], Asker | None]
    alert: Callable[[Alert], None]

    async def digest(self, job: Job) -> None:
        scope = Scope.steward_of(job.tenant_id)
        call = await self._as_told_first(scope, call_of(job))
        key = chats.session_of(job.tenant_id, call)
        record, turns, fresh = await self._keep(scope, key, call)
        there = await self.archive.read_claims(scope, key) if record.claim_ids or record.turn_count else []
        claims = [c for c in there if c.occasion and c.occasion.event_id == call.event_id]
        if not claims and (call.action_summary or call.new_info):
            claims = await self._told(scope, record, call, turns, there, job)
            await self.archive.put_claims(scope, key, claims)
        claims = await self._file(scope, claims)
        record = await self._vouch(scope, record, claims)
        await self.replicas.index_session(key, fresh)
        await self.replicas.project(key, fresh)

    async def _as_told_first(self, scope: Scope, call: EndCall) -> EndCall:
        """A turn that happened when it was told, and is told again: it happened the first time."""
        if chats.has_its_own_time(call):
            return call
        known = await self.index.get(scope, [chats.claim_id(scope.tenant_id, call.owner, "event", call.event_id)])
        at = claim_of(known[0]).occasion if known else None
        return call.model_copy(update={"timestamp": at.timestamp_local}) if at else call

    # --- the words

    async def _keep(
        self, scope: Scope, key: SessionKey, call: EndCall
    ) -> tuple[SessionRecord, list[Turn], list[StoredTurn]]:
        wanted = chats.turns_of(call)
        await quotas.check(self.index, self.quotas, key.tenant_id, key.owner, len(wanted))
        record = await self.archive.read_session(scope, key)
        record = await open_page(self.archive, self.clock, scope, key, (key.owner.principal,), record)
        turns, result = await self._append(scope, key, wanted)
        page = record.model_copy(update={"turn_count": result.turn_count, "chain_head": result.chain_head})
        return page, turns, list(result.appended)

    async def _append(self, scope: Scope, key: SessionKey, turns: list[Turn]) -> tuple[list[Turn], AppendResult]:
        """The call itself is told once and for all; a message may have been edited since it was last here."""
        try:
            return turns, await self.archive.append_turns(scope, key, turns)
        except Conflict as error:
            edited = [t for t in turns if t.turn_id == error.turn_id and not chats.is_call(t)]
            if not edited:
                raise
            return await self._append(scope, key, [chats.renamed(t) if t in edited else t for t in turns])

    # --- the sentences

    async def _told(
        self,
        scope: Scope,
        record: SessionRecord,
        call: EndCall,
        turns: Sequence[Turn],
        there: Sequence[Claim],
        job: Job,
    ) -> list[Claim]:
        asker = self.own_asker() or Asker(Rules())
        rewrite = await absolutise(asker, scope, call, self.rewrite_max_retry)
        occasion = chats.occasion_of(call, rewrite.made, rewrite.is_absolute, rewrite.unresolved)
        occasion = occasion.model_copy(update={"attempts": job.attempts, "rewrites": rewrite.rewrites})
        made = chats.claims_of(
            record.key, record.principals, call, turns, rewrite.made, occasion, rewrite.maker, self.clock.now()
        )
        made = lives_begin(made, self.clock.lives_from())
        found = [c.model_copy(update={"node_uri": node_key(c).uri}) if c.shelf is Shelf.PROFILE else c for c in made]
        self._warn(call, rewrite)
        if _is_one_too_many(call, there):
            _log.warning("%s: its messages gave one new_info each already; kept as an event only", call.event_id)
            found = [c for c in found if c.shelf is not Shelf.PROFILE]
        return found

    def _warn(self, call: EndCall, rewrite: Rewrite) -> None:
        for told in rewrite.degraded:
            _log.warning("%s: %s: %s", call.event_id, told.what, told.why)
        if not rewrite.is_absolute:
            facts = {"event_id": call.event_id, "provider": rewrite.maker.provider, "rewrites": rewrite.rewrites}
            said = f"event {call.event_id} could not be made absolute"
            self.alert(Alert("not_absolute", said, self.clock.now().isoformat(), facts))

    # --- the profiles

    async def _file(self, scope: Scope, claims: Sequence[Claim]) -> list[Claim]:
        """Lines of profiles into their nodes; nobody's line is lost, whoever else writes there at the same time."""
        out = [c for c in claims if c.shelf is not Shelf.PROFILE]
        for claim in claims:
            if claim.shelf is Shelf.PROFILE:
                out.append(await self._filed(scope, claim))
        return out

    async def _filed(self, scope: Scope, claim: Claim) -> Claim:
        key = filed_key(claim)
        asker = self.own_asker() or Asker(Rules())
        event = claim.occasion.event_id if claim.occasion else ""

        async def planned() -> WritePlan:
            change = change_for(key, [claim], frozenset())
            return await self.placer.plan(asker, scope, change, self.clock.over_by(), Placed())

        made = await refile(self.archive, scope, key, planned, f"learnt in {event}")
        mine = {claim.claim_id}
        others = changed_by([made], mine)
        if made.action is PlanAction.SKIP:  # done before; whoever did it may have died before he told the others
            others = [c for c in made.claims_after if c.claim_id not in mine]
        await settle_others(self.archive, scope, others)
        await self.replicas.index_node(key)
        for session in dict.fromkeys(c.session for c in changed_by([made], mine)):
            await self.replicas.bring_up(session)
        filed = next((c for c in made.claims_after if c.claim_id in mine), claim)
        if filed != claim:  # it repeats another, or another that was learnt before it is later
            await settle_others(self.archive, scope, [filed])
        return filed

    async def _vouch(self, scope: Scope, record: SessionRecord, claims: Sequence[Claim]) -> SessionRecord:
        """The page that says it is done: one more line to what it said before."""
        words = {"turn_count": record.turn_count, "chain_head": record.chain_head}
        done = {**words, "status": SessionStatus.COMPLETED, "kept": "said"}
        # Somebody may have taken a claim away since it was written.
        left = {c.claim_id for c in await self.archive.read_claims(scope, record.key)} if claims else set()

        def update(page: SessionRecord) -> dict[str, Any]:
            ids = tuple(dict.fromkeys([*page.claim_ids, *(c.claim_id for c in claims if c.claim_id in left)]))
            return {**done, "claim_ids": ids, "counts": {"events": record.turn_count, "claims": len(ids)}}

        there = await self.archive.read_session(scope, record.key)
        return await turn_page(self.archive, scope, there or record, update)


def _is_one_too_many(call: EndCall, there: Sequence[Claim]) -> bool:
    """A message gives at most one piece of new information."""
    ids = set(call.message_ids)
    if not ids or not call.new_info:
        return False
    before = {
        c.occasion.event_id
        for c in there
        if c.occasion and c.shelf is Shelf.PROFILE and set(c.occasion.message_ids) == ids
    }
    return len(before) >= len(ids)
