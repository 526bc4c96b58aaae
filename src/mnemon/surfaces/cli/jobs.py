"""`mnemon jobs | worker`: what waits, what failed, and the process that does it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from mnemon.contracts.jobs import Job
from mnemon.engine.memory import AsyncMemory
from mnemon.surfaces.cli.options import opened, read_config, shared
from mnemon.surfaces.cli.output import console, print_json


@click.group()
def jobs() -> None:
    """Work that waits, is under way, or failed."""


@jobs.command("list")
@click.option("--status", help="pending, claimed or failed. Default: all.")
@click.option("--limit", default=50, show_default=True)
@shared
def list_(status: str | None, limit: int, home: str, config: Path | None, embedder: str | None, as_json: bool) -> None:
    """Jobs, oldest first."""
    with opened(home, config, embedder, for_rebuild=True) as memory:
        _print(memory.jobs(status, limit), as_json)


@jobs.command()
@click.argument("job_id")
@shared
def retry(job_id: str, home: str, config: Path | None, embedder: str | None, as_json: bool) -> None:
    """A failed job, once more from the start."""
    with opened(home, config, embedder, for_rebuild=True) as memory:
        _print([memory.retry_job(job_id)], as_json)


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
def worker(once: bool, home: str, config: Path | None, embedder: str | None, as_json: bool) -> None:
    """Do jobs until stopped (Ctrl-C or SIGTERM): the job under way is finished first."""
    result = asyncio.run(_work(once, home, config, embedder))
    if as_json:
        print_json(result)
    else:
        console.print(f"{result['succeeded']} jobs done, {result['failed']} failed", highlight=False)


async def _work(once: bool, home: str, config: Path | None, embedder: str | None) -> dict[str, int]:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    total = {"succeeded": 0, "failed": 0}
    async with AsyncMemory(home, config=read_config(home, config), embedder=embedder) as memory:
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
