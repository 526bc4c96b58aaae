"""The one place where names become drivers: a home folder and a configuration in, the parts of a memory out."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from mnemon.contracts.errors import InvalidArgument, MissingExtra, NotFound
from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.ports import Archive, Clock, Embedder, Index, Queue
from mnemon.drivers.liveness import worker_id
from mnemon.engine.clock import SystemClock
from mnemon.engine.config import Config, EmbedderConfig
from mnemon.engine.models import LlmChoice, Models, budget
from mnemon.engine.registry import driver
from mnemon.logic.redaction import Redactor, default_patterns
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.govern.forgetting import Forgetter
from mnemon.pipelines.govern.nodes import NodeKeeper
from mnemon.pipelines.govern.sweeping import Sweeper
from mnemon.pipelines.index.indexing import Indexer
from mnemon.pipelines.index.worker import Handler
from mnemon.pipelines.jobs import is_about_a_node, node_of, session_of
from mnemon.pipelines.messages import MessageTools
from mnemon.pipelines.retrieval.retriever import Retriever
from mnemon.pipelines.write.commit import Committer
from mnemon.pipelines.write.placing import Placer
from mnemon.pipelines.write.session import SessionWriter

# So that nobody has to look these up; for any other model the configuration says it.
_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}

EmbedderChoice = str | Mapping[str, Any] | Embedder


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a memory is made of."""

    home: Path
    config: Config
    clock: Clock
    archive: Archive
    index: Index
    queue: Queue
    embedder: Embedder
    worker: str
    indexer: Indexer
    writer: SessionWriter
    messages: MessageTools
    retriever: Retriever
    claims: ClaimKeeper
    nodes: NodeKeeper
    forgetter: Forgetter
    sweeper: Sweeper
    models: Models
    llm: LlmChoice | None
    warnings: tuple[str, ...]
    temporary: tempfile.TemporaryDirectory[str] | None

    def asker(self, choice: LlmChoice | None = None, model: str = "") -> Asker | None:
        """The model for one call: the call's own, else the memory's, else the platform's, else none. `model` names
        another one of the same provider."""
        chosen = self.models.choose(choice, self.llm, self.config.llm, model)
        if chosen.model is None:
            return None
        concurrency = self.config.pipeline.extraction_concurrency
        return Asker(chosen.model, budget(self.config.llm), chosen.byok, concurrency)

    @property
    def handlers(self) -> dict[JobKind, Handler]:
        """Who does which jobs."""
        return {
            JobKind.DIGEST: self.writer.resume,
            JobKind.INDEX: self._index,
            JobKind.RELATION: self._index,
            JobKind.DELETE: self._delete,
            JobKind.MOVE: self.nodes.carry_out,
        }

    async def _index(self, job: Job) -> None:
        if is_about_a_node(job):
            await self.indexer.index_node(node_of(job))
        else:
            await self.indexer.index_session(session_of(job))

    async def _delete(self, job: Job) -> None:
        await self.forgetter.carry_out(job)


def build(
    place: str | Path,
    config: Config,
    embedder: EmbedderChoice | None,
    llm: LlmChoice | None,
    clock: Clock | None,
    for_rebuild: bool,
) -> Parts:
    home, temporary = _home(place)
    try:
        return _assemble(home, temporary, config, embedder, llm, clock or SystemClock(), for_rebuild)
    except BaseException:
        if temporary is not None:
            temporary.cleanup()
        raise


def _assemble(
    home: Path,
    temporary: tempfile.TemporaryDirectory[str] | None,
    config: Config,
    embedder: EmbedderChoice | None,
    llm: LlmChoice | None,
    clock: Clock,
    for_rebuild: bool,
) -> Parts:
    made, warnings = _embedder(config.embedder, embedder, home)
    archive: Archive = driver("archive", "fs")(home, clock, revisions_kept=config.revisions_kept)
    index = _index(config, home, made, for_rebuild)
    queue = _queue(config, home, clock)
    indexer = Indexer(archive, index, made)
    worker = worker_id()
    models = Models()
    models.choose(None, llm, config.llm)  # a mistake in the settings is told here, not at the first write
    placer = Placer(archive, index, made, config.dedup)
    committer = Committer(archive, placer, clock, config.archive, config.pipeline, config.commit)
    keeper = ClaimKeeper(archive, index, indexer, clock)
    grace = timedelta(seconds=config.governance.grace_seconds)
    parts: Parts

    def own_asker() -> Asker | None:
        return parts.asker()

    parts = Parts(
        home=home,
        config=config,
        clock=clock,
        archive=archive,
        index=index,
        queue=queue,
        embedder=made,
        worker=worker,
        indexer=indexer,
        writer=SessionWriter(archive, queue, indexer, committer, clock, worker, own_asker),
        messages=MessageTools(archive, index, made, clock),
        retriever=Retriever(index, made, clock),
        claims=keeper,
        nodes=NodeKeeper(archive, queue, indexer, worker),
        forgetter=Forgetter(archive, index, queue, made, keeper, clock, worker),
        sweeper=Sweeper(archive, index, indexer, keeper, clock, grace),
        models=models,
        llm=llm,
        warnings=warnings,
        temporary=temporary,
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


def _index(config: Config, home: Path, embedder: Embedder, for_rebuild: bool) -> Index:
    scheme, separator, _ = config.index_url.partition("://")
    if scheme == "sqlite" and not separator:
        made: Index = driver("index", "sqlite")(
            home / "index.db",
            embedder.model,
            embedder.dimension,
            cache_bytes=config.index_cache_mb << 20,
            any_model=for_rebuild,
        )
        return made
    return cast(
        Index, driver("index", scheme)(config.index_url, embedder.model, embedder.dimension, any_model=for_rebuild)
    )


def _queue(config: Config, home: Path, clock: Clock) -> Queue:
    places = {"fs": home / "queue", "sqlite": home / "queue.db"}
    if config.queue_url not in places:
        raise InvalidArgument(f"queue_url must be one of {', '.join(places)}", field="queue_url")
    return cast(Queue, driver("queue", config.queue_url)(places[config.queue_url], clock))


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


def _embedder(config: EmbedderConfig, choice: EmbedderChoice | None, home: Path) -> tuple[Embedder, tuple[str, ...]]:
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
        made = driver("embed", "cache")(made, home / "embeddings.db", purpose_matters=purpose_matters)
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
