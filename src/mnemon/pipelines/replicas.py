"""Index and graph together: what the archive holds of a session or a node, brought to both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.contracts.nodes import NodeKey
from mnemon.contracts.ports import Presence
from mnemon.contracts.scope import SessionKey
from mnemon.contracts.sessions import SessionRecord, StoredTurn
from mnemon.pipelines.graph.projection import Grapher
from mnemon.pipelines.index.indexing import Indexer


@dataclass(frozen=True, slots=True)
class Replicas:
    indexer: Indexer
    grapher: Grapher
    presence: Presence

    async def bring_up(self, key: SessionKey) -> None:
        """One session in both."""
        await self.index_session(key)
        await self.project(key)

    async def index_session(
        self, key: SessionKey, fresh: Sequence[StoredTurn] = (), page: SessionRecord | None = None
    ) -> int:
        await self.presence.sign()
        return await self.indexer.index_session(key, fresh, page)

    async def index_words(self, key: SessionKey, fresh: Sequence[StoredTurn] = ()) -> None:
        await self.indexer.index_words(key, fresh)

    async def index_node(self, key: NodeKey) -> None:
        await self.presence.sign()
        await self.indexer.index_node(key)

    async def project(
        self,
        key: SessionKey,
        fresh: Sequence[StoredTurn] = (),
        anew: bool = False,
        page: SessionRecord | None = None,
    ) -> None:
        await self.presence.sign()
        await self.grapher.project(key, fresh, anew, page)

    async def stage(self, record: SessionRecord) -> None:
        await self.grapher.stage(record)

    async def is_behind(self, record: SessionRecord) -> bool:
        return await self.grapher.is_behind(record)
