"""`mnemon messages`: the message tools."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mnemon.surfaces.cli.options import Kept, Place, Who, filtered, scoped, shared
from mnemon.surfaces.cli.output import console, print_degraded, print_hits, print_json, print_messages

_page_size = click.option("--page-size", default=20, show_default=True, help="How many, at most 200.")
_cursor = click.option("--cursor", help="Go on where a page ended.")


@click.group()
def messages() -> None:
    """Read and search what was said, word for word."""


def _print_cursor(cursor: str | None) -> None:
    if cursor:
        console.print(f"more: --cursor {cursor}", markup=False, highlight=False, soft_wrap=True)


@messages.command("list")
@filtered
@_page_size
@_cursor
@scoped
@shared
def list_(kept: Kept, page_size: int, cursor: str | None, who: Who, place: Place) -> None:
    """Messages, newest first."""
    with place.open() as memory:
        page = who.bind(memory).messages_list(kept.since, kept.until, kept.role, page_size, cursor, kept.session)
    if place.as_json:
        print_json(page)
        return
    print_messages(page.items)
    print_degraded(page.degraded)
    _print_cursor(page.next_cursor)


@messages.command()
@click.argument("query")
@filtered
@_page_size
@_cursor
@scoped
@shared
def lexical(query: str, kept: Kept, page_size: int, cursor: str | None, who: Who, place: Place) -> None:
    """Find words: word, "a phrase", AND, OR, -not, brackets. 中文词一两个字也能找到。"""
    with place.open() as memory:
        page = who.bind(memory).lexical_search(query, kept.as_filter(), page_size, cursor)
    if place.as_json:
        print_json(page)
        return
    print_hits(page.items)
    print_degraded(page.degraded)
    _print_cursor(page.next_cursor)


@messages.command()
@click.argument("query")
@click.option("--top-k", default=10, show_default=True, help="How many, at most 200.")
@click.option("--min-score", type=float, help="Leave out what is farther away.")
@filtered
@scoped
@shared
def semantic(query: str, top_k: int, min_score: float | None, kept: Kept, who: Who, place: Place) -> None:
    """Find what means the same, in either language."""
    with place.open() as memory:
        hits = who.bind(memory).semantic_search(query, filter=kept.as_filter(), top_k=top_k, min_score=min_score)
    if place.as_json:
        print_json({"items": hits, "degraded": hits.degraded})
        return
    print_hits(hits)
    print_degraded(hits.degraded)


@messages.command()
@click.argument("message_id")
@click.option("--before", default=20, show_default=True, help="How many messages before it.")
@click.option("--after", default=0, show_default=True, help="How many messages after it.")
@scoped
@shared
def neighbors(message_id: str, before: int, after: int, who: Who, place: Place) -> None:
    """A message and what was said around it."""
    with place.open() as memory:
        around = who.bind(memory).neighbors(message_id, before, after)
    if place.as_json:
        print_json({"items": around})
        return
    print_messages(around)


@messages.command()
@click.argument("message_id")
@click.argument("sha256")
@click.option("--out", type=click.Path(path_type=Path), help="A file to write to. Default: standard output.")
@scoped
@shared
def attachment(message_id: str, sha256: str, out: Path | None, who: Who, place: Place) -> None:
    """The whole of what a message carries, for instance a tool output that was cut."""
    with place.open() as memory:
        data = who.bind(memory).attachment(message_id, sha256)
    if out is None:
        sys.stdout.buffer.write(data)
        return
    out.write_bytes(data)
    if place.as_json:
        print_json({"path": str(out), "bytes": len(data)})
    else:
        console.print(f"{len(data)} bytes written to {out}", markup=False, highlight=False)
