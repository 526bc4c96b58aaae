"""The words facts rest on: a claim knows its turns by id, a fact that came in through `write` by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mnemon.contracts.entries import Entry, Hit
from mnemon.contracts.filters import And, Eq, In, Or, every
from mnemon.contracts.retrieval import Quote
from mnemon.logic.ids import turn_id
from mnemon.pipelines.entries.projection import SEMANTIC, entry_in
from mnemon.pipelines.index.projection import claim_of
from mnemon.pipelines.retrieval.desk import TURNS, Desk
from mnemon.pipelines.retrieval.showing import joined, quotes_of, whole

_MOST = 500


@dataclass(frozen=True, slots=True)
class Citation:
    """A fact cites a row, with these words of it; `score` is the fact's."""

    fact: str
    row: str
    score: float
    quotes: tuple[Quote, ...]


async def cited(desk: Desk, facts: Sequence[Hit]) -> list[Citation]:
    """By fact, then in the order it names them."""
    rows = await _rows(desk, [fact.entry for fact in facts if fact.entry.kind == SEMANTIC])
    found: list[Citation] = []
    for fact in facts:
        if fact.entry.kind == SEMANTIC:
            session, turns = _names(fact.entry)
            here = [row for turn in turns for row in rows.get((session, turn), ())]
            found += [Citation(fact.entry.id, row.id, fact.score, whole(row)) for row in here]
        else:
            claim = claim_of(fact.entry)
            for turn in claim.source_turn_ids:
                row_id = turn_id(claim.session, turn)
                found.append(Citation(fact.entry.id, row_id, fact.score, quotes_of(claim, turn)))
    return found


def entities_of(fact: Entry) -> tuple[str, ...]:
    return tuple(fact.fields.get("entities", ())) if fact.kind == SEMANTIC else claim_of(fact).entities


def evidence_of(fact: Entry, citations: Sequence[Citation]) -> tuple[Quote, ...]:
    """Everything a fact rests on: of a claim all its words, of one from outside the turns that are here."""
    if fact.kind != SEMANTIC:
        return quotes_of(claim_of(fact))
    return joined(quote for c in citations if c.fact == fact.id for quote in c.quotes)


def _names(fact: Entry) -> tuple[str, tuple[str, ...]]:
    """The session a fact from outside speaks of, and its turns there."""
    metadata: dict[str, Any] = entry_in(fact).metadata
    session = metadata.get("source_session_id") or metadata.get("run_id") or ""
    turns = metadata.get("source_turn_ids")
    return str(session), tuple(map(str, turns)) if isinstance(turns, list) else ()


async def _rows(desk: Desk, facts: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """The turns these facts name, where they are here."""
    wanted: dict[str, set[str]] = {}
    for session, turns in map(_names, facts):
        if session and turns:
            wanted.setdefault(session, set()).update(turns)
    if not wanted:
        return {}
    places = tuple(And((Eq("session_id", s), In("turn_id", tuple(sorted(t))))) for s, t in sorted(wanted.items()))
    found: dict[tuple[str, str], list[Entry]] = {}
    for row in await desk.listed("find_turns", every(TURNS, Or(places)), _MOST):
        found.setdefault((str(row.fields["session_id"]), str(row.fields["turn_id"])), []).append(row)
    return found
