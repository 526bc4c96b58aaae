"""The default index: one SQLite file, an exact scan of the asker's own rows, dense and lexical, no server.

Memory is always asked for somebody, so only their rows are scanned: exact, and no slower when others have more.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np

from mnemon.contracts.entries import Abilities, Ask, Entry, Hit, IndexInfo, Page
from mnemon.contracts.errors import Busy, Conflict, EmbedderMismatch, Internal
from mnemon.contracts.filters import EVERYTHING, OrderBy, Where
from mnemon.contracts.scope import Scope
from mnemon.drivers.index.sqlite import ranking
from mnemon.drivers.index.sqlite.filters import compile_where, is_selective, names_address
from mnemon.drivers.index.sqlite.rows import (
    INSERT_BODY,
    INSERT_ENTRY,
    SELECT_ENTRY,
    body_columns,
    entry_of,
    entry_row,
    principals_text,
)
from mnemon.drivers.index.sqlite.scrolling import behind, ordering
from mnemon.drivers.index.sqlite.sections import Section, Sections
from mnemon.drivers.index.sqlite.segment import Segment
from mnemon.drivers.sqlite_file import at_once, clear_errors, connect, drop_broken, migrate, scrub, transaction
from mnemon.drivers.together import Together
from mnemon.logic.admission import check_ask, check_entries, check_limit, refused
from mnemon.logic.exact import direction
from mnemon.logic.filtering import split_kinds
from mnemon.logic.lexical import Query, parse
from mnemon.logic.listing import Place, cursor_after, order_of, place_of
from mnemon.logic.principals import handle

CACHE_BYTES = 256 << 20
_INLINE_ROWS = 5_000  # a scan this small is over before a thread would have started
_PREFILTER_ROWS = 2_000
_BATCH = 500
_SMALL_SEGMENT = 256
_FEW = 4


class SqliteIndex:
    """See `contracts.ports.Index` for what each method promises."""

    abilities = Abilities(dense=True, lexical=True, transactional=True, rebuild_beside=True)

    def __init__(
        self,
        path: Path,
        model: str,
        dimension: int,
        *,
        cache_bytes: int = CACHE_BYTES,
        any_model: bool = False,
        state: str = "active",
    ) -> None:
        """`any_model` opens an index of another model, to look at it or to rebuild it, not to search it."""
        self._path = path
        self._model = model
        self._dimension = dimension
        self._cache_bytes = cache_bytes
        self._any_model = any_model
        self._state = state
        self._reading = Lock()
        self._writing = Lock()
        self._together = Together(self._upsert_all, self._upsert_now)
        self._reader = connect(path)
        self._writer = connect(path)
        self._sections = Sections(self._reader, cache_bytes)
        self._version = -1
        self._generation = 0
        self._built_with = (model, dimension)
        try:
            self._open()
        except BaseException:
            self._close()
            raise

    def _open(self) -> None:
        with clear_errors(self._path):
            migrate(self._writer, self._path, __name__)
            if self._state == "active" and not self._writer.execute("SELECT 1 FROM generation").fetchone():
                self._writer.execute(
                    "INSERT OR IGNORE INTO generation (model, dimension, state) VALUES (?, ?, 'active')",
                    (self._model, self._dimension),
                )
        with self._snapshot():
            return

    # --- which generation, and is what we know still true

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Reads within see one state of the file, whoever writes meanwhile, and know what it is."""
        with self._reading, self._one_state():
            self._refresh()
            yield

    @contextmanager
    def _one_state(self) -> Iterator[None]:
        with clear_errors(self._path):
            self._reader.execute("BEGIN")
            try:
                yield
            finally:
                self._reader.execute("COMMIT")

    def _refresh(self) -> None:
        """Cheap when nobody wrote: SQLite tells whether any other connection committed."""
        version = self._read_version()
        if version == self._version:
            return
        self._sections.forget_views()
        generation = self._find_generation()
        if generation != self._generation:
            self._sections.clear()
        self._generation, self._version = generation, version

    def _read_version(self) -> int:
        return int(self._reader.execute("PRAGMA data_version").fetchone()[0])

    def _find_generation(self) -> int:
        id_, model, dimension = self._own_generation(self._reader)
        self._built_with = (model, dimension)
        if not self._any_model:
            self._check_model()
        return id_

    def _own_generation(self, connection: sqlite3.Connection) -> tuple[int, str, int]:
        row: tuple[int, str, int] | None = connection.execute(
            "SELECT id, model, dimension FROM generation WHERE state = ?", (self._state,)
        ).fetchone()
        if row is None:
            raise Conflict(f"{self._path.name}: what was under construction is finished or was begun anew elsewhere")
        return row

    def _check_model(self) -> None:
        model, dimension = self._built_with
        if (model, dimension) != (self._model, self._dimension):
            raise EmbedderMismatch(
                f"{self._path.name} was built with {model} ({dimension} dimensions), but the embedder is {self._model} "
                f"({self._dimension}); run `mnemon rebuild`, or open it with the embedder it was built with",
                built_with=model,
                embedder=self._model,
            )

    # --- writing

    async def upsert(self, scope: Scope, entries: Sequence[Entry]) -> None:
        check_entries(scope, entries, self._dimension)
        if entries:
            await self._together((scope, entries), little=len(entries) <= _FEW)

    def _upsert_now(self, work: tuple[Scope, Sequence[Entry]]) -> bool:
        try:
            with at_once(self._writing, self._writer) as mine:
                if mine:
                    self._upsert_within([work])
        except Busy:
            return False
        return mine

    def _upsert_all(self, works: list[tuple[Scope, Sequence[Entry]]]) -> None:
        with self._writing:
            self._upsert_within(works)

    def _upsert_within(self, works: list[tuple[Scope, Sequence[Entry]]]) -> None:
        with clear_errors(self._path), transaction(self._writer):
            for scope, entries in works:
                self._upsert(scope, entries)

    def _upsert(self, scope: Scope, entries: Sequence[Entry]) -> None:
        tenant = scope.tenant_id
        last = {e.id: e for e in entries}  # an id given twice: the later one counts
        bodies = body_columns(list(last.values()))
        generation = self._generation_for_writing()
        self._remove(self._replaced(generation, scope, last))
        top = self._writer.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
        row = top[0] if top else 0
        sections: dict[tuple[str, str], int] = {}
        rows = []
        for entry in last.values():
            row += 1
            key = (principals_text(entry.principals), entry.kind)
            if key not in sections:
                sections[key] = self._section(generation, tenant, *key)
            rows.append(entry_row(entry, row, generation, tenant, sections[key]))
        first = row - len(rows) + 1
        self._writer.executemany(INSERT_ENTRY, rows)
        self._writer.executemany(INSERT_BODY, [(first + i, *b) for i, b in enumerate(bodies)])
        self._writer.executemany("UPDATE section SET last_row = ? WHERE id = ?", [(row, s) for s in sections.values()])

    def _generation_for_writing(self) -> int:
        """Read inside the transaction: a rebuild may have been finished by another process."""
        id_, model, dimension = self._own_generation(self._writer)
        if (model, dimension) != (self._model, self._dimension):
            raise EmbedderMismatch(built_with=model, embedder=self._model)
        return id_

    def _replaced(self, generation: int, scope: Scope, entries: dict[str, Entry]) -> list[tuple[int, int]]:
        """The rows these entries take the place of; what somebody does not see they cannot replace either."""
        ids = list(entries)
        replaced: list[tuple[int, int]] = []
        for at in range(0, len(ids), _BATCH):
            part = ids[at : at + _BATCH]
            for id_, row, section, principals in self._writer.execute(
                "SELECT e.id, e.row, e.section, s.principals FROM entry e JOIN section s ON s.id = e.section"
                f" WHERE e.generation = ? AND e.tenant = ? AND e.id IN ({', '.join('?' * len(part))})",
                [generation, scope.tenant_id, *part],
            ):
                if not scope.sees(json.loads(principals)):
                    raise refused(entries[id_])
                replaced.append((row, section))
        return replaced

    def _remove(self, rows: list[tuple[int, int]]) -> None:
        if rows:
            self._writer.executemany("DELETE FROM entry WHERE row = ?", [(r,) for r, _ in rows])
            self._writer.executemany("DELETE FROM body WHERE row = ?", [(r,) for r, _ in rows])
            changed = [(s,) for s in {s for _, s in rows}]
            self._writer.executemany("UPDATE section SET epoch = epoch + 1 WHERE id = ?", changed)

    def _section(self, generation: int, tenant: str, principals: str, kind: str) -> int:
        found = self._writer.execute(
            "SELECT id FROM section WHERE generation = ? AND tenant = ? AND principals = ? AND kind = ?",
            (generation, tenant, principals, kind),
        ).fetchone()
        if found is not None:
            return int(found[0])
        made = self._writer.execute(
            "INSERT INTO section (generation, tenant, handle, principals, kind) VALUES (?, ?, ?, ?, ?)",
            (generation, tenant, handle(json.loads(principals)), principals, kind),
        )
        return int(made.lastrowid or 0)

    async def delete(self, scope: Scope, where: Where) -> int:
        return await asyncio.to_thread(self._delete, scope, where)

    def _delete(self, scope: Scope, where: Where) -> int:
        with self._changing(scope, where) as rows:
            self._remove(rows)
        return len(rows)

    @contextmanager
    def _changing(self, scope: Scope, where: Where) -> Iterator[list[tuple[int, int]]]:
        """The rows that match and their sections, to be changed in one transaction."""
        with self._snapshot():
            condition, values = self._condition(scope, where)
        with self._writing, clear_errors(self._path), transaction(self._writer):
            yield self._writer.execute(f"SELECT e.row, e.section FROM entry e WHERE {condition}", values).fetchall()

    async def publish(self, scope: Scope, where: Where) -> int:
        return await asyncio.to_thread(self._publish, scope, where)

    def _publish(self, scope: Scope, where: Where) -> int:
        with self._changing(scope, where) as rows:
            self._writer.executemany("UPDATE entry SET published = 1 WHERE row = ?", [(r,) for r, _ in rows])
            changed = [(s,) for s in {s for _, s in rows}]
            self._writer.executemany("UPDATE section SET touched = touched + 1 WHERE id = ?", changed)
        return len(rows)

    # --- reading

    def _condition(self, scope: Scope, where: Where) -> tuple[str, list[object]]:
        """What a scope sees and a filter keeps, as SQL."""
        kinds, rest = split_kinds(where)
        sql, values = compile_where(rest)
        if scope.steward and scope.match == "within":
            # An address leads to few rows; a plus keeps SQLite from walking through the whole tenant instead.
            plus = "+" if names_address(rest) else ""
            condition = f"{plus}e.generation = ? AND {plus}e.tenant = ? AND {sql}"
            bound: list[object] = [self._generation, scope.tenant_id, *values]
            if kinds is not None:
                condition += f" AND e.kind IN ({', '.join('?' * len(kinds))})"
                bound += sorted(kinds)
            return condition, bound
        sections = self._visible(scope, kinds)
        marks = ", ".join(str(s.id) for s in sections)
        return f"e.section IN ({marks}) AND {sql}", values

    def _visible(self, scope: Scope, kinds: frozenset[str] | None) -> list[Section]:
        sections = self._sections.visible(self._generation, scope)
        return sections if kinds is None else [s for s in sections if s.kind in kinds]

    async def get(self, scope: Scope, ids: Sequence[str]) -> list[Entry]:
        if len(ids) > _FEW or self._reading.locked():
            return await asyncio.to_thread(self._get, scope, list(ids))
        return self._get(scope, list(ids))  # over before a thread would have started

    def _get(self, scope: Scope, ids: list[str]) -> list[Entry]:
        with self._snapshot():
            return [e for e in self._entries(scope.tenant_id, ids) if scope.sees(e.principals)]

    async def count(self, scope: Scope, where: Where) -> int:
        return await asyncio.to_thread(self._count, scope, where)

    def _count(self, scope: Scope, where: Where) -> int:
        with self._snapshot():
            condition, values = self._condition(scope, where)
            return int(self._reader.execute(f"SELECT COUNT(*) FROM entry e WHERE {condition}", values).fetchone()[0])

    async def scroll(
        self,
        scope: Scope,
        where: Where,
        order: OrderBy = "newest",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        check_limit(limit)
        order_of(order)
        last = place_of(order, cursor) if cursor is not None else None
        return await asyncio.to_thread(self._scroll, scope, where, order, limit, last)

    def _scroll(self, scope: Scope, where: Where, order: OrderBy, limit: int, last: Place | None) -> Page:
        kinds, rest = split_kinds(where)
        keep, values = compile_where(rest)
        after, bounds = behind(order, last)
        with self._snapshot():
            places: list[Place] = []
            # A section at a time: each is one short walk along an index, where all at once would sort everything.
            for section in self._visible(scope, kinds):
                found = self._reader.execute(
                    f"SELECT e.at, e.position, e.id FROM entry e WHERE e.section = ? AND {keep} AND {after}"
                    f" ORDER BY {ordering(order)} LIMIT ?",
                    [section.id, *values, *bounds, limit + 1],
                )
                places += (Place(*row) for row in found)
            places.sort(key=order_of(order).sort_key)
            entries = self._entries(scope.tenant_id, [p.id for p in places[:limit]])
        more = cursor_after(order, places[limit - 1]) if len(places) > limit else None
        return Page(tuple(entries), more)

    def _entries(self, tenant: str, ids: list[str]) -> list[Entry]:
        found: dict[str, Entry] = {}
        for at in range(0, len(ids), _BATCH):
            part = ids[at : at + _BATCH]
            sql = f"{SELECT_ENTRY} WHERE e.generation = ? AND e.tenant = ? AND e.id IN ({', '.join('?' * len(part))})"
            rows = self._reader.execute(sql, [self._generation, tenant, *part]).fetchall()
            found.update((e.id, e) for e in map(entry_of, rows))
        return [found[i] for i in ids if i in found]

    # --- searching

    async def search(self, scope: Scope, ask: Ask) -> list[Hit]:
        check_ask(ask, self._dimension)
        query = parse(ask.text) if ask.text is not None else None
        kinds, rest = split_kinds(ask.where)
        if rest == EVERYTHING and self._reading.acquire(blocking=False):
            try:
                if (hits := self._from_memory(scope, ask, query, kinds)) is not None:
                    return hits
            finally:
                self._reading.release()
        return await asyncio.to_thread(self._search, scope, ask, query, kinds, rest)

    def _from_memory(
        self, scope: Scope, ask: Ask, query: Query | None, kinds: frozenset[str] | None
    ) -> list[Hit] | None:
        """Everything in memory and little of it: then a thread would cost more than the search. Else None."""
        with clear_errors(self._path):
            if self._read_version() != self._version:
                return None
        known = self._sections.known(self._generation, scope)
        if known is None:
            return None
        sections = known if kinds is None else [s for s in known if s.kind in kinds]
        if not self._sections.is_warm(sections):
            return None
        segments = self._sections.segments(sections, self._built_with[1])
        if sum([s.count for s in segments]) > _INLINE_ROWS:
            return None
        found = ranking.best(segments, self._scores(ask, query, segments), ask.limit, ask.after, ask.min_score)
        try:
            return [Hit(segment.entries[at], score) for score, _, segment, at in found]
        except KeyError:  # a row nobody has found before has to be read first
            return None

    def _search(
        self, scope: Scope, ask: Ask, query: Query | None, kinds: frozenset[str] | None, rest: Where
    ) -> list[Hit]:
        with self._snapshot():
            sections = self._visible(scope, kinds)
            segments = self._sections.segments(sections, self._built_with[1])
            # A filter over no section at all would be tried on every row there is.
            hits = self._rank(scope, ask, query, rest, segments) if segments else []
            self._sections.make_room(sections)
        return hits

    def _scores(self, ask: Ask, query: Query | None, segments: list[Segment]) -> ranking.Scores:
        if query is not None:
            return ranking.by_words(segments, query)
        if ask.vector is None:
            raise Internal("a search without a question")
        self._check_model()
        return ranking.by_vector(segments, direction(ask.vector))

    def _rank(self, scope: Scope, ask: Ask, query: Query | None, rest: Where, segments: list[Segment]) -> list[Hit]:
        scores = self._scores(ask, query, segments)
        if rest != EVERYTHING and not is_selective(rest) and sum(s.count for s in segments) > _PREFILTER_ROWS:
            found = self._walk(rest, segments, scores, ask)
        else:
            if rest != EVERYTHING:
                self._keep_only(scope, ask.where, segments, scores)
            found = ranking.best(segments, scores, ask.limit, ask.after, ask.min_score)
        self._fill(found)
        return [Hit(segment.entries[at], score) for score, _, segment, at in found]

    def _keep_only(self, scope: Scope, where: Where, segments: list[Segment], scores: ranking.Scores) -> None:
        """Filter first: the rows that pass, straight from an index."""
        condition, values = self._condition(scope, where)
        rows = self._reader.execute(f"SELECT e.row FROM entry e WHERE {condition}", values).fetchall()
        passing = np.fromiter((r for (r,) in rows), dtype=np.int64, count=len(rows))
        for segment, score in zip(segments, scores.columns, strict=True):
            score[~np.isin(segment.rows, passing)] = -np.inf

    def _walk(self, rest: Where, segments: list[Segment], scores: ranking.Scores, ask: Ask) -> list[ranking.Found]:
        """Filter last: go down the ranking until enough rows have passed."""
        keep, values = compile_where(rest)
        passed: list[ranking.Found] = []
        after, step = ask.after, max(4 * ask.limit, 64)
        while len(passed) < ask.limit:
            found = ranking.best(segments, scores, step, after, ask.min_score)
            rows = [int(segment.rows[at]) for _, _, segment, at in found]
            good: set[int] = set()
            for at in range(0, len(rows), _BATCH):
                part = rows[at : at + _BATCH]
                sql = f"SELECT e.row FROM entry e WHERE e.row IN ({', '.join('?' * len(part))}) AND {keep}"
                good.update(r for (r,) in self._reader.execute(sql, [*part, *values]))
            passed += [f for f, row in zip(found, rows, strict=True) if row in good]
            if len(found) < step:
                break
            after, step = (found[-1][0], found[-1][1]), step * 4
        return passed[: ask.limit]

    def _fill(self, found: list[ranking.Found]) -> None:
        """Read the entries of hits that are not in memory yet; of a small segment all, since they will be asked for."""
        missing = {int(s.rows[at]): (s, at) for _, _, s, at in found if at not in s.entries}
        for segment in {id(s): s for s, _ in missing.values() if s.count <= _SMALL_SEGMENT}.values():
            missing |= {int(r): (segment, at) for at, r in enumerate(segment.rows) if at not in segment.entries}
        rows = list(missing)
        for start in range(0, len(rows), _BATCH):
            part = rows[start : start + _BATCH]
            for row in self._reader.execute(f"{SELECT_ENTRY} WHERE e.row IN ({', '.join('?' * len(part))})", part):
                segment, at = missing[row[0]]
                segment.entries[at] = entry_of(row)

    # --- upkeep

    async def info(self) -> IndexInfo:
        return await asyncio.to_thread(self._info)

    def _info(self) -> IndexInfo:
        with self._snapshot():
            states = {
                s: (i, m, d)
                for i, m, d, s in self._reader.execute("SELECT id, model, dimension, state FROM generation")
            }
            generation, model, dimension = states[self._state]
            sql = "SELECT COUNT(*) FROM entry WHERE generation = ?"
            entries = self._reader.execute(sql, (generation,)).fetchone()[0]
        building = states["building"][1] if "building" in states else None
        return IndexInfo(model, dimension, entries, building)

    async def begin_rebuild(self, model: str, dimension: int, restart: bool = False) -> Self:
        await asyncio.to_thread(self._begin_rebuild, model, dimension, restart)
        return type(self)(self._path, model, dimension, cache_bytes=self._cache_bytes, state="building")

    def _begin_rebuild(self, model: str, dimension: int, restart: bool) -> None:
        with self._writing, clear_errors(self._path), transaction(self._writer):
            row = self._writer.execute(
                "SELECT id, model, dimension FROM generation WHERE state = 'building'"
            ).fetchone()
            if row and (restart or (row[1], row[2]) != (model, dimension)):
                self._writer.execute("DELETE FROM generation WHERE id = ?", (row[0],))
                row = None
            if row is None:
                self._writer.execute(
                    "INSERT INTO generation (model, dimension, state) VALUES (?, ?, 'building')", (model, dimension)
                )
        self._sweep()

    async def finish_rebuild(self) -> None:
        await asyncio.to_thread(self._finish_rebuild)

    def _finish_rebuild(self) -> None:
        if self._state != "building":
            raise Internal("only an index under construction can be finished")
        with self._writing, clear_errors(self._path), transaction(self._writer):
            if self._own_generation(self._writer)[0] != self._generation:
                raise Conflict(f"{self._path.name}: the rebuild was begun anew elsewhere")
            self._writer.execute("DELETE FROM generation WHERE state = 'active'")
            self._writer.execute("UPDATE generation SET state = 'active' WHERE state = 'building'")
        self._state = "active"
        self._sweep()

    def _sweep(self) -> None:
        """Remove the rows of generations that are no more, a few at a time so that nobody waits long."""
        gone = "generation NOT IN (SELECT id FROM generation)"
        while True:
            with self._writing, clear_errors(self._path), transaction(self._writer):
                rows = self._writer.execute(f"SELECT row FROM entry WHERE {gone} LIMIT 5000").fetchall()
                self._writer.executemany("DELETE FROM entry WHERE row = ?", rows)
                self._writer.executemany("DELETE FROM body WHERE row = ?", rows)
                if not rows:
                    self._writer.execute(f"DELETE FROM section WHERE {gone}")
                    return

    async def purge(self) -> None:
        await asyncio.to_thread(self._purge)

    def _purge(self) -> None:
        with self._reading, self._writing, clear_errors(self._path):
            # A section names people, and may be the last to do so.
            empty = "NOT EXISTS (SELECT 1 FROM entry WHERE section = section.id)"
            self._writer.execute(f"DELETE FROM section WHERE {empty}")
            scrub(self._writer)
        drop_broken(self._path)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._reading, self._writing:
            self._reader.close()
            self._writer.close()
