"""Nodes on disk: three readable files, a sealed page that commits them, and a copy of every version.

Writing version n: first `revisions/…/{n}.json` with the whole node (a crash after this is finished by `recover`), then
the readable files, last `.meta.json`, which carries their hashes. A reader that finds files and hashes apart finishes
the write under the lock; where there is nothing to finish, a person has edited the file, and their words are read.
Deleting: first `.meta.json` says so (a crash after this is finished by `recover`), then everything else goes.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from mnemon.contracts.errors import Corrupt, InvalidArgument, NotFound, VersionConflict
from mnemon.contracts.nodes import LEVELS, REVISIONS_KEPT, Level, Node, NodeKey, NodeStat, NodeSummary, Revision, Shelf
from mnemon.contracts.ports import Clock
from mnemon.contracts.scope import Owner, OwnerKind, Scope
from mnemon.drivers.archive.fs.aside import drop_aside, set_aside
from mnemon.drivers.archive.fs.durable import Step, locked, make_dirs, replace_file, replace_files, sweep, sync_dir
from mnemon.drivers.archive.fs.layout import FULL_NAME, LEVEL_FILES, META, Layout
from mnemon.drivers.archive.fs.sealed import read_sealed, seal

_COPY = re.compile(r"[1-9][0-9]{0,8}\.json")
_DELETED = {"deleted": True}


@dataclass(frozen=True, slots=True)
class NodeState:
    """What lies in a node's folder: its page, and the levels whose text is not what the page sealed."""

    meta: dict[str, Any]
    texts: dict[Level, str]
    changed: tuple[Level, ...]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _moment(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None


def node_page(node: Node) -> dict[str, Any]:
    """The `.meta.json` of a node: everything but the words, and the hashes of the words."""
    return {
        "tenant_id": node.key.tenant_id,
        "owner_kind": node.key.owner.kind.value,
        "owner_id": node.key.owner.id,
        "shelf": node.key.shelf.value,
        "slug": node.key.slug,
        "uri": node.key.uri,
        "principals": sorted(node.principals),
        "metadata": node.metadata,
        "version": node.version,
        "created_at": node.created_at.isoformat() if node.created_at else None,
        "updated_at": node.updated_at.isoformat() if node.updated_at else None,
        "sha256": {level: _hash(getattr(node, level)) for level in LEVELS},
    }


def node_of(page: dict[str, Any], texts: dict[Level, str]) -> Node:
    owner = Owner(OwnerKind(page["owner_kind"]), page["owner_id"])
    return Node(
        key=NodeKey(page["tenant_id"], owner, Shelf(page["shelf"]), page["slug"]),
        principals=tuple(page["principals"]),
        abstract=texts.get("abstract", ""),
        overview=texts.get("overview", ""),
        content=texts.get("content", ""),
        metadata=page["metadata"],
        version=page["version"],
        created_at=_moment(page["created_at"]),
        updated_at=_moment(page["updated_at"]),
    )


def read_state(folder: Path) -> NodeState | None:
    """The folder as it is; None where there is no committed node."""
    meta = read_sealed(folder / META)
    if meta is None or meta == _DELETED:
        return None
    texts: dict[Level, str] = {}
    for level in LEVELS:
        try:
            texts[level] = (folder / LEVEL_FILES[level]).read_bytes().decode()
        except FileNotFoundError:
            texts[level] = ""
        except UnicodeDecodeError:
            path = folder / LEVEL_FILES[level]
            raise Corrupt(f"{path}: not UTF-8", where=str(path)) from None
    changed = tuple(level for level in LEVELS if _hash(texts[level]) != meta["sha256"][level])
    return NodeState(meta, texts, changed)


def versions_kept(copies: Path) -> list[int]:
    """The versions a node has copies of, oldest first."""
    found = copies.iterdir() if copies.is_dir() else ()
    return sorted(int(p.stem) for p in found if _COPY.fullmatch(p.name))


def _is_damaged(path: Path, key: NodeKey) -> bool:
    """Is there something, and not the page or the copy of this node?"""
    try:
        body = read_sealed(path)
        if body is None or body == _DELETED:
            return False
        node = node_of(body["page"], body["texts"]) if "page" in body else node_of(body, {})
        sealed = body.get("page", body)["sha256"]
        return node.key != key or ("page" in body and node_page(node)["sha256"] != sealed) or set(sealed) != set(LEVELS)
    except (Corrupt, OSError, ValueError, KeyError, TypeError, AttributeError):
        return True


def _is_no_text(path: Path) -> bool:
    try:
        path.read_bytes().decode()
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError):
        return True
    return False


