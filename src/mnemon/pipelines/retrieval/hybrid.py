"""`dialog_v2`: words and meaning together over what was said, with claims, neighbours and sessions as further keys.

It serves the turns themselves, and says of each which reasons brought it up and with what share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mnemon.contracts.entries import Entry, Hit, Vector
from mnemon.contracts.filters import And, Eq, In, Or, every
from mnemon.contracts.retrieval import RetrievalHit, Share
from mnemon.logic.retrieval.choosing import in_order, spread
from mnemon.logic.retrieval.features import FEATURES, Candidate, Table, tabled
from mnemon.logic.retrieval.ranking_data import Pool, RankingData, ranking_data
from mnemon.logic.retrieval.understanding import Understood, understand
from mnemon.pipelines.entries.projection import SEMANTIC
from mnemon.pipelines.index.projection import BY_HAND, CHUNK
from mnemon.pipelines.retrieval.citing import cited, entities_of
from mnemon.pipelines.retrieval.desk import CHUNKS, FACTS, SERVED, TURNS, Desk, Found, Request
from mnemon.pipelines.retrieval.showing import shown, shown_id, whole

_LEAST_SHARE = 0.005


async def find(request: Request, desk: Desk) -> Found:
    data = ranking_data()
    asked, table = await gathered(request, desk, data)
    await desk.look(request.when)
    if table is None:
        return Found((), asked.told())
    scores = table.scores(data.weights)
    if asked.wants_several:
        chosen = spread(table.candidates, scores, request.topk, data.several)
    else:
        chosen = in_order(table.candidates, scores, request.topk)
    return Found(tuple(_hit(table, i, float(scores[i]), data.weights) for i in chosen), asked.told())


async def gathered(request: Request, desk: Desk, data: RankingData) -> tuple[Understood, Table | None]:
    """What the question says, and every turn that may answer it with all reasons for it; None where there is none."""
    pool = data.pool
    where = every(SERVED, request.when)
    asked = understand(request.query, desk.now, data.forms)
    words = await desk.holding("word_search", asked.words, where, pool.words)
    asked = understand(request.query, desk.now, data.forms, _speakers(words))
    if asked.names:
        # Their names stand where others speak to them, and say nothing about what they said.
        words = await desk.holding("word_search", asked.words, where, pool.words)
    vector = await desk.embedded(asked.as_said)
    meaning = await desk.near("meaning_search", vector, where, pool.meaning)
    facts = await desk.near("fact_search", vector, every(FACTS, request.when), pool.facts)
    by_facts = await _cited(desk, [*facts, *await _second_hop(request, desk, facts, pool)])
    found = _joined(words, meaning, by_facts) | await _written(request, desk, asked, vector, meaning, facts, pool)
    found |= await _unfound(request, desk, found, by_facts)
    found |= await _neighbours(request, desk, found, pool)
    return asked, tabled(asked, tuple(found.values()), data, request.topk) if found else None


def _speakers(hits: Iterable[Hit]) -> set[str]:
    return {str(hit.entry.fields["speaker"]) for hit in hits if hit.entry.fields.get("speaker")}


async def _second_hop(request: Request, desk: Desk, facts: Sequence[Hit], pool: Pool) -> list[Hit]:
    """Claims about what the nearest claims are about: what is known of the same people, places and things."""
    met = dict.fromkeys(name for fact in facts[: pool.hop_from] for name in entities_of(fact.entry))
    if not met:
        return []
    entries = await desk.listed("entity_hop", every(FACTS, request.when, In("entities", tuple(met))), pool.facts)
    known = {fact.entry.id for fact in facts}
    reach = facts[0].score * pool.hop_share
    return [Hit(entry, reach) for entry in entries if entry.id not in known]


async def _cited(desk: Desk, facts: Sequence[Hit]) -> dict[str, float]:
    """The turns some facts cite, each with its best fact's score."""
    best: dict[str, float] = {}
    for citation in await cited(desk, facts):
        best[citation.row] = max(best.get(citation.row, 0.0), citation.score)
    return best


def _last(meaning: Sequence[Hit]) -> float:
    """The scores by meaning lie close together: they count from the last one found."""
    return meaning[-1].score if len(meaning) > 1 else 0.0


