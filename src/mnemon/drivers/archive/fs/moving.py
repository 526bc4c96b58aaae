"""Moving house: a tenant or an owner as files, copied while others write, and taken over again."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from mnemon.contracts.errors import Corrupt, InvalidArgument
from mnemon.contracts.nodes import LEVELS, Edge, Node, NodeKey, Shelf
from mnemon.contracts.reports import LoadReport, NodeMet
from mnemon.contracts.scope import Owner, OwnerKind
from mnemon.contracts.turns import Turn
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.blobs import blobs_named
from mnemon.drivers.archive.fs.durable import TEMPORARY, locked, make_dirs, sync_dir, write_temporary
from mnemon.drivers.archive.fs.layout import (
    ARCHIVES,
    CLAIMS,
    COMMIT,
    FULL_NAME,
    LEVEL_FILES,
    META,
    RELATIONS,
    SEEN,
    SESSION,
    TAGS,
    TURNS,
    UNNEEDED,
    Layout,
)
from mnemon.drivers.archive.fs.logs import LOGS
from mnemon.drivers.archive.fs.merging import digest, is_prefix, merge
from mnemon.drivers.archive.fs.nodes import node_of
from mnemon.drivers.archive.fs.relations import read_edges
from mnemon.drivers.archive.fs.sealed import unseal
from mnemon.logic.paths import escape

_CHUNK = 1 << 20
_Opened = list[tuple[Path, BinaryIO]]


def dump(layout: Layout, tenant_id: str, owner: Owner | None) -> Iterator[tuple[str, bytes]]:
    """(path, chunk) pairs. Folders are opened under their lock, blobs come last: nothing points into the void."""
    blobs: set[str] = set()
    yield from _names(layout, layout.tenant(tenant_id))
    for whose in [owner] if owner else layout.owners(tenant_id):
        yield from _names(layout, layout.owner(tenant_id, whose))
        for folder in layout.session_folders(tenant_id, whose).values():
            yield from _files(layout, [folder], blobs)
        for shelf in Shelf:
            for slug, folder in layout.node_folders(tenant_id, whose, shelf).items():
                copies = layout.revisions(NodeKey(tenant_id, whose, shelf, slug))
                yield from _files(layout, [folder, copies], blobs)
    for log in LOGS if owner is None else ():
        yield from _files(layout, [layout.log(tenant_id, log)], blobs)
    for sha256 in sorted(blobs):
        path = layout.blob(tenant_id, sha256)
        if path.exists():
            with path.open("rb") as file:
                yield from _chunks(layout, path, file)


def _names(layout: Layout, folder: Path) -> Iterator[tuple[str, bytes]]:
    path = folder / FULL_NAME
    if path.exists():
        yield _name(layout, path), path.read_bytes()


def _files(layout: Layout, folders: list[Path], blobs: set[str]) -> Iterator[tuple[str, bytes]]:
    """What the folders held at one moment. The lock is gone before the first byte is handed out: a file in place is
    never changed, only replaced, and a log only grows, so an open file keeps its content."""
    with ExitStack() as opened:
        try:
            with locked(folders[0], shared=True):
                files = [(path, opened.enter_context(path.open("rb"))) for f in folders for path in _plain_files(f)]
                sizes = [os.fstat(file.fileno()).st_size for _, file in files]
        except FileNotFoundError:  # deleted meanwhile
            return
        for (path, file), size in zip(files, sizes, strict=True):
            grows = _is_log(path)
            yield from _whole_lines(layout, path, file, size, blobs) if grows else _chunks(layout, path, file)


def _plain_files(folder: Path) -> list[Path]:
    """What is to be kept of a folder, a session's commits with it; not what is only there until it is done."""
    found = [*folder.iterdir(), *folder.glob(f"{ARCHIVES}/*/*")] if folder.is_dir() else []
    return sorted(p for p in found if p.is_file() and not p.name.startswith((TEMPORARY, UNNEEDED, SEEN)))


