"""Everything a memory is made of, wherever its pieces are."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mnemon.contracts.chats import EndCall
from mnemon.contracts.errors import NotFound
from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.ports import Archive, Clock, Embedder, Graph, Index, Likeness, Queue
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Scope
from mnemon.drivers.service import ServiceClient
from mnemon.engine.config import Config
from mnemon.engine.models import LlmChoice, Models, budget
from mnemon.engine.standing import Standing
from mnemon.logic.chats import mask_call
from mnemon.logic.redaction import Redactor
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.entries.finding import EntrySearch
from mnemon.pipelines.entries.writing import EntryWriter
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.govern.forgetting import Forgetter
from mnemon.pipelines.govern.mending import catch_up
from mnemon.pipelines.govern.nodes import NodeKeeper
from mnemon.pipelines.govern.sweeping import Sweeper
from mnemon.pipelines.graph.outside import Outside
from mnemon.pipelines.graph.reading import GraphReader
from mnemon.pipelines.historian.alerting import Alerts
from mnemon.pipelines.historian.desk import ChatDesk
from mnemon.pipelines.historian.digesting import Historian
from mnemon.pipelines.historian.watching import Watch
from mnemon.pipelines.index.worker import Handler
from mnemon.pipelines.jobs import catch_up_job, is_about_a_node, is_about_claims, node_of, session_of
from mnemon.pipelines.messages import MessageTools
from mnemon.pipelines.recall.recalling import Recaller
from mnemon.pipelines.replicas import Replicas
from mnemon.pipelines.retrieval.retriever import Retriever
from mnemon.pipelines.write.session import SessionWriter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a memory is made of."""

    home: Path
    config: Config
    clock: Clock
    archive: Archive
    index: Index
    graph: Graph
    queue: Queue
    embedder: Embedder
    worker: str
    replicas: Replicas
    likeness: Likeness
    writer: SessionWriter
    messages: MessageTools
    retriever: Retriever
    recaller: Recaller
    entries: EntryWriter
    entry_search: EntrySearch
    graphs: GraphReader
    outside: Outside
    claims: ClaimKeeper
    nodes: NodeKeeper
    forgetter: Forgetter
    sweeper: Sweeper
    chats: ChatDesk
    historian: Historian
    alerts: Alerts
    watch: Watch
    redactor: Redactor | None
    models: Models
    llm: LlmChoice | None
    warnings: tuple[str, ...]
    temporary: tempfile.TemporaryDirectory[str] | None
    standing: Standing | None = None
    service: ServiceClient | None = None

    def asker(self, choice: LlmChoice | None = None, model: str = "", max_tokens: int = 0) -> Asker | None:
        """The model for one call: the call's own, else the memory's, else the platform's, else none. `model` names
        another one of the same provider; `max_tokens` is a limit for this call alone."""
        chosen = self.models.choose(choice, self.llm, self.config.llm, model)
        if chosen.model is None:
            return None
        concurrency = self.config.pipeline.extraction_concurrency
        return Asker(chosen.model, budget(self.config.llm, max_tokens), chosen.byok, concurrency)

    async def answered(self, scope: Scope, ask: Callable[[], Awaitable[T]]) -> tuple[T, tuple[Degraded, ...]]:
        """An answer, and what it has to say of the replicas it rests on; a service says that itself."""
        if self.standing is None:
            return await ask(), ()
        degraded = await self.standing.look(scope)
        found = await ask()
        if self.standing.changed:  # one turned out to be broken while it was asked
            degraded = await self.standing.look(scope)
            found = await ask()
        return found, degraded

    def masked(self, call: EndCall) -> EndCall:
        """A bot's turn without what nobody should keep, where that is asked for: before it is written anywhere."""
        return mask_call(call, self.redactor) if self.redactor else call

    @property
    def handlers(self) -> dict[JobKind, Handler]:
        """Who does which jobs. What nobody does here waits."""
        chats: dict[JobKind, Handler] = {JobKind.END: self.historian.digest} if self.config.cognitive.enabled else {}
        return {
            **chats,
            JobKind.DIGEST: self.writer.resume,
            JobKind.INDEX: self._index,
            JobKind.RELATION: self._index,
            JobKind.DELETE: self._delete,
            JobKind.MOVE: self.nodes.carry_out,
            JobKind.CATCH_UP: self._catch_up,
        }

    def offers(self) -> tuple[str, ...]:
        """What jobs wait for and this memory has: a model of its own, or one that a caller lent."""
        return ("model",) if self.writer.lent or self.asker() is not None else ()

    async def _index(self, job: Job) -> None:
        if is_about_claims(job):
            await self.claims.carry_out(job)
        elif is_about_a_node(job):
            await self.replicas.index_node(node_of(job))
        else:
            await self.replicas.bring_up(session_of(job))

    async def recover(self) -> int:
        """Take over what the dead left: their jobs, and whatever they archived that has not reached the replicas."""
        recovered = await self.queue.recover()
        if gone := await self.replicas.presence.gone():
            await self.queue.put([catch_up_job()])
            await self.replicas.presence.strike(gone)
        return recovered + bool(gone)

    async def _catch_up(self, job: Job) -> None:
        await catch_up(self.archive, self.replicas, self.queue)

    async def _delete(self, job: Job) -> None:
        """Of an earlier version; what is forgotten now is promised in the archive."""
        with suppress(NotFound):
            await self.forgetter.forget(job.tenant_id, job.payload)
