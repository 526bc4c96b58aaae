"""Moving house: a tenant or an owner as files, copied while others write, and taken over again."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.reports import LoadReport
from mnemon.contracts.scope import Owner
from mnemon.contracts.turns import Turn
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.durable import TEMPORARY, locked, make_dirs, sync_dir, write_temporary
from mnemon.drivers.archive.fs.layout import META, RELATIONS, SESSION, TURNS, Layout
from mnemon.logic.paths import escape

_CHUNK = 1 << 20


def dump(layout: Layout, tenant_id: str, owner: Owner | None) -> Iterator[tuple[str, bytes]]:
    """(path, chunk) pairs. Folders are copied under their lock, blobs come last: nothing points into the void."""
    root = layout.tenant(tenant_id)
    blobs: set[str] = set()
    for whose in [owner] if owner else layout.owners(tenant_id):
        for folder in _leaf_folders(layout.owner(tenant_id, whose)):
            with locked(folder, shared=True):
                yield from _files(layout, folder, blobs)
        yield from _copies(layout, root / "revisions" / whose.kind.value / escape(whose.id))
    if owner is None:
        for log in ("entries", "ledger"):
            folder = layout.log(tenant_id, log)
            if folder.exists():
                with locked(folder, shared=True):
                    yield from _files(layout, folder, blobs)
    for sha256 in sorted(blobs):
        path = layout.blob(tenant_id, sha256)
        if path.exists():
            yield from _chunks(layout, path)


def _leaf_folders(owner: Path) -> Iterator[Path]:
    yield owner
    for pattern in ("sessions/*", "memories/*/*"):
        yield from sorted(p for p in owner.glob(pattern) if p.is_dir())


def _files(layout: Layout, folder: Path, blobs: set[str]) -> Iterator[tuple[str, bytes]]:
    for path in sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith(TEMPORARY)):
        if path.suffix == ".jsonl":
            yield from _whole_lines(layout, path, blobs)
        else:
            yield from _chunks(layout, path)


def _whole_lines(layout: Layout, path: Path, blobs: set[str]) -> Iterator[tuple[str, bytes]]:
    name = _name(layout, path)
    yield name, b""
    for item in chainlog.read_lines(path):
        if isinstance(item, chainlog.Torn):
            return
        line = chainlog.parse(item[1])
        if path.name == TURNS and line and line.body is not None and b'"blob://' in line.body:
            blobs.update(a.sha256 for a in Turn.model_validate_json(line.body).attachments if a.sha256)
        yield name, item[1]


def _copies(layout: Layout, folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*.json")) if folder.exists() else []:
        yield from _chunks(layout, path)


def _chunks(layout: Layout, path: Path) -> Iterator[tuple[str, bytes]]:
    name = _name(layout, path)
    yield name, b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield name, chunk


def _name(layout: Layout, path: Path) -> str:
    return path.relative_to(layout.home / "tenants").as_posix()


def load(layout: Layout, tenant_id: str, files: Iterable[tuple[str, BinaryIO]]) -> LoadReport:
    """Take files over. Commit points (`session.json`, `.meta.json`) go last, so a cut-off import shows nothing half."""
    report = LoadReport()
    late: list[tuple[Path, Path]] = []
    prefix = escape(tenant_id)
    for name, file in files:
        target = _target(layout, prefix, name)
        temporary = _spool(target, file)
        if target.exists():
            _meet(layout, target, temporary, report)
        elif target.name in (SESSION, META, RELATIONS):
            late.append((target, temporary))
        else:
            _place(target, temporary, report)
    for target, temporary in late:
        _place(target, temporary, report)
    return report


def _target(layout: Layout, prefix: str, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if not parts or parts[0] != prefix or ".." in parts or name.startswith("/") or "\\" in name or "\0" in name:
        raise InvalidArgument(f"the export holds a path outside tenant folder {prefix!r}: {name!r}", field="file")
    return layout.home.joinpath("tenants", *parts)


def _spool(target: Path, file: BinaryIO) -> Path:
    make_dirs(target.parent)
    temporary = write_temporary(target, b"")
    with temporary.open("wb") as out:
        shutil.copyfileobj(file, out, _CHUNK)
        out.flush()
    return temporary


def _place(target: Path, temporary: Path, report: LoadReport) -> None:
    temporary.replace(target)
    sync_dir(target.parent)
    report.added += 1
    report.sessions += target.name == SESSION


def _meet(layout: Layout, target: Path, temporary: Path, report: LoadReport) -> None:
    """The file is there: equal, or (for a log) a longer or shorter telling of the same chain; else a conflict."""
    here, coming = _digest(target), _digest(temporary)
    if here == coming or (target.suffix == ".jsonl" and _is_prefix(temporary, target)):
        temporary.unlink()
        report.already_there += 1
    elif target.suffix == ".jsonl" and _is_prefix(target, temporary):
        _place(target, temporary, report)
    else:
        temporary.unlink()
        report.conflicts.append(_name(layout, target))


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
