"""Which sections somebody sees, and their rows in memory: loaded when first asked for, kept while there is room."""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from mnemon.contracts.scope import Scope
from mnemon.drivers.index.sqlite.segment import Segment, build

_MERGE_AT = 8

_FIND = "SELECT id, kind, principals, epoch, last_row, touched FROM section WHERE generation = ? AND tenant = ?"
_LOAD = (
    "SELECT e.row, e.id, b.terms, b.vector FROM entry e JOIN body b ON b.row = e.row"
    " WHERE e.section = ? AND e.row > ? ORDER BY e.row"
)


@dataclass(frozen=True, slots=True)
class Section:
    id: int
    kind: str
    principals: frozenset[str]
    epoch: int
    last_row: int
    touched: int


@dataclass(slots=True)
class _Loaded:
    epoch: int
    touched: int
    last_row: int = 0
    segments: list[Segment] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return sum(s.nbytes for s in self.segments)

    def forget_entries(self, touched: int) -> None:
        for segment in self.segments:
            segment.entries.clear()
        self.touched = touched


class Sections:
    """Not safe for threads; the index holds its lock around every call."""

    def __init__(self, connection: sqlite3.Connection, cache_bytes: int) -> None:
        self._db = connection
        self._cache_bytes = cache_bytes
        self._loaded: OrderedDict[int, _Loaded] = OrderedDict()
        self._sizes: dict[int, int] = {}  # of what is loaded, as last measured
        self._total = 0
        self._views: dict[tuple[int, Scope], list[Section]] = {}

    def forget_views(self) -> None:
        """Somebody wrote: what was known about sections may be old. Rows in memory are checked when next asked for."""
        self._views.clear()

    def clear(self) -> None:
        self._views.clear()
        self._loaded.clear()
        self._sizes.clear()
        self._total = 0

    def known(self, generation: int, scope: Scope) -> list[Section] | None:
        """What `visible` would give, if that is known without asking the file."""
        return self._views.get((generation, scope))

    def visible(self, generation: int, scope: Scope) -> list[Section]:
        """The sections a scope sees: found by handle, kept when every principal is the caller's."""
        known = self.known(generation, scope)
        if known is None:
            values: list[object] = [generation, scope.tenant_id]
            sql = _FIND
            if not scope.steward:
                sql += f" AND handle IN ({', '.join('?' * len(scope.principals))})"
                values += sorted(scope.principals)
            rows = self._db.execute(sql + " ORDER BY id", values).fetchall()
            all_ = [Section(i, kind, frozenset(json.loads(p)), *state) for i, kind, p, *state in rows]
            known = [s for s in all_ if scope.sees(s.principals)]
            if len(self._views) > 10_000:
                self._views.clear()
            self._views[generation, scope] = known
        return known

    def is_warm(self, sections: list[Section]) -> bool:
        for section in sections:
            there = self._loaded.get(section.id)
            if there is None or there.epoch != section.epoch or there.last_row != section.last_row:
                return False
            if there.touched != section.touched:
                return False
        return True

    def segments(self, sections: list[Section], dimension: int) -> list[Segment]:
        """Their rows in memory, read from the file only where they are new."""
        out: list[Segment] = []
        for section in sections:
            there = self._loaded.get(section.id)
            if there is None or there.epoch != section.epoch:
                there = _Loaded(section.epoch, section.touched)
            if there.touched != section.touched:
                there.forget_entries(section.touched)
            if there.last_row < section.last_row:
                self._read(section, there, dimension)
            self._loaded[section.id] = there
            self._loaded.move_to_end(section.id)
            out += there.segments
        return out

    def _read(self, section: Section, there: _Loaded, dimension: int) -> None:
        rows = self._db.execute(_LOAD, (section.id, there.last_row)).fetchall()
        if rows:
            if len(there.segments) >= _MERGE_AT:
                there.segments.clear()
                rows = self._db.execute(_LOAD, (section.id, 0)).fetchall()
            numbers, ids, terms, vectors = (list(column) for column in zip(*rows, strict=True))
            there.segments.append(build(numbers, ids, terms, vectors, dimension))
        there.last_row = section.last_row

    def make_room(self, used: Iterable[Section]) -> None:
        """Let go of the sections not asked for longest until the rest fits. Only those just used can have grown."""
        for section in used:
            size = self._loaded[section.id].nbytes
            self._total += size - self._sizes.get(section.id, 0)
            self._sizes[section.id] = size
        while self._total > self._cache_bytes and len(self._loaded) > 1:
            oldest, _ = self._loaded.popitem(last=False)
            self._total -= self._sizes.pop(oldest, 0)
