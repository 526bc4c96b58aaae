"""What the ledger holds for the graph: told again by repair and rebuild, found when somebody is to be forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mnemon.contracts.graph import GraphBatch, Saying
from mnemon.contracts.ports import Archive, Graph
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import LogLine
from mnemon.pipelines.graph import outside, resolving

_PAGE = 1000
_ORIGINS = (outside.OUTSIDE, resolving.DECISIONS)


async def replay(archive: Archive, graph: Graph, tenant_id: str) -> int:
    """Everything others told the graph and people decided, as far as the ledger still holds it; how many lines. All at
    one moment: nobody finds a part of it, and a crash leaves what was there before."""
    scope = Scope.steward_of(tenant_id)
    told: set[str] = set()
    sayings: list[Saying] = []
    async for line in _lines(archive, scope):
        saying = _saying(tenant_id, line)
        # What the ledger no longer holds must not stay: the first word of an origin takes the place of all before.
        sayings.append(Saying(saying.origin, saying.batch, whole=saying.origin not in told))
        told.add(saying.origin)
    await graph.put(scope, sayings)
    left = [o for o in await graph.origins(scope) if o.startswith(_ORIGINS) and o not in told]
    if left:
        await graph.drop(scope, left)
    return len(sayings)


async def outside_lines_of(archive: Archive, tenant_id: str, principal: str | None = None) -> list[int]:
    """The numbers of the ledger's lines that hold what was told of or for somebody; of anybody with None."""
    found: list[int] = []
    async for line in _lines(archive, Scope.steward_of(tenant_id)):
        batch = _saying(tenant_id, line).batch
        if principal is None or any(principal in one.user_id for one in (*batch.items(), *batch.edges)):
            found.append(line.seq)
    return found


async def _lines(archive: Archive, scope: Scope) -> AsyncIterator[LogLine]:
    after = 0
    while lines := await archive.read_log(scope, "ledger", after, _PAGE):
        for line in lines:
            if line.body.get("op") in (outside.OP, resolving.OP):
                yield line
        after = lines[-1].seq


def _saying(tenant_id: str, line: LogLine) -> Saying:
    if line.body["op"] == outside.OP:
        return outside.told(tenant_id, GraphBatch.model_validate(line.body["batch"]))
    return resolving.decision(tenant_id, line.body, line.at)
