"""`mnemon export | import`: a memory as one portable file, and what an older bot remembered."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mnemon.contracts.results import ImportResult, SummariesResult
from mnemon.engine.summaries import migration
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, errors, print_json

_SKIPPED_SHOWN = 50


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


class _ArchiveUnlessNamed(click.Group):
    """What is imported is an archive, unless the first word says something else."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in self.get_help_option_names(ctx):
            args = ["archive", *args]
        return super().parse_args(ctx, args)


@click.group("import", cls=_ArchiveUnlessNamed)
def import_() -> None:
    """Take over an export (`mnemon import FILE`), or the summaries of an older bot."""


@import_.command()
@click.argument("file", type=click.Path(path_type=Path))
@shared
def archive(file: Path, place: Place) -> None:
    """Take over an export. What is here is never overwritten; what differs is named. Exit code 5 then."""
    with place.open() as memory, console.status("checking, copying, indexing …"):
        result = memory.import_archive(file)
    if place.as_json:
        print_json(result)
    else:
        _print_archive(result)
    sys.exit(5 if result.conflicts else 0)


def _print_archive(result: ImportResult) -> None:
    console.print(
        f"{result.added} files added, {result.already_there} were here, {result.sessions} sessions, "
        f"{result.reindexed_sessions} indexed",
        highlight=False,
    )
    for conflict in result.conflicts:
        console.print(f"differs from what is here, left alone: {conflict}", markup=False, highlight=False)


def _named(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """`NAME=ID`; a name may hold an equals sign, an id seldom does."""
    for pair in given:
        if not all(pair.rpartition("=")):
            raise click.BadParameter(f"{pair!r} is not NAME=ID")
    return {name: id_ for name, _, id_ in (pair.rpartition("=") for pair in given)}


@import_.command("end-summaries")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tenant", required=True, help="The tenant.")
@click.option("--user", help="Whose private chat records belong to that name no chat.")
@click.option("--group", help="The group records belong to that name no chat.")
@click.option("--chat", "chats", multiple=True, callback=_named, help="NAME=ID: the id of a chat the file only names.")
@click.option("--at", help="The time of records without one (ISO 8601). Default: that of the file.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and touch nothing.")
@shared
def end_summaries(
    file: Path,
    tenant: str,
    user: str | None,
    group: str | None,
    chats: dict[str, str],
    at: str | None,
    dry_run: bool,
    place: Place,
) -> None:
    """Take over an older bot's end_summaries.json as turns of its chats. Running it again changes nothing."""
    if dry_run:
        zone = place.read_config().cognitive.historian.timezone
        plan = migration(file, tenant, user, group, chats, at, zone=zone)
        result = plan.result(len(plan.calls), 0, dry_run=True)
    else:
        with place.open() as memory:
            result = memory.import_end_summaries(file, tenant, user, group, chats=chats, at=at)
    if place.as_json:
        print_json(result)
    else:
        _print_summaries(result)


def _print_summaries(result: SummariesResult) -> None:
    taken = "would be taken over" if result.dry_run else "taken over"
    here = "" if result.dry_run else f", {result.already_there} were here"
    console.print(
        f"{result.records} records: {result.queued} {taken}{here}, {len(result.skipped)} left out", highlight=False
    )
    for name, count in result.chats.items():
        console.print(f"  {count} of {name}", markup=False, highlight=False)
    for line in result.first if result.dry_run else ():
        console.print(f"  {line}", markup=False, highlight=False)
    for skipped in result.skipped[:_SKIPPED_SHOWN]:
        said = f"record {skipped.number} left out: {skipped.why}" + (f" ({skipped.text!r})" if skipped.text else "")
        errors.print(said, markup=False, highlight=False)
    if result.queued and not result.dry_run:
        console.print("a worker makes memories of them: `mnemon worker --once`", markup=False, highlight=False)
