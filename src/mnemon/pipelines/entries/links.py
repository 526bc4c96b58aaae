"""Links between entries in the graph: of each audience, those that begin at one entry are told together."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from mnemon.contracts.graph import GraphBatch, GraphEdge, Provenance, Saying
from mnemon.contracts.ports import Graph
from mnemon.contracts.scope import Scope
from mnemon.logic.ids import stable_id
from mnemon.pipelines.entries.changes import Change, LinkChange

_SOURCE = Provenance(source="entries")
_MOST = 10_000
# Says that the graph holds every link; where it does not, it may have been made anew.
_KEPT = "entries:kept"

Audience = tuple[str, ...]
# (target, type) to weight
_Told = dict[tuple[str, str], float]


def origin_of(audience: Iterable[str], src_id: str) -> str:
    return "entries:" + stable_id("links", *sorted(audience), src_id)


async def carry(graph: Graph, tenant_id: str, changes: Iterable[Change]) -> None:
    """What lines say of links, in order, into the graph."""
    wanted: dict[tuple[Audience, str], list[LinkChange]] = defaultdict(list)
    for change in changes:
        for link in change.links:
            wanted[change.audience, link.src_id].append(link)
    if not wanted:
        return
    scope = Scope.steward_of(tenant_id)
    marks = await graph.marks(scope, [origin_of(*whose) for whose in wanted])
    sayings: list[Saying] = []
    silent: list[str] = []
    for (audience, src_id), links in wanted.items():
        origin = origin_of(audience, src_id)
        told = _read(marks.get(origin))
        for link in links:
            told.pop((link.dst_id, link.rel_type), None)
            if link.weight is not None:
                told[link.dst_id, link.rel_type] = link.weight
        if told:
            sayings.append(Saying(origin, _batch(tenant_id, audience, src_id, told), mark=_written(told)))
        else:
            silent.append(origin)
    await graph.put(scope, sayings)
    if silent:
        await graph.drop(scope, silent)


async def are_kept(graph: Graph, tenant_id: str) -> bool:
    """Was the graph told of every link there was?"""
    return bool(await graph.marks(Scope.steward_of(tenant_id), [_KEPT]))


async def vouch(graph: Graph, tenant_id: str) -> None:
    await graph.put(Scope.steward_of(tenant_id), [Saying(_KEPT, GraphBatch(), mark="kept")])


async def weighed(
    graph: Graph, tenant_id: str, audience: Audience, links: Sequence[LinkChange]
) -> tuple[LinkChange, ...]:
    """The links with the weight each has now as the one before."""
    origins = {link.src_id: origin_of(audience, link.src_id) for link in links}
    marks = await graph.marks(Scope.steward_of(tenant_id), list(origins.values()))
    told = {src: _read(marks.get(origin)) for src, origin in origins.items()}
    return tuple(
        LinkChange(k.src_id, k.dst_id, k.rel_type, k.weight, told[k.src_id].get((k.dst_id, k.rel_type))) for k in links
    )


async def touching(graph: Graph, tenant_id: str, key: str) -> dict[Audience, list[LinkChange]]:
    """What has to be said so that no link begins or ends at an entry any more, by audience."""
    edges = await graph.edges(Scope.steward_of(tenant_id), [key], limit=_MOST)
    ends: dict[Audience, list[LinkChange]] = defaultdict(list)
    for edge in edges:
        if edge.provenance.source == _SOURCE.source:
            gone = LinkChange(edge.src_id, edge.dst_id, edge.rel_type, None, edge.weight)
            ends[tuple(sorted(edge.user_id))].append(gone)
    return ends


def _batch(tenant_id: str, audience: Audience, src_id: str, told: _Told) -> GraphBatch:
    return GraphBatch(
        edges=tuple(
            GraphEdge(
                tenant_id=tenant_id,
                user_id=audience,
                provenance=_SOURCE,
                src_id=src_id,
                dst_id=dst_id,
                rel_type=rel_type,
                weight=weight,
            )
            for (dst_id, rel_type), weight in told.items()
        )
    )


def _read(mark: str | None) -> _Told:
    return {(dst_id, rel_type): weight for dst_id, rel_type, weight in json.loads(mark)} if mark else {}


def _written(told: _Told) -> str:
    return json.dumps([[*link, weight] for link, weight in told.items()], ensure_ascii=False)
