"""Entries of the Memory Service in process: written, searched, changed and rolled back by one person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.memories import (
    EntryPatch,
    EntryVersion,
    GraphParams,
    Link,
    MemoryEntry,
    SearchFilters,
    SearchResult,
    WriteReceipt,
)
from mnemon.contracts.scope import Scope, checked_id
from mnemon.engine.addressing import reader
from mnemon.engine.opened import OpenMemory
from mnemon.engine.parts import Parts
from mnemon.logic.listing import is_text
from mnemon.logic.taking import taken

MAX_TOPK = 200
MAX_REASON = 2_000

Given = Mapping[str, Any]


class AsyncEntries:
    """Entries within one scope, with no way to name anybody beyond it."""

    def __init__(self, open_parts: Callable[[], Parts], scope: Scope) -> None:
        self._open = open_parts
        self.scope = scope

    async def write(
        self,
        entries: Sequence[MemoryEntry | Given],
        links: Sequence[Link | Given] = (),
        *,
        upsert: bool = True,
        return_id_map: bool = False,
    ) -> WriteReceipt:
        """Keep entries, durable on return. One with an id that is there takes its place (`upsert=False`: Conflict); one
        that says the same as another to the same people is merged into it, unless its metadata has `dedup_skip`."""
        taken_in = [taken(MemoryEntry, e, f"entries[{n}]") for n, e in enumerate(_listed("entries", entries))]
        linked = [_link(link, f"links[{n}]") for n, link in enumerate(_listed("links", links))]
        receipt = await self._open().entries.write(self.scope, taken_in, linked, upsert)
        return receipt if return_id_map else replace(receipt, id_map=None)

    async def search(
        self,
        query: str,
        *,
        topk: int = 10,
        expand_graph: bool = True,
        threshold: float | None = None,
        filters: SearchFilters | Given | None = None,
        graph_params: GraphParams | Given | None = None,
    ) -> SearchResult:
        """What is near in meaning, best first: entries, turns and claims. `expand_graph` follows links from the hits
        and raises those that are linked to each other; neighbours are told, not added."""
        if not isinstance(query, str) or not query.strip() or not is_text(query):
            raise InvalidArgument("query must be a non-empty text", field="query")
        if not 1 <= topk <= MAX_TOPK:
            raise InvalidArgument(f"topk must be between 1 and {MAX_TOPK}", field="topk")
        asked = taken(SearchFilters, filters or {}, "filters")
        if threshold is not None:
            asked = asked.model_copy(update={"threshold": max(threshold, asked.threshold or threshold)})
        follow = taken(GraphParams, graph_params or {}, "graph_params")
        parts = self._open()
        await parts.entries.bring_up(self.scope.tenant_id)
        following = follow if expand_graph else None
        search = partial(parts.entry_search.search, self.scope, query, topk, asked, following)
        found, degraded = await parts.answered(self.scope, search)
        return replace(found, trace={**found.trace, "degraded": degraded}) if degraded else found

    async def update(self, id: str, patch: EntryPatch | Given, reason: str = "") -> WriteReceipt:
        """Change contents, metadata (None takes a key away), modality or `published` of an entry."""
        changes = taken(EntryPatch, patch, "patch")
        if not changes.model_fields_set:
            raise InvalidArgument("patch changes nothing", field="patch")
        return await self._open().entries.update(self.scope, id, changes, _reason(reason))

    async def delete(self, id: str, soft: bool = True, reason: str = "") -> WriteReceipt:
        """Put an entry out of sight, to be rolled back; `soft=False` erases it and all it ever was, for good."""
        return await self._open().entries.delete(self.scope, id, soft, _reason(reason))

    async def rollback(self, version: int, reason: str = "") -> WriteReceipt:
        """Undo what one version did, as a new version; a Conflict where a later one changed the same."""
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise InvalidArgument("version must be a number a receipt has named", field="version")
        return await self._open().entries.rollback(self.scope, version, _reason(reason))

    async def history(self, id: str) -> tuple[EntryVersion, ...]:
        """Every version of an entry, newest first: who changed what, and why."""
        return await self._open().entries.history(self.scope, id)


class Entries(OpenMemory):
    async def write(
        self,
        entries: Sequence[MemoryEntry | Given],
        links: Sequence[Link | Given] = (),
        *,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
        upsert: bool = True,
        return_id_map: bool = False,
    ) -> WriteReceipt:
        """Keep entries of one's own making, durable on return. One with an id that is there takes its place
        (`upsert=False`: Conflict); one that says the same as another to the same people is merged into it, unless its
        metadata has `dedup_skip`. `metadata.user_id` says who may see it; left out, the user alone."""
        door = self._entries(tenant_id, user_id, product_id, group_id, agent_id)
        return await door.write(entries, links, upsert=upsert, return_id_map=return_id_map)

    async def search(
        self,
        query: str,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        *,
        topk: int = 10,
        expand_graph: bool = True,
        threshold: float | None = None,
        filters: SearchFilters | Given | None = None,
        graph_params: GraphParams | Given | None = None,
    ) -> SearchResult:
        """One question to the index: entries, turns and claims near in meaning, best first, filtered. `expand_graph`
        follows links from the hits; neighbours are told, not added. For more than one route use `retrieval`."""
        return await self._entries(tenant_id, user_id, product_id, group_id, None).search(
            query,
            topk=topk,
            expand_graph=expand_graph,
            threshold=threshold,
            filters=filters,
            graph_params=graph_params,
        )

    async def update(
        self,
        id: str,
        patch: EntryPatch | Given,
        reason: str = "",
        *,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> WriteReceipt:
        """Change contents, metadata (None takes a key away), modality or `published` of an entry."""
        return await self._entries(tenant_id, user_id, product_id, group_id, agent_id).update(id, patch, reason)

    async def delete(
        self,
        id: str,
        soft: bool = True,
        reason: str = "",
        *,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> WriteReceipt:
        """Put an entry out of sight, to be rolled back; `soft=False` erases it and all it ever was, for good."""
        return await self._entries(tenant_id, user_id, product_id, group_id, agent_id).delete(id, soft, reason)

    async def rollback(
        self,
        version: int,
        reason: str = "",
        *,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> WriteReceipt:
        """Undo what one version did, as a new version; a Conflict where a later one changed the same."""
        return await self._entries(tenant_id, user_id, product_id, group_id, agent_id).rollback(version, reason)

    async def history(
        self,
        id: str,
        *,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> tuple[EntryVersion, ...]:
        """Every version of an entry, newest first: who changed what, and why."""
        return await self._entries(tenant_id, user_id, product_id, group_id, agent_id).history(id)

    def _entries(
        self, tenant_id: str, user_id: str, product_id: str | None, group_id: str | None, agent_id: str | None
    ) -> AsyncEntries:
        return AsyncEntries(self._open, reader(tenant_id, user_id, product_id, group_id, agent_id))


def _listed(name: str, given: object) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise InvalidArgument(f"{name} must be a list", field=name)
    return list(given)


def _link(given: Link | Given, name: str) -> Link:
    link = taken(Link, given, name)
    for field in ("src_id", "dst_id", "rel_type"):
        checked_id(f"{name}.{field}", getattr(link, field))
    return link


def _reason(reason: str) -> str:
    if not isinstance(reason, str) or len(reason) > MAX_REASON:
        raise InvalidArgument(f"reason must be a text of at most {MAX_REASON} characters", field="reason")
    return reason.encode("utf-8", "replace").decode()
