"""What happened in a chat, found by words and by meaning: what fits, what is recent, and nothing twice.

One embedding and two scans of the rows the chat sees; a question that names a time costs a third."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from mnemon.contracts.chats import EventHit, Occasion
from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.cognitive import QueryConfig
from mnemon.contracts.entries import Entry, Hit
from mnemon.contracts.filters import Eq, Or, Range, Where, every
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.ports import Clock, Embedder, Index
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Owner, Scope
from mnemon.contracts.turns import epoch_ms, parse_time
from mnemon.logic.retrieval.ranking_data import ranking_data
from mnemon.logic.retrieval.understanding import periods_in, understand
from mnemon.logic.retrieval.worth import Period, fading, fits, overlaps, timely, varied, words_of
from mnemon.pipelines.index.projection import CLAIM, claim_of, group_tag, user_tag
from mnemon.pipelines.retrieval.desk import Desk
from mnemon.pipelines.retrieval.showing import quotes_of

# How many of each route are looked at, at least, and for each one wanted.
_POOL, _POOL_EACH = 48, 4
_HAPPENED = every(Eq("kind", CLAIM), Eq("shelf", Shelf.EVENTS.value), Eq("state", ClaimState.ACTIVE.value))
# What only the queue wants to know.
_INWARD = {"queued_at", "attempts", "rewrites"}


@dataclass(frozen=True, slots=True)
class Events:
    hits: tuple[EventHit, ...]
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class EventFinder:
    index: Index
    embedder: Embedder
    clock: Clock
    query: QueryConfig

    async def find(
        self,
        scope: Scope,
        query: str,
        target_user_id: str | None,
        target_group_id: str | None,
        top_k: int,
        since_ms: int | None,
        until_ms: int | None,
    ) -> Events:
        """Best first. A route that fails is named and the other goes on; only when nothing is left is it an error."""
        now = self.clock.now()
        desk = Desk(self.index, self.embedder, scope, now)
        where = every(
            _HAPPENED,
            _with(scope, Owner.user(target_user_id), user_tag(target_user_id)) if target_user_id else None,
            _with(scope, Owner.group(target_group_id), group_tag(target_group_id)) if target_group_id else None,
            Range("ts", gte=since_ms, lt=until_ms) if since_ms is not None or until_ms is not None else None,
        )
        found = await self._found(desk, query, where, max(_POOL, _POOL_EACH * top_k))
        if desk.failures and not found.entries:
            raise desk.failures[0]
        chosen = self._chosen(found, top_k, epoch_ms(now))
        return Events(
            tuple(_hit(entry, value, found.meaning.get(entry.id)) for entry, value in chosen), tuple(desk.degraded)
        )

    async def _found(self, desk: Desk, query: str, where: Where, pool: int) -> _Found:
        asked = understand(query, desk.now, ranking_data().forms)
        words = await desk.holding("word_search", asked.words, where, pool)
        vector = await desk.embedded(query)
        meaning = await desk.near("meaning_search", vector, where, pool)
        periods = asked.periods
        if periods:
            # By the clock of the chat: yesterday begins at its own midnight.
            periods = periods_in(query, desk.now.astimezone(_zone([*words, *meaning])))
            then = Or(tuple(Range("ts", gte=begin, lt=end) for begin, end in periods))
            meaning += await desk.near("period_search", vector, every(where, then), pool)
        entries = {hit.entry.id: hit.entry for hit in (*words, *meaning)}
        return _Found(entries, _scores(meaning), _scores(words), periods)

    def _chosen(self, found: _Found, top_k: int, now_ms: int) -> list[tuple[Entry, float]]:
        fit = fits(found.meaning, found.words)
        worth = {id: self._worth(entry, fit[id], found.periods, now_ms) for id, entry in found.entries.items()}
        best: dict[tuple[str, ...], Entry] = {}
        for entry in sorted(found.entries.values(), key=lambda e: (-worth[e.id], -int(e.fields["ts"]), e.id)):
            best.setdefault(_event_of(entry), entry)
        return varied(
            list(best.values()), lambda e: worth[e.id], lambda e: words_of(e.text), top_k, self.query.diversity
        )

    def _worth(self, entry: Entry, fit: float, periods: Sequence[Period], now_ms: int) -> float:
        at = int(entry.fields["ts"])
        if periods:
            inside = overlaps([(at, at + 1)], periods) or overlaps(_days_named(entry, at), periods)
            return timely(fit, inside, self.query.floor)
        return fit * fading(now_ms - at, self.query.half_life_days, self.query.floor)


@dataclass(frozen=True, slots=True)
class _Found:
    entries: dict[str, Entry]
    meaning: dict[str, float]
    words: dict[str, float]
    periods: tuple[Period, ...]


def _with(scope: Scope, whose: Owner, tag: str) -> Where | None:
    """Narrows to somebody. Where the scope is theirs alone, all of it is; also what no bot's turn stands behind."""
    return None if scope.principals <= {whose.principal} and not scope.steward else Eq("tags", tag)


def _scores(hits: Sequence[Hit]) -> dict[str, float]:
    return {hit.entry.id: float(hit.score) for hit in hits}


def _told(entry: Entry) -> dict[str, Any]:
    """The bot's turn it comes from, as the index holds it; empty where there is none."""
    found: dict[str, Any] = entry.metadata["claim"].get("occasion", {})
    return found


def _event_of(entry: Entry) -> tuple[str, ...]:
    """What the perspectives of one event have in common; ids are a chat's own."""
    if not (told := _told(entry)):
        return (entry.id,)
    claim = entry.metadata["claim"]
    return claim["owner_kind"], claim["owner_id"], told["event_id"]


def _zone(hits: Sequence[Hit]) -> tzinfo:
    """That of the latest of these."""
    told = [_told(hit.entry) for hit in sorted(hits, key=lambda hit: int(hit.entry.fields["ts"]), reverse=True)]
    return next((parse_time(at["timestamp_local"]).tzinfo or UTC for at in told if at), UTC)


def _days_named(entry: Entry, at: int) -> tuple[Period, ...]:
    """What was said before about a day belongs to that day too."""
    local = _told(entry).get("timestamp_local")
    return periods_in(entry.text, parse_time(local) if local else datetime.fromtimestamp(at / 1000, UTC))


def _hit(entry: Entry, score: float, cosine: float | None) -> EventHit:
    claim = claim_of(entry)
    at = claim.occasion
    return EventHit(
        id=at.id if at else claim.claim_id,
        text=claim.statement,
        score=round(score, 6),
        claim_id=claim.claim_id,
        ts=at.timestamp_local if at else claim.valid_from.isoformat(),
        evidence_level=claim.governance.evidence_level.value,
        metadata={"session_id": claim.session_id, **_occasion(claim, at)},
        evidence=quotes_of(claim),
        cosine=None if cosine is None else round(cosine, 6),
    )


def _occasion(claim: Claim, at: Occasion | None) -> dict[str, Any]:
    if at is None:
        return {"timestamp_utc": claim.valid_from.astimezone(UTC).isoformat()}
    return at.model_dump(mode="json", exclude=_INWARD)
