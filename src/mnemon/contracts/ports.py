"""The promises a technology makes to be used: few, narrow, typed, one result shape for every driver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, BinaryIO, Literal, Protocol, runtime_checkable

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import CommitRecord
from mnemon.contracts.entries import Abilities, Ask, EmbeddingVector, Entry, Hit, IndexInfo, Page
from mnemon.contracts.filters import OrderBy, Where
from mnemon.contracts.forgetting import Intent, Traces
from mnemon.contracts.graph import GraphAsk, GraphEdge, GraphItem, GraphPage, Saying
from mnemon.contracts.jobs import Awaited, Job, JobKind, JobStatus, QueueStats
from mnemon.contracts.models import ChatMessage, Completion
from mnemon.contracts.nodes import Edge, Level, Node, NodeKey, NodeStat, NodeSummary, Revision, Shelf
from mnemon.contracts.reports import LoadReport, Repair, VerifyReport
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.contracts.sessions import AppendResult, Kept, LogLine, SessionRecord, StoredTurn, Tombstone, Witness
from mnemon.contracts.tags import Tagging
from mnemon.contracts.turns import Turn

Purpose = Literal["document", "query"]
LogName = Literal["entries", "ledger"]
Direction = Literal["out", "in", "both"]


class Clock(Protocol):
    def now(self) -> datetime: ...


class Timekeeper(Clock, Protocol):
    """A clock that notices when it jumps."""

    def lives_from(self) -> datetime:
        """The moment lives begin at: now, or by what went by in front of our eyes where the clock went back."""
        ...

    def over_by(self) -> datetime:
        """The moment at which something is told to be over: now, or by what went by in front of our eyes where the
        clock went ahead."""
        ...

    def doubt(self) -> str:
        """Why the clock is not to be believed for now; empty where it is."""
        ...

    def trust(self) -> None:
        """Somebody says that the clock is right."""
        ...


class Embedder(Protocol):
    """Text to vectors of length one."""

    @property
    def model(self) -> str:
        """Names the model and everything that changes its vectors; recorded in the index."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def semantic(self) -> bool:
        """False for an embedder that only matches surface forms."""
        ...

    async def embed_texts(self, texts: Sequence[str], purpose: Purpose = "document") -> list[EmbeddingVector]: ...

    async def close(self) -> None: ...


