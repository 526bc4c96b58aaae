"""What a write needs of a Memory Service besides its archive: the session to oneself, its replicas, likeness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnemon.contracts.jobs import Job
from mnemon.contracts.ports import Holds, Likeness, Replicator
from mnemon.contracts.scope import SessionKey
from mnemon.contracts.sessions import SessionRecord, StoredTurn
from mnemon.drivers.remote_port import RemotePort, served
from mnemon.drivers.service import ServiceClient
from mnemon.logic.operations import operations


@served(Holds)
class RemoteHolds(RemotePort):
    path = "/v1/holds/"

    def __init__(self, client: ServiceClient) -> None:
        super().__init__(client)
        self._tenants: dict[str, str] = {}

    def tenant_of(self, first: Job | str) -> str:
        """A job is taken as a whole and spoken of by its id from then on."""
        if isinstance(first, Job):
            self._tenants[first.job_id] = first.tenant_id
            return first.tenant_id
        return self._tenants.get(first, "")


@served(Replicator)
class RemoteReplicas(RemotePort):
    path = "/v1/replicas/"

    async def index_session(
        self, key: SessionKey, fresh: Sequence[StoredTurn] = (), page: SessionRecord | None = None
    ) -> int:
        return int(await self._about("index_session", key))

    async def index_words(self, key: SessionKey, fresh: Sequence[StoredTurn] = ()) -> None:
        await self._about("index_words", key)

    async def project(
        self,
        key: SessionKey,
        fresh: Sequence[StoredTurn] = (),
        anew: bool = False,
        page: SessionRecord | None = None,
    ) -> None:
        await self._about("project", key)

    async def _about(self, name: str, key: SessionKey) -> Any:
        """The service reads what was archived there; it need not be sent twice."""
        told = operations(Replicator)[name]
        raw = await self.client.ask("POST", self.path + name, told.request(key), None, {"X-Tenant-ID": key.tenant_id})
        return told.result(raw)


@served(Likeness)
class RemoteLikeness(RemotePort):
    path = "/v1/likeness/"
