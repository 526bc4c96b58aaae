"""`mnemon bench`: how well memory finds what it should, on public datasets."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.progress import Progress
from rich.table import Table

from mnemon.pipelines.retrieval.strategies import STRATEGIES
from mnemon.surfaces.bench import datasets
from mnemon.surfaces.bench.recall import BASELINES, Report, asked, write
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, errors, print_json

_SHOWN = ("any@1", "rec@10", "rec@30", "full@10", "ndcg@10")  # the rest is in the JSON


@click.group()
def bench() -> None:
    """Measure on public datasets; none comes with the package."""


@bench.command()
@click.option("--dataset", type=click.Choice(datasets.NAMES), required=True, help="Which dataset the folder holds.")
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of docs and queries."
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    type=click.Choice(tuple(STRATEGIES)),
    help="A strategy to measure; may be repeated. Default: dialog_v1 and dialog_v2.",
)
@click.option("--baselines/--no-baselines", default=True, show_default=True, help="BM25 and dense in the same run.")
@click.option("--extract", is_flag=True, help="Let the rules extract claims too, instead of keeping words only.")
@click.option("--limit", type=click.IntRange(1), help="Only the first questions.")
@click.option("--runs", type=click.Path(path_type=Path, file_okay=False), help="Folder to write every ranking to.")
@shared
def recall(
    dataset: str,
    data: Path,
    strategies: tuple[str, ...],
    baselines: bool,
    extract: bool,
    limit: int | None,
    runs: Path | None,
    place: Place,
) -> None:
    """Write a dataset as sessions, ask its questions, and compare with the evidence.

    The home folder keeps what was written: the next run only asks."""
    loaded = datasets.load(dataset, data)
    if limit is not None:
        loaded = loaded.first(limit)
    systems = (*(BASELINES if baselines else ()), *(strategies or ("dialog_v1", "dialog_v2")))
    with place.open() as memory, Progress(console=errors, transient=True) as progress:
        writing = progress.add_task("writing", total=len(loaded.conversations))
        write(memory, loaded, extract, lambda: progress.advance(writing))
        asking = progress.add_task("asking", total=len(loaded.questions) * len(systems))
        report = asked(memory, loaded, systems, lambda: progress.advance(asking))
    if runs is not None:
        _write_runs(runs, report)
    if place.as_json:
        print_json({"dataset": report.dataset, "figures": report.figures})
        return
    table = Table("system", "set", "n", *_SHOWN, title=f"{report.dataset}, percent")
    for system, sets in report.figures.items():
        for name, figures in sets.items():
            table.add_row(system, name, f"{figures['n']:.0f}", *(f"{100 * figures[f]:.1f}" for f in _SHOWN))
    console.print(table)


def _write_runs(folder: Path, report: Report) -> None:
    """A line a question: `{"query_id", "ranking"}`."""
    folder.mkdir(parents=True, exist_ok=True)
    for system, ranked in report.rankings.items():
        lines = (json.dumps({"query_id": id, "ranking": found}, ensure_ascii=False) for id, found in ranked.items())
        (folder / f"{report.dataset}-{system}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
