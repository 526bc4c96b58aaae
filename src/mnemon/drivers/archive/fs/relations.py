"""A node's relations on disk: `.relations.json`, sealed, next to the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from mnemon.contracts.errors import Corrupt, InvalidArgument, NotFound
from mnemon.contracts.nodes import RELATION_TYPES, Edge, NodeKey, Shelf
from mnemon.contracts.ports import Clock
from mnemon.contracts.scope import Scope
from mnemon.drivers.archive.fs.durable import Step, locked, replace_file
from mnemon.drivers.archive.fs.layout import RELATIONS, Layout
from mnemon.drivers.archive.fs.nodes import NodeFiles
from mnemon.drivers.archive.fs.sealed import read_sealed, seal
from mnemon.logic.ids import stable_id


class RelationFiles:
    def __init__(self, layout: Layout, nodes: NodeFiles, clock: Clock, step: Step) -> None:
        self._layout = layout
        self._nodes = nodes
        self._clock = clock
        self._step = step

    def get(self, scope: Scope, key: NodeKey) -> list[Edge]:
        self._check(scope, key)
        return self._read(key)

    def upsert(self, scope: Scope, key: NodeKey, edges: Sequence[Edge]) -> None:
        """One edge a target and type: the newer one takes the place of the older."""
        self._check(scope, key, edges)
        with _node_locked(self._layout.node(key), key):
            by_target = {(e.to_uri, e.relation_type): e for e in self._read(key)}
            by_target.update({(e.to_uri, e.relation_type): e for e in edges})
            self._write(key, list(by_target.values()))

    def append(self, scope: Scope, key: NodeKey, edges: Sequence[Edge]) -> None:
        self._check(scope, key, edges)
        with _node_locked(self._layout.node(key), key):
            self._write(key, [*self._read(key), *edges])

    def remove(
        self, scope: Scope, key: NodeKey, to_uris: Sequence[str] | None, relation_types: Sequence[str] | None
    ) -> int:
        """Edges that fit every condition given; with no condition, all of them."""
        self._check(scope, key)
        with _node_locked(self._layout.node(key), key):
            there = self._read(key)
            kept = [
                e
                for e in there
                if (to_uris is not None and e.to_uri not in to_uris)
                or (relation_types is not None and e.relation_type not in relation_types)
            ]
            if len(kept) < len(there):
                self._write(key, kept)
        return len(there) - len(kept)

    def carry(self, scope: Scope, key: NodeKey, to: NodeKey) -> None:
        """A moved node keeps its relations."""
        if edges := self.get(scope, key):
            self.upsert(scope, to, [replace(e, from_uri=to.uri) for e in edges])

    def incoming(self, scope: Scope, key: NodeKey) -> list[Edge]:
        if scope.tenant_id != key.tenant_id:
            return []
        return [edge for edge, source in self._leading_to(key) if self._nodes.exists(scope, source)]

    def drop_to(self, key: NodeKey) -> None:
        """A node that is gone has no edges that lead to it."""
        for source in dict.fromkeys(source for _, source in self._leading_to(key)):
            self._rewrite(source, lambda edges: [e for e in edges if e.to_uri != key.uri])

    def turn_to(self, key: NodeKey, to: NodeKey) -> None:
        """Edges that led to a node lead to where it is now."""
        for source in dict.fromkeys(source for _, source in self._leading_to(key)):
            self._rewrite(
                source, lambda edges: [replace(e, to_uri=to.uri) if e.to_uri == key.uri else e for e in edges]
            )

    def _leading_to(self, key: NodeKey) -> Iterator[tuple[Edge, NodeKey]]:
        for shelf in Shelf:
            for slug, folder in self._layout.node_folders(key.tenant_id, key.owner, shelf).items():
                source = replace(key, shelf=shelf, slug=slug)
                with suppress(Corrupt):  # what is damaged is named by `verify`, and no reason to keep the rest
                    for edge in read_edges(folder / RELATIONS, source):
                        if edge.to_uri == key.uri:
                            yield edge, source

    def _rewrite(self, key: NodeKey, change: Callable[[list[Edge]], list[Edge]]) -> None:
        with suppress(NotFound), _node_locked(self._layout.node(key), key):
            there = self._read(key)
            if (changed := change(there)) != there:
                self._write(key, changed)

    def _check(self, scope: Scope, key: NodeKey, edges: Sequence[Edge] = ()) -> None:
        if not self._nodes.exists(scope, key):
            raise NotFound(f"no node {key.uri} in this scope", uri=key.uri)
        for edge in edges:
            if edge.from_uri != key.uri:
                raise InvalidArgument(
                    f"an edge of {key.uri} must start there, not at {edge.from_uri}", field="from_uri"
                )
            if edge.relation_type not in RELATION_TYPES:
                known = ", ".join(RELATION_TYPES)
                raise InvalidArgument(
                    f"unknown relation_type {edge.relation_type!r}; known: {known}", field="relation_type"
                )

    def _read(self, key: NodeKey) -> list[Edge]:
        return read_edges(self._layout.node(key) / RELATIONS, key)

    def _write(self, key: NodeKey, edges: list[Edge]) -> None:
        page = relations_page(edges, self._clock.now())
        replace_file(self._layout.node(key) / RELATIONS, page, self._step, "relations")


@contextmanager
def _node_locked(folder: Path, key: NodeKey) -> Iterator[None]:
    try:
        with locked(folder):
            yield
    except FileNotFoundError:  # deleted since it was looked up
        raise NotFound(f"no node {key.uri} in this scope", uri=key.uri) from None


def relations_page(edges: Sequence[Edge], now: datetime) -> bytes:
    rows = [_row(replace(e, created_at=e.created_at or now)) for e in edges]
    return seal({"edges": rows, "updated_at": now.isoformat()})


def read_edges(path: Path, key: NodeKey) -> list[Edge]:
    """A node's edges; `Corrupt` where they are another node's."""
    body = read_sealed(path)
    edges = [_edge(key, row) for row in body["edges"]] if body else []
    if body and [_row(e) for e in edges] != body["edges"]:
        raise Corrupt(f"{path}: does not hold the relations of {key.uri}", where=str(path))
    return edges


def _row(edge: Edge) -> dict[str, Any]:
    return {
        "id": stable_id("edge", edge.from_uri, edge.to_uri, edge.relation_type)[:8],
        "to_uri": edge.to_uri,
        "relation_type": edge.relation_type,
        "reason": edge.reason,
        "weight": edge.weight,
        "created_at": edge.created_at.isoformat() if edge.created_at else None,
    }


def _edge(key: NodeKey, row: dict[str, Any]) -> Edge:
    created = row["created_at"]
    return Edge(
        key.uri,
        row["to_uri"],
        row["relation_type"],
        row["reason"],
        row["weight"],
        datetime.fromisoformat(created) if created else None,
    )
