"""`mnemon end | context | events`: a chat bot's turn, and what it leads to."""

from __future__ import annotations

import json
from inspect import signature
from typing import Any, TextIO

import click
from rich.table import Table
from rich.text import Text

from mnemon.contracts.chats import EventHit
from mnemon.contracts.errors import InvalidArgument, MalformedInput
from mnemon.engine.sync import Memory
from mnemon.logic.hints import hint
from mnemon.surfaces.cli.options import Chat, Place, chatting, shared
from mnemon.surfaces.cli.output import console, errors, print_degraded, print_json

_ARGUMENTS = tuple(name for name in signature(Memory.end).parameters if name not in ("self", "tenant_id"))


@click.command()
@click.option("--tenant", required=True, help="The tenant.")
@click.option("--user", "user_id", help="Whom the bot talked with.")
@click.option("--group", "group_id", help="The group it talked in.")
@click.option("--request-id", help="The host's name for the request this turn answers.")
@click.option("--end-seq", type=int, help="Which end of the request this is.")
@click.option("--action-summary", help="What the bot did, in a short sentence.")
@click.option("--new-info", help="One new thing the message told.")
@click.option("--force", is_flag=True, default=None, help="Also where no message was sent.")
@click.option("--sender", "sender_id", help="Who spoke. Default: the user.")
@click.option("--sender-name", help="What they are called.")
@click.option("--group-name", help="What the group is called.")
@click.option("--bot-name", help="What the bot is called.")
@click.option("--timestamp", help="When (ISO 8601). Default: now.")
@click.option("--timezone", help="Asia/Shanghai, or +08:00. Default: that of the timestamp, or this machine's.")
@click.option("--location", help="Where.")
@click.option(
    "--json-file", type=click.File(encoding="utf-8"), help="All of it, also messages, as a JSON object; - is stdin."
)
@shared
def end(tenant: str, json_file: TextIO | None, place: Place, **options: Any) -> None:
    """Tell of the end of a bot's turn: durable when the command is back, remembered by a worker."""
    given = _object(json_file) | {name: value for name, value in options.items() if value is not None}
    for name in ("request_id", "end_seq"):
        if name not in given:
            raise InvalidArgument(f"say --{name.replace('_', '-')}, or {name} in --json-file", field=name)
    with place.open() as memory:
        result = memory.end(tenant, **given)
    if place.as_json:
        print_json(result)
        return
    for notice in result.deprecated:
        errors.print(Text.assemble(("note: ", "yellow"), notice))
    console.print(f"{result.status}: {result.event_id}", markup=False, highlight=False)


def _object(file: TextIO | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        given = json.load(file)
    except ValueError as error:
        raise MalformedInput(f"--json-file: not JSON ({error})", field="json_file") from None
    if not isinstance(given, dict):
        raise MalformedInput("--json-file: expected an object", field="json_file")
    for name in given:
        if name not in _ARGUMENTS:
            raise InvalidArgument(f"end takes no {name!r}{hint(name, _ARGUMENTS)}", field=name)
    return given


@click.command()
@click.argument("query")
@click.option("--top-k", type=int, help="How many events. Default: what the configuration says.")
@click.option("--max-tokens", type=int, help="How long it may be. Default: what the configuration says.")
@chatting
@shared
def context(query: str, top_k: int | None, max_tokens: int | None, chat: Chat, place: Place) -> None:
    """The piece of prompt a bot gets before a turn: profiles and the events nearest to QUERY."""
    with place.open() as memory:
        made = chat.bind(memory).context(query, top_k, max_tokens)
    if place.as_json:
        print_json(made)
        return
    console.print(made.text or "nothing is known", markup=False, highlight=False)
    print_degraded(made.degraded)


@click.command()
@click.argument("query")
@click.option("--target-user", help="Only what concerns this user.")
@click.option("--target-group", help="Only what happened in this group.")
@click.option("--top-k", type=int, help="How many. Default: what the configuration says.")
@click.option("--from", "time_from", help="From this time on (ISO 8601).")
@click.option("--to", "time_to", help="Before this time (ISO 8601).")
@chatting
@shared
def events(
    query: str,
    target_user: str | None,
    target_group: str | None,
    top_k: int | None,
    time_from: str | None,
    time_to: str | None,
    chat: Chat,
    place: Place,
) -> None:
    """What happened in a chat, best first, with the words it rests on."""
    with place.open() as memory:
        found = chat.bind(memory).search_events(query, target_user, target_group, top_k, time_from, time_to)
    if place.as_json:
        print_json({"items": found})
        return
    _print(found)


def _print(found: tuple[EventHit, ...]) -> None:
    table = Table(show_lines=True)
    for name in ("score", "when", "what happened", "the words that prove it", "event id"):
        table.add_column(name, overflow="fold", ratio=1 if name.startswith(("what", "the")) else None)
    for hit in found:
        quotes = "\n".join(f"“{quote.text}”" for quote in hit.evidence)
        when = hit.ts[:16].replace("T", " ")
        table.add_row(f"{hit.score:.3f}", when, Text(hit.text), Text(quotes), Text(hit.id))
    console.print(table if found else "nothing found")
