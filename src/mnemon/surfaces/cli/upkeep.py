"""`mnemon status | verify | repair | rebuild`: how the memory is, and what keeps it so."""

from __future__ import annotations

import sys

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from mnemon.contracts.chats import HistorianStatus
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, errors, print_defects, print_degraded, print_json

_tenant = click.option("--tenant", help="Only this tenant. Default: all.")


@click.command()
@shared
def status(place: Place) -> None:
    """What there is, how it is found, and what waits."""
    with place.open(for_rebuild=True) as memory:
        state = memory.status()
    if place.as_json:
        print_json(state)
        return
    table = Table(show_header=False, box=None)
    queue, oldest = state.queue, state.queue.oldest_pending_at
    for name, value in (
        ("home", state.home),
        ("kept", f"{state.turns} turns in {state.sessions} sessions of {state.tenants} tenants"),
        ("known", f"{state.claims} claims in {state.nodes} memories"),
        ("index", f"{state.index}, {state.entries} entries, built with {state.index_model}"),
        ("embedder", state.embedder),
        (
            "jobs",
            f"{queue.pending} waiting ({queue.awaiting_model} of them for a model), {queue.claimed} under way, "
            f"{queue.failed} failed",
        ),
        ("lag", f"the oldest waits since {oldest:%Y-%m-%d %H:%M:%S}" if oldest else "none"),
        *_historian(state.historian),
    ):
        table.add_row(name, value)
    console.print(table)
    if state.building:
        errors.print(f"a rebuild with {state.building} is unfinished: `mnemon rebuild` goes on with it", markup=False)
    if state.index_model != state.embedder:
        errors.print("the index was built with another embedder: run `mnemon rebuild`", markup=False)
    for warning in state.warnings:
        errors.print(warning, markup=False)
    print_degraded(state.degraded)


def _historian(state: HistorianStatus | None) -> tuple[tuple[str, str], ...]:
    """How the chats of bots become memories."""
    if state is None:
        return ()
    how = f"by {state.provider}" if state.enabled else "switched off (cognitive.enabled)"
    return (
        ("historian", f"{state.events} events, {how}"),
        (
            "turns",
            f"{state.waiting} waiting ({state.retrying} tried before), {state.under_way} under way, "
            f"{state.failed} failed, the oldest waits {state.oldest_waiting_s:.0f} s",
        ),
        (
            "lately",
            f"{state.failure_rate:.1%} failed, {state.latency_p50_s:.1f} s to a memory (95 %: "
            f"{state.latency_p95_s:.1f} s), {state.rewrites} rewrites, {state.not_absolute} not absolute",
        ),
    )


@click.command()
@_tenant
@click.option("--index/--no-index", "check_index", default=True, help="Also compare the index with the words.")
@shared
def verify(tenant: str | None, check_index: bool, place: Place) -> None:
    """Prove that nothing was changed: every hash, chain and pointer. Exit code 1 if anything is wrong."""
    with place.open(for_rebuild=True) as memory, console.status("reading every byte …"):
        report = memory.verify(tenant, check_index)
    if place.as_json:
        print_json({"ok": report.ok, "report": report})
    else:
        found = (
            f"{report.sessions} sessions, {report.turns} turns, {report.tombstones} forgotten, {report.nodes} nodes, "
            f"{report.tags} tags, {report.claims} claims, {report.commits} commits, "
            f"{report.revisions} versions, {report.blobs} blobs, {report.log_lines} log lines, {report.bytes:,} bytes"
        )
        console.print(("[green]proven[/green]: " if report.ok else "[red]defects[/red]: ") + found, highlight=False)
        print_defects("defects", report.defects, "bold red")
        print_defects("notes", report.notes, "yellow")
    sys.exit(0 if report.ok else 1)


@click.command()
@_tenant
@shared
def repair(tenant: str | None, place: Place) -> None:
    """Finish what a crash cut off, record what people edited by hand, index what the index lacks."""
    with place.open() as memory:
        result = memory.repair(tenant)
    if place.as_json:
        print_json(result)
        return
    for item in result.repairs:
        how = "" if item.how == "mended" else f" ({item.how})"
        console.print(f"{item.where}: {item.what}{how}", markup=False, highlight=False)
    console.print(
        f"{len(result.repairs)} repairs, {result.reindexed_sessions} sessions and {result.reindexed_nodes} memories "
        f"indexed again, "
        f"{result.recovered_jobs} jobs taken over",
        highlight=False,
    )


@click.command()
@click.option("--restart", is_flag=True, help="Begin anew instead of going on with an unfinished rebuild.")
@shared
def rebuild(restart: bool, place: Place) -> None:
    """Make the index anew from the archive, also with another embedder. Can be interrupted and run again."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
        disable=place.as_json,
    )
    with place.open(for_rebuild=True) as memory, bar:
        task = bar.add_task("sessions", total=None)

        def progress(done: int, total: int, turns: int) -> None:
            bar.update(task, completed=done, total=total, description=f"sessions ({turns} turns)")

        result = memory.rebuild(restart=restart, progress=progress)
    if place.as_json:
        print_json(result)
        return
    console.print(
        f"{result.entries} turns of {result.sessions} sessions indexed with {result.model} in {result.seconds:.1f} s"
        + (f" ({result.resumed} sessions were done before)" if result.resumed else ""),
        markup=False,
        highlight=False,
    )
