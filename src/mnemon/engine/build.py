"""The one place where names become drivers: a home folder and a configuration in, the parts of a memory out."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from mnemon.contracts.cognitive import AlertsConfig
from mnemon.contracts.errors import InvalidArgument, MissingExtra, NotFound
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.ports import Archive, Clock, Embedder, Graph, Index, Premises, Queue
from mnemon.drivers.attendance import Attendance
from mnemon.drivers.home_clock import HomeClock
from mnemon.drivers.liveness import worker_id
from mnemon.drivers.webhook import Webhook
from mnemon.engine.clock import SystemClock
from mnemon.engine.config import Config, EmbedderConfig
from mnemon.engine.models import LlmChoice, Models
from mnemon.engine.parts import Parts
from mnemon.engine.registry import driver
from mnemon.engine.standing import Home, Standing
from mnemon.logic.redaction import Redactor, default_patterns
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.entries.finding import EntrySearch
from mnemon.pipelines.entries.following import Follower
from mnemon.pipelines.entries.writing import EntryWriter
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.govern.forgetting import Forgetter
from mnemon.pipelines.govern.nodes import NodeKeeper
from mnemon.pipelines.govern.sweeping import Sweeper
from mnemon.pipelines.graph.outside import Outside
from mnemon.pipelines.graph.projection import Grapher
from mnemon.pipelines.graph.reading import GraphReader
from mnemon.pipelines.historian.alerting import Alerts
from mnemon.pipelines.historian.desk import ChatDesk
from mnemon.pipelines.historian.digesting import Historian
from mnemon.pipelines.historian.ending import Ender
from mnemon.pipelines.historian.watching import Watch
from mnemon.pipelines.index.indexing import Indexer
from mnemon.pipelines.messages import MessageTools
from mnemon.pipelines.recall.recalling import Recaller
from mnemon.pipelines.replicas import Replicas
from mnemon.pipelines.retrieval.retriever import OwnIndex, Retriever
from mnemon.pipelines.write.commit import Committer
from mnemon.pipelines.write.likeness import NearestNodes
from mnemon.pipelines.write.placing import Placer
from mnemon.pipelines.write.session import SessionWriter

# So that nobody has to look these up; for any other model the configuration says it.
_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}

EmbedderChoice = str | Mapping[str, Any] | Embedder


def build(
    place: str | Path,
    config: Config,
    embedder: EmbedderChoice | None,
    llm: LlmChoice | None,
    clock: Clock | None,
    for_rebuild: bool,
) -> Parts:
    folder, temporary = _home(place)
    home = Home(folder)
    try:
        return _assemble(home, temporary, config, embedder, llm, clock or SystemClock(), for_rebuild)
    except BaseException:
        home.close()
        if temporary is not None:
            temporary.cleanup()
        raise


def _assemble(
    home: Home,
    temporary: tempfile.TemporaryDirectory[str] | None,
    config: Config,
    embedder: EmbedderChoice | None,
    llm: LlmChoice | None,
    clock: Clock,
    for_rebuild: bool,
) -> Parts:
    grace = timedelta(seconds=config.governance.grace_seconds)
    given, clock = clock, HomeClock(clock, home.place("clock.json"), grace)
    alerts = _alerts(config.cognitive.alerts)
    made, warnings = _embedder(config.embedder, embedder, home)
    historian = config.cognitive.historian
    kept = {Shelf.PROFILE: historian.profile_revision_keep}
    keeping = {"revisions_kept": config.revisions_kept, "kept_of": kept}
    archive: Archive = driver("archive", "fs")(home.folder, clock, **keeping)
    index = _index(config, home, made, for_rebuild)
    queue = _queue(config, home, clock)
    indexer = Indexer(archive, index, made)
    graph = cast(Graph, home.open("graph.db", driver("graph", "sqlite")))
    worker = worker_id()
    presence = Attendance(home.place("present"), worker)
    replicas = Replicas(indexer, Grapher(archive, graph), presence)
    if home.read_only:
        config = replace(config, background_worker=False)
    standing = Standing(home, archive, replicas, config.background_worker and not for_rebuild)
    models = Models()
    models.choose(None, llm, config.llm)  # a mistake in the settings is told here, not at the first write
    likeness = NearestNodes(index, made, config.dedup)
    placer = Placer(archive, likeness, config.dedup)
    committer = Committer(archive, placer, clock, config.archive, config.pipeline, config.commit)
    keeper = ClaimKeeper(archive, index, replicas, clock, queue, worker)
    entries = EntryWriter(Follower(archive, index, made, graph), clock)
    messages = MessageTools(archive, index, made, clock)
    ender = Ender(queue, historian.job_max_retries)
    parts: Parts

    def own_asker() -> Asker | None:
        return parts.asker()

    parts = Parts(
        home=home.folder,
        config=config,
        clock=given,
        archive=archive,
        index=index,
        graph=graph,
        queue=queue,
        embedder=made,
        worker=worker,
        replicas=replicas,
        likeness=likeness,
        writer=SessionWriter(archive, queue, replicas, committer, clock, worker, own_asker, presence=presence),
        messages=messages,
        retriever=Retriever(OwnIndex(index, made, clock)),
        recaller=Recaller(messages, clock, index=index),
        entries=entries,
        entry_search=EntrySearch(index, made, graph, clock),
        graphs=GraphReader(graph, archive, clock),
        outside=Outside(graph, archive, clock),
        claims=keeper,
        nodes=NodeKeeper(archive, queue, replicas, worker),
        forgetter=Forgetter(archive, cast(Premises, archive), index, queue, made, keeper, clock),
        sweeper=Sweeper(archive, index, replicas, keeper, entries, clock, grace),
        chats=ChatDesk(ender, archive, index, made, keeper, replicas, clock, config.cognitive.query),
        historian=Historian(
            archive, index, replicas, placer, clock, config.quotas, historian.rewrite_max_retry, own_asker, alerts.tell
        ),
        alerts=alerts,
        watch=Watch(queue, clock, alerts, config.cognitive.alerts),
        redactor=redactor(config) if config.redact else None,
        models=models,
        llm=llm,
        warnings=warnings,
        temporary=temporary,
        standing=standing,
    )
    return parts


def _home(place: str | Path) -> tuple[Path, tempfile.TemporaryDirectory[str] | None]:
    if str(place) == ":memory:":
        folder = tempfile.TemporaryDirectory(prefix="mnemon-")
        return Path(folder.name), folder
    if "://" in str(place):
        raise InvalidArgument(f"{place!r} is not a folder; this version opens a folder or ':memory:'", field="place")
    home = Path(place).expanduser()
    if home.exists() and not home.is_dir():
        raise InvalidArgument(f"{home} is a file; a memory lives in a folder", field="place")
    home.mkdir(parents=True, exist_ok=True)
    return home, None


def _index(config: Config, home: Home, embedder: Embedder, for_rebuild: bool) -> Index:
    scheme, separator, _ = config.index_url.partition("://")
    if scheme == "sqlite" and not separator:
        made = driver("index", "sqlite")

        def make(path: Path) -> Index:
            options = {"cache_bytes": config.index_cache_mb << 20, "any_model": for_rebuild}
            return cast(Index, made(path, embedder.model, embedder.dimension, **options))

        return cast(Index, home.open("index.db", make))
    return cast(
        Index, driver("index", scheme)(config.index_url, embedder.model, embedder.dimension, any_model=for_rebuild)
    )


def _queue(config: Config, home: Home, clock: Clock) -> Queue:
    places = {"fs": home.place("queue"), "sqlite": home.place("queue.db")}
    if config.queue_url not in places:
        raise InvalidArgument(f"queue_url must be one of {', '.join(places)}", field="queue_url")
    kept = config.cognitive.historian.failed_jobs_kept
    return cast(Queue, driver("queue", config.queue_url)(places[config.queue_url], clock, failed_kept=kept))


def _alerts(config: AlertsConfig) -> Alerts:
    alerts = Alerts(config.repeat_seconds)
    if config.webhook:
        alerts.on(Webhook(config.webhook).post)
    return alerts


def redactor(config: Config) -> Redactor:
    """The patterns of the configuration, or those that come with the package."""
    own = config.redaction_patterns
    if not own:
        return Redactor(default_patterns())
    try:
        return Redactor(tomllib.loads(Path(own).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise NotFound(f"there is no file {own}", field="redaction_patterns") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"{own}: {error}", field="redaction_patterns") from None


def _embedder(config: EmbedderConfig, choice: EmbedderChoice | None, home: Home) -> tuple[Embedder, tuple[str, ...]]:
    if choice is not None and not isinstance(choice, str | Mapping):
        return choice, ()
    if isinstance(choice, Mapping):
        unknown = choice.keys() - EmbedderConfig.__dataclass_fields__.keys()
        if unknown:
            known = ", ".join(EmbedderConfig.__dataclass_fields__)
            raise InvalidArgument(f"embedder has no setting {min(unknown)!r}; known: {known}", field="embedder")
        config = replace(config, **choice)
    elif choice is not None:
        config = replace(config, provider=choice)
    made, warnings = _make_embedder(config)
    if config.cache and made.semantic:  # what costs nothing to compute is not worth keeping
        purpose_matters = config.provider == "openai"
        made = driver("embed", "cache")(made, home.place("embeddings.db"), purpose_matters=purpose_matters)
    return made, warnings


def _make_embedder(config: EmbedderConfig) -> tuple[Embedder, tuple[str, ...]]:
    match config.provider:
        case "auto" | "local":
            local = driver("embed", "local")(config.path or None)
            try:
                local.check()
            except MissingExtra as missing:
                if config.provider == "local":
                    raise
                spare = driver("embed", "hash")()
                return spare, (f"{spare.warning} ({missing})",)
            return local, ()
        case "hash":
            plain = driver("embed", "hash")()
            return plain, (plain.warning,)
        case "openai":
            dimension = config.dimension or _DIMENSIONS.get(config.model, 0)
            for name, value in (("model", config.model), ("base_url", config.base_url), ("dimension", dimension)):
                if not value:
                    raise InvalidArgument(f"embedder openai needs {name}", field=f"embedder.{name}")
            made = driver("embed", "openai")(
                base_url=config.base_url,
                api_key=config.api_key,
                model=config.model,
                dimension=dimension,
                timeout_s=config.timeout_s,
            )
            return made, ()
        case other:
            return driver("embed", other)(config), ()
