"""The graph told from outside: checked, written down in the ledger, then seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.graph import GraphBatch, GraphEdge, GraphItem, Saying, UtteranceEvidence
from mnemon.contracts.graph_results import GraphReceipt
from mnemon.contracts.ports import Archive, Clock, Graph
from mnemon.contracts.scope import Scope
from mnemon.logic.graph.admission import check_evidence, check_upsert, cited
from mnemon.logic.ids import stable_id

OP = "graph_upsert"
OUTSIDE = "outside:"


@dataclass(frozen=True, slots=True)
class Outside:
    graph: Graph
    archive: Archive
    clock: Clock

    async def upsert(self, scope: Scope, given: GraphBatch | Mapping[str, Any]) -> GraphReceipt:
        """Durable before it is seen: what the graph holds of others can be told again from the ledger."""
        batch = given if isinstance(given, GraphBatch) else _parsed(given)
        check_upsert(scope, batch)
        named = list(dict.fromkeys([*cited(batch), *(u.id for u in batch.utterances)]))
        stored = await self.graph.get(scope, named)
        check_evidence(batch, {u.id: u for u in stored if isinstance(u, UtteranceEvidence)})
        counts = batch.counts()
        if counts:
            dated = _dated(batch, self.clock.now())
            body = dated.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            await self.archive.append_log(Scope.steward_of(scope.tenant_id), "ledger", [{"op": OP, "batch": body}])
            await self.graph.put(scope, [told(scope.tenant_id, dated)])
        return GraphReceipt(True, counts)


def told(tenant_id: str, batch: GraphBatch) -> Saying:
    """As the graph is told it: whoever it is for has one origin, and each item replaces what it was before."""
    whose = next(iter((*batch.items(), *batch.edges)))
    return Saying(OUTSIDE + stable_id("outside", tenant_id, *sorted(whose.user_id), whose.memory_domain), batch, False)


def _parsed(given: Mapping[str, Any]) -> GraphBatch:
    try:
        return GraphBatch.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidArgument(f"{where}: {first['msg']}", field=where or "batch") from None


def _dated(batch: GraphBatch, now: datetime) -> GraphBatch:
    """Everything says when we learnt it."""

    def dated(one: GraphItem | GraphEdge) -> GraphItem | GraphEdge:
        return one if one.created_at is not None else one.model_copy(update={"created_at": now})

    return batch.model_copy(update={name: tuple(map(dated, getattr(batch, name))) for name in batch.counts()})
