"""`mnemon export | import`: a memory as one portable file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, print_json


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tenant", help="Only this tenant. Default: all.")
@click.option("--user", help="Only this user of the tenant.")
@shared
def export(file: Path, tenant: str | None, user: str | None, place: Place) -> None:
    """Write everything, one tenant or one user to FILE; also a consistent backup while others write."""
    with place.open(for_rebuild=True) as memory, console.status("copying …"):
        result = memory.export(file, tenant_id=tenant, user_id=user)
    if place.as_json:
        print_json(result)
        return
    console.print(f"{result.files} files, {result.bytes:,} bytes → {result.path}", markup=False, highlight=False)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@shared
def import_(file: Path, place: Place) -> None:
    """Take over an export. What is here is never overwritten; what differs is named. Exit code 5 then."""
    with place.open() as memory, console.status("checking, copying, indexing …"):
        result = memory.import_archive(file)
    if place.as_json:
        print_json(result)
    else:
        console.print(
            f"{result.added} files added, {result.already_there} were here, {result.sessions} sessions, "
            f"{result.reindexed_sessions} indexed",
            highlight=False,
        )
        for conflict in result.conflicts:
            console.print(f"differs from what is here, left alone: {conflict}", markup=False, highlight=False)
    sys.exit(5 if result.conflicts else 0)
