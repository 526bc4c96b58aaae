"""Repair: finish what a crash cut off, take away what was never acknowledged, record what people edited."""

from __future__ import annotations

import os
from pathlib import Path

from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.reports import Repair
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.audit import leftovers
from mnemon.drivers.archive.fs.durable import TEMPORARY, locked
from mnemon.drivers.archive.fs.layout import META, TURNS, Layout, name_of
from mnemon.drivers.archive.fs.logs import segments
from mnemon.drivers.archive.fs.nodes import NodeFiles


def mend(layout: Layout, nodes: NodeFiles, tenant_id: str) -> list[Repair]:
    """Everything of one tenant; safe to run at any time and again."""
    done: list[Repair] = []
    for owner in layout.owners(tenant_id):
        for folder in layout.session_folders(tenant_id, owner):
            done += _cut_torn(layout, folder, folder / TURNS)
        for shelf in Shelf:
            for folder in layout.node_folders(tenant_id, owner, shelf):
                done += _finish_node(layout, nodes, NodeKey(tenant_id, owner, shelf, name_of(folder)))
    for log in ("entries", "ledger"):
        for path in segments(layout.log(tenant_id, log)):
            done += _cut_torn(layout, path.parent, path)
    done += _sweep(layout, layout.tenant(tenant_id))
    return done


def _where(layout: Layout, path: Path) -> str:
    return str(path.relative_to(layout.home))


def _cut_torn(layout: Layout, folder: Path, path: Path) -> list[Repair]:
    with locked(folder):
        for item in chainlog.read_lines(path):
            if isinstance(item, chainlog.Torn):
                fd = os.open(path, os.O_WRONLY)
                try:
                    os.ftruncate(fd, item.offset)
                    os.fsync(fd)
                finally:
                    os.close(fd)
                return [Repair(_where(layout, path), f"cut off {item.length} bytes that were never acknowledged")]
    return []


def _finish_node(layout: Layout, nodes: NodeFiles, key: NodeKey) -> list[Repair]:
    folder = layout.node(key)
    with locked(folder):
        if nodes.recover(key):
            return [Repair(_where(layout, folder), "finished a write that was cut off")]
        if not (folder / META).exists():
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
            return [Repair(_where(layout, folder), "removed a node that was never finished")]
    node = nodes.adopt_edit(key)
    return [Repair(_where(layout, folder), f"recorded a hand edit as version {node.version}")] if node else []


def _sweep(layout: Layout, root: Path) -> list[Repair]:
    done: list[Repair] = []
    for path in leftovers(root):
        if not _is_alive(int(path.name.removeprefix(TEMPORARY).split("-")[0])):
            path.unlink(missing_ok=True)
            done.append(Repair(_where(layout, path), "removed a leftover of a crashed process"))
    return done


def _is_alive(pid: int) -> bool:
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
