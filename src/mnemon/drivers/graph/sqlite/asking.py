"""A question about items as SQL: where they stand, and that an item several origins speak of is found once."""

from __future__ import annotations

from datetime import datetime

from mnemon.contracts.graph import GraphAsk
from mnemon.drivers.graph.sqlite.audiences import LISTED, Sql, listed
from mnemon.drivers.graph.sqlite.rows import NEVER, micros
from mnemon.logic.graph.listing import Place
from mnemon.logic.graph.names import same

NUMBERED = f"IN (SELECT number FROM ident WHERE id {LISTED})"


def shown(row: str, now: datetime | None) -> Sql:
    if now is None:
        return "1", []
    return f"{row}.published = 1 AND ({row}.expires IS NULL OR {row}.expires > ?)", [micros(now)]


def compile_ask(ask: GraphAsk, audiences: list[int], here: list[int], after: Place | None) -> Sql:
    """The places of what is asked for in some of the `audiences`, in order."""
    seen = listed(audiences)
    # What it is about or tied to leads to few rows; a plus keeps SQLite from walking through all instead.
    to = "+i.audience" if ask.subjects or ask.linked else "i.audience"
    parts: list[Sql] = [
        (f"{to} {LISTED}", [listed(here)]) if len(here) > 1 else (f"{to} = ?", [here[0]]),
        ("i.kind = ?", [ask.kind]),
        shown("i", ask.now),
    ]
    if after is not None:
        parts.append(("(i.at, i.id) > (?, ?)", [*after]))
    if ask.ids is not None:
        parts.append((f"i.ident {NUMBERED}", [listed(ask.ids)]))
    if ask.names:
        parts.append(_called(ask, seen))
    if ask.subjects:
        parts.append((f"i.subject {NUMBERED}", [listed(ask.subjects)]))
    if ask.linked:
        parts.append(_linked(ask, seen))
    for facet in (ask.property, ask.slice_kind):
        if facet:
            parts.append(("i.facet = ?", [facet]))
    if ask.since is not None or ask.until is not None:
        parts.append(("i.at > ?", [NEVER]))
    if ask.since is not None:
        parts.append(("(i.at >= ? OR i.finish > ?)", [micros(ask.since)] * 2))
    if ask.until is not None:
        parts.append(("i.at < ?", [micros(ask.until)]))
    parts.append(_newest(ask, seen))
    where = " AND ".join(sql for sql, _ in parts)
    values = [value for _, some in parts for value in some]
    return f"SELECT i.at, i.id FROM item i WHERE {where} ORDER BY i.at, i.id LIMIT ?", [*values, ask.limit + 1]


def _newest(ask: GraphAsk, seen: str) -> Sql:
    """Of several rows of one item, the one that says what it is like."""
    sql, values = shown("n", ask.now)
    return (
        f"NOT EXISTS (SELECT 1 FROM item n WHERE n.ident = i.ident AND n.audience {LISTED} AND {sql}"
        " AND (n.closeness, n.learnt, n.row) > (i.closeness, i.learnt, i.row))",
        [seen, *values],
    )


def _called(ask: GraphAsk, seen: str) -> Sql:
    sql, values = shown("c", ask.now)
    names = listed({same(name) for name in ask.names})
    return (
        f"(i.ident, i.audience) IN (SELECT c.ident, c.audience FROM name JOIN item c ON c.row = name.item"
        f" WHERE name.folded {LISTED} AND c.audience {LISTED} AND {sql})",
        [names, seen, *values],
    )


def _linked(ask: GraphAsk, seen: str) -> Sql:
    sql, values = shown("e", ask.now)
    kept, of_type = f"e.audience {LISTED} AND {sql}", [seen, *values]
    if ask.rel_types:
        kept, of_type = f"{kept} AND e.rel {LISTED}", [*of_type, listed(ask.rel_types)]
    ends = listed(ask.linked)
    return (
        "i.row IN (SELECT row FROM item WHERE ident IN ("
        f"SELECT e.src FROM edge e WHERE e.dst {NUMBERED} AND {kept}"
        f" UNION SELECT e.dst FROM edge e WHERE e.src {NUMBERED} AND {kept})"
        f" UNION SELECT row FROM item WHERE subject {NUMBERED})",
        [ends, *of_type, ends, *of_type, ends],
    )
