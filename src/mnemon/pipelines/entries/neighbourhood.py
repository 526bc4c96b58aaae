"""What links and the temporal graph lead to from some rows: a few steps, a few of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mnemon.contracts.entries import Entry
from mnemon.contracts.graph import STRUCTURE, GraphEdge, GraphItem
from mnemon.contracts.memories import GraphParams, Neighbor
from mnemon.contracts.ports import Graph, Index
from mnemon.contracts.scope import Scope
from mnemon.pipelines.index.reading import is_shown
from mnemon.pipelines.retrieval.showing import shown_id

_FRONTIER = 50
_EDGES = 500
_SPARE = 4  # so many times the neighbours to be told are looked at; some may be over, or not shown
_TOLD_BY = ("raw_text", "summary", "name", "text", "value")


@dataclass(frozen=True, slots=True)
class Step:
    """How something was reached from a row."""

    key: str
    rel_type: str
    direction: Literal["out", "in"]
    hops: int
    weight: float


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    graph: Graph
    index: Index
    scope: Scope
    now: datetime

    async def around(self, keys: Sequence[str], params: GraphParams) -> dict[str, list[Step]]:
        """What each row leads to, nearest first; heavier links before lighter ones."""
        beside = await self._edges(keys, params)
        return {key: _walk(key, beside, params.max_hops) for key in keys}

    async def having(self, keys: Sequence[str], rel_types: Sequence[str]) -> set[str]:
        """Those of the rows that such an edge begins or ends at."""
        if not rel_types or not keys:
            return set()
        edges = await self.graph.edges(self.scope, keys, rel_types, "both", _EDGES, self.now)
        return {end for edge in edges for end in (edge.src_id, edge.dst_id)} & set(keys)

    async def told(self, steps: dict[str, list[Step]], cap: int) -> dict[str, tuple[Neighbor, ...]]:
        """The first of each by name: rows that may be shown, else items of the graph; the rest is left out."""
        steps = {key: found[: _SPARE * cap] for key, found in steps.items()}
        wanted = list(dict.fromkeys(step.key for found in steps.values() for step in found))
        rows = {r.id: r for r in await self.index.get(self.scope, wanted) if is_shown(r, self.now)} if wanted else {}
        rest = [key for key in wanted if key not in rows]
        items = {item.id: item for item in await self.graph.get(self.scope, rest, self.now)} if rest else {}
        named = {**{key: _of_row(row) for key, row in rows.items()}, **{key: _of_item(i) for key, i in items.items()}}
        return {
            key: tuple(_neighbor(step, *named[step.key]) for step in found if step.key in named)[:cap]
            for key, found in steps.items()
        }

    async def _edges(self, keys: Iterable[str], params: GraphParams) -> dict[str, list[tuple[str, GraphEdge]]]:
        """By end, what lies at the other one. Unless it is asked for by name, structure is not followed, and a wide
        frontier is cut."""
        beside: dict[str, list[tuple[str, GraphEdge]]] = defaultdict(list)
        seen: set[tuple[str, str, str]] = set()
        reached = set(keys)
        frontier = list(dict.fromkeys(keys))
        for _ in range(params.max_hops):
            if not frontier:
                break
            edges = await self.graph.edges(
                self.scope, frontier, params.rel_types, "both", _EDGES, self.now, () if params.rel_types else STRUCTURE
            )
            further: list[str] = []
            for edge in edges:
                if (name := (edge.src_id, edge.dst_id, edge.rel_type)) in seen:
                    continue
                seen.add(name)
                beside[edge.src_id].append((edge.dst_id, edge))
                beside[edge.dst_id].append((edge.src_id, edge))
                further += [end for end in (edge.src_id, edge.dst_id) if end not in reached]
            frontier = list(dict.fromkeys(further))[:_FRONTIER]
            reached.update(frontier)
        return beside


def _walk(start: str, beside: dict[str, list[tuple[str, GraphEdge]]], hops: int) -> list[Step]:
    found: dict[str, Step] = {}
    frontier = [start]
    for hop in range(1, hops + 1):
        further: list[str] = []
        for here in frontier:
            for other, edge in sorted(beside.get(here, ()), key=lambda pair: (-pair[1].weight, pair[0])):
                if other != start and other not in found:
                    way: Literal["out", "in"] = "out" if edge.src_id == here else "in"
                    found[other] = Step(other, edge.rel_type, way, hop, edge.weight)
                    further.append(other)
        frontier = further
    return list(found.values())


def _neighbor(step: Step, id: str, kind: str, text: str) -> Neighbor:
    return Neighbor(id, step.rel_type, step.direction, step.hops, step.weight, kind, text)


def _of_row(row: Entry) -> tuple[str, str, str]:
    return shown_id(row), row.kind, row.text


def _of_item(item: GraphItem) -> tuple[str, str, str]:
    text = next((str(getattr(item, name)) for name in _TOLD_BY if getattr(item, name, None)), "")
    return item.id, item.kind, text
