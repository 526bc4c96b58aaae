"""`mnemon nodes`: the readable memories."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

from mnemon.contracts.nodes import RELATION_TYPES
from mnemon.surfaces.cli.options import Place, Who, scoped, shared
from mnemon.surfaces.cli.output import console, print_json


@click.group()
def nodes() -> None:
    """The readable memories: Markdown files on shelves."""


@nodes.command("list")
@click.option("--shelf", help="Only this shelf.")
@scoped
@shared
def list_(shelf: str | None, who: Who, place: Place) -> None:
    """List the memories of a person, or of a group where one is named."""
    with place.open() as memory:
        found = memory.nodes(**who.named(), shelf=shelf)
    if place.as_json:
        print_json(found)
        return
    table = Table("shelf", "name", "changed", "uri")
    for summary in found:
        changed = f"{summary.updated_at:%Y-%m-%d %H:%M}" if summary.updated_at else ""
        table.add_row(summary.category, Text(summary.name), changed, Text(summary.uri))
    console.print(table if found else "no memories")


@nodes.command()
@click.argument("uri")
@scoped
@shared
def show(uri: str, who: Who, place: Place) -> None:
    """Print one memory: its content with the words that prove each line."""
    with place.open() as memory:
        node = memory.node(**who.named(), uri=uri)
    if place.as_json:
        print_json({"uri": node.key.uri, "node": node})
        return
    console.print(Text(node.content))


@nodes.command()
@click.argument("uri")
@scoped
@shared
def history(uri: str, who: Who, place: Place) -> None:
    """Print the earlier versions of a memory, newest first, and why each was made."""
    with place.open() as memory:
        versions = memory.node_history(**who.named(), uri=uri)
    if place.as_json:
        print_json(versions)
        return
    for version in versions:
        console.print(
            f"version {version.node.version}, {version.saved_at:%Y-%m-%d %H:%M}: {version.reason}\n"
            f"  {version.node.abstract}",
            markup=False,
            highlight=False,
        )
    if not versions:
        console.print("no earlier versions")


@nodes.command()
@click.argument("uri")
@click.argument("name")
@scoped
@shared
def move(uri: str, name: str, who: Who, place: Place) -> None:
    """Give a memory another name on its shelf; its claims and its index follow."""
    with place.open() as memory:
        node = memory.move_node(**who.named(), uri=uri, name=name)
    if place.as_json:
        print_json({"uri": node.key.uri})
    else:
        console.print(node.key.uri, markup=False, highlight=False)


@nodes.command()
@click.argument("uri")
@click.option("--type", "relation_type", type=click.Choice(RELATION_TYPES), help="Only relations of this type.")
@click.option("--hops", type=click.IntRange(1, 3), default=1, show_default=True, help="How far to follow them.")
@scoped
@shared
def relations(uri: str, relation_type: str | None, hops: int, who: Who, place: Place) -> None:
    """Print what a memory has to do with others, both ways."""
    with place.open() as memory:
        found = memory.relations(**who.named(), uri=uri, relation_type=relation_type, hops=hops)
    if place.as_json:
        print_json(found)
        return
    table = Table("from", "is", "to", "why")
    for edge in found:
        table.add_row(Text(edge.from_uri), edge.relation_type, Text(edge.to_uri), Text(edge.reason))
    console.print(table if found else "no relations")


@nodes.command()
@click.argument("uri")
@click.argument("to_uri")
@click.option(
    "--type", "relation_type", type=click.Choice(RELATION_TYPES), default="related_to", show_default=True, help="How."
)
@click.option("--reason", default="", help="Why, in a word.")
@scoped
@shared
def relate(uri: str, to_uri: str, relation_type: str, reason: str, who: Who, place: Place) -> None:
    """Say that one memory has to do with another of the same person or group."""
    with place.open() as memory:
        edge = memory.relate(**who.named(), uri=uri, to_uri=to_uri, relation_type=relation_type, reason=reason)
    if place.as_json:
        print_json(edge)
    else:
        console.print(f"{edge.from_uri} {edge.relation_type} {edge.to_uri}", markup=False, highlight=False)


@nodes.command()
@click.argument("uri")
@click.argument("to_uri", required=False)
@click.option("--type", "relation_type", type=click.Choice(RELATION_TYPES), help="Only relations of this type.")
@scoped
@shared
def unrelate(uri: str, to_uri: str | None, relation_type: str | None, who: Who, place: Place) -> None:
    """Take relations of a memory away: to one other, of one type, or all."""
    with place.open() as memory:
        gone = memory.unrelate(**who.named(), uri=uri, to_uri=to_uri, relation_type=relation_type)
    if place.as_json:
        print_json({"removed": gone})
    else:
        console.print(f"{gone} removed")
