"""Which node says already what a claim says, by the nearness of their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import DedupConfig
from mnemon.contracts.entries import Ask
from mnemon.contracts.filters import Eq, every
from mnemon.contracts.ports import Embedder, Index
from mnemon.contracts.scope import Scope
from mnemon.logic.likeness import threshold
from mnemon.pipelines.index.projection import CHUNK


@dataclass(frozen=True, slots=True)
class NearestNodes:
    index: Index
    embedder: Embedder
    dedup: DedupConfig

    async def nearest(self, scope: Scope, claims: Sequence[Claim]) -> list[str | None]:
        if not self.index.abilities.dense or not self.embedder.semantic:
            return [None] * len(claims)
        found: list[str | None] = []
        vectors = await self.embedder.embed_texts([c.statement for c in claims])
        for claim, vector in zip(claims, vectors, strict=True):
            ask = Ask(
                vector=vector.dense_vector,
                where=every(Eq("kind", CHUNK), Eq("shelf", claim.shelf.value), Eq("level", 0)),
                limit=self.dedup.dedup_top_k,
                min_score=self._threshold(),
            )
            alike = [h for h in await self.index.search(scope, ask) if h.entry.principals == claim.principals]
            found.append(str(alike[0].entry.fields["uri"]) if alike else None)
        return found

    def _threshold(self) -> float:
        own = self.dedup.similarity_threshold
        return own if own != DedupConfig().similarity_threshold else threshold(self.embedder.model)
