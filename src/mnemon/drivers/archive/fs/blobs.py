"""Whole contents on disk under their sha256."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mnemon.contracts.errors import Corrupt, InvalidArgument, NotFound
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import Turn
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.aside import SET_ASIDE
from mnemon.drivers.archive.fs.durable import Step, locked, make_dirs, replace_file, sync_dir
from mnemon.drivers.archive.fs.layout import TURNS, Layout
from mnemon.logic.masking import Cut, mask, quotes, without

_SHA256 = re.compile(r"[0-9a-f]{64}")
_REF = "blob://"
_REF_ANYWHERE = re.compile(rb"blob://([0-9a-f]{64})")


def blobs_named(turns: Iterable[Turn]) -> set[str]:
    """The blobs that turns point at."""
    return {a.ref.removeprefix(_REF) for turn in turns for a in turn.attachments if a.ref.startswith(_REF)}


def blobs_named_in(log: Path) -> set[str]:
    """The blobs that a session's words point at; of a damaged line, whatever looks like one."""
    named: set[str] = set()
    for item in chainlog.read_lines(log):
        raw = item.raw if isinstance(item, chainlog.Torn) else item[1]
        if _REF.encode() not in raw:
            continue
        line = chainlog.parse(raw)
        try:
            named |= blobs_named([Turn.model_validate_json(line.body)] if line and line.body else [])
        except ValueError:
            line = None
        if line is None:
            named |= {sha256.decode() for sha256 in _REF_ANYWHERE.findall(raw)}
    return named


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

    def masked(self, tenant_id: str, turn: Turn, cut: Cut) -> tuple[Turn, set[str]]:
        """A turn without the words between these places, and the blobs it no longer points at because they hold the
        same words, such as a whole tool output."""
        said = quotes(turn.text, cut)
        telling = {sha256 for sha256 in blobs_named([turn]) if self._holds(tenant_id, sha256, said)}
        left = tuple(a for a in turn.attachments if a.ref.removeprefix(_REF) not in telling)
        update = {"text": mask(turn.text, cut), "attachments": left, "meta": without(turn.meta, said)}
        return turn.model_copy(update=update), telling

    def _holds(self, tenant_id: str, sha256: str, words: Iterable[str]) -> bool:
        """Do any of these words stand in a blob? Of one that is not here nobody can tell, so it is let go of."""
        try:
            data = self._layout.blob(tenant_id, sha256).read_bytes()
        except FileNotFoundError:
            return True
        return any(word.encode() in data for word in words)

    @contextmanager
    def held(self, tenant_id: str, named: set[str]) -> Iterator[None]:
        """Blobs that new words point at stay while the words are written; NotFound where one is not here."""
        make_dirs(self._layout.blobs(tenant_id))
        with locked(self._layout.blobs(tenant_id), shared=True):
            for sha256 in sorted(named):
                if not _SHA256.fullmatch(sha256) or not self._layout.blob(tenant_id, sha256).exists():
                    raise NotFound(f"no blob {sha256}; put it before the turn that points at it", sha256=sha256)
            yield

    def release(self, tenant_id: str, named: set[str]) -> int:
        """Erase those of the blobs that no turn points at any more, and say how many there were."""
        gone = 0
        if not named:
            return gone
        make_dirs(self._layout.blobs(tenant_id))
        with locked(self._layout.blobs(tenant_id)):
            for sha256 in sorted(named - self._still_named(tenant_id)):
                path = self._layout.blob(tenant_id, sha256)
                for damaged in (path.parent.parent / SET_ASIDE).glob(f"{sha256}.*"):
                    damaged.unlink()
                if path.exists():
                    path.unlink()
                    sync_dir(path.parent)
                    self._step("blob.released")
                    gone += 1
        return gone

    def _still_named(self, tenant_id: str) -> set[str]:
        named: set[str] = set()
        for owner in self._layout.owners(tenant_id):
            for folder in self._layout.session_folders(tenant_id, owner).values():
                named |= blobs_named_in(folder / TURNS)
        return named
