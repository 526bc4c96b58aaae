"""Can this memory be used right now: can it be written to, does its index answer, is its embedder loaded?"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mnemon.contracts.errors import MnemonError
from mnemon.engine.parts import Parts


@dataclass(frozen=True, slots=True)
class Readiness:
    """Each part is `ok`, or says what is wrong with it."""

    archive: str
    index: str
    embedder: str

    @property
    def ready(self) -> bool:
        return self.archive == self.index == self.embedder == "ok"


async def readiness(parts: Parts) -> Readiness:
    return Readiness(
        archive=await asyncio.to_thread(_writable, parts.home),
        index=await _index(parts),
        embedder=await _embedder(parts),
    )


def _writable(home: Path) -> str:
    try:
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"ready")
    except OSError as error:
        return f"the home folder cannot be written to: {error.strerror}"
    return "ok"


async def _index(parts: Parts) -> str:
    try:
        await parts.index.info()
    except MnemonError as error:
        return error.message
    return "ok"


async def _embedder(parts: Parts) -> str:
    try:
        await parts.embedder.embed_texts(["ready"], "query")
    except MnemonError as error:
        return error.message
    return "ok"
