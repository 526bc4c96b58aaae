"""Moving house: a tenant or an owner as files, copied while others write, and taken over again."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.reports import LoadReport
from mnemon.contracts.scope import Owner
from mnemon.contracts.turns import Turn
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.blobs import blobs_named
from mnemon.drivers.archive.fs.durable import TEMPORARY, locked, make_dirs, sync_dir, write_temporary
from mnemon.drivers.archive.fs.layout import (
    ARCHIVES,
    CLAIMS,
    COMMIT,
    FULL_NAME,
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
    late: list[tuple[Path, Path]] = []
    try:
        for name, file in files:
            target = _target(layout, escape(tenant_id), name)
            temporary = _spool(target, file)
            if target.exists():
                _meet(layout, target, temporary, report)
            elif target.name in _RANK or _is_copy(target, layout, tenant_id):
                late.append((target, temporary))
            else:
                _place(target, temporary, report)
        conflicts = {_unit(layout, tenant_id, layout.home / "tenants" / name) for name in report.conflicts}
        for target, temporary in sorted(late, key=lambda pair: _RANK.get(pair[0].name, 0)):
            if _unit(layout, tenant_id, target) in conflicts:
                report.conflicts.append(_name(layout, target))
            else:
                _place(target, temporary, report)
    finally:
        for _, temporary in late:
            temporary.unlink(missing_ok=True)
    return report


# Copies of a node's versions come before all of these, the page of a node or a session after everything else.
_RANK = {RELATIONS: 1, TAGS: 1, CLAIMS: 1, COMMIT: 1, SESSION: 2, META: 2}


def _is_copy(target: Path, layout: Layout, tenant_id: str) -> bool:
    return target.is_relative_to(layout.tenant(tenant_id) / "revisions")


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
        elif _digest(target) == _digest(temporary) or (is_log and _is_prefix(temporary, target)):
            report.already_there += 1
        elif is_log and _is_prefix(target, temporary):
            _place(target, temporary, report)
            return
        else:
            report.conflicts.append(_name(layout, target))
        temporary.unlink()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_prefix(short: Path, long: Path) -> bool:
    if short.stat().st_size > long.stat().st_size:
        return False
    with short.open("rb") as a, long.open("rb") as b:
        while chunk := a.read(_CHUNK):
            if b.read(len(chunk)) != chunk:
                return False
    return True
