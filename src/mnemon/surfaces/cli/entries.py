"""`mnemon write`, `mnemon search`, `mnemon history`: entries of one's own making."""

from __future__ import annotations

import json
from typing import Any, TextIO

import click
from rich.table import Table
from rich.text import Text

from mnemon.contracts.errors import MalformedInput
from mnemon.contracts.memories import EntryVersion, SearchResult
from mnemon.engine.entries import MAX_TOPK
from mnemon.surfaces.cli.options import Place, Who, scoped, shared
from mnemon.surfaces.cli.output import console, print_degraded, print_json


@click.command()
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--no-upsert", is_flag=True, help="An id that is there is an error, not replaced.")
@scoped
@shared
def write(file: TextIO, no_upsert: bool, who: Who, place: Place) -> None:
    """Keep entries: JSON lines {kind, contents, metadata, …} or links {src_id, dst_id, rel_type}; - reads standard
    input."""
    rows = _rows(file)
    with place.open() as memory:
        receipt = memory.write(
            [row for row in rows if "src_id" not in row],
            [row for row in rows if "src_id" in row],
            upsert=not no_upsert,
            return_id_map=True,
            **who.named(),
        )
    if place.as_json:
        print_json(receipt)
        return
    stored = set((receipt.id_map or {}).values())
    console.print(f"{len(stored)} entries kept as version {receipt.version}", highlight=False)


def _rows(file: TextIO) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise MalformedInput(f"line {number}: not JSON ({error})", line=number) from None
        if not isinstance(row, dict):
            raise MalformedInput(f"line {number}: expected an object, found {type(row).__name__}", line=number)
        rows.append(row)
    return rows


@click.command()
@click.argument("query")
@click.option("--topk", default=10, show_default=True, type=click.IntRange(1, MAX_TOPK), help="How many.")
@click.option("--threshold", type=float, help="Leave out what is farther away.")
@click.option("--filters", help='What must hold, as JSON: \'{"memory_type": ["semantic"], "tags": ["tea"]}\'.')
@click.option("--no-graph", is_flag=True, help="Do not follow links.")
@scoped
@shared
def search(
    query: str, topk: int, threshold: float | None, filters: str | None, no_graph: bool, who: Who, place: Place
) -> None:
    """One question to the index: what is near in meaning, and what it is linked to."""
    with place.open() as memory:
        result = memory.search(
            query,
            **who.named(),
            topk=topk,
            threshold=threshold,
            filters=_object(filters),
            expand_graph=not no_graph,
        )
    if place.as_json:
        print_json(result)
        return
    _print(result)


def _object(text: str | None) -> dict[str, Any]:
    try:
        given = json.loads(text) if text is not None else {}
    except ValueError as error:
        raise MalformedInput(f"--filters: not JSON ({error})", field="filters") from None
    if not isinstance(given, dict):
        raise MalformedInput("--filters: expected an object", field="filters")
    return given


def _print(result: SearchResult) -> None:
    table = Table("score", "what was found", "linked to", "id", show_lines=True)
    for hit in result.hits:
        near = [f"{n.rel_type} {n.text}" for n in result.neighbors.get(hit.id, ())]
        words = Text("\n".join(hit.entry.contents) or f"({hit.entry.modality})")
        table.add_row(f"{hit.score:.3f}", words, Text("\n".join(near)), Text(hit.id))
    if result.hits:
        console.print(table)
    console.print(result.hints, markup=False, highlight=False)
    print_degraded(result.trace.get("degraded", ()))


@click.command()
@click.argument("id")
@scoped
@shared
def history(id: str, who: Who, place: Place) -> None:
    """Every version of an entry, newest first: who changed what, and why."""
    with place.open() as memory:
        versions = memory.history(id, **who.named())
    if place.as_json:
        print_json({"items": versions})
        return
    table = Table("version", "what", "by · when · why", "the entry then", show_lines=True)
    for version in versions:
        about = "\n".join(part for part in (", ".join(version.by), version.at[:19], version.reason) if part)
        table.add_row(str(version.version), version.op, Text(about), Text(_then(version)))
    console.print(table)


def _then(version: EntryVersion) -> str:
    if version.after is None:
        return "out of sight"
    return "\n".join([*version.after.contents, json.dumps(version.after.metadata, ensure_ascii=False)])
