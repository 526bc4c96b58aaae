"""`mnemon commit`: a session as far as it goes, with its archive and the memories it touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

import click
from rich.table import Table
from rich.text import Text

from mnemon.contracts.commits import CommitOptions
from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.turns import InputFormat
from mnemon.surfaces.cli.options import Place, Who, scoped, shared
from mnemon.surfaces.cli.output import console, print_degraded, print_json, print_rejected


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--input-format", help=f"Never guessed. One of {', '.join(InputFormat)}.")
@click.option("--session", help="The session's id. Default: the file's name without its ending.")
@scoped
@click.option("--dry-run", is_flag=True, help="Plan everything and write nothing.")
@click.option("--skip-archive", is_flag=True, help="No summary of the session.")
@click.option("--skip-dedup", is_flag=True, help="Do not look for what is there already.")
@click.option("--skip-relations", is_flag=True, help="No relations between memories.")
@click.option("--shelf", "shelves", multiple=True, help="Only this shelf; can be given more than once.")
@click.option("--max-candidates", type=int, help="At most this many claims.")
@click.option("--used-tools", type=click.File("rb"), help="JSON: a list of the round's tool calls, or their sums.")
@click.option("--trace-id", help="Your name for this call: its job, commit record and log lines carry it.")
@shared
def commit(
    file: Path,
    input_format: str | None,
    session: str | None,
    who: Who,
    dry_run: bool,
    skip_archive: bool,
    skip_dedup: bool,
    skip_relations: bool,
    shelves: tuple[str, ...],
    max_candidates: int | None,
    used_tools: BinaryIO | None,
    trace_id: str | None,
    place: Place,
) -> None:
    """Commit a session: what it came to, memory by memory. Needs a model, or --llm rules."""
    options = CommitOptions(
        dry_run, skip_archive, skip_dedup, skip_relations, _shelves(shelves) if shelves else None, max_candidates
    )
    with place.open() as memory, console.status("committing …"):
        result = memory.commit_session(
            **who.named(),
            session_id=session or file.stem,
            raw=file,
            input_format=input_format,
            used_tools=_tools(used_tools),
            options=options,
            trace_id=trace_id,
        )
    if place.as_json:
        print_json(result)
        return
    console.print(f"[bold]{result.status}[/bold]{' (dry run: nothing was written)' if dry_run else ''}")
    if result.archive and result.archive.summary:
        console.print(Text(result.archive.summary))
    table = Table("what", "memory", "why")
    for plan in result.plans:
        table.add_row(plan.action.value, Text(plan.target_uri), Text(plan.reason))
    console.print(table)
    print_rejected(result.rejected)
    print_degraded(result.degraded)


def _tools(file: BinaryIO | None) -> list[dict[str, Any]]:
    if file is None:
        return []
    try:
        told = json.load(file)
    except ValueError as error:
        raise InvalidArgument(f"--used-tools is not JSON: {error}", field="used_tools") from None
    if not isinstance(told, list) or not all(isinstance(row, dict) for row in told):
        raise InvalidArgument('--used-tools must hold a list: [{"name": …, "ok": true}, …]', field="used_tools")
    return told


def _shelves(names: tuple[str, ...]) -> tuple[Shelf, ...]:
    known = [shelf.value for shelf in Shelf]
    for name in names:
        if name not in known:
            raise InvalidArgument(f"--shelf must be one of {', '.join(known)}, not {name!r}", field="shelf")
    return tuple(map(Shelf, names))
