"""`mnemon ingest`: a chat export into the memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO, cast

import click

from mnemon.contracts.turns import InputFormat
from mnemon.engine.addressing import Visibility
from mnemon.pipelines.write.order import Stages, Wait
from mnemon.surfaces.cli.options import Place, Who, scoped, shared
from mnemon.surfaces.cli.output import console, errors, print_claims, print_degraded, print_json, print_rejected


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--input-format", help=f"Never guessed. One of {', '.join(InputFormat)}.")
@click.option("--session", help="The session's id. Default: the file's name without its ending.")
@scoped
@click.option("--visibility", default="private", show_default=True, help="private, product, group or public.")
@click.option("--stages", default="full", show_default=True, help="full: denoise first. off: every turn as it is.")
@click.option("--append", is_flag=True, help="Add turns the session has not seen.")
@click.option("--overwrite", is_flag=True, help="Extract anew from a session that is complete.")
@click.option("--words-only", is_flag=True, help="Keep the words and extract nothing.")
@click.option("--require-llm", is_flag=True, help="Fail where no model is configured, instead of keeping words only.")
@click.option("--agent", help="The agent that was spoken to.")
@click.option("--redact/--no-redact", default=None, help="Mask secrets, card and phone numbers first.")
@click.option("--wait", default="indexed", show_default=True, help="indexed, or archived: let the worker index it.")
@shared
def ingest(
    file: Path,
    input_format: str | None,
    session: str | None,
    who: Who,
    visibility: str,
    stages: str,
    append: bool,
    overwrite: bool,
    words_only: bool,
    require_llm: bool,
    agent: str | None,
    redact: bool | None,
    wait: str,
    place: Place,
) -> None:
    """Keep a chat export word for word and remember what is worth it. FILE may be - for standard input.

    A broken file changes nothing: the error says where it is broken and what was expected.
    """
    from_stdin = str(file) == "-"
    if from_stdin and session is None:
        raise click.UsageError("--session is needed when reading from standard input")
    raw: Path | BinaryIO = sys.stdin.buffer if from_stdin else file
    with place.open() as memory, console.status("reading, archiving, indexing …"):
        result = memory.session_write(
            who.tenant,
            who.user,
            session or file.stem,
            raw=raw,
            input_format=input_format,
            product_id=who.product,
            group_id=who.group,
            visibility=cast(Visibility, visibility),  # the engine checks these three and names the choices
            agent_id=agent,
            extract=not words_only,
            llm_policy="require" if require_llm else "best_effort",
            overwrite_existing=overwrite,
            stages=cast(Stages, stages),
            mode="append" if append else "once",
            redact=redact,
            wait=cast(Wait, wait),
        )
    if place.as_json:
        print_json(result)
        return
    counts = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in result.counts.items())
    console.print(f"[bold]{result.status}[/bold] {result.uri}\n{counts}", highlight=False, soft_wrap=True)
    for dropped in result.dropped[:20]:
        console.print(
            f"  dropped {dropped.turn_id} ({dropped.reason}) {dropped.raw_path}", markup=False, highlight=False
        )
    for mask in result.redacted[:20]:
        console.print(f"  masked {mask.pattern} × {mask.count} in {mask.turn_id}", markup=False, highlight=False)
    if result.claims:
        print_claims(result.claims)
    print_rejected(result.rejected)
    for old in result.superseded:
        console.print(f"  superseded: {old.statement}", markup=False, highlight=False)
    print_degraded(result.degraded)
    if result.error_reason:
        errors.print(f"error: {result.error_reason}", markup=False)
        sys.exit(1)
