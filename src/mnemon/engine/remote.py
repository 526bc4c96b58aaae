"""A memory kept by a Memory Service: the pipeline runs here, with the caller's own model, whose key never leaves this
process; everything else is asked of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic import TypeAdapter
from pydantic_core import to_json

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.filters import Range
from mnemon.contracts.ports import Archive, Clock, Holds, Likeness, Replicator
from mnemon.contracts.recall import RecallResult, RecallSettings
from mnemon.contracts.retrieval import RetrievalResult
from mnemon.contracts.scope import Scope
from mnemon.drivers.home_clock import HomeClock
from mnemon.drivers.liveness import worker_id
from mnemon.drivers.remote_desks import (
    CHATS,
    CLAIMS,
    ENTRIES,
    GRAPH,
    MESSAGES,
    NODES,
    RemoteChats,
    RemoteClaims,
    RemoteDesk,
    RemoteEntries,
    RemoteForgetter,
    RemoteGraph,
    headers_of,
)
from mnemon.drivers.remote_writing import RemoteHolds, RemoteLikeness, RemoteReplicas
from mnemon.drivers.service import ServiceClient
from mnemon.engine.build import redactor
from mnemon.engine.clock import SystemClock
from mnemon.engine.config import Config
from mnemon.engine.models import LlmChoice, Models
from mnemon.engine.parts import Parts
from mnemon.engine.registry import driver
from mnemon.logic.skills import ANY_ROLE, Skill
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.recall.loading import is_shipped
from mnemon.pipelines.recall.recalling import Planner, Recaller
from mnemon.pipelines.retrieval.desk import Request
from mnemon.pipelines.retrieval.retriever import Finding, Retriever
from mnemon.pipelines.write.commit import Committer
from mnemon.pipelines.write.placing import Placer
from mnemon.pipelines.write.session import SessionWriter

_RESULT = TypeAdapter(RetrievalResult)


@dataclass(frozen=True, slots=True)
class Service:
    """Where a Memory Service is and how it is entered."""

    base_url: str
    token: str = ""
    signing_secret: str = ""
    auth_headers: Mapping[str, str] | None = None
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise InvalidArgument("a service is named http://host:port, without a name or a key in it", field="place")

    def __repr__(self) -> str:
        return f"Service({self.base_url!r})"

    def client(self) -> ServiceClient:
        return ServiceClient(
            self.base_url,
            self.token,
            signing_secret=self.signing_secret,
            headers=self.auth_headers,
            timeout_s=self.timeout_s,
        )


def build_remote(service: Service, config: Config, llm: LlmChoice | None, clock: Clock | None) -> Parts:
    client = service.client()
    clock = clock or SystemClock()
    models = Models()
    models.choose(None, llm, config.llm)
    archive: Archive = driver("archive", "remote")(client)
    holds, replicas = cast(Holds, RemoteHolds(client)), cast(Replicator, RemoteReplicas(client))
    likeness = cast(Likeness, RemoteLikeness(client))
    placer = Placer(archive, likeness, config.dedup)
    watched = HomeClock(clock, None, timedelta(seconds=config.governance.grace_seconds))
    committer = Committer(archive, placer, watched, config.archive, config.pipeline, config.commit)
    elsewhere: Any = _Elsewhere(service.base_url)
    entries: Any = RemoteEntries(client, ENTRIES)
    graph: Any = RemoteGraph(client, GRAPH)
    messages: Any = RemoteDesk(client, MESSAGES)
    worker = worker_id()
    parts: Parts

    def own_asker() -> Asker | None:
        return parts.asker()

    desks: dict[str, Any] = {
        "messages": messages,
        "claims": RemoteClaims(client, CLAIMS),
        "nodes": RemoteDesk(client, NODES),
        "forgetter": RemoteForgetter(client, {}),
        "entries": entries,
        "entry_search": entries,
        "graphs": graph,
        "outside": graph,
        "chats": RemoteChats(client, CHATS),
    }
    parts = Parts(
        home=Path(service.base_url),
        config=replace(config, background_worker=False),
        clock=clock,
        archive=archive,
        index=elsewhere,
        graph=elsewhere,
        queue=elsewhere,
        embedder=elsewhere,
        worker=worker,
        replicas=cast(Any, replicas),
        likeness=likeness,
        writer=SessionWriter(archive, holds, replicas, committer, clock, worker, own_asker),
        retriever=Retriever(_Finder(client)),
        recaller=Recaller(messages, clock, _RecallsThere(client)),
        sweeper=elsewhere,
        historian=elsewhere,
        alerts=elsewhere,
        watch=elsewhere,
        redactor=redactor(config) if config.redact else None,
        models=models,
        llm=llm,
        warnings=(),
        temporary=None,
        service=client,
        **desks,
    )
    return parts


class _Elsewhere:
    """What a service does for itself."""

    semantic = True  # whether it is, the service knows; nothing is embedded here

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise InvalidArgument(
            f"this is done where the memory is kept, not through the service at {self._base_url}; "
            "run it there, with the home folder as its place",
            field="place",
        )

    async def close(self) -> None:
        """Nothing is open here."""


@dataclass(frozen=True, slots=True)
class _Finder:
    """The service finds; reordering and answering are the caller's, with the caller's model."""

    client: ServiceClient

    async def find(self, strategy: str, request: Request) -> Finding:
        scope = request.scope
        principals = {p.partition(":")[0] for p in scope.principals}
        body: dict[str, Any] = {
            "query": request.query,
            "strategy": strategy,
            "topk": request.topk,
            "include_private": {"u", "g"} <= principals,
            "budget": {"top_k": request.budget.top_k, "max_tokens": request.budget.max_tokens},
        }
        if isinstance(request.when, Range):
            body["time_range"] = _bounds(request.when)
        if request.modality:
            body["modality"] = list(request.modality)
        headers = {**headers_of(scope), "X-User-ID": request.user_id}
        raw = await self.client.ask("POST", "/v1/retrieval", to_json(body), None, headers)
        found = _RESULT.validate_json(raw)
        debug = found.debug
        return Finding(found.hits, debug.executed_calls, debug.degraded, debug.understood, found.prompt, found.looked)


@dataclass(frozen=True, slots=True)
class _RecallsThere:
    """The service recalls from what it keeps; a skill it does not have stays here."""

    client: ServiceClient

    async def recall(
        self, scope: Scope, question: str, settings: RecallSettings, skill: Skill, planner: Planner
    ) -> RecallResult | None:
        if not is_shipped(skill):
            return None
        times = {"since": settings.since, "until": settings.until}
        context = {
            "role_pref": settings.role.value if settings.role else ANY_ROLE,
            "time_range": {name: moment for name, moment in times.items() if moment},
        }
        body = {"question": question, "context": context, "skill": skill.name, "planner": planner}
        return RecallResult.model_validate_json(
            await self.client.ask("POST", "/v1/recall", to_json(body), None, headers_of(scope))
        )


def _bounds(when: Range) -> dict[str, str]:
    limits = {name: getattr(when, name) for name in ("gte", "gt", "lte", "lt")}
    return {name: datetime.fromtimestamp(ms / 1000, UTC).isoformat() for name, ms in limits.items() if ms is not None}
