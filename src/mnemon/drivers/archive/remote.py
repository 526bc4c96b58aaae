"""The archive of a Memory Service: the same promises, over HTTP."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import BinaryIO

from pydantic import TypeAdapter
from pydantic_core import to_json

from mnemon.contracts.ports import Archive
from mnemon.contracts.reports import LoadReport
from mnemon.contracts.scope import Scope
from mnemon.drivers.remote_port import RemotePort, served

_REPORT = TypeAdapter(LoadReport)


@served(Archive, without=frozenset({"load"}))
class RemoteArchive(RemotePort):
    path = "/v1/archive/"

    async def load(self, scope: Scope, files: Iterable[tuple[str, BinaryIO]]) -> LoadReport:
        rows = [{"path": path, "data": base64.b64encode(file.read()).decode()} for path, file in files]
        body = to_json({"scope": scope, "files": rows})
        raw = await self.client.ask("POST", self.path + "load", body, None, {"X-Tenant-ID": scope.tenant_id})
        return _REPORT.validate_json(raw)
