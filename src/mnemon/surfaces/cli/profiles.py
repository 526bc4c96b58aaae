"""`mnemon profile`: what is known of people and groups, as Markdown with a history."""

from __future__ import annotations

from typing import Any, cast

import click
from rich.markdown import Markdown
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from mnemon.contracts.chats import EntityType, Profile
from mnemon.surfaces.cli.options import Chat, Place, chatting, shared
from mnemon.surfaces.cli.output import console, print_json

_KINDS = click.Choice(["user", "group"])


@click.group()
def profile() -> None:
    """Profiles of users and groups: Markdown, versioned."""


@profile.command()
@click.argument("entity_type", type=_KINDS)
@click.argument("entity_id")
@chatting
@shared
def show(entity_type: EntityType, entity_id: str, chat: Chat, place: Place) -> None:
    """Print a profile, as far as this chat may see it."""
    with place.open() as memory:
        _print(chat.bind(memory).get_profile(entity_type, entity_id), place)


@profile.command()
@click.argument("entity_type", type=_KINDS)
@click.argument("entity_id")
@chatting
@shared
def history(entity_type: EntityType, entity_id: str, chat: Chat, place: Place) -> None:
    """Print its versions, newest first, and why each was made."""
    with place.open() as memory:
        versions = chat.bind(memory).profile_history(entity_type, entity_id)
    if place.as_json:
        print_json({"items": versions})
        return
    table = Table("version", "since", "why", "address")
    for version in versions:
        number = f"{version.version}{' (in force)' if version.current else ''}"
        table.add_row(number, version.saved_at[:19].replace("T", " "), Text(version.reason), Text(version.uri))
    console.print(table if versions else "no versions")


@profile.command()
@click.argument("entity_type", type=_KINDS)
@click.argument("entity_id")
@click.option("--from", "from_version", type=int, required=True, help="The earlier version.")
@click.option("--to", "to_version", type=int, help="The later version. Default: the newest.")
@chatting
@shared
def diff(
    entity_type: EntityType, entity_id: str, from_version: int, to_version: int | None, chat: Chat, place: Place
) -> None:
    """Print what two versions say differently."""
    with place.open() as memory:
        found = chat.bind(memory).profile_diff(entity_type, entity_id, from_version, to_version)
    if place.as_json:
        print_json(found)
        return
    console.print(Syntax(found.text, "diff", background_color="default") if found.text else "no difference")


@profile.command()
@click.argument("entity_type", type=_KINDS)
@click.argument("entity_id")
@click.argument("version", type=int)
@chatting
@shared
def rollback(entity_type: EntityType, entity_id: str, version: int, chat: Chat, place: Place) -> None:
    """Make an earlier version the one in force, as a new one; the words it was learnt from stay."""
    with place.open() as memory:
        _print(chat.bind(memory).rollback_profile(entity_type, entity_id, version), place)


@profile.command()
@click.argument("query")
@click.option("--type", "entity_type", type=_KINDS, help="Only users, or only groups.")
@click.option("--id", "entity_id", help="Only this one.")
@click.option("--top-k", type=int, help="How many. Default: what the configuration says.")
@chatting
@shared
def search(
    query: str, entity_type: str | None, entity_id: str | None, top_k: int | None, chat: Chat, place: Place
) -> None:
    """Whose profile fits a description, best first."""
    with place.open() as memory:
        found = chat.bind(memory).search_profiles(query, cast(Any, entity_type), entity_id, top_k)
    if place.as_json:
        print_json({"items": found})
        return
    table = Table("score", "whose", "what is known", "changed", show_lines=True)
    for hit in found:
        table.add_row(f"{hit.score:.3f}", Text(hit.id), Text(hit.text), hit.updated_at[:10])
    console.print(table if found else "nothing found")


def _print(found: Profile, place: Place) -> None:
    """To be read on a terminal; into a file or another program as it is, with its head."""
    if place.as_json:
        print_json(found)
    elif console.is_terminal:
        console.rule(Text(f"{found.name} · {found.id}"))
        console.print(Markdown(found.body))
    else:
        print(found.text)
