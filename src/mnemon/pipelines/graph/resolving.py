"""Who is one with whom: equal names join, likely ones wait, and what somebody decided holds until they change it.

Only those seen by the same people can be one: nobody's friend is joined with somebody else's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mnemon.contracts.errors import NotFound
from mnemon.contracts.graph import Entity, EquivStatus, GraphAsk, GraphBatch, GraphItem, ItemKind, PendingEquiv, Saying
from mnemon.contracts.graph_results import Candidate, Resolution
from mnemon.contracts.ports import Archive, Clock, Graph
from mnemon.contracts.scope import Scope
from mnemon.logic.graph.names import likely, likely_pairs, names_of
from mnemon.logic.ids import stable_id

OP = "entity_equiv"
DECISIONS = "decision:"
_PAGE = 1000


class Pair(NamedTuple):
    """Two entities, and who sees them: what is decided among some says nothing to others."""

    audience: frozenset[str]
    ends: frozenset[str]


@dataclass(frozen=True, slots=True)
class Resolver:
    graph: Graph
    archive: Archive
    clock: Clock

    # --- one with another

    async def one_with(self, scope: Scope, entity: Entity) -> tuple[Entity, ...]:
        """An entity and all that are one with it, the longest known first."""
        decided = await self._decided(scope)
        found = {entity.id: entity}
        fresh = [entity]
        while fresh:
            names = tuple({name for e in fresh for name in names_of(e)})
            approved = [
                end
                for pair, status in decided.items()
                if status == "approved" and pair.ends & found.keys()
                for end in pair.ends - found.keys()
            ]
            near = [e async for e in self._all(scope, "entity", names=names)]
            near += await self.graph.get(scope, approved, self.clock.now())
            fresh = [
                other
                for other in near
                if isinstance(other, Entity)
                and other.id not in found
                and set(other.user_id) == set(entity.user_id)
                and any(_joined(other, known, decided) for known in found.values())
            ]
            found |= {other.id: other for other in fresh}
        return tuple(sorted(found.values(), key=_age))

    async def resolve(self, scope: Scope, name: str) -> Resolution:
        """Who is called so; who may be, is for a person to say."""
        called = [e async for e in self._all(scope, "entity", names=(name,)) if isinstance(e, Entity)]
        classes: dict[str, tuple[Entity, ...]] = {}
        for entity in called:
            if not any(entity.id in {e.id for e in joined} for joined in classes.values()):
                joined = await self.one_with(scope, entity)
                classes[joined[0].id] = joined
        known = {e.id for joined in classes.values() for e in joined}
        decided = await self._decided(scope)
        candidates = [Candidate(_whole(joined), "called so") for joined in classes.values() if len(classes) > 1]
        async for other in self._all(scope, "entity"):
            if not isinstance(other, Entity) or other.id in known:
                continue
            if any(decided.get(_pair(other.user_id, other.id, i)) == "rejected" for i in known):
                continue
            reason = next((why for alias in names_of(other) if (why := likely(name, alias))), None)
            if reason is not None:
                candidates.append(Candidate(other, reason))
        if len(classes) != 1:
            return Resolution(name, None, (), tuple(candidates))
        (joined,) = classes.values()
        return Resolution(name, _whole(joined), tuple(e.id for e in joined), tuple(candidates))

    # --- deciding

    async def pending(self, scope: Scope) -> tuple[PendingEquiv, ...]:
        """Pairs that may be one and that nobody has decided: told from outside, or likely by their names."""
        decided = await self._decided(scope)
        entities = [e async for e in self._all(scope, "entity") if isinstance(e, Entity)]
        visible = {e.id: e for e in entities}
        found: dict[Pair, PendingEquiv] = {}
        async for item in self._all(scope, "pending_equiv"):
            if isinstance(item, PendingEquiv) and item.status == "pending" and _is_between(item, visible):
                found.setdefault(_pair_of(item), item)
        for one, two, reason in likely_pairs(entities):
            found.setdefault(_pair(one.user_id, one.id, two.id), _equiv(one, two.id, reason))
        return tuple(found[pair] for pair in found if pair not in decided)

    async def decide(self, scope: Scope, equiv_id: str, status: EquivStatus) -> PendingEquiv:
        """Durable before it is seen. A decision can be taken back by the other one."""
        told = await self._told(scope)
        decided = {_pair_of(e) for e in told if e.status != "pending"}
        # One that was decided goes by the id of the decision and still by the one it was told under.
        known = (*(e for e in told if _pair_of(e) in decided), *await self.pending(scope))
        equiv = next((e for e in known if e.id == equiv_id), None)
        if equiv is None:
            raise NotFound(f"there is no equivalence {equiv_id} to decide in this scope", id=equiv_id)
        line = {
            "op": OP,
            "status": status,
            "entity_id": equiv.entity_id,
            "candidate_id": equiv.candidate_id,
            "user_id": sorted(equiv.user_id),
            "memory_domain": equiv.memory_domain,
        }
        (written,) = await self.archive.append_log(Scope.steward_of(scope.tenant_id), "ledger", [line])
        saying = decision(scope.tenant_id, line, written.at)
        await self.graph.put(scope, [saying])
        return saying.batch.pending_equivs[0]

    async def _decided(self, scope: Scope) -> dict[Pair, EquivStatus]:
        return {_pair_of(equiv): equiv.status for equiv in await self._decisions(scope)}

    async def _decisions(self, scope: Scope) -> list[PendingEquiv]:
        return [equiv for equiv in await self._told(scope) if equiv.status != "pending"]

    async def _told(self, scope: Scope) -> list[PendingEquiv]:
        return [e async for e in self._all(scope, "pending_equiv") if isinstance(e, PendingEquiv)]

    async def _all(self, scope: Scope, kind: ItemKind, names: tuple[str, ...] = ()) -> AsyncIterator[GraphItem]:
        ask = GraphAsk(kind, names=names, limit=_PAGE, now=self.clock.now())
        while True:
            page = await self.graph.find(scope, ask)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            ask = replace(ask, cursor=page.next_cursor)


def decision(tenant_id: str, line: dict[str, Any], at: datetime) -> Saying:
    """A line of the ledger as the graph is told it; a later one of the same pair takes its place."""
    pair = sorted((line["entity_id"], line["candidate_id"]))
    equiv = PendingEquiv(
        id=_equiv_id(tenant_id, line["user_id"], pair),
        tenant_id=tenant_id,
        user_id=tuple(line["user_id"]),
        memory_domain=line["memory_domain"],
        entity_id=line["entity_id"],
        candidate_id=line["candidate_id"],
        status=line["status"],
        created_at=at,
    )
    origin = DECISIONS + stable_id("decision", tenant_id, *sorted(line["user_id"]), line["memory_domain"])
    return Saying(origin, GraphBatch(pending_equivs=(equiv,)), whole=False)


def _equiv(one: Entity, other: str, reason: str) -> PendingEquiv:
    return PendingEquiv(
        id=_equiv_id(one.tenant_id, one.user_id, sorted((one.id, other))),
        tenant_id=one.tenant_id,
        user_id=one.user_id,
        memory_domain=one.memory_domain,
        entity_id=one.id,
        candidate_id=other,
        reason=reason,
    )


def _equiv_id(tenant_id: str, principals: Iterable[str], pair: Sequence[str]) -> str:
    return stable_id("equiv", tenant_id, *sorted(set(principals)), *pair)


def _pair(audience: Iterable[str], one: str, other: str) -> Pair:
    return Pair(frozenset(audience), frozenset((one, other)))


def _pair_of(equiv: PendingEquiv) -> Pair:
    return _pair(equiv.user_id, equiv.entity_id, equiv.candidate_id)


def _is_between(equiv: PendingEquiv, entities: dict[str, Entity]) -> bool:
    """Two entities seen by exactly those who see this."""
    ends = [entities.get(equiv.entity_id), entities.get(equiv.candidate_id)]
    return all(e is not None and set(e.user_id) == set(equiv.user_id) for e in ends)


def _joined(one: Entity, other: Entity, decided: dict[Pair, EquivStatus]) -> bool:
    status = decided.get(_pair(one.user_id, one.id, other.id))
    return status == "approved" or (status != "rejected" and bool(names_of(one) & names_of(other)))


def _whole(joined: Sequence[Entity]) -> Entity:
    """The longest known of some that are one, with all their names."""
    first = joined[0]
    names = dict.fromkeys(name for entity in joined for name in (entity.name, *entity.aliases))
    return first.model_copy(update={"aliases": tuple(name for name in names if name != first.name)})


def _age(entity: Entity) -> tuple[datetime, str]:
    return entity.created_at or datetime.min.replace(tzinfo=UTC), entity.id
