"""Where everything lies under the home folder."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.scope import Owner, OwnerKind, SessionKey
from mnemon.drivers.archive.fs.durable import make_dirs, replace_file
from mnemon.logic.paths import escape, unescape

TURNS = "turns.jsonl"
SESSION = "session.json"
META = ".meta.json"
RELATIONS = ".relations.json"
LEVEL_FILES = {"abstract": ".abstract.md", "overview": ".overview.md", "content": "content.md"}
FULL_NAME = ".name"


class Layout:
    def __init__(self, home: Path) -> None:
        self.home = home

    def tenant(self, tenant_id: str) -> Path:
        return self.home / "tenants" / escape(tenant_id)

    def owner(self, tenant_id: str, owner: Owner) -> Path:
        return self.tenant(tenant_id) / owner.kind.value / escape(owner.id)

    def session(self, key: SessionKey) -> Path:
        return _session_folder(self.home, key)

    def shelf(self, tenant_id: str, owner: Owner, shelf: Shelf) -> Path:
        return self.owner(tenant_id, owner) / "memories" / shelf.value

    def node(self, key: NodeKey) -> Path:
        return self.shelf(key.tenant_id, key.owner, key.shelf) / escape(key.slug)

    def revisions(self, key: NodeKey) -> Path:
        parts = (key.owner.kind.value, escape(key.owner.id), key.shelf.value, escape(key.slug))
        return self.tenant(key.tenant_id).joinpath("revisions", *parts)

    def blob(self, tenant_id: str, sha256: str) -> Path:
        return self.tenant(tenant_id) / "blobs" / sha256[:2] / sha256

    def log(self, tenant_id: str, log: str) -> Path:
        return self.tenant(tenant_id) / log

    def make_named(self, folder: Path, name: str) -> None:
        """Create a folder for an id; where the path holds only its hash, write the whole id inside."""
        make_dirs(folder)
        if unescape(folder.name) is None and not (folder / FULL_NAME).exists():
            replace_file(folder / FULL_NAME, name.encode())

    def make_owner(self, tenant_id: str, owner: Owner) -> None:
        if not (folder := self.owner(tenant_id, owner)).exists():
            self.make_named(self.tenant(tenant_id), tenant_id)
            self.make_named(folder, owner.id)

    def tenants(self) -> list[str]:
        return [name_of(p) for p in _folders(self.home / "tenants")]

    def owners(self, tenant_id: str) -> list[Owner]:
        tenant = self.tenant(tenant_id)
        return [Owner(kind, name_of(p)) for kind in OwnerKind for p in _folders(tenant / kind.value)]

    def session_folders(self, tenant_id: str, owner: Owner) -> list[Path]:
        return _folders(self.owner(tenant_id, owner) / "sessions")

    def node_folders(self, tenant_id: str, owner: Owner, shelf: Shelf) -> list[Path]:
        return _folders(self.shelf(tenant_id, owner, shelf))


@lru_cache(maxsize=4096)
def _session_folder(home: Path, key: SessionKey) -> Path:
    # Built once a session: joining paths costs as much as the sync of a short turn.
    owner = home / "tenants" / escape(key.tenant_id) / key.owner.kind.value / escape(key.owner.id)
    return owner / "sessions" / escape(key.session_id)


def name_of(folder: Path) -> str:
    """The id a folder stands for."""
    name = unescape(folder.name)
    return name if name is not None else (folder / FULL_NAME).read_text()


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(p for p in path.iterdir() if p.is_dir())
    except FileNotFoundError:
        return []
