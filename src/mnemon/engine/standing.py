"""How the replicas stand to the archive: who finds one missing, broken or behind says so in every answer, and brings it
up in the background meanwhile."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from mnemon.contracts.errors import Corrupt, MnemonError
from mnemon.contracts.ports import Archive
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Scope
from mnemon.drivers.sqlite_file import belongings, drop_broken, set_broken_aside
from mnemon.pipelines.entries.following import Follower
from mnemon.pipelines.graph.replaying import replay
from mnemon.pipelines.index.catchup import lagging, stale_in_graph, stale_nodes, stale_sessions
from mnemon.pipelines.replicas import Replicas

BEHIND = "index_behind"
# How long an answer waits for a replica that is being brought up: a small home is done by then, and its answer whole.
PATIENCE_S = 2.0
# How long it is believed that an owner's newest sessions are indexed, before they are looked at again.
_BELIEVED_S = 30.0

_log = logging.getLogger(__name__)


class Home:
    """Where the replicas of a home lie: in it, or, where nothing can be written there, in a folder of their own that
    goes when the memory is closed. Whoever uses them holds a lock, so that nobody takes a file away from them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read_only = not _writable(folder)
        self.news: list[str] = []
        self._spare: tempfile.TemporaryDirectory[str] | None = None
        # Nobody replaces a file where nothing can be written, and there is nothing to hold there.
        how = os.O_RDONLY if self.read_only else os.O_RDWR | os.O_CREAT
        self._fd = os.open(folder if self.read_only else folder / "replicas.lock", how, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    @property
    def held_anything(self) -> bool:
        """Is there an archive that a replica could be of?"""
        tenants = self.folder / "tenants"
        return tenants.is_dir() and any(tenants.iterdir())

    @property
    def spare(self) -> Path:
        if self._spare is None:
            self._spare = tempfile.TemporaryDirectory(prefix="mnemon-replica-")
        return Path(self._spare.name)

    def place(self, name: str) -> Path:
        """Where to keep what is no part of the archive."""
        return self.spare / name if self.read_only else self.folder / name

    @contextmanager
    def alone(self) -> Iterator[bool]:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self._fd, fcntl.LOCK_SH)  # a try that fails lets go of what was held
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_SH)

    def open(self, name: str, make: Callable[[Path], Any]) -> Renewable:
        """A replica's file, whatever is in its place."""
        path = self.place(name)
        if self.read_only:
            self.news.append(f"{self.folder} cannot be written to: a copy of {name} in a temporary folder answers")
            for file in belongings(self.folder / name):
                with suppress(FileNotFoundError):
                    shutil.copy(file, path.parent)
        missing = not path.exists() and self.held_anything
        try:
            made = make(path)
        except Corrupt as error:
            path, made = self._anew(path, make, error)
        else:
            if missing:
                self.news.append(f"{name} was not there")
        return Renewable(made, path, partial(self._anew, path, make))

    def _anew(self, path: Path, make: Callable[[Path], Any], error: Corrupt) -> tuple[Path, Any]:
        with self.alone() as alone:
            if alone:
                aside = set_broken_aside(path)
                self.news.append(f"{path.name} was broken and is set aside as {aside.name}")
                return path, make(path)
        if path.parent == self.spare:
            raise error
        self.news.append(f"{path.name} is broken and another process has it open: one in a temporary folder answers")
        return self.spare / path.name, make(self.spare / path.name)

    def close(self) -> None:
        os.close(self._fd)
        if self._spare is not None:
            self._spare.cleanup()


class Renewable:
    """A driver over a file that may turn out to be broken: it is begun anew then, and the call made again."""

    def __init__(self, made: Any, path: Path, anew: Callable[[Corrupt], tuple[Path, Any]]) -> None:
        self._made = made
        self._anew = anew
        self._renewing = asyncio.Lock()
        self.path = path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._made, name)
        if name.startswith("_") or not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **options: Any) -> Any:
            made = self._made
            try:
                return await getattr(made, name)(*args, **options)
            except Corrupt as error:
                if name in ("close", "begin_rebuild", "finish_rebuild"):
                    raise
                await self._renew(made, error)
                return await getattr(self._made, name)(*args, **options)

        self.__dict__[name] = call  # made once: asking a driver for a method is hot
        return call

    async def _renew(self, broken: Any, error: Corrupt) -> None:
        async with self._renewing:
            if self._made is not broken:
                return  # by somebody who found out at the same time
            _log.error("%s; it is begun anew", error)
            with suppress(MnemonError, sqlite3.Error):
                await broken.close()
            self.path, self._made = await asyncio.to_thread(self._anew, error)


