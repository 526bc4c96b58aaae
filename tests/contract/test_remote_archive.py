"""The archive contract over HTTP: the driver, the routes and the archive behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from mnemon.drivers.archive.remote import RemoteArchive
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.service import ServiceClient
from mnemon.engine.config import Config, ServiceConfig
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.tokens import Tokens
from mnemon.surfaces.http.app import create_app
from mnemon.surfaces.http.identity import Gatekeeper
from mnemon.testing.archive_papers_suite import PapersContract
from mnemon.testing.archive_suite import ArchiveContract, ArchiveFactory
from mnemon.testing.clock import FixedClock


class OverHttp:
    @pytest.fixture
    async def archive_factory(self, tmp_path: Path, clock: FixedClock) -> AsyncIterator[ArchiveFactory]:
        memories: dict[str, AsyncMemory] = {}
        clients: list[ServiceClient] = []
        config = replace(Config(), background_worker=False, service=ServiceConfig(body_limit=64 << 20))

        def make(name: str) -> RemoteArchive:
            if name not in memories:
                memories[name] = AsyncMemory(tmp_path / name, config=config, embedder=HashEmbedder(), clock=clock)
            gate = Gatekeeper(Tokens(tmp_path / name), local=True)
            app = create_app(memories[name], gate, config.service)
            clients.append(ServiceClient("http://localhost", transport=httpx.ASGITransport(app)))
            return RemoteArchive(clients[-1])

        yield make
        for client in clients:
            await client.close()
        for memory in memories.values():
            await memory.close()


class TestRemoteArchive(OverHttp, ArchiveContract):
    pass


class TestRemotePapers(OverHttp, PapersContract):
    pass