def _moved_on(key: NodeKey, version: int, expect: int) -> VersionConflict:
    return VersionConflict(f"{key.uri} is at version {version}, not {expect}", uri=key.uri, version=version)


class NodeFiles:
    def __init__(
        self,
        layout: Layout,
        clock: Clock,
        step: Step,
        keep: int = REVISIONS_KEPT,
        keep_of: Mapping[Shelf, int] | None = None,
    ) -> None:
        self._layout = layout
        self._clock = clock
        self._step = step
        self._keep_of = dict.fromkeys(Shelf, keep) | dict(keep_of or {})

    # --- reading

    def _state(self, scope: Scope, key: NodeKey) -> NodeState | None:
        folder = self._layout.node(key)
        if scope.tenant_id != key.tenant_id:
            return None
        try:
            with locked(folder, shared=True):
                state = read_state(folder)
            if state and state.changed:
                with locked(folder):
                    self.recover(key)
                    state = read_state(folder)
        except FileNotFoundError:  # never there, or deleted meanwhile
            return None
        except (Corrupt, OSError):
            state = self._last_copy(key)  # damaged: until it is repaired, as it was written last
            if state is None:
                raise
        return state if state and scope.sees(state.meta["principals"]) else None

    def exists(self, scope: Scope, key: NodeKey) -> bool:
        """By its page alone; the words need not be read."""
        if scope.tenant_id != key.tenant_id:
            return False
        meta = self._meta(key)
        return meta is not None and meta != _DELETED and scope.sees(meta["principals"])

    def is_there(self, key: NodeKey) -> bool:
        """For anybody."""
        meta = self._meta(key)
        return meta is not None and meta != _DELETED

    def _meta(self, key: NodeKey) -> dict[str, Any] | None:
        """A node's page; a damaged one, as it was written last."""
        try:
            return read_sealed(self._layout.node(key) / META)
        except (Corrupt, OSError):
            state = self._last_copy(key)
            if state is None:
                raise
            return state.meta

    def _last_copy(self, key: NodeKey) -> NodeState | None:
        """The newest version of which a whole copy is kept."""
        for version in reversed(versions_kept(self._layout.revisions(key))):
            try:
                body = read_sealed(self._layout.revisions(key) / f"{version}.json")
                node = node_of(body["page"], body["texts"]) if body else None
            except (Corrupt, OSError, ValueError, KeyError, TypeError):
                continue
            if body and node and node.key == key:
                return NodeState(body["page"], body["texts"], ())
        return None

    def read(self, scope: Scope, key: NodeKey, include_content: bool = True) -> Node:
        state = self._state(scope, key)
        if state is None:
            raise NotFound(f"no node {key.uri} in this scope", uri=key.uri)
        node = node_of(state.meta, state.texts)
        return node if include_content else replace(node, content="")

    def stat(self, scope: Scope, key: NodeKey) -> NodeStat:
        state = self._state(scope, key)
        if state is None:
            return NodeStat(key.uri, False, 0, 0)
        with locked(self._layout.node(key), shared=True):
            size = sum(p.stat().st_size for p in self._layout.node(key).iterdir() if p.is_file())
        return NodeStat(key.uri, True, state.meta["version"], size, _moment(state.meta["updated_at"]))

    def children(self, scope: Scope, owner: Owner, shelf: Shelf | None, recursive: bool) -> list[NodeSummary]:
        """The shelves of an owner, or the nodes on one shelf; `recursive` lists the nodes of every shelf."""
        nodes: list[NodeSummary] = []
        shelves: list[NodeSummary] = []
        for here in [shelf] if shelf else list(Shelf):
            found = list(self._summaries(scope, owner, here))
            nodes += found
            if found:
                newest = max((s.updated_at for s in found if s.updated_at), default=None)
                uri = f"{owner.uri(scope.tenant_id)}/memories/{here.value}"
                shelves.append(NodeSummary(uri, here.value, True, True, here.value, newest))
        if shelf:
            return nodes
        return shelves + nodes if recursive else shelves

    def _summaries(self, scope: Scope, owner: Owner, shelf: Shelf) -> Iterator[NodeSummary]:
        for slug in self._layout.node_folders(scope.tenant_id, owner, shelf):
            try:
                meta = self._meta(NodeKey(scope.tenant_id, owner, shelf, slug))
            except (Corrupt, OSError):
                continue  # damaged, and nothing else is left of it: verify names it
            if meta and meta != _DELETED and scope.sees(meta["principals"]):
                updated = _moment(meta["updated_at"])
                yield NodeSummary(meta["uri"], meta["slug"], False, False, meta["shelf"], updated)

    # --- writing

    def write(self, scope: Scope, node: Node, expect: int | None, reason: str) -> Node:
        key = node.key
        if scope.tenant_id != key.tenant_id or not scope.sees(node.principals):
            raise NotFound(f"node {key.uri} is not within this scope", uri=key.uri)
        with ExitStack() as held:
            self._make_and_hold(key, held)
            self.recover(key)
            there = self._whole_state(key)
            if there and not scope.sees(there.meta["principals"]):
                raise NotFound(f"no node {key.uri} in this scope", uri=key.uri)
            version = there.meta["version"] if there else 0
            if expect is not None and version != expect:
                raise _moved_on(key, version, expect)
            if there and there.changed:
                self._keep_edit(key, there)
                version += 1
            now = self._clock.now()
            created = _moment(there.meta["created_at"]) if there else now
            node = replace(node, version=version + 1, created_at=created, updated_at=now)
            self._commit(node, reason)
            self._prune(key, node.version - self._keep_of[key.shelf])
        return node

    def _make_and_hold(self, key: NodeKey, held: ExitStack) -> Path:
        while True:
            folder = self._layout.make_node(key)
            try:
                held.enter_context(locked(folder))
            except FileNotFoundError:  # somebody deleted the node in between
                continue
            return folder

    def _commit(self, node: Node, reason: str) -> None:
        self._keep_version(node, reason)
        self._place(node)

    def _keep_version(self, node: Node, reason: str) -> None:
        shelf_of_versions = self._layout.revisions(node.key)
        make_dirs(shelf_of_versions)
        copy = {
            "page": node_page(node),
            "texts": {level: getattr(node, level) for level in LEVELS},
            "reason": reason,
            "saved_at": self._clock.now().isoformat(),
        }
        replace_file(shelf_of_versions / f"{node.version}.json", seal(copy), self._step, "revision")

    def _place(self, node: Node) -> None:
        folder = self._layout.node(node.key)
        words = {LEVEL_FILES[level]: getattr(node, level).encode() for level in LEVELS}
        replace_files(folder, words, self._step, "node")
        replace_file(folder / META, seal(node_page(node)), self._step, "node_meta")

    def _keep_edit(self, key: NodeKey, state: NodeState) -> Node:
        """A person's edit becomes a version of its own before anything is written over it."""
        now = self._clock.now()
        node = replace(node_of(state.meta, state.texts), version=state.meta["version"] + 1, updated_at=now)
        self._commit(node, "edited by hand")
        return node

    def _prune(self, key: NodeKey, oldest: int) -> int:
        """Remove the copies of all versions before one; how many there were."""
        before = [v for v in versions_kept(self._layout.revisions(key)) if v < oldest]
        for version in before:
            (self._layout.revisions(key) / f"{version}.json").unlink()
            self._step("revision.pruned")
        return len(before)

    def recover(self, key: NodeKey) -> str:
        """Finish what was cut off and say what it was. Call it with the node's folder locked."""
        try:
            return self._recover(key)
        except (Corrupt, UnicodeDecodeError, IsADirectoryError):  # nothing is built on what is damaged
            return "; ".join([*self.make_whole(key), self._recover(key)]).rstrip("; ")

    def _recover(self, key: NodeKey) -> str:
        versions = versions_kept(self._layout.revisions(key))
        meta = read_sealed(self._layout.node(key) / META)
        if meta == _DELETED:
            self._empty(key)
            return "finished a deletion that was cut off"
        current = meta["version"] if meta else 0
        if not versions or versions[-1] <= current:
            return self._put_back(key, current) if current in versions else ""
        self._place(self._copy(key, versions[-1]).node)
        self._prune(key, versions[-1] - self._keep_of[key.shelf])
        return "finished a write that was cut off"

    def make_whole(self, key: NodeKey) -> Iterator[str]:
        """Put what is damaged aside and its copy in its place; says each. Call it with the node's folder locked."""
        folder, copies = self._layout.node(key), self._layout.revisions(key)
        for version in versions_kept(copies):
            if _is_damaged(copies / f"{version}.json", key):
                set_aside(copies / f"{version}.json", folder)
                yield f"the copy of version {version} is damaged: set-aside/{version}.json"
        for level in LEVELS:
            if _is_no_text(folder / LEVEL_FILES[level]):
                set_aside(folder / LEVEL_FILES[level])
                yield f"{LEVEL_FILES[level]} is no text: set-aside/{LEVEL_FILES[level].removeprefix('.')}"
        last = self._last_copy(key)
        if _is_damaged(folder / META, key):
            set_aside(folder / META)
            for level in LEVELS:
                path = folder / LEVEL_FILES[level]
                if path.exists() and (last is None or path.read_bytes() != last.texts[level].encode()):
                    set_aside(path)  # perhaps a person's own words; without the page nobody can tell
            if last is not None:
                self._place(node_of(last.meta, last.texts))
                yield f"its page is put back as version {last.meta['version']} had it"
            else:
                yield "its page is damaged and no version is left: set-aside"
        state = read_state(folder)
        here = all((folder / LEVEL_FILES[level]).exists() for level in LEVELS)
        if state and here and not state.changed and state.meta["version"] not in versions_kept(copies):
            self._keep_version(node_of(state.meta, state.texts), "kept again after damage")
            yield f"a copy of version {state.meta['version']} is kept again"

    def _whole_state(self, key: NodeKey) -> NodeState | None:
        """What lies in the folder, once what is damaged is put aside. Call it with the node's folder locked."""
        try:
            return read_state(self._layout.node(key))
        except (Corrupt, IsADirectoryError):
            list(self.make_whole(key))
            self._recover(key)
            return read_state(self._layout.node(key))

    def _put_back(self, key: NodeKey, version: int) -> str:
        """A file that is not there at all is a loss, not an edit: its copy takes its place."""
        folder = self._layout.node(key)
        missing = [level for level in LEVELS if not (folder / LEVEL_FILES[level]).exists()]
        if not missing:
            return ""
        node = self._copy(key, version).node
        words = {LEVEL_FILES[level]: getattr(node, level).encode() for level in missing}
        replace_files(folder, words, self._step, "node")
        return f"put back {', '.join(words)}"

    def adopt_edit(self, key: NodeKey) -> Node | None:
        """Record a hand-edited file as a new version; None where nothing was edited."""
        with locked(self._layout.node(key)):
            self.recover(key)
            state = self._whole_state(key)
            if state is None or not state.changed:
                return None
            node = self._keep_edit(key, state)
            self._prune(key, node.version - self._keep_of[key.shelf])
            return node

    def write_level(self, scope: Scope, key: NodeKey, level: Level, text: str) -> Node:
        if level not in LEVELS:
            raise InvalidArgument(f"level must be one of {', '.join(LEVELS)}", field="level")
        node = self.read(scope, key)
        changed: dict[str, Any] = {level: text}
        return self.write(scope, replace(node, **changed), node.version, f"{level} rewritten")

    def write_metadata(self, scope: Scope, key: NodeKey, metadata: dict[str, Any]) -> Node:
        node = self.read(scope, key)
        return self.write(scope, replace(node, metadata=metadata), node.version, "metadata rewritten")

    def delete(self, scope: Scope, key: NodeKey, expect: int | None = None) -> bool:
        folder = self._layout.node(key)
        if not self.exists(scope, key):
            if scope.steward and scope.tenant_id == key.tenant_id:
                self._scour(key)
            return False
        try:
            with locked(folder):
                there = read_state(folder)
                version = there.meta["version"] if there else 0
                if expect is not None and version != expect:
                    raise _moved_on(key, version, expect)
                replace_file(folder / META, seal(_DELETED), self._step, "node_delete")
                self._empty(key)
                self.drop_folder(key)
        except FileNotFoundError:  # somebody else was faster
            return False
        return True

    def _scour(self, key: NodeKey) -> None:
        """What is left of a node that is not there: a deletion that was cut off, or a write that never came to its
        end."""
        folder = self._layout.node(key)
        if not folder.is_dir() and not self._layout.revisions(key).is_dir():
            return
        make_dirs(folder)
        with suppress(FileNotFoundError), locked(folder):
            if read_state(folder) is None:
                self._empty(key)
                self.drop_folder(key)

    def _empty(self, key: NodeKey) -> None:
        """Take away all of a deleted node; the mark that it is deleted goes last."""
        folder = self._layout.node(key)
        if (copies := self._layout.revisions(key)).exists():
            shutil.rmtree(copies)
        self._step("node_delete.copies_gone")
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in (META, FULL_NAME):
                path.unlink()
        self._step("node_delete.words_gone")
        (folder / META).unlink(missing_ok=True)
        sync_dir(folder)

    def drop_folder(self, key: NodeKey) -> None:
        """Remove the folder of no node. Call it locked, and only when nothing but its name is in it."""
        folder = self._layout.node(key)
        (folder / FULL_NAME).unlink(missing_ok=True)
        self._step("node_delete.before_rmdir")
        folder.rmdir()
        sync_dir(folder.parent)

    def copy_to(self, scope: Scope, key: NodeKey, to: NodeKey) -> Node:
        """The first half of a move; done again after a crash, it finds its own copy and goes on."""
        node = self.read(scope, key)
        if key == to:
            raise InvalidArgument("a node cannot be moved onto itself", field="to")
        if not self.exists(scope, to):
            return self.write(scope, replace(node, key=to), 0, f"moved from {key.uri}")
        there = self.read(scope, to)
        facts = {"key": to, "version": there.version, "created_at": there.created_at, "updated_at": there.updated_at}
        if there != replace(node, **facts):  # type: ignore[arg-type]
            raise VersionConflict(f"{to.uri} exists already", uri=to.uri)
        return there

    # --- earlier versions

    def _copy(self, key: NodeKey, version: int) -> Revision:
        body = read_sealed(self._layout.revisions(key) / f"{version}.json")
        if body is None:
            raise NotFound(f"{key.uri} has no version {version}", uri=key.uri, version=version)
        node = node_of(body["page"], body["texts"])
        return Revision(node, body["reason"], datetime.fromisoformat(body["saved_at"]))

    def revisions(self, scope: Scope, key: NodeKey) -> list[Revision]:
        current = self.read(scope, key).version
        try:
            with locked(self._layout.node(key), shared=True):  # nobody prunes meanwhile
                earlier = [v for v in versions_kept(self._layout.revisions(key)) if v < current]
                copies = [self._copy(key, v) for v in earlier[: -self._keep_of[key.shelf] - 1 : -1]]
        except FileNotFoundError:
            raise NotFound(f"no node {key.uri} in this scope", uri=key.uri) from None
        return [r for r in copies if scope.sees(r.node.principals)]

    def erase_revisions(self, scope: Scope, key: NodeKey) -> int:
        self.read(scope, key)
        copies = self._layout.revisions(key)
        try:
            with locked(self._layout.node(key)):
                self.recover(key)
                state = read_state(self._layout.node(key))
                gone = self._prune(key, state.meta["version"]) if state else 0
                drop_aside(self._layout.node(key))
                for folder in (copies, self._layout.node(key)):
                    sweep(folder, held=True)
                    sync_dir(folder)
        except FileNotFoundError:
            raise NotFound(f"no node {key.uri} in this scope", uri=key.uri) from None
        return gone

    def rollback(self, scope: Scope, key: NodeKey, version: int) -> Node:
        current = self.read(scope, key)
        earlier = self._copy(key, version).node
        return self.write(scope, earlier, current.version, f"rolled back to version {version}")
