"""Export and import: one archive, one tenant or one person as a portable file that proves itself."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from mnemon.contracts.errors import Conflict, InvalidArgument, MalformedInput, NotFound
from mnemon.contracts.ports import Archive
from mnemon.contracts.reports import LoadReport
from mnemon.contracts.results import ExportResult
from mnemon.contracts.scope import Owner, Scope
from mnemon.pipelines.govern.filing import Filer

FORMAT = "mnemon-export-1"
_MANIFEST = "manifest.json"


async def export(
    archive: Archive, path: Path, tenant_id: str | None, owner: Owner | None, now: datetime
) -> ExportResult:
    """A zip of files and a manifest of their hashes. Others may write meanwhile; it appears when it is whole."""
    if owner is not None and tenant_id is None:
        raise InvalidArgument("to export one person, name the tenant_id too", field="tenant_id")
    tenants = [tenant_id] if tenant_id else [t async for t in archive.tenants()]
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    files: dict[str, dict[str, Any]] = {}
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as out:
            for tenant in tenants:
                await _write_tenant(archive, out, tenant, owner, files)
            if not files:
                raise NotFound("there is nothing to export", tenant_id=tenant_id, user_id=owner.id if owner else None)
            manifest = {
                "format": FORMAT,
                "created_at": now.isoformat(),
                "tenants": tenants,
                "owner": owner.space if owner else None,
                "files": files,
            }
            out.writestr(_MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1))
        await asyncio.to_thread(_publish, unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    return ExportResult(str(path), tuple(tenants), len(files), sum(f["size"] for f in files.values()))


def _publish(unfinished: Path, path: Path) -> None:
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(path)


async def _write_tenant(
    archive: Archive, out: zipfile.ZipFile, tenant: str, owner: Owner | None, files: dict[str, dict[str, Any]]
) -> None:
    name: str | None = None
    member: Any = None
    digest = hashlib.sha256()
    size = 0
    async for path, chunk in archive.dump(Scope.steward_of(tenant), owner):
        if path != name:
            if member is not None and name is not None:
                member.close()
                files[name] = {"tenant": tenant, "sha256": digest.hexdigest(), "size": size}
            name, digest, size = path, hashlib.sha256(), 0
            member = out.open(path, "w", force_zip64=True)
        member.write(chunk)
        digest.update(chunk)
        size += len(chunk)
    if member is not None and name is not None:
        member.close()
        files[name] = {"tenant": tenant, "sha256": digest.hexdigest(), "size": size}


async def load(archive: Archive, filer: Filer, path: Path) -> tuple[list[str], LoadReport]:
    """Every file is checked against the manifest before the first one is taken over; then what came in is filed."""
    whole = LoadReport()
    try:
        with zipfile.ZipFile(path) as box:
            manifest = await asyncio.to_thread(_checked_manifest, box, path)
            for tenant in manifest["tenants"]:
                report = await archive.load(Scope.steward_of(tenant), _members(box, manifest, tenant))
                whole.added += report.added
                whole.already_there += report.already_there
                whole.sessions += report.sessions
                whole.conflicts += await filer.file(tenant, report)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", field="path") from None
    except zipfile.BadZipFile as error:
        raise MalformedInput(f"{path} is not an export of Mnemon: {error}", field="path") from None
    if whole.conflicts and not whole.added and not whole.already_there:
        raise Conflict(f"nothing was imported: {len(whole.conflicts)} files differ from what is here", field="path")
    return list(manifest["tenants"]), whole


def _members(box: zipfile.ZipFile, manifest: dict[str, Any], tenant: str) -> Iterator[tuple[str, BinaryIO]]:
    for name, facts in manifest["files"].items():
        if facts["tenant"] == tenant:
            with box.open(name) as file:
                yield name, file  # type: ignore[misc]


def _checked_manifest(box: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(box.read(_MANIFEST))
        if manifest["format"] != FORMAT:
            raise MalformedInput(
                f"{path}: unknown export format {manifest['format']!r}, expected {FORMAT}", field="path"
            )
        listed = manifest["files"]
        names = set(box.namelist()) - {_MANIFEST}
        if names != listed.keys():
            odd = sorted(names ^ listed.keys())[0]
            raise MalformedInput(f"{path}: the manifest and the files do not agree on {odd}", field="path")
        for name, facts in listed.items():
            digest = hashlib.sha256()
            with box.open(name) as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
            if digest.hexdigest() != facts["sha256"]:
                raise MalformedInput(f"{path}: {name} does not match its hash; the export is damaged", field="path")
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise MalformedInput(f"{path}: not an export of Mnemon (manifest: {error})", field="path") from None
    return manifest
