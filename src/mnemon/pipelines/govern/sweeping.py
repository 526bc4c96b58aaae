"""What is over: out of sight when it is noticed, taken away after a time of grace, both written down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.entries import Entry
from mnemon.contracts.errors import NotFound
from mnemon.contracts.filters import Eq, In, Range, Where, every
from mnemon.contracts.ports import Archive, Clock, Index
from mnemon.contracts.results import SweepResult
from mnemon.contracts.scope import Owner, OwnerKind, Scope, SessionKey
from mnemon.contracts.turns import epoch_ms
from mnemon.pipelines.entries.writing import EntryWriter
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.index.projection import CLAIM, TURN, claim_of
from mnemon.pipelines.replicas import Replicas

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Sweeper:
    archive: Archive
    index: Index
    replicas: Replicas
    keeper: ClaimKeeper
    entries: EntryWriter
    clock: Clock
    grace: timedelta

    async def sweep_all(self) -> SweepResult:
        total = SweepResult()
        for tenant in [t async for t in self.archive.tenants()]:
            found = await self.sweep(tenant)
            total = SweepResult(*(getattr(total, f.name) + getattr(found, f.name) for f in fields(SweepResult)))
        return total

    async def sweep(self, tenant_id: str) -> SweepResult:
        scope, now = Scope.steward_of(tenant_id), self.clock.now()
        excluded, removed = await self._claims(scope, now)
        turns = await self._turns(scope, now)
        entries = await self.entries.sweep(tenant_id, now - self.grace)
        return SweepResult(excluded, removed, *turns, entries)

    async def _claims(self, scope: Scope, now: datetime) -> tuple[int, int]:
        over: list[Claim] = []
        gone: list[Claim] = []
        async for entry in self._found(scope, every(Eq("kind", CLAIM), Range("expires_at", lte=epoch_ms(now)))):
            claim = claim_of(entry)
            if claim.expires_at and claim.expires_at + self.grace <= now:
                gone.append(claim)
            elif claim.state is not ClaimState.EXPIRED:
                over.append(claim)
        for claims in _by_session(over).values():
            # Out of its node by its own end; its file keeps it until the grace is over.
            await self.keeper.put(
                scope, [c.model_copy(update={"state": ClaimState.EXPIRED}) for c in claims], "expired"
            )
            await self._note(scope, "expired", [c.claim_id for c in claims])
        if gone:
            await self.keeper.remove(scope, gone)
            await self._note(scope, "swept", [c.claim_id for c in gone])
        return len(over), len(gone)

    async def _turns(self, scope: Scope, now: datetime) -> tuple[int, int]:
        """Words that were kept for a short time only."""
        over: dict[SessionKey, list[Entry]] = defaultdict(list)
        gone: dict[SessionKey, list[Entry]] = defaultdict(list)
        async for entry in self._found(scope, every(Eq("kind", TURN), Range("expires_at", lte=epoch_ms(now)))):
            key = _session_of(scope.tenant_id, entry)
            if entry.fields["expires_at"] + self.grace / timedelta(milliseconds=1) <= epoch_ms(now):
                gone[key].append(entry)
            elif entry.fields.get("state") != ClaimState.EXPIRED:
                over[key].append(entry)
        for entries in over.values():
            await self.index.upsert(scope, [await self._hidden(entry) for entry in entries])
            await self._note(scope, "expired", [e.id for e in entries])
        for key, entries in gone.items():
            await self._forget(scope, key, entries)
            await self._note(scope, "swept", [e.id for e in entries])
        return sum(map(len, over.values())), sum(map(len, gone.values()))

    async def _hidden(self, entry: Entry) -> Entry:
        vector = (await self.replicas.indexer.embedder.embed_texts([entry.text]))[0].dense_vector
        fields = {**entry.fields, "state": ClaimState.EXPIRED.value, "published": False}
        return replace(entry, fields=fields, vector=vector)

    async def _forget(self, scope: Scope, key: SessionKey, entries: list[Entry]) -> None:
        ids = [str(e.fields["turn_id"]) for e in entries]
        with suppress(NotFound):  # forgotten meanwhile
            await self.archive.forget_turns(scope, key, ids, "expired")
        await self.index.delete(scope, every(Eq("kind", TURN), In("id", tuple(e.id for e in entries))))
        await self.replicas.project(key, anew=True)

    async def _found(self, scope: Scope, where: Where) -> AsyncIterator[Entry]:
        cursor: str | None = None
        while True:
            page = await self.index.scroll(scope, where, "oldest", _PAGE, cursor)
            for entry in page.entries:
                yield entry
            if (cursor := page.next_cursor) is None:
                return

    async def _note(self, scope: Scope, verb: str, ids: list[str]) -> None:
        rows: list[dict[str, Any]] = [{"op": verb, "id": id_} for id_ in ids]
        await self.archive.append_log(scope, "ledger", rows)


def _by_session(claims: list[Claim]) -> dict[SessionKey, list[Claim]]:
    found: dict[SessionKey, list[Claim]] = defaultdict(list)
    for claim in claims:
        found[claim.session].append(claim)
    return found


def _session_of(tenant_id: str, entry: Entry) -> SessionKey:
    kind, owner = str(entry.fields["uri"]).split("/")[3:5]
    return SessionKey(tenant_id, Owner(OwnerKind(kind), unquote(owner)), str(entry.fields["session_id"]))
