"""`mnemon retrieve`: ask memory."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

from mnemon.contracts.retrieval import Looked, RetrievalHit, RetrievalResult
from mnemon.engine.recollection import MAX_TOPK
from mnemon.pipelines.retrieval.strategies import STRATEGIES
from mnemon.surfaces.cli.options import Place, Who, scoped, shared
from mnemon.surfaces.cli.output import console, print_degraded, print_json

_ROUTES_SHOWN = 5


@click.command()
@click.argument("query")
@click.option(
    "--strategy", type=click.Choice(tuple(STRATEGIES)), default="dialog_v2", show_default=True, help="How to look."
)
@click.option("--topk", default=10, show_default=True, type=click.IntRange(1, MAX_TOPK), help="How many.")
@click.option("--since", help="Only what was said from this time on (ISO 8601).")
@click.option("--until", help="Only what was said before this time (ISO 8601).")
@click.option("--modality", multiple=True, help="For video_v1: text, image, audio, clip_image …; may be repeated.")
@click.option("--include-private", is_flag=True, help="In a group: the user's own memories as well.")
@click.option("--with-answer", is_flag=True, help="Let the model answer from the evidence.")
@click.option("--rerank", is_flag=True, help="Let the model put the hits in order.")
@click.option("--explain", is_flag=True, help="Show by which routes each hit was found, and every call made.")
@scoped
@shared
def retrieve(
    query: str,
    strategy: str,
    topk: int,
    since: str | None,
    until: str | None,
    modality: tuple[str, ...],
    include_private: bool,
    with_answer: bool,
    rerank: bool,
    explain: bool,
    who: Who,
    place: Place,
) -> None:
    """Ask memory: what bears on a question, with the words that prove it."""
    bounds = {name: moment for name, moment in (("gte", since), ("lt", until)) if moment is not None}
    with place.open() as memory:
        result = memory.retrieval(
            query,
            **who.named(),
            include_private=include_private,
            strategy=strategy,
            topk=topk,
            time_range=bounds or None,
            modality=modality or None,
            with_answer=with_answer,
            rerank={"enabled": rerank},
        )
    if place.as_json:
        print_json(result)
        return
    _print(result, explain)


def _print(result: RetrievalResult, explain: bool) -> None:
    if result.answer is not None:
        console.print(Text.assemble(("answer: ", "bold"), result.answer))
    if result.prompt:
        console.print(result.prompt, markup=False, highlight=False)
    columns = ("score", "what was found", "session · turn, time") + (("found by",) if explain else ())
    table = Table(show_lines=True)
    for name in columns:
        table.add_column(name, overflow="fold", ratio=1 if name == "what was found" else None)
    for hit in result.hits:
        table.add_row(f"{hit.final_score:.3f}", _words(hit), _place(hit), *([_routes(hit)] if explain else []))
    console.print(table if result.hits else "nothing found")
    _print_looked(result.looked)
    print_degraded(result.debug.degraded)
    if explain:
        _print_calls(result)


def _print_looked(looked: Looked) -> None:
    left_out = ", ".join(f"{count} {why.replace('_', ' ')}" for why, count in looked.left_out.items())
    told = f"looked through {looked.turns} turns{f'; left out: {left_out}' if left_out else ''}"
    console.print(Text(told, "dim"))


def _words(hit: RetrievalHit) -> Text:
    said = hit.entry.metadata
    words = Text(hit.entry.contents[0])
    if hit.source == "fact_search":
        words.stylize("bold")
        for quote in hit.evidence:
            words.append(f"\n“{quote.text}”", "dim")
    elif said.get("speaker"):
        words = Text(f"{said['speaker']}: ", "cyan") + words
    return words


def _place(hit: RetrievalHit) -> Text:
    turns = " ".join(dict.fromkeys(quote.turn_id for quote in hit.evidence))
    when = str(hit.entry.metadata.get("timestamp", ""))[:16].replace("T", " ")
    return Text(f"{hit.entry.metadata.get('run_id', '')} · {turns}\n{when}")


def _routes(hit: RetrievalHit) -> Text:
    if not hit.routes:
        return Text(f"{hit.source} {hit.score:.3f}")
    return Text("\n".join(f"{share.route} {share.share:+.0%}" for share in hit.routes[:_ROUTES_SHOWN]))


def _print_calls(result: RetrievalResult) -> None:
    debug = result.debug
    for name, value in debug.understood.items():
        if value:
            console.print(f"  {name}: {value}", markup=False, highlight=False)
    for call in debug.executed_calls:
        failed = f", failed: {call.error}" if call.error else ""
        console.print(f"  {call.api}: {call.count} in {call.latency_ms:.1f} ms{failed}", markup=False, highlight=False)
    console.print(f"  total: {debug.plan.total_latency_ms:.1f} ms", highlight=False)
