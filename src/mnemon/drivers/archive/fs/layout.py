"""Where everything lies under the home folder."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path

from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.scope import Owner, OwnerKind, SessionKey
from mnemon.drivers.archive.fs.durable import Step, make_dirs, no_step, replace_file
from mnemon.logic.paths import escape, unescape

TURNS = "turns.jsonl"
SESSION = "session.json"
TAGS = "tags.json"
CLAIMS = "claims.jsonl"
ARCHIVES = "archives"
COMMIT = "commit.json"
# Which turns a long session holds: a copy of what its log says, to be thrown away at any time.
SEEN = ".seen"
# What is still to be done, should a crash come in between: blobs to let go of, folders out of sight to be removed.
UNNEEDED = ".unneeded.json"
ERASED = ".erased"
META = ".meta.json"
RELATIONS = ".relations.json"
LEVEL_FILES = {"abstract": ".abstract.md", "overview": ".overview.md", "content": "content.md"}
FULL_NAME = ".name"


class Layout:
    def __init__(self, home: Path, step: Step = no_step) -> None:
        self.home = home.absolute()
        self._step = step

    def tenant(self, tenant_id: str) -> Path:
        return self.home / "tenants" / escape(tenant_id)

    def owner(self, tenant_id: str, owner: Owner) -> Path:
        return _owner_folder(self.home, tenant_id, owner)

    def session(self, key: SessionKey) -> Path:
        return _session_folder(self.home, key)

    def shelf(self, tenant_id: str, owner: Owner, shelf: Shelf) -> Path:
        return self.owner(tenant_id, owner) / "memories" / shelf.value

    def node(self, key: NodeKey) -> Path:
        return _node_folders(self.home, key)[0]

    def owner_revisions(self, tenant_id: str, owner: Owner) -> Path:
        return self.tenant(tenant_id) / "revisions" / owner.kind.value / escape(owner.id)

    def revisions(self, key: NodeKey) -> Path:
        return _node_folders(self.home, key)[1]

    def owner_grave(self, tenant_id: str) -> Path:
        """Where folders of owners lie between being erased and being gone."""
        return self.tenant(tenant_id) / ERASED

    def tenant_grave(self, tenant_id: str) -> Path:
        return self.home / "tenants" / f"{ERASED}-{escape(tenant_id)}"

    def blobs(self, tenant_id: str) -> Path:
        return self.tenant(tenant_id) / "blobs"

    def blob(self, tenant_id: str, sha256: str) -> Path:
        return self.blobs(tenant_id) / sha256[:2] / sha256

    def log(self, tenant_id: str, log: str) -> Path:
        return self.tenant(tenant_id) / log

    def make_named(self, folder: Path, name: str) -> None:
        """Create a folder for an id; where the path holds only its hash, write the whole id inside."""
        hashed = self.is_hashed(folder)
        if os.path.exists(f"{folder}/{FULL_NAME}" if hashed else folder):  # noqa: PTH110  this is hot
            return
        make_dirs(folder)
        self._step("folder.made")
        if hashed:
            replace_file(folder / FULL_NAME, name.encode(), self._step, "folder")

    def is_hashed(self, folder: Path) -> bool:
        """Does the folder's name hold only the hash of what it stands for?"""
        return "~~" in folder.name

    def make_folder(self, folder: Path) -> None:
        if not os.path.exists(folder):  # noqa: PTH110  this is hot
            make_dirs(folder)

    def make_owner(self, tenant_id: str, owner: Owner) -> None:
        self.make_named(self.tenant(tenant_id), tenant_id)
        self.make_named(self.owner(tenant_id, owner), owner.id)

    def make_session(self, key: SessionKey) -> Path:
        self.make_owner(key.tenant_id, key.owner)
        self.make_named(self.session(key), key.session_id)
        return self.session(key)

    def make_node(self, key: NodeKey) -> Path:
        self.make_owner(key.tenant_id, key.owner)
        self.make_named(self.node(key), key.slug)
        return self.node(key)

    def tenants(self) -> list[str]:
        return list(named_folders(self.home / "tenants"))

    def owners(self, tenant_id: str) -> list[Owner]:
        tenant = self.tenant(tenant_id)
        return [Owner(kind, name) for kind in OwnerKind for name in named_folders(tenant / kind.value)]

    def session_folders(self, tenant_id: str, owner: Owner) -> dict[str, Path]:
        return named_folders(self.owner(tenant_id, owner) / "sessions")

    def node_folders(self, tenant_id: str, owner: Owner, shelf: Shelf) -> dict[str, Path]:
        return named_folders(self.shelf(tenant_id, owner, shelf))


# Built once each: joining paths costs as much as the sync of a short turn.
@lru_cache(maxsize=4096)
def _owner_folder(home: Path, tenant_id: str, owner: Owner) -> Path:
    return home / "tenants" / escape(tenant_id) / owner.kind.value / escape(owner.id)


@lru_cache(maxsize=4096)
def _session_folder(home: Path, key: SessionKey) -> Path:
    return _owner_folder(home, key.tenant_id, key.owner) / "sessions" / escape(key.session_id)


@lru_cache(maxsize=4096)
def _node_folders(home: Path, key: NodeKey) -> tuple[Path, Path]:
    """Where a node lies, and where its versions do."""
    layout = Layout(home)
    name = escape(key.slug)
    versions = layout.owner_revisions(key.tenant_id, key.owner) / key.shelf.value / name
    return layout.shelf(key.tenant_id, key.owner, key.shelf) / name, versions


def name_of(folder: Path) -> str | None:
    """The id a folder stands for; None for a foreign folder, and for one whose `.name` is still to be written."""
    name = unescape(folder.name)
    if name is None:
        try:
            name = (folder / FULL_NAME).read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            name = None
        if not name or escape(name) != folder.name:
            name = _named_within(folder) if "~~" in folder.name else None
    return name if name and escape(name) == folder.name else None


def _named_within(folder: Path) -> str | None:
    """The id of a folder whose own file of it is damaged: the pages in it repeat it."""
    for pattern in (SESSION, META, f"*/*/{SESSION}", f"*/*/*/{META}", f"*/*/*/*/{SESSION}", f"*/*/*/*/*/{META}"):
        for path in folder.glob(pattern):
            try:
                page = json.loads(path.read_bytes())
                told = [str(page.get(name, "")) for name in ("session_id", "slug", "owner_id", "tenant_id")]
            except (OSError, ValueError, AttributeError):
                continue
            if (name := next((name for name in told if name and escape(name) == folder.name), None)) is not None:
                return name
    return None


def subfolders(path: Path) -> list[Path]:
    try:
        return sorted(p for p in path.iterdir() if p.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def named_folders(path: Path) -> dict[str, Path]:
    """The folders that stand for an id, by id."""
    return {name: folder for folder in subfolders(path) if (name := name_of(folder)) is not None}
