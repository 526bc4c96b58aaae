"""Repair: finish what a crash cut off, take away what was never acknowledged, record what people edited."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mnemon.contracts.errors import Corrupt
from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.reports import Repair
from mnemon.contracts.scope import SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.durable import locked, sweep
from mnemon.drivers.archive.fs.erasing import EraserFiles
from mnemon.drivers.archive.fs.layout import FULL_NAME, META, SESSION, TURNS, Layout
from mnemon.drivers.archive.fs.logs import LOGS, log_genesis, segments
from mnemon.drivers.archive.fs.nodes import NodeFiles
from mnemon.drivers.archive.fs.sealed import read_sealed
from mnemon.drivers.archive.fs.turns import TurnFiles, session_genesis


def mend(layout: Layout, turns: TurnFiles, nodes: NodeFiles, eraser: EraserFiles, tenant_id: str) -> list[Repair]:
    """Everything of one tenant; safe to run at any time and again."""
    return [
        *(Repair(_where(layout, grave), "finished an erasure that was cut off") for grave in eraser.finish(tenant_id)),
        # Leftovers before nodes: a folder of a node that was never finished is then empty.
        *_sweep(layout, layout.tenant(tenant_id)),
        *_sessions(layout, turns, eraser, tenant_id),
        *_nodes(layout, nodes, tenant_id),
        *_logs(layout, tenant_id),
    ]


def _sessions(layout: Layout, turns: TurnFiles, eraser: EraserFiles, tenant_id: str) -> Iterator[Repair]:
    for owner in layout.owners(tenant_id):
        for name, folder in layout.session_folders(tenant_id, owner).items():
            key = SessionKey(tenant_id, owner, name)
            with locked(folder):
                yield from _mend_words(layout, folder, key)
                yield from _mend_forgetting(layout, turns, eraser, key)


def _nodes(layout: Layout, nodes: NodeFiles, tenant_id: str) -> Iterator[Repair]:
    for owner in layout.owners(tenant_id):
        for shelf in Shelf:
            for name in layout.node_folders(tenant_id, owner, shelf):
                yield from _mend_node(layout, nodes, NodeKey(tenant_id, owner, shelf, name))


def _where(layout: Layout, path: Path) -> str:
    return str(path.relative_to(layout.home))


def _mend_words(layout: Layout, folder: Path, key: SessionKey) -> Iterator[Repair]:
    try:
        body = read_sealed(folder / SESSION)
        promised = SessionRecord.model_validate(body).turn_count if body else 0
    except (Corrupt, ValueError):  # verify names it; what was promised is not known, so nothing is cut
        return
    yield from _cut_torn(layout, folder / TURNS, session_genesis(key), 0, promised)


def _mend_forgetting(layout: Layout, turns: TurnFiles, eraser: EraserFiles, key: SessionKey) -> Iterator[Repair]:
    where = _where(layout, layout.session(key))
    try:
        if eraser.finish_session(key):
            yield Repair(where, "finished an erasure that was cut off")
        if turns.let_go(key):
            yield Repair(where, "let go of blobs that only forgotten words pointed at")
    except (Corrupt, ValueError):  # verify names it
        return


def _logs(layout: Layout, tenant_id: str) -> Iterator[Repair]:
    for log in LOGS:
        for path in segments(layout.log(tenant_id, log))[-1:]:
            with locked(path.parent):
                yield from _cut_torn(layout, path, log_genesis(tenant_id, log), 0, 0)


def _cut_torn(layout: Layout, path: Path, head: str, seq: int, promised: int) -> Iterator[Repair]:
    for item in chainlog.read_lines(path):
        if not isinstance(item, chainlog.Torn):
            line = chainlog.parse(item[1])
            head, seq = (line.chain, line.seq) if line else (head, seq + 1)
        elif seq >= promised and not chainlog.lost_its_end(item, head, seq + 1):
            _truncate(path, item.offset)
            yield Repair(_where(layout, path), f"cut off {item.length} bytes that were never acknowledged")


def _truncate(path: Path, size: int) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)


def _mend_node(layout: Layout, nodes: NodeFiles, key: NodeKey) -> Iterator[Repair]:
    folder = layout.node(key)
    try:
        with locked(folder):
            if done := nodes.recover(key):
                yield Repair(_where(layout, folder), done)
            if not (folder / META).exists():
                # A crash leaves nothing else here. What a person has put here is not ours to take away.
                if {path.name for path in folder.iterdir()} <= {FULL_NAME}:
                    nodes.drop_folder(key)
                    yield Repair(_where(layout, folder), "removed the folder of a node that is not there")
                return
        if node := nodes.adopt_edit(key):
            yield Repair(_where(layout, folder), f"recorded a hand edit as version {node.version}")
    except (Corrupt, FileNotFoundError):  # damaged, and verify names it; or deleted meanwhile
        return


def _sweep(layout: Layout, root: Path) -> Iterator[Repair]:
    for path in sweep(root):
        yield Repair(_where(layout, path), "removed a leftover of a crashed process")
