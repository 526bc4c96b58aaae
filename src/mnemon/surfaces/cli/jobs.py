"""`mnemon jobs | worker`: what waits, what failed, and the process that does it."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import fields
from datetime import datetime

import click
from rich.table import Table
from rich.text import Text

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.jobs import Job, JobStatus
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, print_json
from mnemon.surfaces.wire import as_json


@click.group()
def jobs() -> None:
    """Work that waits, is under way, or failed."""


@jobs.command("list")
@click.option("--status", help="pending, claimed or failed. Default: all.")
@click.option("--kind", help="Jobs of one kind only, such as end or index.")
@click.option("--limit", default=50, show_default=True, help="How many at most.")
@shared
def list_(status: str | None, kind: str | None, limit: int, place: Place) -> None:
    """Jobs, oldest first."""
    with place.open(for_rebuild=True) as memory:
        found = memory.jobs(status, limit, kind)
        aside = memory.job_stats().set_aside
        now = memory.parts.clock.now()
    if place.as_json:
        print_json({"items": found, "set_aside": aside})
        return
    _print(found, now)
    if aside and status in (None, JobStatus.FAILED):
        console.print(f"{aside} older failed jobs are set aside in the queue's own files", highlight=False)


@jobs.command()
@click.argument("job_id")
@shared
def show(job_id: str, place: Place) -> None:
    """Everything about one job."""
    with place.open(for_rebuild=True) as memory:
        job = memory.job(job_id)
    if place.as_json:
        print_json(job)
        return
    table = Table(show_header=False, box=None)
    for field in fields(job):
        value = getattr(job, field.name)
        if field.name == "payload":
            value = as_json(value, indent=2).decode()
        table.add_row(field.name, Text("" if value is None else str(value)))
    console.print(table)


@jobs.command()
@click.argument("job_ids", nargs=-1, metavar="JOB_ID...")
@click.option("--all", "everything", is_flag=True, help="Every failed job.")
@click.option("--kind", help="With --all: those of one kind.")
@shared
def retry(job_ids: tuple[str, ...], everything: bool, kind: str | None, place: Place) -> None:
    """Failed jobs, once more from the start."""
    if everything == bool(job_ids):
        raise InvalidArgument("name the jobs, or say --all", field="job_id")
    if kind and not everything:
        raise InvalidArgument("--kind goes with --all", field="kind")
    with place.open(for_rebuild=True) as memory:
        count = memory.retry_jobs(kind) if everything else len([memory.retry_job(job_id) for job_id in job_ids])
    if place.as_json:
        print_json({"retried": count})
    else:
        console.print(f"{count} jobs wait again", highlight=False)


def _print(found: list[Job], now: datetime) -> None:
    table = Table("job", "kind", "status", "tries", "age", "about", "error")
    for job in found:
        age = str(now - job.created_at).partition(".")[0] if job.created_at else ""
        about, error = Text(_about(job)), Text(job.error or "")
        table.add_row(Text(job.job_id), job.kind, job.status, str(job.attempts + job.lost), age, about, error)
    console.print(table if found else "no jobs")


def _about(job: Job) -> str:
    """Whose it is, and the session or the chat that keeps its order."""
    named = [str(job.payload[name]) for name in ("owner_kind", "owner_id", "session_id", "slug") if name in job.payload]
    return " ".join([job.tenant_id, *named])


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
    async with place.open_async() as memory:
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