@runtime_checkable
class LLM(Protocol):
    """A language model that answers with a JSON object of a given schema."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    async def complete(
        self, messages: Sequence[ChatMessage], schema: dict[str, Any], scope: Scope | None = None
    ) -> Completion:
        """`ModelFailed` when it does not answer, `BadAnswer` when what it answers is not a JSON object."""
        ...

    async def complete_json(self, prompt: str, schema: dict[str, Any], scope: Scope | None = None) -> dict[str, Any]:
        """One prompt, one object: the short way for scripts and tests."""
        ...

    def complete_json_sync(self, prompt: str, schema: dict[str, Any], scope: Scope | None = None) -> dict[str, Any]: ...

    async def close(self) -> None: ...


class Holds(Protocol):
    """Holding a job, and with it what it is about, to oneself."""

    async def take(self, job: Job, worker: str, lease: timedelta = timedelta(minutes=5)) -> bool:
        """Make exactly this job, as it is given, the worker's: put if it is not there, taken over if it waits, has
        failed, or its worker is gone. False while somebody living holds it; that may be the same worker."""
        ...

    async def done(self, job_id: str) -> None: ...

    async def fail(self, job_id: str, error: str, retryable: bool = True) -> Job:
        """Back to pending with a growing delay, or to failed once `max_retries` are used up."""
        ...

    async def renew(self, job_id: str, worker: str, lease: timedelta) -> bool: ...

    async def release(self, job_id: str) -> None:
        """A claimed job back to pending at once; giving it back is no failure. Nothing happens if it is not claimed."""
        ...


class Queue(Holds, Protocol):
    """Durable jobs, at least once, idempotent by job id: putting a job that is there, or is done while it is
    being put, changes nothing."""

    async def put(self, jobs: Sequence[Job], claim_by: str | None = None, lease: timedelta | None = None) -> int:
        """Store jobs durably and return how many were new. With `claim_by` they start as claimed by that worker."""
        ...

    async def claim(
        self,
        worker: str,
        limit: int = 100,
        lease: timedelta = timedelta(minutes=5),
        kinds: Collection[JobKind] | None = None,
        offers: Collection[str] = (),
    ) -> list[Job]:
        """Take the oldest jobs that are due, at most one a lane; nobody else gets them while the lease lasts. Jobs of
        other `kinds`, and those that await what the worker does not offer, wait on, and so does what comes after them
        in their lane. A job with which a worker has died comes alone."""
        ...

    async def wait(self, job_id: str, why: str, awaits: Awaited, pause: timedelta = timedelta(0)) -> Job:
        """A claimed job back to pending until somebody claims who offers what it awaits; that is no failure."""
        ...

    async def damaged(self, aside: bool = False) -> tuple[str, ...]:
        """Where something lies that no job can be read from; with `aside`, it is put out of the way."""
        ...

    async def recover(self) -> int:
        """Put claimed jobs whose lease is over, or whose worker is dead, back to pending."""
        ...

    async def get(self, job_id: str) -> Job | None: ...

    async def set_aside(self, limit: int = 100) -> list[Job]:
        """Failed jobs, oldest first, that went out of the way of newer ones; nothing but `drop` removes them."""
        ...

    async def list(
        self, status: JobStatus | None = None, limit: int = 100, kinds: Collection[JobKind] | None = None
    ) -> list[Job]:
        """In the order they were put."""
        ...

    async def retry(self, job_id: str) -> Job:
        """A failed job, once more from the start."""
        ...

    async def drop(self, tenant_id: str, payload: dict[str, Any]) -> int:
        """Remove every job of a tenant whose payload holds these values."""
        ...

    async def stats(self) -> QueueStats: ...

    async def close(self) -> None: ...


class Index(Protocol):
    """A replica that finds entries. Everything in it can be made again from the archive."""

    @property
    def abilities(self) -> Abilities: ...

    async def upsert(self, scope: Scope, entries: Sequence[Entry]) -> None:
        """All of them or none. An id that is there is replaced. Entries outside the scope are refused."""
        ...

    async def delete(self, scope: Scope, where: Where) -> int: ...

    async def get(self, scope: Scope, ids: Sequence[str]) -> list[Entry]:
        """In the order asked for; ids that are not visible are left out."""
        ...

    async def search(self, scope: Scope, ask: Ask) -> list[Hit]:
        """Best first, ties by id. Vectors: cosine. Words: BM25 with the statistics of what the scope sees of the kinds
        asked for at the top of the filter."""
        ...

    async def scroll(
        self,
        scope: Scope,
        where: Where,
        order: OrderBy = "newest",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page: ...

    async def count(self, scope: Scope, where: Where) -> int: ...

    async def publish(self, scope: Scope, where: Where) -> int:
        """Set `published` on every entry that matches, in one step, and return how many there were."""
        ...

    async def purge(self) -> None:
        """See to it that nothing of what was deleted is left in the index's own files."""
        ...

    async def info(self) -> IndexInfo: ...

    async def begin_rebuild(self, model: str, dimension: int, restart: bool = False) -> Index:
        """A second index beside this one, to be filled and then swapped in; picks up an unfinished one."""
        ...

    async def finish_rebuild(self) -> None:
        """Called on what `begin_rebuild` gave: from now on it is the index."""
        ...

    async def close(self) -> None: ...


