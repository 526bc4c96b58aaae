"""What is known, and what people decide about it: nodes, claims, forgetting."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.errors import Corrupt, InvalidArgument, NotFound
from mnemon.contracts.governance import Kind
from mnemon.contracts.nodes import RELATION_TYPES, Edge, Node, NodeKey, NodeSummary, Revision, Shelf
from mnemon.contracts.results import ClaimPage, ForgetReceipt, SweepResult
from mnemon.contracts.scope import Owner, checked_id
from mnemon.engine.addressing import one_of, reader
from mnemon.engine.opened import OpenMemory
from mnemon.logic.shelves import key_at
from mnemon.pipelines.govern.mending import mend_archive


class Knowledge(OpenMemory):
    async def nodes(
        self,
        tenant_id: str,
        user_id: str,
        shelf: str | None = None,
        *,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[NodeSummary]:
        """The readable memories of a person, or of a group where one is named."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        if shelf is not None:
            one_of("shelf", shelf, [s.value for s in Shelf])
        owner = Owner.group(group_id) if group_id is not None else Owner.user(user_id)
        return await self._open().nodes.listed(scope, owner, Shelf(shelf) if shelf else None)

    async def node(
        self,
        tenant_id: str,
        user_id: str,
        uri: str,
        *,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> Node:
        """One memory, in its three levels, with its claims and their words."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        return await self._open().nodes.read(scope, _node_key(tenant_id, user_id, group_id, uri))

    async def node_history(
        self,
        tenant_id: str,
        user_id: str,
        uri: str,
        *,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[Revision]:
        """Its earlier versions, newest first, and why each was made."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        return await self._open().nodes.revisions(scope, _node_key(tenant_id, user_id, group_id, uri))

    async def move_node(
        self,
        tenant_id: str,
        user_id: str,
        uri: str,
        name: str,
        *,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> Node:
        """Give a memory another name on its shelf; its claims and its index follow."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        return await self._at_work().nodes.move(scope, _node_key(tenant_id, user_id, group_id, uri), name)

    async def relations(
        self,
        tenant_id: str,
        user_id: str,
        uri: str,
        *,
        relation_type: str | None = None,
        hops: int = 1,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[Edge]:
        """What a memory has to do with others, both ways: `references`, `part_of`, `derived_from`, `related_to`. With
        `hops` up to 3 what those have to do with others too, nearest first."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        if relation_type is not None:
            one_of("relation_type", relation_type, RELATION_TYPES)
        if not 1 <= hops <= 3:
            raise InvalidArgument("hops must be between 1 and 3", field="hops")
        key = _node_key(tenant_id, user_id, group_id, uri)
        return await self._open().nodes.relations(scope, key, relation_type, hops)

    async def relate(
        self,
        tenant_id: str,
        user_id: str,
        uri: str,
        to_uri: str,
        relation_type: str = "related_to",
        *,
        reason: str = "",
        weight: float = 1.0,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> Edge:
        """Say that one memory has to do with another of the same person or group."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        one_of("relation_type", relation_type, RELATION_TYPES)
        if not 0 <= weight <= 1:
            raise InvalidArgument("weight must be between 0 and 1", field="weight")
        if uri == to_uri:
            raise InvalidArgument("a memory has nothing to do with itself", field="to_uri")
        key, to = (_node_key(tenant_id, user_id, group_id, given) for given in (uri, to_uri))
        return await self._open().nodes.relate(scope, key, to, relation_type, reason, weight)

    async def unrelate(
        self,
        tenant_id: str,
        user_id: str,
        uri: str,
        to_uri: str | None = None,
        relation_type: str | None = None,
        *,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> int:
        """Take relations of a memory away: to one other, of one type, or all; how many there were."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        if relation_type is not None:
            one_of("relation_type", relation_type, RELATION_TYPES)
        key = _node_key(tenant_id, user_id, group_id, uri)
        return await self._open().nodes.unrelate(scope, key, to_uri, relation_type)

    # --- claims

    async def claims(
        self,
        tenant_id: str,
        user_id: str,
        *,
        state: str | None = "active",
        kind: str | None = None,
        shelf: str | None = None,
        session_id: str | None = None,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ClaimPage:
        """What is known, newest first, each with its words. `state=None` lists superseded ones too."""
        for name, value, known in (
            ("state", state, [s.value for s in ClaimState]),
            ("kind", kind, [k.value for k in Kind]),
            ("shelf", shelf, [s.value for s in Shelf]),
        ):
            if value is not None:
                one_of(name, value, known)
        if not 1 <= limit <= 500:
            raise InvalidArgument("limit must be between 1 and 500", field="limit")
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        parts = self._open()
        asked = partial(parts.claims.listed, scope, state, kind, shelf, session_id, limit, cursor)
        page, degraded = await parts.answered(scope, asked)
        return replace(page, degraded=degraded) if degraded else page

    async def pending(
        self,
        tenant_id: str,
        user_id: str,
        *,
        product_id: str | None = None,
        group_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ClaimPage:
        """Claims that wait for somebody to confirm or reject them."""
        return await self.claims(
            tenant_id, user_id, state="pending", product_id=product_id, group_id=group_id, limit=limit, cursor=cursor
        )

    async def claim(
        self,
        tenant_id: str,
        user_id: str,
        claim_id: str,
        *,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> Claim:
        """One claim, from the archive."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        return await self._open().claims.get(scope, claim_id)

    async def confirm(
        self,
        tenant_id: str,
        user_id: str,
        claim_id: str,
        *,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> Claim:
        """A pending claim becomes knowledge, with the user's word for it."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        return await self._open().claims.confirm(scope, claim_id)

    async def reject(
        self,
        tenant_id: str,
        user_id: str,
        claim_id: str,
        *,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> Claim:
        """A claim is taken away, wherever it stands."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        return await self._open().claims.reject(scope, claim_id)

    async def correct(
        self,
        tenant_id: str,
        user_id: str,
        claim_id: str,
        statement: str,
        reason: str = "",
        *,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
    ) -> Claim:
        """A claim in a person's own words; the evidence stays."""
        scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
        return await self._open().claims.correct(scope, claim_id, statement, reason)

    async def forget(
        self,
        tenant_id: str,
        user_id: str | None = None,
        *,
        session_id: str | None = None,
        claim_id: str | None = None,
        group_id: str | None = None,
        words: bool = True,
        everything: bool = False,
    ) -> ForgetReceipt:
        """Erase a claim (with the words it cites, unless `words=False`), a session, a person, or, with
        `everything=True` and no user, a whole tenant. Of a claim's turns only the words it cites are masked, and its
        neighbours stay. The receipt comes from a look at every file: it says what went and what, if anything, is left.
        What is cut off is finished by the same call made again, by a worker or by `repair`."""
        parts = self._at_work()
        checked_id("tenant_id", tenant_id)
        target = self._target(user_id, session_id, claim_id, group_id, words, everything)
        try:
            return await parts.forgetter.forget(tenant_id, target)
        except Corrupt:
            # What is to go is damaged: made whole first, it can go wholly.
            await mend_archive(parts.archive, parts.replicas, tenant_id, parts.clock.now())
            return await parts.forgetter.forget(tenant_id, target)

    def _target(
        self,
        user_id: str | None,
        session_id: str | None,
        claim_id: str | None,
        group_id: str | None,
        words: bool,
        everything: bool,
    ) -> dict[str, Any]:
        if user_id is None and group_id is None:
            if session_id is not None or claim_id is not None or not everything:
                raise InvalidArgument(
                    "name the user_id (or group_id); a whole tenant is forgotten with everything=True", field="user_id"
                )
            return {"what": "tenant"}
        if everything:
            raise InvalidArgument("everything=True forgets a whole tenant; name nobody then", field="everything")
        owner = (
            Owner.group(checked_id("group_id", group_id)) if group_id else Owner.user(checked_id("user_id", user_id))
        )
        whose = {"owner_kind": owner.kind.value, "owner_id": owner.id}
        if claim_id is not None:
            return {"what": "claim", **whose, "claim_id": checked_id("claim_id", claim_id), "words": words}
        if session_id is not None:
            return {"what": "session", **whose, "session_id": checked_id("session_id", session_id)}
        return {"what": "user", **whose}

    async def sweep(self, tenant_id: str | None = None, *, trust_clock: bool = False) -> SweepResult:
        """Take what is over out of sight, and away for good after its time of grace. The worker does this by itself.

        After the clock jumped, by half a year ahead or an hour back, nothing is swept until it is back or has gone on
        for as long as the grace; `put_off` says so. `trust_clock=True` says that it is right."""
        sweeper = self._open().sweeper
        if tenant_id is not None:
            return await sweeper.sweep(tenant_id, trust_clock)
        return await sweeper.sweep_all(trust_clock)


def _node_key(tenant_id: str, user_id: str, group_id: str | None, uri: str) -> NodeKey:
    owner = Owner.group(group_id) if group_id is not None else Owner.user(user_id)
    if not isinstance(uri, str) or "/memories/" not in uri:
        raise InvalidArgument("uri must be the address of a node: ctx://…/memories/{shelf}/{name}", field="uri")
    try:
        key = key_at(tenant_id, owner, uri)
    except ValueError:
        raise InvalidArgument(f"{uri} names no shelf", field="uri") from None
    if key.uri != uri:
        raise NotFound(f"no node {uri} in this scope", uri=uri)
    return key
