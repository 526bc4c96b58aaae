"""An index in Qdrant: a server for many, or a folder or the memory of this process for trying it out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

from mnemon.contracts.entries import Abilities, Ask, Entry, Hit, IndexInfo, Page
from mnemon.contracts.errors import Conflict, EmbedderMismatch, Internal, Unavailable
from mnemon.contracts.filters import EVERYTHING, OrderBy, Where
from mnemon.contracts.scope import Scope
from mnemon.drivers.index.qdrant import searching
from mnemon.drivers.index.qdrant.filters import (
    PRINCIPALS,
    Condition,
    all_of,
    compile_where,
    holding,
    may_match,
    of_kinds,
    visible,
)
from mnemon.drivers.index.qdrant.generations import Generation, Generations, Record
from mnemon.drivers.index.qdrant.place import clear_errors, connect, disconnect, is_missing, parse_place
from mnemon.drivers.index.qdrant.points import DENSE, WORDS, entry_of, point_id, point_of, sparse
from mnemon.drivers.index.qdrant.scrolling import Listing
from mnemon.logic import lexical
from mnemon.logic.admission import check_ask, check_entries, check_limit, refused, unit
from mnemon.logic.filtering import split_kinds
from mnemon.logic.lexical import Query
from mnemon.logic.listing import cursor_after, order_of, place_of

T = TypeVar("T")

_BATCH = 200
_AT_ONCE = 16


class QdrantIndex:
    """See `contracts.ports.Index` for what each method promises.

    `qdrant://host:6333/collection?api_key=…&https=1` is a server. `qdrant://local/folder?collection=…` keeps
    everything in a folder (`qdrant://local//abs/folder` for an absolute one) and `qdrant://:memory:/collection` in
    memory: both are for one process and some thousand entries, since qdrant-client then scans every point in Python,
    on the event loop.

    Searches are exact: vectors without HNSW, since a memory is one owner's; words by BM25 weights in a sparse vector,
    worked out anew from the text of each candidate. How rare a word is among what the asker sees costs one count a
    word. Qdrant has no transactions: a batch is checked as a whole before anything is written, but one of more than
    200 entries is written in several steps, and a rebuild is meant to be run by one process at a time.
    """

    abilities = Abilities(dense=True, lexical=True, transactional=False, rebuild_beside=True)

    def __init__(
        self, url: str, model: str, dimension: int, *, any_model: bool = False, building: str | None = None
    ) -> None:
        """`any_model` opens an index of another model, to look at it or to rebuild it. Nothing is asked of a server
        before the first call. `building` is the collection that `begin_rebuild` made."""
        self._url = url
        self._place = parse_place(url)
        self._model = model
        self._dimension = dimension
        self._any_model = any_model
        self._building = building
        self._client = connect(self._place)
        self._generations = Generations(self._client, self._place)
        self._closed = False

    def __repr__(self) -> str:
        return f"<QdrantIndex {self._place.label}>"

    # --- which collection

    async def _record(self) -> Record:
        if self._closed:
            raise Unavailable(f"{self._place.label}: the index is closed")
        return await self._generations.read() or await self._generations.found(self._model, self._dimension)

    async def _generation(self) -> Generation:
        """Looked up for every call: another process may have finished a rebuild."""
        record = await self._record()
        generation = record.active if self._building is None else record.building
        if generation is None or self._building not in (None, generation.collection):
            raise Conflict(f"{self._place.label}: what was under construction is finished or was begun anew elsewhere")
        if not self._any_model:
            self._check_model(generation)
        return generation

    def _check_model(self, generation: Generation) -> None:
        if (generation.model, generation.dimension) != (self._model, self._dimension):
            raise EmbedderMismatch(
                f"{self._place.label} was built with {generation.model} ({generation.dimension} dimensions), but the "
                f"embedder is {self._model} ({self._dimension}); run `mnemon rebuild`, or open it with the embedder it "
                "was built with",
                built_with=generation.model,
                embedder=self._model,
            )

    async def _on_current(self, work: Callable[[Generation], Awaitable[T]]) -> T:
        """Do something with the collection in use; once more where a rebuild took it away meanwhile."""
        with clear_errors(self._place):
            generation = await self._generation()
            try:
                return await work(generation)
            except (UnexpectedResponse, ValueError) as error:
                now = await self._generation()
                if not is_missing(error) or now.collection == generation.collection:
                    raise
            return await work(now)

    # --- writing

    async def upsert(self, scope: Scope, entries: Sequence[Entry]) -> None:
        check_entries(scope, entries, self._dimension)
        last = list({e.id: e for e in entries}.values())  # an id given twice: the later one counts
        if last:
            await self._on_current(lambda generation: self._upsert(generation, scope, last))

    async def _upsert(self, generation: Generation, scope: Scope, entries: list[Entry]) -> None:
        self._check_model(generation)
        if not scope.steward or scope.match != "within":
            await self._check_replaced(generation, scope, entries)
        for at in range(0, len(entries), _BATCH):
            points = [point_of(scope.tenant_id, e) for e in entries[at : at + _BATCH]]
            await self._client.upsert(generation.collection, points=points, wait=True)

    async def _check_replaced(self, generation: Generation, scope: Scope, entries: list[Entry]) -> None:
        """What somebody does not see they cannot replace either."""
        by_point = {point_id(scope.tenant_id, e.id): e for e in entries}
        there = await self._client.retrieve(generation.collection, ids=list(by_point), with_payload=[PRINCIPALS])
        for point in there:
            if not scope.sees((point.payload or {})[PRINCIPALS]):
                raise refused(by_point[str(point.id)])

    async def delete(self, scope: Scope, where: Where) -> int:
        async def remove(collection: str, chosen: models.FilterSelector) -> None:
            await self._client.delete(collection, points_selector=chosen, wait=True)

        return await self._change(scope, where, remove)

    async def publish(self, scope: Scope, where: Where) -> int:
        async def show(collection: str, chosen: models.FilterSelector) -> None:
            await self._client.set_payload(collection, payload={"published": True}, points=chosen, wait=True)

        return await self._change(scope, where, show)

    async def _change(
        self, scope: Scope, where: Where, change: Callable[[str, models.FilterSelector], Awaitable[None]]
    ) -> int:
        """Do something to all points that match, in one request, and say how many there were."""
        chosen = all_of([*visible(scope), compile_where(where)])

        async def work(generation: Generation) -> int:
            count = await self._count(generation, chosen)
            if count:
                await change(generation.collection, models.FilterSelector(filter=chosen))
            return count

        return await self._on_current(work)

    # --- reading

    async def get(self, scope: Scope, ids: Sequence[str]) -> list[Entry]:
        return await self._on_current(lambda generation: self._get(generation, scope, ids))

    async def _get(self, generation: Generation, scope: Scope, ids: Sequence[str]) -> list[Entry]:
        points = {i: point_id(scope.tenant_id, i) for i in ids}
        found: dict[str, Entry] = {}
        wanted = list(points.values())
        for at in range(0, len(wanted), _BATCH):
            part = wanted[at : at + _BATCH]
            for point in await self._client.retrieve(generation.collection, ids=part, with_payload=True):
                entry = entry_of(point.payload or {})
                if scope.sees(entry.principals):
                    found[entry.id] = entry
        return [found[i] for i in ids if i in found]

    async def count(self, scope: Scope, where: Where) -> int:
        chosen = all_of([*visible(scope), compile_where(where)])
        return await self._on_current(lambda generation: self._count(generation, chosen))

    async def _count(self, generation: Generation, chosen: models.Filter | None) -> int:
        answer = await self._client.count(generation.collection, count_filter=chosen, exact=True)
        return int(answer.count)

    async def scroll(
        self,
        scope: Scope,
        where: Where,
        order: OrderBy = "newest",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        check_limit(limit)
        chosen = order_of(order)
        last = place_of(order, cursor) if cursor is not None else None
        conditions = [*visible(scope), compile_where(where)]

        async def work(generation: Generation) -> Page:
            listing = Listing(self._client, generation.collection, conditions, chosen)
            places = await listing.after(last, limit + 1)
            entries = await self._get(generation, scope, [p.id for p in places[:limit]])
            more = cursor_after(order, places[limit - 1]) if len(places) > limit else None
            return Page(tuple(entries), more)

        return await self._on_current(work)

    # --- searching

    async def search(self, scope: Scope, ask: Ask) -> list[Hit]:
        check_ask(ask, self._dimension)
        query = lexical.parse(ask.text) if ask.text is not None else None
        kinds, rest = split_kinds(ask.where)
        seen = [*visible(scope), *of_kinds(kinds)]
        kept = seen if rest == EVERYTHING else [*seen, compile_where(rest)]
        if query is not None:
            words = query
            return await self._on_current(lambda generation: self._by_words(generation, words, seen, kept, ask))
        return await self._on_current(lambda generation: self._by_vector(generation, kept, ask))

    async def _by_vector(self, generation: Generation, kept: list[Condition], ask: Ask) -> list[Hit]:
        if ask.vector is None:
            raise Internal("a search without a question")
        self._check_model(generation)
        fetch = self._fetcher(generation, unit(ask.vector).tolist(), DENSE, kept)
        return await searching.settle(fetch, searching.by_vector, ask)

    async def _by_words(
        self, generation: Generation, query: Query, seen: list[Condition], kept: list[Condition], ask: Ask
    ) -> list[Hit]:
        shares = await self._shares(generation, query, seen)
        if not shares:
            return []
        fetch = self._fetcher(generation, sparse(shares), WORDS, [*kept, may_match(query)])
        return await searching.settle(fetch, searching.by_words(query, shares), ask)

    async def _shares(self, generation: Generation, query: Query, seen: list[Condition]) -> dict[int, float]:
        """How much each gram of the query says, counted over exactly the rows the asker sees."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def counted(conditions: list[Condition]) -> int:
            async with gate:
                return await self._count(generation, all_of(conditions))

        grams = lexical.scoring_grams(query)
        rows, *held = await asyncio.gather(counted(seen), *(counted([*seen, holding(g)]) for g in grams))
        return {g: lexical.idf(rows, n) for g, n in zip(grams, held, strict=True) if n}

    def _fetcher(
        self, generation: Generation, question: Any, using: str, conditions: list[Condition]
    ) -> searching.Fetch:
        exact = None if self._place.is_local else models.SearchParams(exact=True)

        async def fetch(size: int) -> list[tuple[float, dict[str, Any]]]:
            answer = await self._client.query_points(
                generation.collection,
                query=question,
                using=using,
                query_filter=all_of(conditions),
                search_params=exact,
                limit=size,
                with_payload=True,
            )
            return [(p.score, p.payload or {}) for p in answer.points]

        return fetch

    # --- upkeep

    async def info(self) -> IndexInfo:
        with clear_errors(self._place):
            building = (await self._record()).building

        async def work(generation: Generation) -> IndexInfo:
            entries = await self._count(generation, None)
            return IndexInfo(generation.model, generation.dimension, entries, building.model if building else None)

        return await self._on_current(work)

    async def begin_rebuild(self, model: str, dimension: int, restart: bool = False) -> Self:
        with clear_errors(self._place):
            record = await self._record()
            there = record.building
            if there is None or restart or (there.model, there.dimension) != (model, dimension):
                made = record.made + 1
                building = await self._generations.make(made, model, dimension)
                await self._generations.write(Record(record.active, building, made))
                await self._generations.drop(there)
                there = building
        return type(self)(self._url, model, dimension, building=there.collection)

    async def finish_rebuild(self) -> None:
        if self._building is None:
            raise Internal("only an index under construction can be finished")
        with clear_errors(self._place):
            built = await self._generation()
            record = await self._record()
            await self._generations.write(replace(record, active=built, building=None))
            self._building = None
            await self._generations.drop(record.active)

    async def purge(self) -> None:
        """The server removes deleted points from its segments by itself."""

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await disconnect(self._place, self._client)
