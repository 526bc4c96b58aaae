"""`mnemon messages`: the four message tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mnemon.surfaces.cli.options import opened, scoped, shared
from mnemon.surfaces.cli.output import console, print_hits, print_json, print_messages


@click.group()
def messages() -> None:
    """Read and search what was said, word for word."""


_role = click.option("--role", help="user, assistant, tool or system.")
_since = click.option("--since", help="From this time on (ISO 8601).")
_until = click.option("--until", help="Before this time (ISO 8601).")
_session = click.option("--session", help="Only this session.")
_page_size = click.option("--page-size", default=20, show_default=True, help="How many, at most 200.")
_cursor = click.option("--cursor", help="Go on where a page ended.")


def _filter(role: str | None, since: str | None, until: str | None, session: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {"role": role, "session_id": session, "time_range": {"since": since, "until": until}}
    return {k: v for k, v in given.items() if v is not None}


def _print_cursor(cursor: str | None) -> None:
    if cursor:
        console.print(f"more: --cursor {cursor}", markup=False, highlight=False, soft_wrap=True)


@messages.command("list")
@_since
@_until
@_role
@_session
@_page_size
@_cursor
@scoped
@shared
def list_(
    since: str | None,
    until: str | None,
    role: str | None,
    session: str | None,
    page_size: int,
    cursor: str | None,
    tenant: str,
    user: str,
    product: str | None,
    group: str | None,
    home: str,
    config: Path | None,
    embedder: str | None,
    as_json: bool,
) -> None:
    """Messages, newest first."""
    with opened(home, config, embedder) as memory:
        bound = memory.bind(tenant, user, product, group)
        page = bound.messages_list(since, until, role, page_size, cursor, session)
    if as_json:
        print_json(page)
        return
    print_messages(page.items)
    _print_cursor(page.next_cursor)


@messages.command()
@click.argument("query")
@_role
@_since
@_until
@_session
@_page_size
@_cursor
@scoped
@shared
def lexical(
    query: str,
    role: str | None,
    since: str | None,
    until: str | None,
    session: str | None,
    page_size: int,
    cursor: str | None,
    tenant: str,
    user: str,
    product: str | None,
    group: str | None,
    home: str,
    config: Path | None,
    embedder: str | None,
    as_json: bool,
) -> None:
    """Find words: word, "a phrase", AND, OR, -not, brackets. 中文词一两个字也能找到。"""
    with opened(home, config, embedder) as memory:
        bound = memory.bind(tenant, user, product, group)
        page = bound.lexical_search(query, _filter(role, since, until, session), page_size, cursor)
    if as_json:
        print_json(page)
        return
    print_hits(page.items)
    _print_cursor(page.next_cursor)


@messages.command()
@click.argument("query")
@click.option("--top-k", default=10, show_default=True, help="How many, at most 200.")
@click.option("--min-score", type=float, help="Leave out what is farther away.")
@_role
@_since
@_until
@_session
@scoped
@shared
def semantic(
    query: str,
    top_k: int,
    min_score: float | None,
    role: str | None,
    since: str | None,
    until: str | None,
    session: str | None,
    tenant: str,
    user: str,
    product: str | None,
    group: str | None,
    home: str,
    config: Path | None,
    embedder: str | None,
    as_json: bool,
) -> None:
    """Find what means the same, in either language."""
    with opened(home, config, embedder) as memory:
        bound = memory.bind(tenant, user, product, group)
        where = _filter(role, since, until, session)
        hits = bound.semantic_search(query, filter=where, top_k=top_k, min_score=min_score)
    if as_json:
        print_json({"items": hits})
        return
    print_hits(hits)


@messages.command()
@click.argument("message_id")
@click.option("--before", default=20, show_default=True, help="How many messages before it.")
@click.option("--after", default=0, show_default=True, help="How many messages after it.")
@scoped
@shared
def neighbors(
    message_id: str,
    before: int,
    after: int,
    tenant: str,
    user: str,
    product: str | None,
    group: str | None,
    home: str,
    config: Path | None,
    embedder: str | None,
    as_json: bool,
) -> None:
    """A message and what was said around it."""
    with opened(home, config, embedder) as memory:
        around = memory.bind(tenant, user, product, group).neighbors(message_id, before, after)
    if as_json:
        print_json({"items": around})
        return
    print_messages(around)


@messages.command()
@click.argument("message_id")
@click.argument("sha256")
@click.option("--out", type=click.Path(path_type=Path), help="A file to write to. Default: standard output.")
@scoped
@shared
def attachment(
    message_id: str,
    sha256: str,
    out: Path | None,
    tenant: str,
    user: str,
    product: str | None,
    group: str | None,
    home: str,
    config: Path | None,
    embedder: str | None,
    as_json: bool,
) -> None:
    """The whole of what a message carries, for instance a tool output that was cut."""
    with opened(home, config, embedder) as memory:
        data = memory.bind(tenant, user, product, group).attachment(message_id, sha256)
    if out is not None:
        out.write_bytes(data)
        if as_json:
            print_json({"path": str(out), "bytes": len(data)})
        else:
            console.print(f"{len(data)} bytes written to {out}", markup=False, highlight=False)
    else:
        sys.stdout.buffer.write(data)