class Graph(Protocol):
    """A replica that knows what belongs to what. Everything in it can be made again from the archive.

    Items and edges outside the scope are refused when written and unseen when read, whatever their id. Where one id is
    used for several audiences, the closest one counts: what anybody may write never hides what is one's own."""

    async def put(self, scope: Scope, sayings: Sequence[Saying]) -> dict[str, int]:
        """All of them in one step; says how many of what were given."""
        ...

    async def marks(self, scope: Scope, origins: Sequence[str]) -> dict[str, str]:
        """How far each origin is; those that never said anything are left out."""
        ...

    async def origins(self, scope: Scope) -> list[str]:
        """Everybody who said something."""
        ...

    async def drop(self, scope: Scope, origins: Sequence[str]) -> int:
        """Everything these origins said; returns how many items and edges that was."""
        ...

    async def publish(self, scope: Scope, origins: Sequence[str]) -> int:
        """Show what these origins said unpublished."""
        ...

    async def get(self, scope: Scope, ids: Sequence[str], now: datetime | None = None) -> list[GraphItem]:
        """In the order asked for; ids that are not visible are left out."""
        ...

    async def find(self, scope: Scope, ask: GraphAsk) -> GraphPage: ...

    async def edges(
        self,
        scope: Scope,
        ids: Sequence[str],
        rel_types: Sequence[str] = (),
        direction: Direction = "both",
        limit: int = 1000,
        now: datetime | None = None,
        without: Sequence[str] = (),
    ) -> list[GraphEdge]:
        """Edges that begin (`out`) or end (`in`) at these, by source, type, target: of these types, or of all types but
        those `without`. One that several origins tell the same people is one edge, and rests on all they point at."""
        ...

    async def count(self, scope: Scope) -> dict[str, int]:
        """Items by kind, and `edges`."""
        ...

    async def erase(self, scope: Scope) -> int:
        """Everything the scope sees (narrow it to say whose)."""
        ...

    async def purge(self) -> None:
        """See to it that nothing of what was deleted is left in the graph's own files."""
        ...

    async def close(self) -> None: ...


class Presence(Protocol):
    """Who is writing, so that the words of whoever dies at it are looked after."""

    async def sign(self) -> None:
        """Before anything is written to the archive or a replica. Costs nothing after the first time."""
        ...

    async def leave(self) -> None:
        """What was written has reached its replicas, or has a job that sees to it."""
        ...

    async def gone(self) -> list[str]:
        """Those who died at work."""
        ...

    async def strike(self, names: list[str]) -> None:
        """They were looked after."""
        ...


class Replicator(Protocol):
    """Brings what the archive holds of a session to its replicas."""

    async def index_session(
        self, key: SessionKey, fresh: Sequence[StoredTurn] = (), page: SessionRecord | None = None
    ) -> int:
        """Into the index; how many turns that was. `fresh` are turns just archived, and `page` is the page just
        written, to spare reading them again."""
        ...

    async def index_words(self, key: SessionKey, fresh: Sequence[StoredTurn] = ()) -> None:
        """Into the index for whoever looks for words, without waiting for any model; `index_session` is still due."""
        ...

    async def project(
        self,
        key: SessionKey,
        fresh: Sequence[StoredTurn] = (),
        anew: bool = False,
        page: SessionRecord | None = None,
    ) -> None:
        """Into the graph; `anew` also what was told before."""
        ...

    async def stage(self, record: SessionRecord) -> None:
        """Into the graph as this page would have it, unseen until the page is written and it is projected."""
        ...

    async def is_behind(self, record: SessionRecord) -> bool:
        """Does the graph hold another version of the session than this page?"""
        ...


class Likeness(Protocol):
    """Finds the node that says already what a claim says."""

    async def nearest(self, scope: Scope, claims: Sequence[Claim]) -> list[str | None]:
        """For each claim the address of the node on its shelf, for the same people, that is most like it; None where
        none is like it enough."""
        ...

    async def same_steps(self, scope: Scope, case: Claim) -> list[Claim]:
        """Cases of other sessions, for the same people, that took the same steps, the newest first."""
        ...