def _is_log(path: Path) -> bool:
    """A log only grows; every other file is replaced as a whole, and so are claims."""
    return path.suffix == ".jsonl" and path.name != CLAIMS


def _whole_lines(layout: Layout, path: Path, file: BinaryIO, size: int, blobs: set[str]) -> Iterator[tuple[str, bytes]]:
    name = _name(layout, path)
    yield name, b""
    for raw in file:
        size -= len(raw)
        if size < 0 or not raw.endswith(b"\n"):
            return
        line = chainlog.parse(raw)
        if path.name == TURNS and line and line.body is not None and b"blob://" in line.body:
            blobs |= blobs_named([Turn.model_validate_json(line.body)])
        yield name, raw


def _chunks(layout: Layout, path: Path, file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    name = _name(layout, path)
    yield name, b""
    while chunk := file.read(_CHUNK):
        yield name, chunk


def _name(layout: Layout, path: Path) -> str:
    return path.relative_to(layout.home / "tenants").as_posix()


def load(layout: Layout, tenant_id: str, files: Iterable[tuple[str, BinaryIO]]) -> LoadReport:
    """Take files over. Commit points (`session.json`, `.meta.json`) go last, so a cut-off import shows nothing half."""
    report = LoadReport()
    layout.make_named(layout.tenant(tenant_id), tenant_id)
    waiting: dict[Path, Path] = {}
    met: dict[Path, dict[Path, Path]] = defaultdict(dict)
    try:
        for name, file in files:
            target = _target(layout, escape(tenant_id), name)
            temporary = waiting[target] = _spool(target, file)
            folder = _folder(layout, tenant_id, target)
            if folder is not None and any((folder / page).exists() for page in (SESSION, META)):
                met[folder][target] = temporary
            elif target.exists():
                _meet(layout, target, temporary, report)
            elif folder is None:  # what belongs to a session or a node comes in with all of it
                _place(target, temporary, report)
        for folder, members in met.items():
            _meet_together(layout, folder, members, report)
        late = {target: temporary for target, temporary in waiting.items() if temporary.exists()}
        conflicts = {_unit(layout, tenant_id, layout.home / "tenants" / name) for name in report.conflicts}
        for target, temporary in sorted(late.items(), key=lambda pair: _RANK.get(pair[0].name, 0)):
            if _unit(layout, tenant_id, target) in conflicts:
                report.conflicts.append(_name(layout, target))
            else:
                _tell(temporary, target, report)
                _place(target, temporary, report)
    finally:
        for temporary in waiting.values():
            temporary.unlink(missing_ok=True)
    return report


def _folder(layout: Layout, tenant_id: str, target: Path) -> Path | None:
    """The folder of the session or the node a file belongs to, wherever it lies itself."""
    unit = _unit(layout, tenant_id, target)
    if len(unit) != 4:
        return None
    parts = unit if unit[2] == "sessions" else (*unit[:2], "memories", *unit[2:])
    return layout.tenant(tenant_id).joinpath(*parts)


def _meet_together(layout: Layout, folder: Path, members: dict[Path, Path], report: LoadReport) -> None:
    """A session or a node that is here too. A session that went on in both places is made one; else each file is
    looked at by itself, and what is missing here waits for that."""
    differs = {t for t, temporary in members.items() if t.is_file() and digest(t) != digest(temporary)}
    if folder / SESSION in differs:
        with locked(folder):
            made = merge(folder, members)
        if made is not None:
            report.added += made.written
            report.already_there += len(members) - min(made.written, len(members))
            report.sessions += made.written > 0
            report.gone |= made.gone
            report.owners |= {made.page.key.owner} if made.written else set()
            for temporary in members.values():
                temporary.unlink(missing_ok=True)
            return
    named = len(report.conflicts)
    if differs and (folder / META) in members:
        told = _node_of(folder, members)
        for target, temporary in members.items():
            report.conflicts.append(_name(layout, target)) if target in differs else None
            temporary.unlink()
        report.already_there += len(members) - len(differs)
        if told is not None:
            report.nodes.append(NodeMet(*told, tuple(report.conflicts[named:])))
            report.owners.add(told[0].key.owner)
        return
    for target, temporary in members.items():
        if target.exists():
            _meet(layout, target, temporary, report)


def _node_of(folder: Path, members: dict[Path, Path]) -> tuple[Node, tuple[Edge, ...]] | None:
    """The node as it is told there and its edges, if they can be read."""
    try:
        page = unseal(members[folder / META].read_bytes(), META)
        texts = {level: members[folder / LEVEL_FILES[level]].read_bytes().decode() for level in LEVELS}
        node = node_of(page, texts)
        edges = read_edges(members[folder / RELATIONS], node.key) if folder / RELATIONS in members else []
        return node, tuple(edges)
    except (Corrupt, ValueError, KeyError):
        return None


def _tell(temporary: Path, target: Path, report: LoadReport) -> None:
    """Whose it is that comes in, and which nodes are new here."""
    if target.name in (SESSION, META):
        with suppress(Corrupt, ValueError, KeyError):  # damaged: verify will name it
            page = unseal(temporary.read_bytes(), target.name)
            report.owners.add(Owner(OwnerKind(page["owner_kind"]), page["owner_id"]))
            if target.name == META:
                report.new_nodes.add(page["uri"])


# Copies of a node's versions come before all of these, the page of a node or a session after everything else.
_RANK = {RELATIONS: 1, TAGS: 1, CLAIMS: 1, COMMIT: 1, SESSION: 2, META: 2}


def _unit(layout: Layout, tenant_id: str, target: Path) -> tuple[str, ...]:
    """What is taken over together or not at all: a session, or a node with the copies of its versions."""
    parts = target.parent.relative_to(layout.tenant(tenant_id)).parts
    if target.name == COMMIT:
        parts = parts[:-2]
    return parts[1:] if parts[:1] == ("revisions",) else tuple(p for p in parts if p != "memories")


def _target(layout: Layout, prefix: str, name: str) -> Path:
    parts = PurePosixPath(name).parts
    outside = len(parts) < 2 or parts[0] != prefix or ".." in parts or any(c in name for c in "\\\0")
    if outside or parts[-1].startswith((TEMPORARY, UNNEEDED, SEEN)):
        raise InvalidArgument(f"the export holds a path outside tenant folder {prefix!r}: {name!r}", field="file")
    return layout.home.joinpath("tenants", *parts)


def _spool(target: Path, file: BinaryIO) -> Path:
    try:
        make_dirs(target.parent)
        temporary = write_temporary(target, b"")
    except (FileExistsError, NotADirectoryError):
        raise InvalidArgument(f"the export holds a file in place of a folder: {target.parent}", field="file") from None
    with temporary.open("wb") as out:
        shutil.copyfileobj(file, out, _CHUNK)
        out.flush()
        os.fsync(out.fileno())
    return temporary


def _place(target: Path, temporary: Path, report: LoadReport) -> None:
    temporary.replace(target)
    sync_dir(target.parent)
    report.added += 1
    report.sessions += target.name == SESSION


def _meet(layout: Layout, target: Path, temporary: Path, report: LoadReport) -> None:
    """The file is there: equal, or (for a log) a longer or shorter telling of the same chain; else a conflict."""
    with locked(target.parent):
        is_log = _is_log(target)
        if target.is_dir():
            report.conflicts.append(_name(layout, target))
        elif digest(target) == digest(temporary) or (is_log and is_prefix(temporary, target)):
            report.already_there += 1
        elif is_log and is_prefix(target, temporary):
            _place(target, temporary, report)
            return
        else:
            report.conflicts.append(_name(layout, target))
        temporary.unlink()