def _joined(
    words: Sequence[Hit], meaning: Sequence[Hit], cited: dict[str, float], last: float | None = None
) -> dict[str, Candidate]:
    """By id."""
    last = _last(meaning) if last is None else last
    by_words = {hit.entry.id: hit.score for hit in words}
    by_meaning = {hit.entry.id: max(hit.score - last, 0.0) for hit in meaning}
    entries = {hit.entry.id: hit.entry for hit in (*words, *meaning)}
    return {
        id: Candidate(entry, by_words.get(id, 0.0), by_meaning.get(id, 0.0), cited.get(id, 0.0))
        for id, entry in entries.items()
    }


async def _written(
    request: Request,
    desk: Desk,
    asked: Understood,
    vector: Vector | None,
    meaning: Sequence[Hit],
    facts: Sequence[Hit],
    pool: Pool,
) -> dict[str, Candidate]:
    """Pieces of memories as people read them: what somebody wrote there by hand, and pages none of whose claims was
    found. Of the others the claims and the words they cite say everything."""
    where = every(CHUNKS, request.when)
    words = await desk.holding("page_search", asked.words, where, pool.pages)
    near = await desk.near("page_search", vector, where, pool.pages)
    known = {fact.entry.fields.get("node") for fact in facts}
    found = _joined(words, near, {}, _last(meaning))
    return {
        id: page
        for id, page in found.items()
        if page.entry.fields.get("source") == BY_HAND or page.entry.fields["node"] not in known
    }


async def _unfound(
    request: Request, desk: Desk, found: dict[str, Candidate], cited: dict[str, float]
) -> dict[str, Candidate]:
    """Turns that only a claim leads to."""
    ids = [id for id in cited if id not in found]
    entries = await desk.entries("trace_references", ids, every(TURNS, request.when)) if ids else []
    return {entry.id: Candidate(entry, facts=cited[entry.id]) for entry in entries}


async def _neighbours(request: Request, desk: Desk, found: dict[str, Candidate], pool: Pool) -> dict[str, Candidate]:
    """What was said right before and after the strongest, where no search found it: often the answer itself."""
    best = max((c.words for c in found.values()), default=0.0) or 1.0
    close = max((c.meaning for c in found.values()), default=0.0) or 1.0
    strong = sorted(found.values(), key=lambda c: (-c.words / best - c.meaning / close, c.entry.id))[: pool.strong]
    known = {c.place for c in found.values()}
    wanted: dict[str, set[int]] = {}
    for uri, seq in (c.place for c in strong):
        wanted.setdefault(uri, set()).update(n for n in (seq - 1, seq + 1) if n > 0 and (uri, n) not in known)
    wanted = {uri: at for uri, at in wanted.items() if at}
    if not wanted:
        return {}
    places = Or(tuple(And((Eq("uri", uri), In("seq", tuple(sorted(at))))) for uri, at in wanted.items()))
    # The sessions once more by themselves: an index leads to them, and not to a list of places.
    where = every(TURNS, request.when, In("uri", tuple(wanted)), places)
    entries = await desk.listed("neighbours", where, 2 * pool.strong)
    return {entry.id: Candidate(entry) for entry in entries}


def _hit(table: Table, at: int, score: float, weights: dict[str, float]) -> RetrievalHit:
    candidate = table.candidates[at]
    parts = {name: weights.get(name, 0.0) * float(table.values[at, i]) for i, name in enumerate(FEATURES)}
    total = sum(part for part in parts.values() if part > 0) or 1.0
    shares = [Share(name, round(part / total, 3)) for name, part in parts.items() if abs(part / total) >= _LEAST_SHARE]
    entry: Entry = candidate.entry
    only_cited = candidate.facts > 0 and not (candidate.words or candidate.meaning)
    return RetrievalHit(
        id=shown_id(entry),
        score=round(float(np.mean(table.values[at, :2])), 6),
        final_score=round(score, 6),
        source="fact_search"
        if entry.kind in (SEMANTIC, CHUNK)
        else "reference_trace"
        if only_cited
        else "event_search",
        entry=shown(entry),
        evidence=whole(entry),
        routes=tuple(sorted(shares, key=lambda s: (-abs(s.share), s.route))),
    )
