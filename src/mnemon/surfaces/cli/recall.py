"""`mnemon recall`: what somebody's messages say to a question, and how it was found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

import click
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mnemon.contracts.recall import Evidence, Hypothesis, Item, RecallResult, Round, Shelf
from mnemon.logic.skills import ANY_ROLE, ROLES
from mnemon.surfaces.cli.options import Place, Who, scoped, shared
from mnemon.surfaces.cli.output import console, print_degraded, print_json

_ARGUMENT = 120
_STYLES = {"settled": "bold", "changed": "bold cyan", "uncertain": "bold yellow"}


@click.command()
@click.argument("question")
@click.option("--since", help="Look only at what was said from this time on (ISO 8601).")
@click.option("--until", help="Look only at what was said before this time (ISO 8601).")
@click.option("--role", type=click.Choice(ROLES), help="Whose words count. Default: what the skill says.")
@click.option("--skill", help="A recall skill: its name, or the folder it lies in.")
@click.option("--explain", is_flag=True, help="Draw every round: what was supposed, asked, found and concluded.")
@scoped
@shared
def recall(
    question: str,
    since: str | None,
    until: str | None,
    role: str | None,
    skill: str | None,
    explain: bool,
    who: Who,
    place: Place,
) -> None:
    """Answer from somebody's own words, with the proof of every point and how far was looked."""
    times = {name: moment for name, moment in (("since", since), ("until", until)) if moment is not None}
    context: dict[str, Any] = {"time_range": times, "role_pref": role}
    with place.open() as memory:
        result = memory.recall(question, **who.named(), context=context, skill=skill, explain=explain)
    if place.as_json:
        print_json(result)
        return
    _draw(result.trace)
    _print(result)


def _draw(trace: Sequence[Round]) -> None:
    """One box a call; what is supposed is said when it changes."""
    supposed: tuple[Hypothesis, ...] = ()
    for round_ in trace:
        lines = Table.grid(padding=(0, 1))
        lines.add_column(style="dim", no_wrap=True)
        lines.add_column(overflow="fold", ratio=1)
        for hypothesis in round_.hypotheses if round_.hypotheses != supposed else ():
            told = Text(hypothesis.statement).append(f"  {hypothesis.shelf}: {hypothesis.proof}", "dim")
            lines.add_row("suppose", told)
        supposed = round_.hypotheses
        if round_.why:
            lines.add_row("why", Text(round_.why))
        lines.add_row("ask", Text(round_.tool, "cyan").append(f" {_shown(round_.arguments)}", "default"))
        lines.add_row("found", str(round_.found))
        for thought in round_.reflection:
            lines.add_row("reflect", Text(thought))
        if round_.decision:
            lines.add_row("decide", Text(round_.decision, "green"))
        console.print(Panel(lines, title=f"round {round_.number}", title_align="left"))


def _shown(arguments: dict[str, Any]) -> str:
    """What a tool was given, in short; `--json` has the whole of it."""
    parts = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return ", ".join(part if len(part) <= _ARGUMENT else f"{part[:_ARGUMENT]}…" for part in parts)


def _print(result: RecallResult) -> None:
    console.print(Text(result.answer))
    quotes: dict[str, list[Evidence]] = {}
    for evidence in result.evidence:
        quotes.setdefault(evidence.message_id, []).append(evidence)
    for shelf in get_args(Shelf):
        items: tuple[Item, ...] = getattr(result.memory_view, shelf)
        if items:
            console.print(Text(f"\n{shelf}", "underline"))
        for item in items:
            _print_item(item, quotes)
    _print_limits(result)
    print_degraded(result.degraded)


def _print_item(item: Item, quotes: dict[str, list[Evidence]]) -> None:
    head = Text("• ").append(item.statement, _STYLES[item.status])
    since = f", since {item.since[:10]}" if item.since else ""
    console.print(head.append(f"  {item.status} {item.confidence:.0%}{since}", "dim"))
    for name, ids in (("", item.evidence), ("against: ", item.against)):
        for evidence in (evidence for id_ in ids for evidence in quotes.get(id_, ())):
            said = Text(f"{name}“{evidence.content}”", "yellow" if name else "green")
            said.append(f"  {evidence.speaker or evidence.role.value}, {evidence.ts[:16].replace('T', ' ')}", "dim")
            console.print(Padding(said.append(f", {evidence.session_id}", "dim"), (0, 0, 0, 4)))
    if item.note:
        console.print(Padding(Text(item.note, "italic"), (0, 0, 0, 4)))


def _print_limits(result: RecallResult) -> None:
    limits = result.limits
    since, until = limits.time_range.since[:10] or "the beginning", limits.time_range.until[:10] or "now"
    there = "" if limits.messages_in_scope is None else f" of {limits.messages_in_scope}"
    told = f"looked from {since} to {until}, role {limits.role or ANY_ROLE}: {limits.messages_considered}{there} "
    told += f"messages by {', '.join(limits.routes) or 'no route'} "
    told += f"in {limits.calls} calls ({result.planner})"
    console.print(Text(f"\n{told}{', cut short' if limits.truncated else ''}", "dim"))
