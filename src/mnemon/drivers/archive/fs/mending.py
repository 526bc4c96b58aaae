"""Repair: finish what a crash cut off, take away what was never acknowledged, record what people edited, and make whole
again what is damaged. Each file by itself: what cannot be mended stops nothing else."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mnemon.contracts.errors import Corrupt, MnemonError
from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.ports import Clock
from mnemon.contracts.reports import How, Repair
from mnemon.contracts.scope import Owner, OwnerKind, SessionKey
from mnemon.contracts.sessions import SessionRecord, Witness
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.aside import SET_ASIDE, keep_copy, set_aside
from mnemon.drivers.archive.fs.durable import locked, replace_file, sweep, sync_dir
from mnemon.drivers.archive.fs.erasing import EraserFiles
from mnemon.drivers.archive.fs.layout import FULL_NAME, META, SESSION, TURNS, UNNEEDED, Layout, name_of, subfolders
from mnemon.drivers.archive.fs.logs import LOGS, log_genesis, segments
from mnemon.drivers.archive.fs.nodes import NodeFiles
from mnemon.drivers.archive.fs.restoring import Restorer
from mnemon.drivers.archive.fs.salvage import salvage
from mnemon.drivers.archive.fs.sealed import read_sealed
from mnemon.drivers.archive.fs.tail import session_genesis
from mnemon.drivers.archive.fs.turns import TurnFiles, unneeded_blobs

_UNREADABLE = (MnemonError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(slots=True)
class Mender:
    """Everything of one tenant; safe to run at any time and again."""

    layout: Layout
    turns: TurnFiles
    nodes: NodeFiles
    eraser: EraserFiles
    clock: Clock
    entropy: Callable[[int], bytes]
    tenant_id: str
    witnesses: Mapping[SessionKey, Witness]
    done: list[Repair] = field(default_factory=list)

    def run(self) -> list[Repair]:
        root = self.layout.tenant(self.tenant_id)
        for grave in self.eraser.finish(self.tenant_id):
            self._tell(grave, "finished an erasure that was cut off")
        # Leftovers before nodes: a folder of a node that was never finished is then empty.
        for path in sweep(root):
            self._tell(path, "removed a leftover of a crashed process")
        self._names(root)
        self._misplaced()
        restorer = Restorer(self.layout, self.clock, self.entropy, self.tenant_id, self._tell)
        for key, folder in self._sessions():
            with self._going_on(folder), locked(folder):
                restorer.session(folder, key, self.witnesses.get(key))
                self._torn_words(folder, key)
                self._forgetting(folder, key)
        self.turns.drop_memory(self.tenant_id)
        for node in self._node_keys():
            with self._going_on(self.layout.node(node)):
                self._node(node)
        for node in self._node_keys():
            folder = self.layout.node(node)
            with self._going_on(folder), locked(folder):
                restorer.edges(folder, node)
        self._logs()
        self._blobs()
        return self.done

    # --- telling

    def _tell(self, path: Path, what: str, how: How = "mended") -> None:
        self.done.append(Repair(str(path.relative_to(self.layout.home)), what, how))

    @contextmanager
    def _going_on(self, path: Path) -> Iterator[None]:
        """Whatever lies there, it stops nothing else."""
        try:
            yield
        except FileNotFoundError as error:
            if path.exists():  # else it was deleted meanwhile
                self._tell(path, f"left as it is: {error}", "left")
        except _UNREADABLE as error:
            self._tell(path, f"left as it is: {error}", "left")

    def _sessions(self) -> list[tuple[SessionKey, Path]]:
        return [
            (SessionKey(self.tenant_id, owner, name), folder)
            for owner in self.layout.owners(self.tenant_id)
            for name, folder in self.layout.session_folders(self.tenant_id, owner).items()
        ]

    # --- names and places

    def _names(self, root: Path) -> None:
        """The full name of a folder whose path holds only a hash, from the pages in it."""
        folders = [root]
        for kind in OwnerKind:
            for owner in subfolders(root / kind.value):
                folders += [owner, *subfolders(owner / "sessions")]
                folders += [node for shelf in Shelf for node in subfolders(owner / "memories" / shelf.value)]
        for folder in folders:
            name = name_of(folder) if "~~" in folder.name else None
            if name is not None and _bytes(folder / FULL_NAME) != name.encode():
                replace_file(folder / FULL_NAME, name.encode())
                self._tell(folder, "its full name is written in it again")

    def _misplaced(self) -> None:
        """A folder somebody renamed goes back to where its page says, if nothing else is there."""
        root = self.layout.tenant(self.tenant_id)
        for kind in OwnerKind:
            for folder in subfolders(root / kind.value):
                with self._going_on(folder):
                    self._put_back(folder, lambda page: self.layout.owner(self.tenant_id, _owner(page)))
        for owner in self.layout.owners(self.tenant_id):
            home = self.layout.owner(self.tenant_id, owner)
            for folder in subfolders(home / "sessions"):
                with self._going_on(folder):
                    self._put_back(folder, lambda page: self.layout.session(
                        SessionKey(self.tenant_id, _owner(page), page["session_id"])
                    ))  # fmt: skip
            for shelf in Shelf:
                for folder in subfolders(home / "memories" / shelf.value):
                    with self._going_on(folder):
                        self._put_back(folder, lambda page: self.layout.node(
                            NodeKey(self.tenant_id, _owner(page), Shelf(page["shelf"]), page["slug"])
                        ))  # fmt: skip

    def _put_back(self, folder: Path, place: Callable[[dict[str, Any]], Path]) -> None:
        page = next(_pages(folder), None)
        if page is None or page.get("tenant_id") != self.tenant_id:
            return
        there = place(page)
        if there == folder or there.parent != folder.parent or there.exists():
            return
        folder.rename(there)
        sync_dir(there.parent)
        self._tell(there, f"put back in its place; somebody had named it {folder.name}")

    # --- words

    def _torn_words(self, folder: Path, key: SessionKey) -> None:
        body = read_sealed(folder / SESSION)
        promised = SessionRecord.model_validate(body).turn_count if body else 0
        self._cut_torn(folder / TURNS, session_genesis(key), promised)

    def _forgetting(self, folder: Path, key: SessionKey) -> None:
        try:
            unneeded_blobs(folder)
        except Corrupt:
            set_aside(folder / UNNEEDED)
            self._tell(folder / UNNEEDED, "set aside: which blobs it named nobody knows", "set aside")
        if self.eraser.finish_session(key):
            self._tell(folder, "finished an erasure that was cut off")
        if self.turns.let_go(key):
            self._tell(folder, "let go of blobs that only forgotten words pointed at")

    def _cut_torn(self, path: Path, head: str, promised: int) -> None:
        seq = 0
        for item in chainlog.read_lines(path):
            if not isinstance(item, chainlog.Torn):
                line = chainlog.parse(item[1])
                head, seq = (line.chain, line.seq) if line else (head, seq + 1)
            elif seq >= promised and not chainlog.lost_its_end(item, head, seq + 1):
                _truncate(path, item.offset)
                self._tell(path, f"cut off {item.length} bytes that were never acknowledged")

    # --- nodes

    def _node_keys(self) -> list[NodeKey]:
        """Those with a folder, and those of which only the versions are left."""
        found = {
            NodeKey(self.tenant_id, owner, shelf, name)
            for owner in self.layout.owners(self.tenant_id)
            for shelf in Shelf
            for name in self.layout.node_folders(self.tenant_id, owner, shelf)
        }
        for path in (self.layout.tenant(self.tenant_id) / "revisions").glob("*/*/*/*/*.json"):
            with self._going_on(path):
                page = _sealed(path)
                found |= {_node_key(page["page"])} if page and "page" in page else set()
        return sorted((k for k in found if k.tenant_id == self.tenant_id), key=lambda k: k.uri)

    def _node(self, key: NodeKey) -> None:
        folder = self.layout.node(key)
        if not folder.exists():
            self.layout.make_node(key)
        with locked(folder):
            for what in self.nodes.make_whole(key):
                self._tell(folder, what, "set aside" if SET_ASIDE in what else "mended")
            if done := self.nodes.recover(key):
                self._tell(folder, done)
            if not (folder / META).exists():
                # A crash leaves nothing else here. What a person has put here is not ours to take away.
                if {path.name for path in folder.iterdir()} <= {FULL_NAME}:
                    self.nodes.drop_folder(key)
                    self._tell(folder, "removed the folder of a node that is not there")
                return
        if node := self.nodes.adopt_edit(key):
            self._tell(folder, f"recorded a hand edit as version {node.version}")

    # --- logs and blobs

    def _logs(self) -> None:
        for log in LOGS:
            folder = self.layout.log(self.tenant_id, log)
            with self._going_on(folder):
                if folder.is_dir():
                    with locked(folder):
                        self._log(folder, log)

    def _log(self, folder: Path, log: str) -> None:
        there = segments(folder)
        if there:
            self._cut_torn(there[-1], log_genesis(self.tenant_id, log), 0)
        link, seq = log_genesis(self.tenant_id, log), 0
        for segment in there:
            raws = [_raw(item) for item in chainlog.read_lines(segment)]
            last = max((line.seq for raw in raws if (line := chainlog.parse(raw))), default=seq + len(raws))
            last = max(last, seq) if last <= seq + 2 * len(raws) else seq + len(raws)
            # A new link is carried on through every line behind it.
            made = salvage(raws, link, last, {}, {}, self.clock.now(), self.entropy, seq + 1)
            if made.lines != raws:
                keep_copy(segment)
                replace_file(segment, b"".join(made.lines))
                if told := made.told():
                    self._tell(segment, told, made.how)
            seq, link = last, made.chains[-1] if made.chains else link

    def _blobs(self) -> None:
        for path in (self.layout.tenant(self.tenant_id) / "blobs").glob("*/*"):
            with self._going_on(path):
                if path.parent.name != SET_ASIDE and path.is_file() and not _matches(path):
                    set_aside(path, path.parent.parent)
                    self._tell(path, "set aside: its bytes are not those it is named after", "set aside")


def _matches(path: Path) -> bool:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == path.name


def _raw(item: tuple[int, bytes] | chainlog.Torn) -> bytes:
    return item.raw if isinstance(item, chainlog.Torn) else item[1]


def _pages(folder: Path) -> Iterator[dict[str, Any]]:
    for path in (folder / SESSION, folder / META, *folder.glob(f"*/*/{SESSION}"), *folder.glob(f"*/*/*/{META}")):
        if body := _sealed(path):
            yield body


def _sealed(path: Path) -> dict[str, Any] | None:
    try:
        return read_sealed(path)
    except _UNREADABLE:
        return None


def _owner(page: Mapping[str, Any]) -> Owner:
    return Owner(OwnerKind(page["owner_kind"]), page["owner_id"])


def _node_key(page: Mapping[str, Any]) -> NodeKey:
    return NodeKey(page["tenant_id"], _owner(page), Shelf(page["shelf"]), page["slug"])


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _truncate(path: Path, size: int) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)
