"""Forgetting: words, claims, nodes, earlier versions, blobs, index rows, jobs and cached vectors, with a receipt.

The intent is a job before the first byte goes, so that a crash in the middle is finished and not half forgotten."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from mnemon.contracts.claims import Claim
from mnemon.contracts.errors import NotFound
from mnemon.contracts.filters import EVERYTHING, Eq, In, every
from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.ports import Archive, Clock, Embedder, Graph, Index, Queue
from mnemon.contracts.results import ForgetReceipt
from mnemon.contracts.scope import Owner, OwnerKind, Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.logic.chats import is_call_id
from mnemon.logic.chunking import chunk_for_node
from mnemon.logic.ids import stable_id, turn_id
from mnemon.logic.memo import forget_everything
from mnemon.logic.policies import claims_in
from mnemon.logic.shelves import key_at
from mnemon.pipelines.entries.forgetting import forget_entries, uncache_entries
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.graph.projection import origins_of
from mnemon.pipelines.graph.replaying import outside_lines_of
from mnemon.pipelines.index.projection import TURN, is_profile, profile_text
from mnemon.pipelines.index.worker import LEASE

What = Literal["claim", "session", "user", "tenant"]
# By what a job says whom it is about.
_WHOSE = ("owner_kind", "owner_id", "session_id")


@dataclass(slots=True)
class _Gone:
    """What went so far."""

    counts: Counter[str] = field(default_factory=Counter)
    rewritten: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Forgetter:
    archive: Archive
    index: Index
    queue: Queue
    embedder: Embedder
    keeper: ClaimKeeper
    clock: Clock
    worker: str

    async def forget(self, tenant_id: str, target: dict[str, Any]) -> ForgetReceipt:
        """`target` says what, and whose: a claim, a session, an owner, or the whole tenant."""
        if target["what"] == "claim":
            claim = await self.keeper.get(Scope.steward_of(tenant_id), target["claim_id"])
            if (claim.owner_kind.value, claim.owner_id) != (target["owner_kind"], target["owner_id"]):
                # In the words for one that is nowhere: whether somebody else has it is nobody's business.
                raise NotFound(f"no claim {claim.claim_id} in this scope", claim_id=claim.claim_id)
            target = {**target, "session_id": claim.session_id}
        job = Job(f"delete-{uuid.uuid4().hex}", JobKind.DELETE, tenant_id, target)
        await self.queue.put([job], claim_by=self.worker, lease=LEASE)
        receipt = await self.carry_out(job)
        await self.queue.done(job.job_id)
        return receipt

    async def carry_out(self, job: Job) -> ForgetReceipt:
        scope, target = Scope.steward_of(job.tenant_id), job.payload
        out = _Gone()
        owner = Owner(OwnerKind(target["owner_kind"]), target["owner_id"]) if "owner_id" in target else None
        what: What = target["what"]
        if what == "tenant" or owner is None:
            await self._tenant(scope, out)
            name = job.tenant_id
        elif what == "user":
            await self._owner(scope, owner, out)
            name = owner.id
        else:
            key = SessionKey(job.tenant_id, owner, target["session_id"])
            name = target.get("claim_id", key.session_id)
            if what == "session":
                await self._session(scope, key, out)
            else:
                await self._claim(scope, key, target["claim_id"], target["words"], out)
        await self.index.purge()
        await self._graph.purge()
        forget_everything()
        if what != "tenant":
            # By a fingerprint: the ledger outlives what it speaks of.
            row = {"op": "forget", "what": what, "of": stable_id("forgotten", job.tenant_id, name)}
            await self.archive.append_log(scope, "ledger", [row])
        if what != "claim":
            out.counts["jobs"] += await self._drop_jobs(job)
        left = await self._left(scope, what, owner, target)
        removed = {name: n for name, n in sorted(out.counts.items()) if n}
        return ForgetReceipt(what, name, self.clock.now().isoformat(), removed, tuple(out.rewritten), tuple(left))

    @property
    def _graph(self) -> Graph:
        return self.keeper.replicas.grapher.graph

    # --- each kind

    async def _claim(self, scope: Scope, key: SessionKey, claim_id: str, words: bool, out: _Gone) -> None:
        claims = await self._claims(scope, key)
        chosen = [c for c in claims if c.claim_id == claim_id]
        turns = {span.turn_id for c in chosen for span in c.spans} if words else set()
        chosen = [c for c in claims if c.claim_id == claim_id or turns & set(c.source_turn_ids)]
        await self._words(scope, key, chosen, turns, out)

    async def _words(self, scope: Scope, key: SessionKey, chosen: Sequence[Claim], turns: set[str], out: _Gone) -> None:
        """Some claims of a session, and some of its words."""
        await self._take_out(scope, key.owner, chosen, out)
        if turns:
            await self._unroll(scope, key, turns, out)
            await self._untag(scope, key, turns)
            stored = [t for t in await self.archive.read_turns(scope, key) if t.turn.turn_id in turns]
            await self._uncache([t.turn.text for t in stored], out)
            out.counts["turns"] += await self.archive.forget_turns(scope, key, sorted(turns), "forgotten")
            rows = In("id", tuple(turn_id(key, i) for i in sorted(turns)))
            out.counts["index_rows"] += await self.index.delete(scope, every(Eq("kind", TURN), rows))
            await self.keeper.replicas.project(key, anew=True)

    async def _session(self, scope: Scope, key: SessionKey, out: _Gone) -> None:
        await self._take_out(scope, key.owner, await self._claims(scope, key), out)
        await self._unroll(scope, key, None, out)
        await self._uncache(await self._texts_of(scope, key), out)
        with suppress(NotFound):
            out.counts.update(await self.archive.erase_session(scope, key, "forgotten"))
        out.counts["index_rows"] += await self.index.delete(scope, Eq("uri", key.uri))
        out.counts["graph_rows"] += await self._graph.drop(scope, origins_of(key))

    async def _owner(self, scope: Scope, owner: Owner, out: _Gone) -> None:
        if owner.kind is OwnerKind.USERS:
            async for key, claims, turns in self._said_in_groups(scope, owner.id):
                await self._words(scope, key, claims, turns, out)
            out.counts["jobs"] += await self.queue.drop(scope.tenant_id, {"sender_id": owner.id})
        sessions = [record.key async for record in self.archive.sessions(scope, owner)]
        uris = [key.uri for key in sessions]
        uris += [s.uri for s in await self.archive.list_children(scope, owner, recursive=True) if not s.is_dir]
        await self._uncache_owner(scope, owner, out)
        out.counts += await forget_entries(self.archive, self.embedder, scope.tenant_id, owner.principal)
        theirs = scope.narrowed("any", [owner.principal])
        out.counts["index_rows"] += await self.index.delete(theirs, EVERYTHING)
        if uris:
            out.counts["index_rows"] += await self.index.delete(scope, In("uri", tuple(uris)))
        out.counts["graph_rows"] += await self._graph.erase(theirs)
        told = [origin for key in sessions for origin in origins_of(key)]
        out.counts["graph_rows"] += await self._graph.drop(scope, told)
        lines = await outside_lines_of(self.archive, scope.tenant_id, owner.principal)
        out.counts["ledger_lines"] += await self.archive.forget_log(scope, "ledger", lines, "forgotten")
        out.counts.update(await self.archive.erase_owner(scope, owner))

    async def _said_in_groups(
        self, scope: Scope, user_id: str
    ) -> AsyncIterator[tuple[SessionKey, list[Claim], set[str]]]:
        """What somebody said in groups, what a bot noted of it, and what the groups know of them."""
        groups = [owner async for owner in self.archive.owners(scope) if owner.kind is OwnerKind.GROUPS]
        for group in groups:
            for record in [r async for r in self.archive.sessions(scope, group)]:
                claims = await self._claims(scope, record.key)
                theirs = [c for c in claims if _is_of(c, user_id)]
                said = [t.turn for t in await self.archive.read_turns(scope, record.key)]
                turns = {t.turn_id for t in said if t.meta.get("sender_id") == user_id}
                turns |= {turn_id for c in theirs for turn_id in c.source_turn_ids if is_call_id(turn_id)}
                found = [c for c in claims if c in theirs or turns & set(c.source_turn_ids)]
                if found or turns:
                    yield record.key, found, turns

    async def _tenant(self, scope: Scope, out: _Gone) -> None:
        async for owner in self.archive.owners(scope):
            await self._uncache_owner(scope, owner, out)
        out.counts["cached_vectors"] += await uncache_entries(self.archive, self.embedder, scope.tenant_id)
        out.counts["index_rows"] += await self.index.delete(scope, EVERYTHING)
        out.counts["graph_rows"] += await self._graph.erase(scope)
        out.counts.update(await self.archive.erase_tenant(scope))

    # --- pieces

    async def _take_out(self, scope: Scope, owner: Owner, claims: Sequence[Claim], out: _Gone) -> None:
        """Claims out of nodes, of earlier versions of nodes, and of every record of a commit that shows them. They
        leave their sessions last: whoever takes this up after a crash still knows what has to go."""
        if not claims:
            return
        out.counts["claims"] += len(claims)
        nodes = [key_at(scope.tenant_id, owner, uri) for uri in dict.fromkeys(c.node_uri for c in claims) if uri]
        texts = [c.statement for c in claims]
        for key in nodes:
            texts += await self._node_texts(scope, key)
        await self._uncache(texts, out)
        await self.keeper.take_from_nodes(scope, claims)
        for key in nodes:
            try:
                out.counts["revisions"] += await self.archive.erase_revisions(scope, key)
                out.rewritten.append(key.uri)
            except NotFound:  # it had no other claim
                out.counts["nodes"] += 1
        gone = {c.claim_id for c in claims}
        async for record in self.archive.sessions(scope, owner):
            await self._scrub(scope, record, gone)
        await self.keeper.take_from_sessions(scope, claims)

    async def _unroll(self, scope: Scope, key: SessionKey, turns: set[str] | None, out: _Gone) -> None:
        """Earlier versions of profiles that cite these words (all of the session's with None), though the session no
        longer holds what was made of them: a profile was taken back since."""
        for summary in await self.archive.list_children(scope, key.owner, Shelf.PROFILE):
            node = key_at(scope.tenant_id, key.owner, summary.uri)
            earlier = [c for r in await self.archive.revisions(scope, node) for c in claims_in(r.node)]
            cited = [c for c in earlier if c.session == key and (turns is None or turns & set(c.source_turn_ids))]
            if cited:
                await self._uncache([*(c.statement for c in cited), *await self._node_texts(scope, node)], out)
                out.counts["revisions"] += await self.archive.erase_revisions(scope, node)

    async def _scrub(self, scope: Scope, record: SessionRecord, gone: set[str]) -> None:
        """What a commit showed of a node that held one of these is no longer shown."""
        for commit in await self.archive.read_commits(scope, record.key):
            changes = tuple(_scrubbed(change, gone) for change in commit.changes)
            if changes != commit.changes:
                update: dict[str, Any] = {"changes": changes, "others": ()}
                if gone & set(commit.claim_ids):
                    # It may have said the same in short.
                    update |= {"summary": "", "key_topics": (), "key_decisions": (), "unresolved": ()}
                await self.archive.write_commit(scope, record.key, commit.model_copy(update=update))

    async def _untag(self, scope: Scope, key: SessionKey, turns: set[str]) -> None:
        taggings = await self.archive.read_tags(scope, key)
        cleaned = [
            t.model_copy(
                update={
                    "output": t.output.model_copy(
                        update={"tags": tuple(tag for tag in t.output.tags if tag.turn_id not in turns)}
                    )
                }
            )
            for t in taggings
        ]
        if cleaned != taggings:
            await self.archive.write_tags(scope, key, cleaned)

    async def _claims(self, scope: Scope, key: SessionKey) -> list[Claim]:
        try:
            return await self.archive.read_claims(scope, key)
        except NotFound:
            return []

    async def _uncache_owner(self, scope: Scope, owner: Owner, out: _Gone) -> None:
        async for record in self.archive.sessions(scope, owner):
            texts = await self._texts_of(scope, record.key)
            await self._uncache([*texts, *(c.statement for c in await self._claims(scope, record.key))], out)
        for summary in await self.archive.list_children(scope, owner, recursive=True):
            if not summary.is_dir:
                await self._uncache(await self._node_texts(scope, key_at(scope.tenant_id, owner, summary.uri)), out)

    async def _texts_of(self, scope: Scope, key: SessionKey) -> list[str]:
        try:
            return [t.turn.text for t in await self.archive.read_turns(scope, key)]
        except NotFound:
            return []

    async def _node_texts(self, scope: Scope, key: NodeKey) -> list[str]:
        """What was embedded of a node, now and in its earlier versions."""
        try:
            node = await self.archive.read_node(scope, key)
            versions = [node, *(revision.node for revision in await self.archive.revisions(scope, key))]
        except NotFound:
            return []
        texts = [chunk.text_content for version in versions for chunk in chunk_for_node(version)]
        return [*texts, *(profile_text(version) for version in versions if is_profile(version))]

    async def _drop_jobs(self, own: Job) -> int:
        """Jobs about what is gone. This one is among them, so it is the last thing to do: a crash before leaves it."""
        about = {name: own.payload[name] for name in _WHOSE if name in own.payload}
        return max(await self.queue.drop(own.tenant_id, about) - 1, 0)

    async def _uncache(self, texts: Sequence[str], out: _Gone) -> None:
        """Before anything else goes: a crash must not take away the only list of what was embedded."""
        forget = getattr(self.embedder, "forget", None)
        if forget is not None and texts:
            out.counts["cached_vectors"] += int(await forget(list(dict.fromkeys(texts))))

    async def _left(self, scope: Scope, what: What, owner: Owner | None, target: dict[str, Any]) -> list[str]:
        """What can still be found of it."""
        left: list[str] = []
        async for uri in self._rows_left(scope, what, owner, target):
            left.append(uri)
        return left

    async def _rows_left(
        self, scope: Scope, what: What, owner: Owner | None, target: dict[str, Any]
    ) -> AsyncIterator[str]:
        if what == "tenant":
            if n := await self.index.count(scope, EVERYTHING):
                yield f"{n} index rows"
            if n := sum((await self._graph.count(scope)).values()):
                yield f"{n} graph rows"
            async for found in self.archive.owners(scope):
                yield found.space
        elif what == "user" and owner is not None:
            theirs = scope.narrowed("any", [owner.principal])
            if n := await self.index.count(theirs, EVERYTHING):
                yield f"{n} index rows"
            if n := sum((await self._graph.count(theirs)).values()):
                yield f"{n} graph rows"
            async for record in self.archive.sessions(scope, owner):
                yield record.key.uri
            if owner.kind is OwnerKind.USERS:
                async for key, _, _ in self._said_in_groups(scope, owner.id):
                    yield key.uri
        elif owner is not None:
            key = SessionKey(scope.tenant_id, owner, target["session_id"])
            for claim in await self._claims(scope, key):
                if what == "session" or claim.claim_id == target.get("claim_id"):
                    yield f"claim {claim.claim_id}"
            if what == "session" and (n := await self.index.count(scope, every(Eq("kind", TURN), Eq("uri", key.uri)))):
                yield f"{n} index rows"


def _is_of(claim: Claim, user_id: str) -> bool:
    at = claim.occasion
    return claim.about == f"user:{user_id}" or (at is not None and user_id in (at.sender_id, at.user_id))


def _scrubbed(change: Any, gone: set[str]) -> Any:
    rows = [r["claim_id"] for image in (change.before, change.after) if image for r in image.metadata.get("claims", [])]
    if change.forgotten or not gone & {*rows, *change.claim_ids}:
        return change
    return change.model_copy(update={"before": None, "after": None, "relations": (), "forgotten": True})