class Standing:
    def __init__(self, home: Home, archive: Archive, replicas: Replicas, may_heal: bool) -> None:
        self._home = home
        self._archive = archive
        self._replicas = replicas
        # Nobody else can bring up what only this memory has.
        self._may_heal = may_heal or home.read_only
        self._seen = 0
        self._why = ""
        self._healing: asyncio.Task[None] | None = None
        self._believed: dict[Scope, float] = {}

    @property
    def news(self) -> tuple[str, ...]:
        """What was found when this memory was opened, or since."""
        return tuple(self._home.news)

    @property
    def changed(self) -> bool:
        """Did something turn up since this was last looked at?"""
        return len(self._home.news) > self._seen

    def heal(self) -> None:
        """Begin to bring up what is behind, if anything is known to be and nobody has begun."""
        if self.changed:
            self._seen = len(self._home.news)
            self._why = "; ".join(self._home.news)
        if self._why and self._may_heal and self._healing is None:
            self._healing = asyncio.create_task(self._bring_up())

    async def look(self, scope: Scope) -> tuple[Degraded, ...]:
        """What an answer for this scope has to say of the replica it rests on."""
        self.heal()
        if not self._why and time.monotonic() - self._believed.get(scope, -_BELIEVED_S) >= _BELIEVED_S:
            try:
                late = await lagging(self._archive, self._replicas.indexer.index, scope)
            except MnemonError as error:
                late = str(error)
            if late:
                self._why = late
                self.heal()
            else:
                if len(self._believed) > 10_000:
                    self._believed.clear()
                self._believed[scope] = time.monotonic()
        if self._healing is not None:
            await asyncio.wait({self._healing}, timeout=PATIENCE_S)
        elif self._why and not self._home.news:
            self._why = await lagging(self._archive, self._replicas.indexer.index, scope)
        if not self._why:
            return ()
        doing = "it is being brought up" if self._healing is not None else "run `mnemon repair`"
        return (Degraded(BEHIND, f"{self._why}; what is not indexed yet is not found, {doing}"),)

    async def _bring_up(self) -> None:
        """Everything the replicas lack, one session after the other, while they answer."""
        why = self._why
        try:
            async for tenant in self._archive.tenants():
                await self._tenant(tenant)
        except (MnemonError, OSError) as error:
            _log.warning("could not bring the replicas up: %s; trying again at the next question", error)
        else:
            if self._why == why:
                self._why = ""
            for replica in (self._replicas.indexer.index, self._replicas.grapher.graph):
                if isinstance(replica, Renewable):
                    await asyncio.to_thread(drop_broken, replica.path)
        finally:
            self._healing = None

    async def _tenant(self, tenant: str) -> None:
        index, grapher = self._replicas.indexer.index, self._replicas.grapher
        late = {r.key: None async for r in stale_sessions(self._archive, index, tenant)}
        late |= {r.key: None async for r in stale_in_graph(self._archive, grapher, tenant)}
        for key in late:
            with suppress(Corrupt, ValueError):  # damaged in the archive: verify names it
                await self._replicas.bring_up(key)
        for node in [key async for key in stale_nodes(self._archive, index, tenant)]:
            await self._replicas.index_node(node)
        with suppress(Corrupt):
            await replay(self._archive, grapher.graph, tenant)
            await Follower(self._archive, index, self._replicas.indexer.embedder, grapher.graph).mend(tenant)

    def brought_up(self) -> None:
        """By somebody who made the replicas anew."""
        self._why, self._seen = "", len(self._home.news)

    async def stop(self) -> None:
        """Let go of what is under way: whoever opens the home next goes on."""
        if self._healing is not None:
            self._healing.cancel()
            with suppress(asyncio.CancelledError):
                await self._healing

    def close(self) -> None:
        self._home.close()


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
