"""`mnemon jobs | worker`: what waits, what failed, and the process that does it."""

from __future__ import annotations

import asyncio
import signal

import click
from rich.table import Table
from rich.text import Text

from mnemon.contracts.jobs import Job
from mnemon.engine.memory import AsyncMemory
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, print_json


@click.group()
def jobs() -> None:
    """Work that waits, is under way, or failed."""


@jobs.command("list")
@click.option("--status", help="pending, claimed or failed. Default: all.")
@click.option("--limit", default=50, show_default=True, help="How many at most.")
@shared
def list_(status: str | None, limit: int, place: Place) -> None:
    """Jobs, oldest first."""
    with place.open(for_rebuild=True) as memory:
        _print(memory.jobs(status, limit), place.as_json)


@jobs.command()
@click.argument("job_id")
@shared
def retry(job_id: str, place: Place) -> None:
    """A failed job, once more from the start."""
    with place.open(for_rebuild=True) as memory:
        _print([memory.retry_job(job_id)], place.as_json)


def _print(found: list[Job], as_json: bool) -> None:
    if as_json:
        print_json({"items": found})
        return
    table = Table("job", "kind", "status", "tries", "session", "error")
    for job in found:
        what = Text(str(job.payload.get("session_id", "")))
        table.add_row(job.job_id, job.kind, job.status, str(job.attempts), what, Text(job.error or ""))
    console.print(table if found else "no jobs")


@click.command()
@click.option("--once", is_flag=True, help="Do what is due and stop.")
@shared
def worker(once: bool, place: Place) -> None:
    """Do jobs until stopped (Ctrl-C or SIGTERM): the job under way is finished first."""
    result = asyncio.run(_work(once, place))
    if place.as_json:
        print_json(result)
    else:
        console.print(f"{result['succeeded']} jobs done, {result['failed']} failed", highlight=False)


async def _work(once: bool, place: Place) -> dict[str, int]:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    total = {"succeeded": 0, "failed": 0}
    async with AsyncMemory(place.home, config=place.read_config(), embedder=place.embedder) as memory:
        while True:
            result = await memory.run_jobs()
            total["succeeded"] += result.succeeded
            total["failed"] += result.failed
            if once or stop.is_set():
                return total
            try:
                await asyncio.wait_for(stop.wait(), memory.parts.config.poll_interval_seconds)
            except TimeoutError:
                continue