class TurnStore(Protocol):
    """Sessions and their words."""

    async def append_turns(
        self, scope: Scope, key: SessionKey, turns: Sequence[Turn], numbered: bool = False
    ) -> AppendResult:
        """Durable on return. A turn that is there with the same content is passed over; with another: Conflict. With
        `numbered` they are new, whatever their ids: each is given the next one of the session."""
        ...

    async def keep_turns(
        self, scope: Scope, record: SessionRecord, expect: int, turns: Sequence[Turn], numbered: bool = False
    ) -> Kept:
        """Turns and the page that vouches for them in one step: `append_turns` and `write_session` at the cost of one
        of them. A session that is new comes into being with its words. VersionConflict also where there are words the
        page does not know of."""
        ...

    async def read_turns(
        self, scope: Scope, key: SessionKey, after: int = 0, limit: int | None = None
    ) -> list[StoredTurn]: ...

    async def read_tombstones(self, scope: Scope, key: SessionKey) -> list[Tombstone]: ...

    async def forget_turns(self, scope: Scope, key: SessionKey, turn_ids: Sequence[str] | None, reason: str) -> int:
        """Erase words (all of the session with None) and leave tombstones that keep the chain whole."""
        ...

    async def mask_turns(self, scope: Scope, key: SessionKey, masks: Mapping[str, Sequence[tuple[int, int]]]) -> int:
        """Erase the words between these places of turns, which stay otherwise as they are; how many turns changed.
        Every other place in them holds, and the chain stays whole."""
        ...

    async def read_session(self, scope: Scope, key: SessionKey) -> SessionRecord | None: ...

    async def write_session(self, scope: Scope, record: SessionRecord, expect: int) -> SessionRecord:
        """Compare and set: `expect` is the version last seen, 0 for a new one; else VersionConflict."""
        ...

    def sessions(
        self, scope: Scope, owner: Owner | None = None, newest: int | None = None
    ) -> AsyncIterator[SessionRecord]: ...

    def owners(self, scope: Scope) -> AsyncIterator[Owner]: ...

    def tenants(self) -> AsyncIterator[str]: ...


class PaperStore(Protocol):
    """What is derived from a session's words and kept beside them: tags, claims, the records of its commits."""

    async def read_tags(self, scope: Scope, key: SessionKey) -> list[Tagging]: ...

    async def write_tags(self, scope: Scope, key: SessionKey, taggings: Sequence[Tagging]) -> None:
        """In place of those before."""
        ...

    async def read_claims(self, scope: Scope, key: SessionKey) -> list[Claim]: ...

    async def put_claims(
        self, scope: Scope, key: SessionKey, claims: Sequence[Claim], gone: Sequence[str] = ()
    ) -> None:
        """Add claims or replace those with the same id, and take away those in `gone`, all at one commit point."""
        ...

    async def read_commits(self, scope: Scope, key: SessionKey, after: int = 0) -> list[CommitRecord]:
        """Those with a higher number than `after`, oldest first."""
        ...

    async def write_commit(self, scope: Scope, key: SessionKey, record: CommitRecord) -> None:
        """In place of the one with the same number."""
        ...


class Premises(Protocol):
    """The place a memory lives in, byte for byte: what was promised to be forgotten there, and what is left of it."""

    def forgetting(self) -> AbstractAsyncContextManager[None]:
        """Whoever forgets is the only one in this place, in whatever process."""
        ...

    async def promise(self, intent: Intent) -> None:
        """Durable on return."""
        ...

    async def promised(self, tenant_id: str | None = None) -> list[Intent]:
        """What was promised and is not proven yet, oldest first."""
        ...

    async def kept(self, intent_id: str) -> None:
        """A promise is fulfilled, and no trace of it stays either."""
        ...

    async def traces(self, intent: Intent, alive: Sequence[str]) -> Traces:
        """Look at every byte of the tenant and of what tenants share. `alive` are the addresses of the memories the
        tenant still has."""
        ...


class Eraser(Protocol):
    """Takes things out of the archive for good, earlier versions and blobs with them."""

    async def drop_session(self, scope: Scope, key: SessionKey) -> bool:
        """Take away a session that was never completed as if it had never been; a completed one is a Conflict."""
        ...

    async def erase_session(self, scope: Scope, key: SessionKey, reason: str) -> dict[str, int]:
        """Every word becomes a tombstone; tags, claims, commits go. The page stays, emptied, so that the chain can be
        proven and the words cannot come back. Says how many of what."""
        ...

    async def erase_revisions(self, scope: Scope, key: NodeKey) -> int:
        """Earlier versions of a node, and nothing else."""
        ...

    async def erase_owner(self, scope: Scope, owner: Owner) -> dict[str, int]:
        """Everything in an owner's folder and its revisions. For a steward."""
        ...

    async def erase_tenant(self, scope: Scope) -> dict[str, int]:
        """Everything. For a steward."""
        ...


