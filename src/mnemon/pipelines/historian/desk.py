"""Everything a chat bot's door asks, in one place, wherever the memory is kept."""

from __future__ import annotations

from dataclasses import dataclass

from mnemon.contracts.chats import (
    ChatContext,
    EndCall,
    EndResult,
    EntityType,
    EventHit,
    Profile,
    ProfileDiff,
    ProfileHit,
    ProfileVersion,
)
from mnemon.contracts.cognitive import QueryConfig
from mnemon.contracts.ports import Archive, Clock, Embedder, Index
from mnemon.contracts.scope import Scope
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.historian.context import ContextMaker
from mnemon.pipelines.historian.ending import Ender
from mnemon.pipelines.historian.events import EventFinder
from mnemon.pipelines.historian.profiles import ProfileKeeper
from mnemon.pipelines.replicas import Replicas


@dataclass(frozen=True, slots=True)
class ChatDesk:
    ender: Ender
    archive: Archive
    index: Index
    embedder: Embedder
    keeper: ClaimKeeper
    replicas: Replicas
    clock: Clock
    query: QueryConfig

    async def end(self, tenant_id: str, call: EndCall) -> EndResult:
        return await self.ender.end(tenant_id, call)

    async def context(
        self, scope: Scope, query: str, user_id: str, group_id: str, top_k: int, max_tokens: int
    ) -> ChatContext:
        maker = ContextMaker(self._events, self._profiles, self.clock)
        return await maker.make(scope, query, user_id, group_id, top_k, max_tokens)

    async def search_events(
        self,
        scope: Scope,
        query: str,
        target_user_id: str | None,
        target_group_id: str | None,
        top_k: int,
        since_ms: int | None,
        until_ms: int | None,
    ) -> tuple[EventHit, ...]:
        found = await self._events.find(scope, query, target_user_id, target_group_id, top_k, since_ms, until_ms)
        return found.hits

    async def get_profile(self, scope: Scope, entity_type: EntityType, entity_id: str) -> Profile:
        return await self._profiles.get(scope, entity_type, entity_id)

    async def search_profiles(
        self, scope: Scope, query: str, entity_type: EntityType | None, entity_id: str | None, top_k: int
    ) -> tuple[ProfileHit, ...]:
        return await self._profiles.search(scope, query, entity_type, entity_id, top_k)

    async def profile_history(
        self, scope: Scope, entity_type: EntityType, entity_id: str
    ) -> tuple[ProfileVersion, ...]:
        return await self._profiles.history(scope, entity_type, entity_id)

    async def profile_diff(
        self, scope: Scope, entity_type: EntityType, entity_id: str, from_version: int, to_version: int | None
    ) -> ProfileDiff:
        return await self._profiles.diff(scope, entity_type, entity_id, from_version, to_version)

    async def rollback_profile(self, scope: Scope, entity_type: EntityType, entity_id: str, version: int) -> Profile:
        return await self._profiles.rollback(scope, entity_type, entity_id, version)

    @property
    def _events(self) -> EventFinder:
        return EventFinder(self.index, self.embedder, self.clock, self.query)

    @property
    def _profiles(self) -> ProfileKeeper:
        return ProfileKeeper(self.archive, self.index, self.embedder, self.keeper, self.replicas, self.clock)
