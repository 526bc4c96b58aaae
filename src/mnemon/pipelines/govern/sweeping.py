"""What is over: out of sight when it is noticed, taken away after a time of grace, both written down.

The grace counts from when something was taken out of sight, as the ledger tells. While the clock is in doubt nothing is
swept; what a wrong clock took out of sight comes back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.entries import Entry
from mnemon.contracts.filters import Eq, In, Range, Where, every
from mnemon.contracts.ports import Archive, Index, Timekeeper
from mnemon.contracts.results import SweepResult
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.turns import epoch_ms
from mnemon.pipelines.entries.projection import WRITTEN
from mnemon.pipelines.entries.writing import EntryWriter
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.index.projection import CLAIM, claim_of
from mnemon.pipelines.replicas import Replicas

_PAGE = 500
_OUT, _BACK, _GONE = "expired", "restored", "swept"


@dataclass(slots=True)
class _Unseen:
    """Since when what is out of sight has been so, as far as the ledger has been read."""

    read: int = 0
    since: dict[str, datetime] = field(default_factory=dict)

    def hear(self, op: object, id_: str, at: datetime) -> None:
        if op == _OUT:
            self.since[id_] = at
        elif op in (_BACK, _GONE):
            self.since.pop(id_, None)


@dataclass(frozen=True, slots=True)
class Sweeper:
    archive: Archive
    index: Index
    replicas: Replicas
    keeper: ClaimKeeper
    entries: EntryWriter
    clock: Timekeeper
    grace: timedelta
    _unseen: dict[str, _Unseen] = field(default_factory=dict)

    async def sweep_all(self, trust_clock: bool = False) -> SweepResult:
        total = SweepResult()
        for tenant in [t async for t in self.archive.tenants()]:
            found = await self.sweep(tenant, trust_clock)
            counts = (f.name for f in fields(SweepResult) if f.name != "put_off")
            added = {name: getattr(total, name) + getattr(found, name) for name in counts}
            total = SweepResult(**added, put_off=found.put_off)
        return total

    async def sweep(self, tenant_id: str, trust_clock: bool = False) -> SweepResult:
        """`trust_clock`: a person says that the clock is right, whatever it looked like."""
        if trust_clock:
            self.clock.trust()
        scope, now = Scope.steward_of(tenant_id), self.clock.now()
        restored = await self._restore(scope, now)
        if doubt := self.clock.doubt():
            return SweepResult(claims_restored=restored, put_off=doubt)
        await self._read_ledger(scope)
        claims = await self._claims(scope, now)
        return SweepResult(*claims, await self._entries(scope, now), restored)

    async def _restore(self, scope: Scope, now: datetime) -> int:
        """Claims that were over by another clock and are not by this one."""
        early = every(Eq("kind", CLAIM), Eq("state", ClaimState.EXPIRED.value), Range("expires_at", gt=epoch_ms(now)))
        back = [claim_of(entry) async for entry in self._found(scope, early)]
        for claims in _by_session(back).values():
            await self.keeper.put(
                scope, [c.model_copy(update={"state": ClaimState.ACTIVE}) for c in claims], "not over yet"
            )
            await self._note(scope, _BACK, [c.claim_id for c in claims])
        return len(back)

    async def _claims(self, scope: Scope, now: datetime) -> tuple[int, int]:
        over: list[Claim] = []
        gone: list[Claim] = []
        async for entry in self._found(scope, _over(Eq("kind", CLAIM), now)):
            claim = claim_of(entry)
            if claim.state is not ClaimState.EXPIRED:
                over.append(claim)
            elif self._grace_is_over(scope, entry, now):
                gone.append(claim)
        for claims in _by_session(over).values():
            # Out of its node by its own end; its file keeps it until the grace is over. Noted first: from then on it
            # counts, and what is noted and still to be seen is taken out of sight by the next sweep.
            await self._note(scope, _OUT, [c.claim_id for c in claims])
            await self.keeper.put(scope, [c.model_copy(update={"state": ClaimState.EXPIRED}) for c in claims], _OUT)
        if gone:
            await self.keeper.remove(scope, gone)
            await self._note(scope, _GONE, [c.claim_id for c in gone])
        return len(over), len(gone)

    async def _entries(self, scope: Scope, now: datetime) -> int:
        """What came in through the service. Readers pass it over from its last moment on."""
        gone = await self._noted(scope, In("kind", WRITTEN), now)
        if gone:
            await self.entries.erase_over(scope.tenant_id, gone)
            await self._note(scope, _GONE, [e.id for e in gone])
        return len(gone)

    async def _noted(self, scope: Scope, which: Where, now: datetime) -> list[Entry]:
        """Those whose grace is over too; what is over for the first time is noted."""
        found = [entry async for entry in self._found(scope, _over(which, now))]
        known = self._unseen[scope.tenant_id].since
        fresh = [e.id for e in found if e.id not in known]
        if fresh:
            await self._note(scope, _OUT, fresh)
        return [e for e in found if self._grace_is_over(scope, e, now)]

    def _grace_is_over(self, scope: Scope, entry: Entry, now: datetime) -> bool:
        noted = self._unseen[scope.tenant_id].since.get(entry.id)
        ended = datetime.fromtimestamp(entry.fields["expires_at"] / 1000, UTC)
        # Noted before its end: by a clock that was wrong.
        return noted is not None and max(noted, ended) + self.grace <= now

    async def _found(self, scope: Scope, where: Where) -> AsyncIterator[Entry]:
        cursor: str | None = None
        while True:
            page = await self.index.scroll(scope, where, "oldest", _PAGE, cursor)
            for entry in page.entries:
                yield entry
            if (cursor := page.next_cursor) is None:
                return

    async def _read_ledger(self, scope: Scope) -> None:
        unseen = self._unseen.setdefault(scope.tenant_id, _Unseen())
        while lines := await self.archive.read_log(scope, "ledger", unseen.read, _PAGE):
            for line in lines:
                if "id" in line.body:
                    unseen.hear(line.body.get("op"), str(line.body["id"]), line.at)
            unseen.read = lines[-1].seq

    async def _note(self, scope: Scope, verb: str, ids: Iterable[str]) -> None:
        rows: list[dict[str, Any]] = [{"op": verb, "id": id_} for id_ in ids]
        await self.archive.append_log(scope, "ledger", rows)
        await self._read_ledger(scope)


def _over(which: Where, now: datetime) -> Where:
    return every(which, Range("expires_at", lte=epoch_ms(now)))


def _by_session(claims: list[Claim]) -> dict[SessionKey, list[Claim]]:
    found: dict[SessionKey, list[Claim]] = defaultdict(list)
    for claim in claims:
        found[claim.session].append(claim)
    return found
