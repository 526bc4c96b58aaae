"""Forgetting: words, claims, nodes, their versions and edges, blobs, index rows, jobs, cached vectors, with a receipt.

A promise is written before the first byte goes, and holds all that is needed to finish: whoever comes next does. It is
kept when a look at every file has found nothing left, and only such a look makes a receipt complete."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mnemon.contracts.commits import CommitRecord, NodeChange
from mnemon.contracts.errors import Busy, Corrupt, MnemonError, NotFound
from mnemon.contracts.filters import EVERYTHING, Eq, In, every
from mnemon.contracts.forgetting import Intent
from mnemon.contracts.jobs import JobStatus
from mnemon.contracts.nodes import Edge, NodeKey, Shelf
from mnemon.contracts.ports import Archive, Clock, Embedder, Graph, Index, Premises, Queue
from mnemon.contracts.results import ForgetReceipt
from mnemon.contracts.scope import Owner, OwnerKind, Scope, SessionKey
from mnemon.contracts.tags import Tagging
from mnemon.logic.chunking import chunk_for_node
from mnemon.logic.ids import stable_id, turn_id
from mnemon.logic.jobs import matches
from mnemon.logic.masking import Masks, recut, touches
from mnemon.logic.memo import forget_everything
from mnemon.logic.policies import claims_in
from mnemon.logic.shelves import key_at
from mnemon.logic.traces import Matcher
from mnemon.pipelines.entries.forgetting import forget_entries, uncache_entries
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.govern.intending import Planner, claims_of, said_in_groups
from mnemon.pipelines.graph.projection import origins_at
from mnemon.pipelines.graph.replaying import outside_lines_of
from mnemon.pipelines.index.projection import CLAIM, TURN, is_profile, profile_text
from mnemon.pipelines.jobs import about_node
from mnemon.pipelines.write.refiling import node_at
from mnemon.pipelines.write.settling import settle_others, touch

# How long to wait for jobs under way, and how often to look: a session is indexed in seconds.
_PATIENCE_S = 30.0
_LOOK_S = 0.02
# A file that somebody put into the home by hand must not make a worker look at everything without end.
_PAUSE_S = 300.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Gone:
    """What went so far. `again` where somebody began it before, who may have been cut off anywhere."""

    again: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    rewritten: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Forgetter:
    archive: Archive
    premises: Premises
    index: Index
    queue: Queue
    embedder: Embedder
    keeper: ClaimKeeper
    clock: Clock
    tried: dict[str, float] = field(default_factory=dict)

    async def forget(self, tenant_id: str, target: dict[str, Any]) -> ForgetReceipt:
        """`target` says what, and whose: a claim, a session, an owner, or the whole tenant."""
        async with self.premises.forgetting():
            begun: Intent | None = None
            again = False
            for intent in await self.premises.promised(tenant_id):
                if intent.target == target:
                    begun, again = intent, True
                else:
                    await self._try(intent)
            if begun is None:
                begun = await Planner(self.archive, self.keeper).planned(tenant_id, target)
                await self.premises.promise(begun)
            return await self._carry_out(begun, again)

    async def finish(self) -> int:
        """Whatever was promised and cut off, by whomever; how many there were. One that something keeps from its end
        is not tried again at once."""
        due = [i for i in await self.premises.promised() if self.tried.get(i.intent_id, 0.0) <= time.monotonic()]
        if due:
            async with self.premises.forgetting():
                for intent in await self.premises.promised():
                    await self._try(intent)
        return len(due)

    async def unfinished(self) -> int:
        """How many promises wait for somebody to keep them."""
        return len(await self.premises.promised())

    async def _try(self, intent: Intent) -> None:
        """One that somebody else began: what keeps it from its end must not keep others waiting."""
        self.tried[intent.intent_id] = time.monotonic() + _PAUSE_S
        try:
            left = (await self._carry_out(intent, again=True)).left
        except (MnemonError, OSError) as error:
            _log.warning("a forgetting in tenant %s could not be finished: %s", intent.tenant_id, error)
        else:
            if left:
                _log.warning("still there after a forgetting in tenant %s: %s", intent.tenant_id, ", ".join(left))

    async def _carry_out(self, intent: Intent, again: bool) -> ForgetReceipt:
        """Everything in it can be done again; the promise goes last."""
        scope, owner, out = Scope.steward_of(intent.tenant_id), intent.owner, _Gone(again)
        await self._quiet(intent, out)
        match intent.what:
            case "claim":
                await self._claim(scope, intent, out)
            case "session":
                await self._session(scope, intent, out)
            case "user":
                assert owner is not None
                await self._owner(scope, owner, intent, out)
            case "tenant":
                await self._tenant(scope, out)
        # Who was indexing meanwhile had read it before it was gone.
        await self._quiet(intent, out)
        alive = [] if intent.what == "tenant" else await self._alive(scope)
        await self._unindex(scope, intent, alive, out)
        target = intent.target
        name = target.get("claim_id") or target.get("session_id") or target.get("owner_id") or intent.tenant_id
        if intent.what != "tenant":
            # By a fingerprint: the ledger outlives what it speaks of.
            row = {"op": "forget", "what": intent.what, "of": stable_id("forgotten", intent.tenant_id, name)}
            await self.archive.append_log(scope, "ledger", [row])
        await self.index.purge()
        await self._graph.purge()
        forget_everything()
        left = await self._rows_left(scope, intent)
        seen = await self.premises.traces(intent, alive)
        left += seen.left
        removed = {name: n for name, n in sorted(out.counts.items()) if n}
        looked = {
            "files": seen.files,
            "bytes": seen.bytes,
            "pieces": seen.pieces,
            "said_elsewhere": seen.said_elsewhere,
        }
        receipt = ForgetReceipt(
            intent.what, name, self.clock.now().isoformat(), removed, tuple(out.rewritten), tuple(left), looked
        )
        if receipt.complete:
            await self.premises.kept(intent.intent_id)
        return receipt

    @property
    def _graph(self) -> Graph:
        return self.keeper.replicas.grapher.graph

    # --- each kind

    async def _claim(self, scope: Scope, intent: Intent, out: _Gone) -> None:
        """A claim and its words; what stands beside them in the same turns stays, with its quotes as they read now."""
        gone = {intent.session(session_id): set(ids) for session_id, ids in intent.claims.items()}
        await self._take_out(scope, intent, gone, out)
        for key in gone:
            masks = intent.masks.get(key.session_id, {})
            await self._mask(scope, intent, key, masks, out)
            turns = {*intent.turns.get(key.session_id, ()), *masks}
            if turns:
                await self._unroll(scope, key, turns, out)
                await self._words(scope, key, intent.turns.get(key.session_id, ()), out)
                await self.keeper.replicas.indexer.index_turns(key, masks)
                await self.keeper.replicas.project(key, anew=True)

    async def _mask(self, scope: Scope, intent: Intent, key: SessionKey, masks: Masks, out: _Gone) -> None:
        if not masks:
            return
        claims = await claims_of(self.archive, scope, key)
        changed = [after for c in claims if (after := recut(c, masks)) is not c]
        if changed:
            await self.keeper.put(scope, changed, "some of the words it cites were forgotten")
            await self._scrub(scope, intent, key.owner, {c.claim_id for c in changed})
        nodes = {c.node_uri for c in claims if c.node_uri and any(touches(span, masks) for span in c.spans)}
        await self._forget_versions(scope, [key_at(scope.tenant_id, key.owner, uri) for uri in sorted(nodes)], out)
        await self._untag(scope, key, masks)
        texts = [t.turn.text for t in await self.archive.read_turns(scope, key) if t.turn.turn_id in masks]
        await self._uncache(texts, out)
        out.counts["turns_masked"] += await self.archive.mask_turns(scope, key, masks)

    async def _words(self, scope: Scope, key: SessionKey, turns: Collection[str], out: _Gone) -> None:
        """Some of a session's words, whole turns of them."""
        if not turns:
            return
        await self._untag(scope, key, {turn: [(0, _WHOLE)] for turn in turns})
        stored = [t for t in await self.archive.read_turns(scope, key) if t.turn.turn_id in turns]
        await self._uncache([t.turn.text for t in stored], out)
        out.counts["turns"] += await self.archive.forget_turns(scope, key, sorted(turns), "forgotten")
        rows = In("id", tuple(turn_id(key, i) for i in sorted(turns)))
        out.counts["index_rows"] += await self.index.delete(scope, every(Eq("kind", TURN), rows))

    async def _session(self, scope: Scope, intent: Intent, out: _Gone) -> None:
        key = intent.session(intent.target["session_id"])
        claims = await claims_of(self.archive, scope, key)
        gone = {*intent.claims.get(key.session_id, ()), *(c.claim_id for c in claims)}
        await self._take_out(scope, intent, {key: gone}, out)
        await self._unroll(scope, key, None, out)
        await self._uncache(await self._texts_of(scope, key), out)
        with suppress(NotFound):
            out.counts.update(await self.archive.erase_session(scope, key, "forgotten"))

    async def _owner(self, scope: Scope, owner: Owner, intent: Intent, out: _Gone) -> None:
        if owner.kind is OwnerKind.USERS:
            async for key, claims, turns in said_in_groups(self.archive, scope, owner.id):
                here = intent.model_copy(update={"nodes": tuple(dict.fromkeys(c.node_uri for c in claims))})
                await self._take_out(scope, here, {key: {c.claim_id for c in claims}}, out)
                await self._unroll(scope, key, turns, out)
                await self._words(scope, key, turns, out)
                await self.keeper.replicas.project(key, anew=True)
        await self._uncache_owner(scope, owner, out)
        out.counts += await forget_entries(self.archive, self.embedder, scope.tenant_id, owner.principal)
        lines = await outside_lines_of(self.archive, scope.tenant_id, owner.principal)
        out.counts["ledger_lines"] += await self.archive.forget_log(scope, "ledger", lines, "forgotten")
        out.counts.update(await self.archive.erase_owner(scope, owner))
        gone = {uri for uri in intent.nodes if uri.startswith(f"{owner.uri(scope.tenant_id)}/")}
        await self._cut_edges(scope, gone, intent, out)

    async def _tenant(self, scope: Scope, out: _Gone) -> None:
        async for owner in self.archive.owners(scope):
            await self._uncache_owner(scope, owner, out)
        out.counts["cached_vectors"] += await uncache_entries(self.archive, self.embedder, scope.tenant_id)
        out.counts.update(await self.archive.erase_tenant(scope))

    # --- pieces

    async def _take_out(self, scope: Scope, intent: Intent, gone: dict[SessionKey, set[str]], out: _Gone) -> None:
        """Claims of one owner out of nodes, of earlier versions of nodes, and of every record of a commit that shows
        them. They leave their sessions last: whoever takes this up after a crash still knows what has to go."""
        claims = [
            c for key, ids in gone.items() for c in await claims_of(self.archive, scope, key) if c.claim_id in ids
        ]
        out.counts["claims"] += len(claims)
        for owner in {key.owner for key in gone}:
            uris = dict.fromkeys([*intent.nodes, *(c.node_uri for c in claims)])
            nodes = [key_at(scope.tenant_id, owner, uri) for uri in uris if uri]
            texts = [c.statement for c in claims]
            for node in nodes:
                texts += await self._node_texts(scope, node)
            await self._uncache(texts, out)
            await self.keeper.take_from_nodes(scope, claims)
            if out.again:
                await self._neighbours(scope, nodes)
            vanished = await self._forget_versions(scope, nodes, out)
            await self._cut_edges(scope, vanished, intent, out)
            await self._scrub(scope, intent, owner, {i for ids in gone.values() for i in ids}, vanished)
        for key, ids in gone.items():
            with suppress(NotFound):
                await self.keeper.settle(scope, key, gone=ids)

    async def _neighbours(self, scope: Scope, nodes: Sequence[NodeKey]) -> None:
        """Claims that hold again because of what went: their sessions and the replicas hear of it too."""
        for key in nodes:
            stay = claims_in(await node_at(self.archive, scope, key))
            await settle_others(self.archive, scope, stay)
            for session in dict.fromkeys(c.session for c in stay):
                await touch(self.archive, scope, session)
                await self.keeper.replicas.bring_up(session)

    async def _forget_versions(self, scope: Scope, nodes: Sequence[NodeKey], out: _Gone) -> set[str]:
        """Earlier versions of memories. Of those that are not there any more, whatever a crash has left; which ones."""
        vanished: set[str] = set()
        for key in nodes:
            try:
                out.counts["revisions"] += await self.archive.erase_revisions(scope, key)
                out.rewritten += [key.uri] if key.uri not in out.rewritten else []
            except NotFound:  # it had no other claim
                vanished.add(key.uri)
                await self.archive.delete_node(scope, key)
                out.counts["nodes"] += 1
                out.counts["jobs"] += await self.queue.drop(scope.tenant_id, about_node(key))
            await self.keeper.replicas.index_node(key)
        return vanished

    async def _cut_edges(self, scope: Scope, vanished: Collection[str], intent: Intent, out: _Gone) -> None:
        """What leads to memories that are no more, or says the forgotten words for a reason."""
        matcher = _matcher(intent)
        for owner in [o async for o in self.archive.owners(scope)] if vanished else []:
            for summary in await self.archive.list_children(scope, owner, recursive=True):
                if summary.is_dir:
                    continue
                key = key_at(scope.tenant_id, owner, summary.uri)
                with suppress(NotFound, Corrupt):  # gone meanwhile; damaged, and named by verify
                    edges = await self.archive.get_edges(scope, key)
                    cut = [e for e in edges if e.to_uri in vanished or matcher.find(e.reason.encode())]
                    out.counts["edges"] += await self._cut(scope, key, cut)

    async def _cut(self, scope: Scope, key: NodeKey, edges: Sequence[Edge]) -> int:
        return sum([await self.archive.remove_edges(scope, key, [e.to_uri], [e.relation_type]) for e in edges])

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

    async def _scrub(
        self, scope: Scope, intent: Intent, owner: Owner, gone: set[str], vanished: Collection[str] = ()
    ) -> None:
        """What commits showed of a node that held one of these claims is no longer shown; memories that are no more
        are not named."""
        matcher = _matcher(intent)
        for record in [r async for r in self.archive.sessions(scope, owner)]:
            for commit in await self.archive.read_commits(scope, record.key):
                cleaned = _scrubbed(commit, gone, vanished, matcher)
                if cleaned != commit:
                    await self.archive.write_commit(scope, record.key, cleaned)

    async def _untag(self, scope: Scope, key: SessionKey, masks: Masks) -> None:
        taggings = await self.archive.read_tags(scope, key)
        cleaned = [_untagged(tagging, masks) for tagging in taggings]
        if cleaned != taggings:
            await self.archive.write_tags(scope, key, cleaned)

    async def _uncache_owner(self, scope: Scope, owner: Owner, out: _Gone) -> None:
        async for record in self.archive.sessions(scope, owner):
            texts = await self._texts_of(scope, record.key)
            await self._uncache([*texts, *(c.statement for c in await claims_of(self.archive, scope, record.key))], out)
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

    async def _quiet(self, intent: Intent, out: _Gone) -> None:
        """Jobs about what is to go are dropped, and those under way waited for: they would bring it back."""
        target = intent.target
        sessions = [{**whose, "session_id": s} for s in intent.claims for whose in [_whose(target)]]
        about = sessions if intent.what == "claim" else [_whose(target)]
        await self.queue.recover()
        until = time.monotonic() + _PATIENCE_S
        while busy := [
            job
            for job in await self.queue.list(JobStatus.CLAIMED, sys.maxsize)
            if any(matches(job, intent.tenant_id, payload) for payload in about)
        ]:
            if time.monotonic() > until:
                raise Busy(
                    f"{len(busy)} jobs about this are still under way ({busy[0].kind} {busy[0].job_id}); it is "
                    "forgotten as soon as they are done: ask again, or let a worker or `mnemon repair` finish it"
                )
            await asyncio.sleep(_LOOK_S)
        if intent.what != "claim":
            out.counts["jobs"] += await self.queue.drop(intent.tenant_id, _whose(target))
        if intent.what == "user":
            out.counts["jobs"] += await self.queue.drop(intent.tenant_id, {"sender_id": target["owner_id"]})

    async def _unindex(self, scope: Scope, intent: Intent, alive: Collection[str], out: _Gone) -> None:
        """Every row about what went whole."""
        if intent.what == "tenant":
            out.counts["index_rows"] += await self.index.delete(scope, EVERYTHING)
            out.counts["graph_rows"] += await self._graph.erase(scope)
        elif intent.what == "user" and intent.owner is not None:
            theirs = scope.narrowed("any", [intent.owner.principal])
            out.counts["index_rows"] += await self.index.delete(theirs, EVERYTHING)
            out.counts["graph_rows"] += await self._graph.erase(theirs)
        if claims := tuple(i for ids in intent.claims.values() for i in ids):
            out.counts["index_rows"] += await self.index.delete(scope, every(Eq("kind", CLAIM), In("id", claims)))
        if gone := {*intent.sessions, *intent.nodes} - {*alive}:
            out.counts["index_rows"] += await self.index.delete(scope, In("uri", tuple(sorted(gone))))
        if told := [origin for uri in intent.sessions for origin in origins_at(uri)]:
            out.counts["graph_rows"] += await self._graph.drop(scope, told)
        if intent.what == "session":  # what stays of it is a page without words
            await self.keeper.replicas.bring_up(intent.session(intent.target["session_id"]))

    async def _uncache(self, texts: Sequence[str], out: _Gone) -> None:
        """Before anything else goes: a crash must not take away the only list of what was embedded."""
        forget = getattr(self.embedder, "forget", None)
        if forget is not None and texts:
            out.counts["cached_vectors"] += int(await forget(list(dict.fromkeys(texts))))

    # --- what is left

    async def _alive(self, scope: Scope) -> list[str]:
        """The addresses of the memories there are."""
        uris: list[str] = []
        async for owner in self.archive.owners(scope):
            uris += [s.uri for s in await self.archive.list_children(scope, owner, recursive=True) if not s.is_dir]
        return uris

    async def _rows_left(self, scope: Scope, intent: Intent) -> list[str]:
        """What archive, index and graph themselves still know of it."""
        left: list[str] = []
        owner = intent.owner
        if intent.what in ("tenant", "user"):
            theirs = scope if owner is None else scope.narrowed("any", [owner.principal])
            if n := await self.index.count(theirs, EVERYTHING):
                left.append(f"{n} index rows")
            if n := sum((await self._graph.count(theirs)).values()):
                left.append(f"{n} graph rows")
        if owner is None:
            return left + [found.space async for found in self.archive.owners(scope)]
        if intent.what == "user":
            left += [record.key.uri async for record in self.archive.sessions(scope, owner)]
            if owner.kind is OwnerKind.USERS:
                left += [key.uri async for key, _, _ in said_in_groups(self.archive, scope, owner.id)]
        for session_id, ids in intent.claims.items():
            there = {c.claim_id for c in await claims_of(self.archive, scope, intent.session(session_id))}
            left += [f"claim {claim_id}" for claim_id in ids if claim_id in there]
            if n := await self.index.count(scope, In("id", ids)) if ids else 0:
                left.append(f"{n} index rows")
        if intent.what == "session":
            key = intent.session(intent.target["session_id"])
            if n := await self.index.count(scope, every(Eq("kind", TURN), Eq("uri", key.uri))):
                left.append(f"{n} index rows")
        return left


