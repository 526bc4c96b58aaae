"""What two runs of the same story must have in common: data without times, versions and salts, and the whole graph."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, get_args

from mnemon import AsyncMemory
from mnemon.contracts.graph import GraphAsk, GraphItem, ItemKind
from mnemon.contracts.scope import Scope

# What may differ between two runs of the same story: when, which version, and what hangs on random salts.
VOLATILE = {
    *("at", "created_at", "updated_at", "recorded_at", "expires_at", "version", "chain", "chain_head", "head", "salt"),
    *("seal", "digest", "sha256", "number", "commits", "rendered"),
}
# The same in the head of a profile's file.
_HEAD_TIME = re.compile(r'^updated_at: ".*"\n', re.MULTILINE)
_MOST = 10_000


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: steady(v) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, str):
        return _HEAD_TIME.sub("", value)
    return [steady(v) for v in value] if isinstance(value, list) else value


async def graph_of(memory: AsyncMemory, scope: Scope) -> dict[str, Any]:
    """Every item and edge a scope may see, published or not."""
    graph = memory.parts.graph
    items = [item for kind in get_args(ItemKind) async for item in _all(memory, scope, kind)]
    edges = await graph.edges(scope, [item.id for item in items], limit=_MOST)
    return {
        **{f"{item.kind} {item.id}": steady(item.model_dump(mode="json")) for item in items},
        **{f"{e.src_id} {e.rel_type} {e.dst_id}": steady(e.model_dump(mode="json")) for e in edges},
    }


async def _all(memory: AsyncMemory, scope: Scope, kind: ItemKind) -> AsyncIterator[GraphItem]:
    ask = GraphAsk(kind, limit=1000)
    while True:
        page = await memory.parts.graph.find(scope, ask)
        for item in page.items:
            yield item
        if page.next_cursor is None:
            return
        ask = replace(ask, cursor=page.next_cursor)
