"""`mnemon demo`: the main job on a bundled bilingual conversation, with nothing to set up."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from importlib import resources

import click
from rich.rule import Rule

from mnemon.engine.sync import BoundMemory, Memory
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, print_degraded, print_hits, print_json

TENANT, USER = "demo", "lin"
_FORMATS = {"trip": "openai_messages_v1", "kitchen": "canonical_turns_v1", "studio": "ai_studio_export_text_v1"}
WORDS = ("花生", "辣", "hiking AND sister", '"late train"')
MEANING = ("What am I allergic to?", "和妹妹一起去爬山", "晚上睡不好怎么办", "When is the flight to Chengdu?")


@click.command()
@shared
def demo(place: Place) -> None:
    """Ingest a bilingual conversation and answer questions in both languages with the words that prove it.

    Uses a temporary folder unless --home is given on the command line.
    """
    with ExitStack() as stack:
        source = click.get_current_context().get_parameter_source("home")
        if source is click.core.ParameterSource.DEFAULT:
            place = replace(place, home=stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemon-demo-")))
        memory = stack.enter_context(place.open())
        shown = _ingest(memory, place.as_json)
        bound = memory.bind(TENANT, USER)
        answers = _ask(bound, place.as_json)
        proof = memory.verify()
        if place.as_json:
            print_json({"sessions": shown, "answers": answers, "verified": proof.ok, "turns": proof.turns})
            return
        console.print(Rule("proof"))
        console.print(
            f"verify: {proof.turns} turns, {proof.bytes:,} bytes, {len(proof.defects)} defects", highlight=False
        )
        rebuilt = memory.rebuild()
        same = _scores(bound) == answers
        console.print(
            f"rebuild: the index made anew from the archive in {rebuilt.seconds:.1f} s; "
            f"the same questions give {'the same' if same else 'OTHER'} ids and scores",
            highlight=False,
        )


def _ingest(memory: Memory, quiet: bool) -> list[dict[str, object]]:
    shown: list[dict[str, object]] = []
    folder = resources.files("mnemon.surfaces.cli").joinpath("data")
    for name, input_format in _FORMATS.items():
        raw = folder.joinpath(f"{name}.txt").read_text(encoding="utf-8")
        with console.status(f"reading {name} ({input_format}) …"):
            result = memory.session_write(TENANT, USER, name, raw=raw, input_format=input_format, extract=False)
        shown.append({"session": name, "status": result.status, **result.counts})
        if not quiet:
            console.print(
                f"kept [bold]{result.counts['turns_in_session']}[/bold] turns of session {name} ({input_format})"
            )
            for dropped in result.dropped:
                console.print(f"  left out {dropped.turn_id}: {dropped.reason}", markup=False, highlight=False)
            if name == "studio":
                print_degraded(result.degraded)
    return shown


def _ask(bound: BoundMemory, quiet: bool) -> dict[str, list[tuple[str, float]]]:
    if not quiet:
        for query in WORDS:
            console.print(Rule(f"words: {query}"))
            print_hits(bound.lexical_search(query, page_size=3).items)
        for query in MEANING:
            console.print(Rule(f"meaning: {query}"))
            print_hits(bound.semantic_search(query, top_k=2))
    return _scores(bound)


def _scores(bound: BoundMemory) -> dict[str, list[tuple[str, float]]]:
    words = {q: [(h.message.message_id, h.score) for h in bound.lexical_search(q).items] for q in WORDS}
    meaning = {q: [(h.message.message_id, h.score) for h in bound.semantic_search(q)] for q in MEANING}
    return json.loads(json.dumps({**words, **meaning}))  # type: ignore[no-any-return]
