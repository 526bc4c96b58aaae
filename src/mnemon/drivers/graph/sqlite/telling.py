"""What origins say, into rows and out of them again: a statement for each kind of row, however many say something."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Self

from mnemon.contracts.graph import Entity, GraphEdge, GraphItem, Saying, Scoped
from mnemon.contracts.scope import Scope
from mnemon.drivers.graph.sqlite.audiences import LISTED, Audience, audience_of, listed
from mnemon.drivers.graph.sqlite.rows import PUT_NAME, edge_row, item_row, subject_of
from mnemon.logic.graph.names import names_of

_SPOKEN = (
    "SELECT a.principals, s.number, s.audience, s.mark FROM speech s JOIN audience a ON a.id = s.audience"
    " WHERE s.tenant = ? AND s.origin = ?"
)
_SPEAK = "INSERT INTO speech (tenant, origin, audience, mark) VALUES (?, ?, ?, ?) RETURNING number"
_OLD_NAMES = f"DELETE FROM name WHERE item = ? AND folded NOT {LISTED}"
_UNUSED = (
    f"DELETE FROM ident WHERE number {LISTED}"
    " AND NOT EXISTS (SELECT 1 FROM item WHERE ident = number) AND NOT EXISTS (SELECT 1 FROM edge WHERE src = number)"
    " AND NOT EXISTS (SELECT 1 FROM edge WHERE dst = number) AND NOT EXISTS (SELECT 1 FROM item WHERE subject = number)"
)

# Principals and domain; and of these the speech and the audience.
Group = tuple[tuple[str, ...], str]
Place = tuple[int, Audience]


class Speech(NamedTuple):
    """What an origin says to one audience."""

    number: int
    audience: int
    mark: str


def speeches(db: sqlite3.Connection, scope: Scope, origins: Iterable[str]) -> dict[str, list[Speech]]:
    """By origin, as far as the scope sees it."""
    found: dict[str, list[Speech]] = {}
    for origin in origins:
        spoken = db.execute(_SPOKEN, (scope.tenant_id, origin)).fetchall()
        seen = [Speech(*speech) for principals, *speech in spoken if scope.sees(json.loads(principals))]
        if seen:
            found[origin] = seen
    return found


@dataclass(slots=True)
class _Told:
    """A saying on its way into rows: its speeches so far, of what is given twice the later one, and where it goes."""

    saying: Saying
    before: list[Speech]
    items: dict[str, GraphItem] = field(init=False)
    edges: dict[tuple[str, str, str], GraphEdge] = field(init=False)
    to: dict[Group, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = {item.id: item for item in self.saying.batch.items()}
        self.edges = {(edge.src_id, edge.rel_type, edge.dst_id): edge for edge in self.saying.batch.edges}

    def leaves_something(self) -> bool:
        return bool(self.items or self.edges or self.saying.mark or not self.saying.whole)

    def ids(self) -> dict[str, None]:
        ids = dict.fromkeys(self.items)
        ids.update(dict.fromkeys(filter(None, map(subject_of, self.items.values()))))
        for src, _, dst in self.edges:
            ids[src] = ids[dst] = None
        return ids


class Teller:
    """Writes within one transaction of the graph's, and leaves no id behind that nothing is left of."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._loose: set[int] = set()

    @classmethod
    @contextmanager
    def at(cls, db: sqlite3.Connection) -> Iterator[Self]:
        teller = cls(db)
        yield teller
        if teller._loose:
            db.execute(_UNUSED, (listed(teller._loose),))

    def tell(self, scope: Scope, sayings: Sequence[Saying]) -> None:
        some: dict[str, Saying] = {}
        for saying in sayings:
            if saying.origin in some:  # who says more than one thing says one after the other
                self._tell(scope, some)
                some = {}
            some[saying.origin] = saying
        self._tell(scope, some)

    def _tell(self, scope: Scope, sayings: dict[str, Saying]) -> None:
        before = speeches(self._db, scope, sayings)
        self.forget([one for origin, those in before.items() if sayings[origin].whole for one in those])
        given = [_Told(one, [] if one.whole else before.get(one.origin, [])) for one in sayings.values()]
        told = [one for one in given if one.leaves_something()]
        if not told:
            return
        self._speak(scope, told)
        numbers = self._numbers([one.ids() for one in told])
        for one in told:
            if one.before:
                self._make_room(one, numbers)
        rows: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        for one in told:
            for item in one.items.values():
                speech, to = one.to[item.user_id, item.memory_domain]
                sql, row = item_row(item, speech, to, numbers)
                rows[sql].append(row)
        for one in told:
            for entity in one.saying.batch.entities:
                if one.items[entity.id] is entity:
                    place = (one.to[_group(entity)][0], numbers[entity.id])
                    rows[PUT_NAME] += [(name, *place) for name in names_of(entity)]
            for edge in one.edges.values():
                speech, to = one.to[edge.user_id, edge.memory_domain]
                sql, row = edge_row(edge, speech, to, numbers)
                rows[sql].append(row)
        for sql, some in rows.items():
            self._db.executemany(sql, some)

    def _speak(self, scope: Scope, told: Sequence[_Told]) -> None:
        """Each saying's mark, with everybody it is for: those it speaks to now, and those it spoke to before."""
        known: dict[Group, Audience] = {}
        for one in told:
            mark, numbers = one.saying.mark, {speech.audience: speech.number for speech in one.before}
            self._db.executemany(
                "UPDATE speech SET mark = ? WHERE number = ?", [(mark, number) for number in numbers.values()]
            )
            given: Iterable[Scoped] = chain(one.items.values(), one.edges.values())
            here = {(scoped.user_id, scoped.memory_domain) for scoped in given}
            if not here and not numbers:  # who has nothing to say, says so to whoever it is
                here = {(tuple(scope.principals), "")}
            for group in sorted(here):
                to = known.get(group) or audience_of(self._db, scope.tenant_id, *group)
                if to.id not in numbers:
                    row = (scope.tenant_id, one.saying.origin, to.id, mark)
                    numbers[to.id] = self._db.execute(_SPEAK, row).fetchone()[0]
                known[group] = to
                one.to[group] = numbers[to.id], to

    def _numbers(self, given: Sequence[dict[str, None]]) -> dict[str, int]:
        """Every id's number, a new one where it has none."""
        wanted = given[0] if len(given) == 1 else dict.fromkeys(chain.from_iterable(given))
        known: dict[str, int] = dict(
            self._db.execute(f"SELECT id, number FROM ident WHERE id {LISTED}", (listed(wanted),)).fetchall()
        )
        new = [id_ for id_ in wanted if id_ not in known]
        for id_ in [id_ for id_ in new if "\0" in id_]:  # which JSON in SQLite ends at
            found = self._db.execute("SELECT number FROM ident WHERE id = ?", (id_,)).fetchone()
            if found:
                known[id_] = found[0]
                new.remove(id_)
        last: int = self._db.execute("SELECT COALESCE(MAX(number), 0) FROM ident").fetchone()[0]
        numbered = list(enumerate(new, last + 1))
        self._db.executemany("INSERT INTO ident (number, id) VALUES (?, ?)", numbered)
        known.update((id_, number) for number, id_ in numbered)
        return known

    def _make_room(self, one: _Told, numbers: dict[str, int]) -> None:
        """For what an origin says anew: it says it no longer to others, and an entity no longer has its old names."""
        for number, _, _ in one.before:
            moved = [numbers[id_] for id_, item in one.items.items() if one.to[_group(item)][0] != number]
            if moved:
                self._drop_items("speech = ? AND ident = ?", [(number, ident) for ident in moved])
            ends = [e for e in one.edges.values() if one.to[_group(e)][0] != number]
            if ends:
                self._db.executemany(
                    "DELETE FROM edge WHERE speech = ? AND src = ? AND rel = ? AND dst = ?",
                    [(number, numbers[e.src_id], e.rel_type, numbers[e.dst_id]) for e in ends],
                )
            here = listed(numbers[id_] for id_ in one.items)
            held = self._db.execute(
                f"SELECT row, id, kind, subject FROM item WHERE speech = ? AND ident {LISTED}", (number, here)
            ).fetchall()
            self._loose.update(subject for *_, subject in held if subject is not None)
            entities = [(row, one.items[id_]) for row, id_, kind, _ in held if kind == Entity.kind]
            if entities:
                names = [(row, listed(names_of(e) if isinstance(e, Entity) else ())) for row, e in entities]
                self._db.executemany(_OLD_NAMES, names)

    def _drop_items(self, which: str, values: Sequence[tuple[int, ...]]) -> int:
        for value in values:
            rows = self._db.execute(f"SELECT ident, subject FROM item WHERE {which}", value)
            self._loose.update(number for row in rows for number in row if number is not None)
        self._db.executemany(f"DELETE FROM name WHERE item IN (SELECT row FROM item WHERE {which})", values)
        return self._db.executemany(f"DELETE FROM item WHERE {which}", values).rowcount

    def forget(self, given: Sequence[Speech]) -> int:
        """Everything of these; how many items and edges that was."""
        if not given:
            return 0
        which = [(one.number,) for one in given]
        for value in which:
            ends = self._db.execute("SELECT src, dst FROM edge WHERE speech = ?", value)
            self._loose.update(chain.from_iterable(ends))
        gone = self._drop_items("speech = ?", which)
        gone += self._db.executemany("DELETE FROM edge WHERE speech = ?", which).rowcount
        self._db.executemany("DELETE FROM speech WHERE number = ?", which)
        return gone

    def tidy(self, scope: Scope) -> None:
        """Names of people nothing is left of."""
        silent = "NOT EXISTS (SELECT 1 FROM speech s WHERE s.audience = audience.id)"
        self._db.execute(f"DELETE FROM audience WHERE tenant = ? AND {silent}", (scope.tenant_id,))


def _group(given: Scoped) -> Group:
    return given.user_id, given.memory_domain
