"""Which node says already what a claim says, by the nearness of their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.commits import DedupConfig
from mnemon.contracts.entries import Ask
from mnemon.contracts.filters import Eq, every
from mnemon.contracts.ports import Embedder, Index
from mnemon.contracts.scope import Scope
from mnemon.logic.likeness import threshold
from mnemon.pipelines.index.projection import CHUNK, CLAIM, claim_of, steps_tags

# A pattern is proven by two; it need not point at every one that followed.
_MOST_CASES = 8


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

    async def same_steps(self, scope: Scope, case: Claim) -> list[Claim]:
        tags = steps_tags(case)
        if not tags:
            return []
        where = every(Eq("kind", CLAIM), Eq("tags", tags[0]), Eq("state", ClaimState.ACTIVE.value))
        page = await self.index.scroll(scope, where, "newest", _MOST_CASES)
        found = [claim_of(entry) for entry in page.entries if entry.principals == case.principals]
        return [claim for claim in found if claim.session_id != case.session_id]

    def _threshold(self) -> float:
        own = self.dedup.similarity_threshold
        return own if own != DedupConfig().similarity_threshold else threshold(self.embedder.model)
