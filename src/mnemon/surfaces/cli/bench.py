"""`mnemon bench`: how well memory finds what it should, and answers from it, on public datasets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress
from rich.table import Table

from mnemon.pipelines.retrieval.strategies import STRATEGIES
from mnemon.surfaces.bench import datasets
from mnemon.surfaces.bench.accuracy import QaFigures
from mnemon.surfaces.bench.confidence import Interval
from mnemon.surfaces.bench.datasets import Dataset
from mnemon.surfaces.bench.qa import QaPlan, QaReport, examined, models
from mnemon.surfaces.bench.recall import BASELINES, Report, Tick, asked, write
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, errors, print_json

_SHOWN = ("any@1", "rec@10", "rec@30", "full@10", "ndcg@10")  # the rest is in the JSON
_QA_COLUMNS = ("set", "n", "right %", "95 %", "over conversations", "F1", "unjudged", "failed", "degraded")


@click.group()
def bench() -> None:
    """Measure on public datasets; none comes with the package."""


def _on_a_dataset(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is written and how much of it is asked."""
    for option in (
        click.option("--limit", type=click.IntRange(1), help="Only the first questions."),
        click.option(
            "--extract", is_flag=True, help="Let the rules extract claims too, instead of keeping words only."
        ),
        click.option(
            "--data",
            type=click.Path(path_type=Path, file_okay=False),
            required=True,
            help="Folder of docs and queries.",
        ),
        click.option(
            "--dataset", type=click.Choice(datasets.NAMES), required=True, help="Which dataset the folder holds."
        ),
    ):
        function = option(function)
    return function


@bench.command()
@_on_a_dataset
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    type=click.Choice(tuple(STRATEGIES)),
    help="A strategy to measure; may be repeated. Default: dialog_v1 and dialog_v2.",
)
@click.option("--baselines/--no-baselines", default=True, show_default=True, help="BM25 and dense in the same run.")
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


@bench.command()
@_on_a_dataset
@click.option(
    "--strategy",
    type=click.Choice(tuple(STRATEGIES)),
    default="dialog_v2",
    show_default=True,
    help="How memory looks.",
)
@click.option("--judge", help="provider:model that judges the answers. Default: the model that answers.")
@click.option("--run", type=click.Path(path_type=Path, dir_okay=False), help="File to keep outcomes in and go on from.")
@click.option("--concurrency", default=4, show_default=True, type=click.IntRange(1, 64), help="Questions at a time.")
@click.option("--seed", default=7, show_default=True, help="For the intervals drawn over conversations.")
@shared
def qa(
    dataset: str,
    data: Path,
    strategy: str,
    judge: str | None,
    extract: bool,
    limit: int | None,
    run: Path | None,
    concurrency: int,
    seed: int,
    place: Place,
) -> None:
    """Write a dataset as sessions, let a model answer its questions from memory, and let a judge compare.

    Needs a model (--llm provider:model, or the platform's) and an `answer` in the rows of the questions; an adversarial
    question is right when the answer is that nobody said so."""
    loaded = datasets.load(dataset, data)
    plan = QaPlan(strategy, judge, limit, seed, concurrency, run)
    with Progress(console=errors, transient=True) as progress:
        writing = progress.add_task("writing", total=len(loaded.conversations))
        with place.open() as memory:
            models(memory.parts, judge)
            write(memory, loaded, extract, lambda: progress.advance(writing))
        asking = progress.add_task("asking", total=len(loaded.questions[:limit]))
        report = asyncio.run(_examined(place, loaded, plan, lambda: progress.advance(asking)))
    if place.as_json:
        print_json(report)
    else:
        _print_answers(report)


async def _examined(place: Place, dataset: Dataset, plan: QaPlan, tick: Tick) -> QaReport:
    async with place.open_async() as memory:
        return await examined(memory, dataset, plan, tick)


def _print_answers(report: QaReport) -> None:
    settings, by = report.settings, report.settings["models"]
    title = f"{settings['dataset']}, {settings['strategy']}, answers by {by['answer']}, judged by {by['judge']}"
    table = Table(
        "set", "n", "right %", "95 %", "over conversations", "F1", "unjudged", "failed", "degraded", title=title
    )
    for name, figures in report.figures.items():
        table.add_row(name, *_cells(figures))
    console.print(table)
    for name, spread in report.latency_ms.items():
        console.print(f"{name}: {', '.join(f'{point} {ms:.0f}' for point, ms in spread.items())}", highlight=False)
    console.print(
        ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in report.calls.items()), highlight=False
    )
    prompts = ", ".join(settings["prompts"].values())
    console.print(f"prompts {prompts}; seed {settings['seed']}; {report.resumed} from the run file", highlight=False)
    if report.without_gold:
        console.print(f"{report.without_gold} questions have no answer to compare with and were not asked")


def _cells(figures: QaFigures) -> tuple[str, ...]:
    return (
        str(figures.n),
        f"{100 * figures.accuracy:.1f}",
        _percent(figures.wilson),
        _percent(figures.bootstrap),
        "" if figures.f1 is None else f"{100 * figures.f1:.1f}",
        *map(str, (figures.unjudged, figures.failed, figures.degraded)),
    )


def _percent(interval: Interval | None) -> str:
    return "" if interval is None else f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}"
