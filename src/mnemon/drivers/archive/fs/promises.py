"""What is promised to be forgotten: a sealed file each beside the tenants, until it is done and proven.

One at a time in a home: whoever forgets holds the folder, and a crash lets go of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from mnemon.contracts.errors import Corrupt
from mnemon.contracts.forgetting import Intent
from mnemon.drivers.archive.fs.durable import Step, locked, make_dirs, replace_file, sweep
from mnemon.drivers.archive.fs.sealed import read_sealed, seal

PROMISES = "forgetting"
_SUFFIX = ".json"

_log = logging.getLogger(__name__)


class PromiseFiles:
    def __init__(self, home: Path, step: Step) -> None:
        self._folder = home / PROMISES
        self._step = step

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        with ExitStack() as stack:
            await asyncio.to_thread(self._hold, stack)
            yield

    def _hold(self, stack: ExitStack) -> None:
        make_dirs(self._folder)
        stack.enter_context(locked(self._folder))
        sweep(self._folder, held=True)

    def make(self, intent: Intent) -> None:
        replace_file(self._path(intent.intent_id), seal(intent.model_dump(mode="json")), self._step, "promise")

    def all(self, tenant_id: str | None) -> list[Intent]:
        """Oldest first. One that cannot be read is named in the log: it has to be asked for again."""
        found: list[Intent] = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")) if self._folder.is_dir() else []:
            try:
                body = read_sealed(path)
                intent = Intent.model_validate(body) if body is not None else None
            except (Corrupt, ValueError) as error:
                _log.error("a promise to forget cannot be read; forget it again, then delete the file: %s", error)
                continue
            if intent is not None and tenant_id in (None, intent.tenant_id):
                found.append(intent)
        return found

    def keep(self, intent_id: str) -> None:
        # Not synced: after a power cut it may come back, and is then found to be kept already.
        self._path(intent_id).unlink(missing_ok=True)
        self._step("promise.kept")

    def _path(self, intent_id: str) -> Path:
        return self._folder / f"{intent_id}{_SUFFIX}"
