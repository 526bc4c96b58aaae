"""Whole contents on disk under their sha256."""

from __future__ import annotations

import hashlib
import re

from mnemon.contracts.errors import Corrupt, InvalidArgument, NotFound
from mnemon.contracts.scope import Scope
from mnemon.drivers.archive.fs.durable import Step, make_dirs, replace_file
from mnemon.drivers.archive.fs.layout import Layout

_SHA256 = re.compile(r"[0-9a-f]{64}")


class BlobFiles:
    def __init__(self, layout: Layout, step: Step) -> None:
        self._layout = layout
        self._step = step

    def put(self, scope: Scope, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        path = self._layout.blob(scope.tenant_id, sha256)
        if not path.exists():
            self._layout.make_named(self._layout.tenant(scope.tenant_id), scope.tenant_id)
            make_dirs(path.parent)
            replace_file(path, data, self._step, "blob")
        return sha256

    def get(self, scope: Scope, sha256: str) -> bytes:
        if not _SHA256.fullmatch(sha256):
            raise InvalidArgument("sha256 must be 64 lower-case hexadecimal digits", field="sha256")
        try:
            data = self._layout.blob(scope.tenant_id, sha256).read_bytes()
        except FileNotFoundError:
            raise NotFound(f"no blob {sha256}", sha256=sha256) from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Corrupt(f"blob {sha256} does not match its name", sha256=sha256)
        return data