# By what a job says whom it is about.
_WHOSE = ("owner_kind", "owner_id", "session_id")
# Longer than any turn: all of it.
_WHOLE = 1 << 62


def _whose(target: dict[str, Any]) -> dict[str, Any]:
    return {name: target[name] for name in _WHOSE if name in target}


def _matcher(intent: Intent) -> Matcher:
    return Matcher(bytes.fromhex(intent.salt), [*intent.words, *intent.names])


def _scrubbed(commit: CommitRecord, gone: set[str], vanished: Collection[str], matcher: Matcher) -> CommitRecord:
    update: dict[str, Any] = {
        "changes": tuple(_unshown(change, gone) for change in commit.changes if change.uri not in vanished),
        "others": tuple(c for c in commit.others if c.claim_id not in gone),
        "used_contexts": tuple(uri for uri in commit.used_contexts if uri not in vanished),
    }
    if update["changes"] != commit.changes:
        update["others"] = ()
    if gone & set(commit.claim_ids):
        # It may have said the same in short, and a tool may have been told.
        update |= {"summary": "", "key_topics": (), "key_decisions": (), "unresolved": ()}
        update["used_tools"] = tuple(t for t in commit.used_tools if not matcher.find(str(t).encode()))
    return commit.model_copy(update=update)


def _unshown(change: NodeChange, gone: set[str]) -> NodeChange:
    rows = [r["claim_id"] for image in (change.before, change.after) if image for r in image.metadata.get("claims", [])]
    if change.forgotten or not gone & {*rows, *change.claim_ids}:
        return change
    return change.model_copy(update={"before": None, "after": None, "relations": (), "forgotten": True})


def _untagged(tagging: Tagging, masks: Masks) -> Tagging:
    tags = tuple(tag for tag in tagging.output.tags if not touches(tag.as_span(), masks))
    return tagging.model_copy(update={"output": tagging.output.model_copy(update={"tags": tags})})