class NodeStore(Protocol):
    """Readable memories, their relations and their earlier versions (004 §7, §8)."""

    async def resolve_path(self, scope: Scope, key: NodeKey) -> str: ...

    async def exists(self, scope: Scope, key: NodeKey) -> bool: ...

    async def stat_node(self, scope: Scope, key: NodeKey) -> NodeStat: ...

    async def write_node(self, scope: Scope, node: Node, expect: int | None = None, reason: str = "") -> Node:
        """All levels at one commit point; the version before it becomes a revision. `expect` compares and sets."""
        ...

    async def read_node(self, scope: Scope, key: NodeKey, include_content: bool = True) -> Node: ...

    async def write_level(self, scope: Scope, key: NodeKey, level: Level, text: str) -> Node: ...

    async def write_metadata(self, scope: Scope, key: NodeKey, metadata: dict[str, Any]) -> Node: ...

    async def list_children(
        self, scope: Scope, owner: Owner, shelf: Shelf | None = None, recursive: bool = False
    ) -> list[NodeSummary]: ...

    async def delete_node(self, scope: Scope, key: NodeKey, expect: int | None = None) -> bool:
        """`expect` compares and sets, as in `write_node`. Asked by a steward for one that is not there, it takes away
        what a crash has left of it."""
        ...

    async def move_node(self, scope: Scope, key: NodeKey, to: NodeKey) -> Node: ...

    async def revisions(self, scope: Scope, key: NodeKey) -> list[Revision]:
        """Newest first."""
        ...

    async def rollback_node(self, scope: Scope, key: NodeKey, version: int) -> Node:
        """An earlier version becomes the newest one; nothing is lost on the way."""
        ...

    async def get_edges(self, scope: Scope, key: NodeKey) -> list[Edge]: ...

    async def incoming_edges(self, scope: Scope, key: NodeKey) -> list[Edge]:
        """Those that lead to a node, from nodes of the same owner that the scope sees. The node itself need not be
        there."""
        ...

    async def upsert_edges(self, scope: Scope, key: NodeKey, edges: Sequence[Edge]) -> None: ...

    async def append_edges(self, scope: Scope, key: NodeKey, edges: Sequence[Edge]) -> None: ...

    async def remove_edges(
        self,
        scope: Scope,
        key: NodeKey,
        to_uris: Sequence[str] | None = None,
        relation_types: Sequence[str] | None = None,
    ) -> int: ...


class BlobStore(Protocol):
    """Whole contents under their sha256."""

    async def put_blob(self, scope: Scope, data: bytes) -> str: ...

    async def get_blob(self, scope: Scope, sha256: str) -> bytes: ...


class LogStore(Protocol):
    """Append-only logs of a tenant: what came in through /write, and decisions that rebuild must replay."""

    async def append_log(
        self, scope: Scope, log: LogName, bodies: Sequence[dict[str, Any]], expect: int | None = None
    ) -> list[LogLine]:
        """Durable on return, one line a body, nobody else's between them. `expect` compares and sets: the number of
        the last line there is; else VersionConflict, which knows it as `last`."""
        ...

    async def read_log(self, scope: Scope, log: LogName, after: int = 0, limit: int | None = None) -> list[LogLine]:
        """For a steward; forgotten lines are passed over."""
        ...

    async def forget_log(self, scope: Scope, log: LogName, seqs: Sequence[int], reason: str) -> int:
        """Erase lines and leave tombstones that keep the chain whole; how many there were. For a steward."""
        ...


class Archive(TurnStore, PaperStore, NodeStore, BlobStore, LogStore, Eraser, Protocol):
    """The truth."""

    async def verify(self, scope: Scope) -> VerifyReport:
        """Prove every hash, chain and pointer of one tenant."""
        ...

    async def repair(self, scope: Scope, witnesses: Sequence[Witness] = ()) -> list[Repair]:
        """Finish or roll back what a crash left half done; record what people edited by hand; make whole again what is
        damaged, from what is left of it and what `witnesses` remember. What cannot be is set aside, never deleted."""
        ...

    def dump(self, scope: Scope, owner: Owner | None = None) -> AsyncIterator[tuple[str, bytes]]:
        """One tenant, or one owner in it, as files in the on-disk form of the fs archive, which is the interchange
        form of every archive: (path, chunk) pairs, the chunks of one file in a row. Consistent while others write."""
        ...

    async def load(self, scope: Scope, files: Iterable[tuple[str, BinaryIO]]) -> LoadReport:
        """Take over dumped files. What is there already and equal is passed over, what differs is a Conflict."""
        ...

    async def close(self) -> None: ...
