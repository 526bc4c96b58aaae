"""`mnemon graph`: who did what when, what held when, and why it is known."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from mnemon.contracts.errors import MalformedInput, NotFound
from mnemon.contracts.graph import Entity, Event, GraphPage, PendingEquiv
from mnemon.contracts.graph_results import Explanation, HeldState, QuotedUtterance, StateChange
from mnemon.engine.sync import GraphView, Memory
from mnemon.surfaces.cli.options import Place, Who, scoped, shared
from mnemon.surfaces.cli.output import console, print_json

_limit = click.option("--limit", default=50, show_default=True, help="At most this many (500).")
_cursor = click.option("--cursor", help="Go on after an earlier page.")
_since = click.option("--since", help="From this time on (ISO 8601).")
_until = click.option("--until", help="Before this time (ISO 8601).")


@click.group()
def graph() -> None:
    """The temporal graph: events, entities, states, each down to the words."""


def _view(memory: Memory, who: Who) -> GraphView:
    return memory.graph(**who.named())


@graph.command()
@_since
@_until
@_limit
@_cursor
@scoped
@shared
def events(since: str | None, until: str | None, limit: int, cursor: str | None, who: Who, place: Place) -> None:
    """List what happened, oldest first."""
    with place.open() as memory:
        page = _view(memory, who).events(since, until, limit, cursor)
    _print_events(page, place)


@graph.command()
@click.option("--name", help="Only those called so.")
@_limit
@_cursor
@scoped
@shared
def entities(name: str | None, limit: int, cursor: str | None, who: Who, place: Place) -> None:
    """List people and things."""
    with place.open() as memory:
        page = _view(memory, who).entities(name, limit, cursor)
    if place.as_json:
        print_json(page)
        return
    table = Table("name", "also called", "what", "entity id")
    for entity in page.items:
        if isinstance(entity, Entity):
            table.add_row(Text(entity.name), Text(", ".join(entity.aliases)), Text(entity.type), Text(entity.id))
    _print_table(table, page)


@graph.command()
@click.argument("name")
@scoped
@shared
def resolve(name: str, who: Who, place: Place) -> None:
    """Say whom a name means, and whom it may mean."""
    with place.open() as memory:
        found = _view(memory, who).resolve(name)
    if place.as_json:
        print_json(found)
        return
    if found.entity is None:
        _print(f"{name} means nobody for sure")
    else:
        also = f", also called {', '.join(found.entity.aliases)}" if found.entity.aliases else ""
        _print(f"{name} is {found.entity.name}{also}: {', '.join(found.same_as)}")
    for candidate in found.candidates:
        _print(f"  perhaps {candidate.entity.name} ({candidate.reason}): {candidate.entity.id}")


@graph.command()
@click.argument("entity_id")
@_since
@_until
@_limit
@_cursor
@scoped
@shared
def timeline(
    entity_id: str, since: str | None, until: str | None, limit: int, cursor: str | None, who: Who, place: Place
) -> None:
    """List the events somebody takes part in or is named in."""
    with place.open() as memory:
        page = _view(memory, who).timeline(entity_id, since, until, limit, cursor)
    _print_events(page, place)


@graph.command()
@click.argument("id")
@click.option("--event", "is_event", is_flag=True, help="The id is that of an event, not of knowledge.")
@scoped
@shared
def explain(id: str, is_event: bool, who: Who, place: Place) -> None:
    """Draw why something is known: its events, what was said, the exact words. Knowledge has its claim's id."""
    with place.open() as memory:
        view = _view(memory, who)
        told = view.explain_event(id) if is_event else view.explain_knowledge(id)
    if place.as_json:
        print_json(told)
    else:
        console.print(_tree(told))


@graph.command()
@click.argument("subject")
@click.option("--property", "name", help="Only this property.")
@click.option("--at", "when", help="What held at this time (ISO 8601). Default: now.")
@click.option("--known-at", help="Leave out what was learnt after this time (ISO 8601).")
@click.option("--changes", is_flag=True, help="What changed when, instead of what held.")
@_since
@_until
@scoped
@shared
def states(
    subject: str,
    name: str | None,
    when: str | None,
    known_at: str | None,
    changes: bool,
    since: str | None,
    until: str | None,
    who: Who,
    place: Place,
) -> None:
    """Say what holds of an entity, what held at a time, or what changed."""
    with place.open() as memory:
        view = _view(memory, who)
        if changes:
            changed = view.states_changes(subject, name, since, until)
        elif when is not None:
            held = view.states_at(subject, when, name, known_at)
        else:
            held = view.states_current(subject, name, known_at)
    if place.as_json:
        print_json({"items": changed if changes else held})
    elif changes:
        _print_changes(changed)
    else:
        _print_held(held)


