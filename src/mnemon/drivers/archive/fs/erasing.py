"""Erasing for good: a session's words and papers, an owner, a tenant.

A session's words go first, all at one moment. An owner's or a tenant's folders are moved out of sight first, and then
removed. Wherever a crash falls, doing it again finishes it, and `repair` removes what is out of sight.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mnemon.contracts.errors import Conflict, Corrupt
from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.contracts.sessions import SessionStatus
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.blobs import BlobFiles, blobs_named_in
from mnemon.drivers.archive.fs.durable import Step, locked, make_dirs, sync_dir
from mnemon.drivers.archive.fs.layout import CLAIMS, COMMIT, META, SESSION, TAGS, TURNS, UNNEEDED, Layout
from mnemon.drivers.archive.fs.logs import LOGS
from mnemon.drivers.archive.fs.papers import PaperFiles
from mnemon.drivers.archive.fs.turns import TurnFiles, unneeded_blobs

_OF_A_SESSION = ("turns", "tags", "claims", "commits", "blobs")
_OF_AN_OWNER = ("sessions", "nodes", "revisions", *_OF_A_SESSION)
_OF_A_TENANT = (*_OF_AN_OWNER, "log_lines")
_LOG = re.compile(r"[0-9]+\.jsonl")
_ONE_EACH = (
    (re.compile(re.escape(SESSION)), "sessions"),
    (re.compile(re.escape(META)), "nodes"),
    (re.compile(re.escape(COMMIT)), "commits"),
    (re.compile(r"[0-9]+\.json"), "revisions"),
    (re.compile(r"[0-9a-f]{64}"), "blobs"),
)


class EraserFiles:
    def __init__(self, layout: Layout, turns: TurnFiles, papers: PaperFiles, blobs: BlobFiles, step: Step) -> None:
        self._layout = layout
        self._turns = turns
        self._papers = papers
        self._blobs = blobs
        self._step = step

    # --- a session

    def session(self, scope: Scope, key: SessionKey, reason: str) -> dict[str, int]:
        with self._turns.writing(scope, key) as folder:
            found = _contents(folder)
            found["turns"], found["blobs"] = self._turns.bury(key, None, reason)
            self._empty(key)
        return _told(found, _OF_A_SESSION)

    def drop(self, scope: Scope, key: SessionKey) -> bool:
        """A session that was never completed, out of sight as a whole."""
        if self._turns.read_session(scope, key) is None:
            self.finish(scope.tenant_id)  # it may be out of sight, and not gone
            return False
        grave = self._layout.owner_grave(key.tenant_id)
        with locked(self._layout.tenant(key.tenant_id)):
            with self._turns.writing(scope, key) as folder:
                page = self._turns.visible_record(scope, key)
                if page.status is SessionStatus.COMPLETED or page.commits:
                    raise Conflict(f"session {key.session_id} was completed; forget it instead", field="session_id")
                self._move(grave, folder)
            self._turns.drop_memory(key.tenant_id, key.owner, key.session_id)
            self._close(key.tenant_id, grave)
        return True

    def finish_session(self, key: SessionKey) -> bool:
        """Where all words are gone, nothing derived from them may be left. Call it locked."""
        unfinished = self._papers.any(key) and self._turns.is_silent(key)
        if unfinished:
            self._empty(key)
        return unfinished

    def _empty(self, key: SessionKey) -> None:
        self._turns.empty_page(key)
        self._papers.clear(key)

    # --- an owner, a tenant

    def owner(self, tenant_id: str, owner: Owner) -> dict[str, int]:
        tenant, grave = self._layout.tenant(tenant_id), self._layout.owner_grave(tenant_id)
        found: Counter[str] = Counter()
        if tenant.is_dir():
            with locked(tenant):
                found += self._close(tenant_id, grave)  # what an earlier one has left
                self._bury_owner(tenant_id, owner, grave)
                found += self._close(tenant_id, grave)
        return _told(found, _OF_AN_OWNER)

    def tenant(self, tenant_id: str) -> dict[str, int]:
        tenant, grave = self._layout.tenant(tenant_id), self._layout.tenant_grave(tenant_id)
        make_dirs(grave.parent)
        with locked(grave.parent):
            for owner in self._layout.owners(tenant_id):
                self._bury_owner(tenant_id, owner, grave)
            for log in LOGS:
                self._bury(grave, self._layout.log(tenant_id, log))
            self._bury(grave, tenant)
            self._turns.drop_memory(tenant_id)
            return _told(self._close(tenant_id, grave), _OF_A_TENANT)

    def finish(self, tenant_id: str) -> list[Path]:
        """Close the graves that erasures cut off have left open, and say where they were."""
        graves = (self._layout.owner_grave(tenant_id), self._layout.tenant_grave(tenant_id))
        left = [grave for grave in graves if grave.is_dir()]
        for grave in left:
            with locked(grave.parent):
                self._close(tenant_id, grave)
        return left

    def _bury_owner(self, tenant_id: str, owner: Owner, grave: Path) -> None:
        for folder in self._layout.session_folders(tenant_id, owner).values():
            self._bury(grave, folder)
        for shelf in Shelf:
            for slug, folder in self._layout.node_folders(tenant_id, owner, shelf).items():
                self._bury(grave, folder, self._layout.revisions(NodeKey(tenant_id, owner, shelf, slug)))
        self._bury(grave, self._layout.owner(tenant_id, owner))
        self._bury(grave, self._layout.owner_revisions(tenant_id, owner))
        self._turns.drop_memory(tenant_id, owner)

    def _bury(self, grave: Path, folder: Path, *belongings: Path) -> None:
        """Move a folder out of sight while it is held, so that nobody writes on in a place that is no longer there."""
        with suppress(FileNotFoundError, NotADirectoryError), locked(folder):
            self._move(grave, *belongings, folder)

    def _move(self, grave: Path, *paths: Path) -> None:
        make_dirs(grave)
        for path in paths:
            if path.exists():
                path.rename(grave / os.urandom(8).hex())
                self._step("erase.moved")

    def _close(self, tenant_id: str, grave: Path) -> Counter[str]:
        """Remove what lies in a grave, and the blobs that only the words in it pointed at."""
        if not grave.is_dir():
            return Counter()
        sync_dir(grave)
        found = _contents(grave)
        if self._layout.tenant(tenant_id).is_dir():
            found["blobs"] += self._blobs.release(tenant_id, _blobs_of(grave))
        self._step("erase.before_removal")
        shutil.rmtree(grave)
        sync_dir(grave.parent)
        self._step("erase.removed")
        return found


def _blobs_of(grave: Path) -> set[str]:
    named: set[str] = set()
    for log in grave.rglob(TURNS):
        named |= blobs_named_in(log)
    for waiting in grave.rglob(UNNEEDED):
        with suppress(Corrupt):  # damaged: nothing else tells what it named
            named |= unneeded_blobs(waiting.parent)
    return named


def _contents(root: Path) -> Counter[str]:
    """What lies under a folder, told by the names of its files; damaged ones are counted too."""
    found: Counter[str] = Counter()
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            if name == TURNS:
                found["turns"] += sum(line.body is not None for line in chainlog.readable_lines(path))
            elif name == TAGS:
                found["tags"] += path.read_bytes().count(b'"tag_id":')
            elif name == CLAIMS:
                found["claims"] += max(path.read_bytes().count(b"\n") - 1, 0)  # the last line is the seal
            elif _LOG.fullmatch(name):
                found["log_lines"] += sum(1 for _ in chainlog.readable_lines(path))
            else:
                found.update(kind for form, kind in _ONE_EACH if form.fullmatch(name))
    return found


def _told(found: Counter[str], what: Sequence[str]) -> dict[str, int]:
    return {name: found[name] for name in what}