@graph.command()
@scoped
@shared
def pending(who: Who, place: Place) -> None:
    """List entities that may be one, for somebody to decide."""
    with place.open() as memory:
        view = _view(memory, who)
        found = view.pending_equivs()
        names = {} if place.as_json else _names(view, found)
    if place.as_json:
        print_json({"items": found})
        return
    table = Table("one", "the other", "why", "id")
    for equiv in found:
        ends = (names.get(i, i) for i in (equiv.entity_id, equiv.candidate_id))
        table.add_row(*(Text(name) for name in ends), Text(equiv.reason), Text(equiv.id))
    console.print(table if found else "nothing to decide")


@graph.command()
@click.argument("id")
@scoped
@shared
def approve(id: str, who: Who, place: Place) -> None:
    """Let two entities be one, until it is rejected."""
    with place.open() as memory:
        _print_decided(_view(memory, who).approve(id), place)


@graph.command()
@click.argument("id")
@scoped
@shared
def reject(id: str, who: Who, place: Place) -> None:
    """Keep two entities apart, whatever their names."""
    with place.open() as memory:
        _print_decided(_view(memory, who).reject(id), place)


@graph.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@scoped
@shared
def upsert(file: Path, who: Who, place: Place) -> None:
    """Tell the graph something from outside: a GraphUpsertRequest as JSON, `-` for standard input."""
    batch = _read(file)
    with place.open() as memory:
        receipt = _view(memory, who).upsert(batch)
    if place.as_json:
        print_json(receipt)
    else:
        _print("told: " + (", ".join(f"{n} {name}" for name, n in receipt.counts.items()) or "nothing"))


def _read(file: Path) -> dict[str, Any]:
    try:
        given = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}", field="file") from None
    except ValueError as error:
        raise MalformedInput(f"{file}: {error}", field="file") from None
    if not isinstance(given, dict):
        raise MalformedInput(f"{file}: a GraphUpsertRequest is an object", field="file")
    return given


# --- how it looks


def _print(line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _print_table(table: Table, page: GraphPage) -> None:
    console.print(table if page.items else "nothing found")
    if page.next_cursor:
        _print(f"more: --cursor {page.next_cursor}")


def _print_events(page: GraphPage, place: Place) -> None:
    if place.as_json:
        print_json(page)
        return
    table = Table("when", "what", "event id")
    for event in page.items:
        if isinstance(event, Event):
            table.add_row(_when(event), Text(event.summary), Text(event.id))
    _print_table(table, page)


def _when(event: Event) -> str:
    return f"{event.t_abs_start:%Y-%m-%d %H:%M}" if event.t_abs_start else ""


def _print_held(held: Sequence[HeldState]) -> None:
    table = Table("property", "value", "from", "to", "learnt")
    for one in held:
        state = one.state
        table.add_row(
            Text(state.property),
            Text(state.value),
            f"{one.held_from:%Y-%m-%d}",
            f"{one.held_to:%Y-%m-%d}" if one.held_to else "",
            f"{state.created_at:%Y-%m-%d}" if state.created_at else "",
        )
    console.print(table if held else "nothing is known")


def _print_changes(changes: Sequence[StateChange]) -> None:
    table = Table("when", "property", "from", "to", "learnt")
    for change in changes:
        table.add_row(
            f"{change.changed_at:%Y-%m-%d}",
            Text(change.property),
            Text(change.from_value or ""),
            Text(change.to_value or ""),
            f"{change.learnt_at:%Y-%m-%d}" if change.learnt_at else "",
        )
    console.print(table if changes else "nothing changed")


def _names(view: GraphView, equivs: Sequence[PendingEquiv]) -> dict[str, str]:
    """What those are called who wait to be decided; who is not on the first page is shown by id."""
    wanted = {i for equiv in equivs for i in (equiv.entity_id, equiv.candidate_id)}
    found = view.entities(limit=500).items if wanted else ()
    return {entity.id: entity.name for entity in found if isinstance(entity, Entity) and entity.id in wanted}


def _print_decided(equiv: PendingEquiv, place: Place) -> None:
    if place.as_json:
        print_json(equiv)
    else:
        _print(f"{equiv.status}: {equiv.entity_id} and {equiv.candidate_id}")


def _tree(told: Explanation) -> Tree:
    """Knowledge at the root, below it the events, the utterances, the words."""
    tree = Tree(Text(told.knowledge.summary, "bold") if told.knowledge else Text("event", "bold"))
    for explained in told.events:
        branch = tree.add(Text.assemble((f"{_when(explained.event)} ", "dim"), explained.event.summary))
        for said in explained.utterances:
            _add_quotes(branch, said)
    for said in told.utterances:
        _add_quotes(tree, said)
    for known in told.known:
        tree.add(Text.assemble(("known from it: ", "dim"), known.summary))
    return tree


def _add_quotes(branch: Tree, said: QuotedUtterance) -> None:
    leaf = branch.add(Text.assemble((f"{said.utterance.speaker}: ", "dim"), said.utterance.raw_text))
    for quote in said.quotes:
        leaf.add(Text(f"“{quote.text_exact}” [{quote.span_start}:{quote.span_end}]", "yellow"))
