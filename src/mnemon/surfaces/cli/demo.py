"""`mnemon demo`: the main job on bundled bilingual conversations, with nothing to set up."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from importlib import resources

import click
from rich.markdown import Markdown
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from mnemon.contracts.reports import VerifyReport
from mnemon.contracts.results import SessionWriteResult
from mnemon.engine.sync import BoundMemory, Memory
from mnemon.surfaces.cli.demo_chat import remember_group
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, print_claims, print_degraded, print_hits, print_json, print_rejected

TENANT, USER = "demo", "lin"
# In the order they were held: in the third one a taste of the first has changed.
_FORMATS = {
    "hotpot": "canonical_turns_v1",
    "trip": "openai_messages_v1",
    "kitchen": "canonical_turns_v1",
    "studio": "ai_studio_export_text_v1",
}
WORDS = ("花生", '"late train"')
MEANING = ("What am I allergic to?", "和妹妹一起去爬山", "晚上睡不好怎么办", "When is the flight to Chengdu?")

Scores = dict[str, list[tuple[str, float]]]


@click.command()
@shared
def demo(place: Place) -> None:
    """Remember bilingual conversations and a group chat; answer in both languages with the words that prove it.

    Uses a temporary folder unless --home is given on the command line, and no model unless one is configured
    (--llm, MNEMON_LLM_PROVIDER …, OPENAI_API_KEY …).
    """
    with ExitStack() as stack:
        source = click.get_current_context().get_parameter_source("home")
        if source is click.core.ParameterSource.DEFAULT:
            place = replace(place, home=stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemon-demo-")))
        # Nobody works in the background: each works when it is his turn, and can be watched.
        config = replace(place.read_config(), background_worker=False)
        llm = place.llm or ("rules" if not config.llm.provider and not config.llm.accounts else None)
        memory = stack.enter_context(Memory(place.home, config=config, embedder=place.embedder, llm=llm))
        results = [_remember(memory, name, place.as_json) for name in _FORMATS]
        bound = memory.bind(TENANT, USER)
        answers = _ask(bound, place.as_json)
        if not place.as_json:
            _show_files(memory)
        chat = remember_group(memory, TENANT, place.as_json) if config.cognitive.enabled else None
        proof = memory.verify()
        rebuilt = memory.rebuild()
        same = _scores(bound) == answers
        if place.as_json:
            shown = {"sessions": results, "answers": answers, "chat": chat, "verified": proof.ok, "turns": proof.turns}
            print_json({**shown, "same_after_rebuild": same})
        else:
            _show_proof(proof, rebuilt.seconds, same)
    if not (proof.ok and same):
        raise click.exceptions.Exit(1)


def _show_proof(proof: VerifyReport, rebuilt_s: float, same: bool) -> None:
    console.print(Rule("proof"))
    told = "every quote stands where it says" if proof.ok else "NOT every quote stands where it says"
    console.print(
        f"verify: {proof.turns} turns, {proof.claims} claims, {proof.nodes} memories, {proof.bytes:,} bytes, "
        f"{len(proof.defects)} defects; {told}",
        highlight=False,
    )
    console.print(
        f"rebuild: the index made anew from the archive in {rebuilt_s:.1f} s; "
        f"the same questions give {'the same' if same else 'OTHER'} ids and scores",
        highlight=False,
    )


def _remember(memory: Memory, name: str, quiet: bool) -> SessionWriteResult:
    folder = resources.files("mnemon.surfaces.cli").joinpath("data")
    raw = folder.joinpath(f"{name}.txt").read_text(encoding="utf-8")
    with console.status(f"reading {name} …"):
        result = memory.session_write(
            TENANT, USER, name, raw=raw, input_format=_FORMATS[name], llm_policy="best_effort"
        )
    if not quiet:
        _show(name, result)
        _show_not_remembered(memory.bind(TENANT, USER), name, result)
    return result


def _show(name: str, result: SessionWriteResult) -> None:
    used = result.debug["llm_used"] or {"provider": "no model", "model": ""}
    console.print(Rule(f"session {name} ({_FORMATS[name]}), judged by {used['provider']} {used['model']}"))
    counts = result.counts
    console.print(
        f"{counts['turns_in_session']} turns kept word for word, {counts.get('turns_kept', 0)} worth remembering",
        highlight=False,
    )
    for tag in result.tags:
        told = f"  {tag.turn_id}[{tag.span.start}:{tag.span.end}] {tag.category.value}, {tag.evidence_level.value}: "
        console.print(Text.assemble(told, (f"“{tag.span.text_exact}”", "cyan")))
    for dropped in result.dropped:
        console.print(f"  left out {dropped.turn_id}: {dropped.reason}", markup=False, highlight=False)
    print_rejected(result.rejected)
    if result.claims:
        print_claims(result.claims)
    for old in result.superseded:
        console.print(
            Text.assemble(
                ("changed: ", "yellow"),
                f"{old.statement} (held from {old.valid_from:%Y-%m-%d} to {old.valid_to:%Y-%m-%d}, still readable)",
            )
        )
    print_degraded(result.degraded)


_WHY_NOT = {
    "user": "a question, a supposition, or nothing that lasts",
    "assistant": "the assistant's words prove nothing about the user",
    "tool": "no plain fact",
    "system": "nobody's words",
}


def _show_not_remembered(bound: BoundMemory, name: str, result: SessionWriteResult) -> None:
    judged = {tag.turn_id for tag in result.tags}
    rest = [m for m in bound.messages_list(session_id=name).items if m.meta["turn_id"] not in judged]
    console.print(f"kept word for word, and nothing made of it ({len(rest)} turns), for instance:", highlight=False)
    for message in sorted(rest, key=lambda m: m.meta["seq"])[:3]:
        told = f"  {message.meta['turn_id']} {message.speaker}: {message.content[:60]} ({_WHY_NOT[message.role]})"
        console.print(told, markup=False, highlight=False)


def _show_files(memory: Memory) -> None:
    """The memories where people can read them."""
    console.print(Rule("files"))
    for summary in memory.nodes(TENANT, USER):
        console.print(f"  {summary.uri}", markup=False, highlight=False)
    for summary in memory.nodes(TENANT, USER, "preferences"):
        node = memory.node(TENANT, USER, summary.uri)
        console.print(Panel(Markdown(node.content), title=f"memories/preferences/{summary.name}/content.md"))


def _ask(bound: BoundMemory, quiet: bool) -> Scores:
    if not quiet:
        for query in WORDS:
            console.print(Rule(f"words: {query}"))
            print_hits(bound.lexical_search(query, page_size=3).items)
        for query in MEANING:
            console.print(Rule(f"meaning: {query}"))
            print_hits(bound.semantic_search(query, top_k=2))
    return _scores(bound)


def _scores(bound: BoundMemory) -> Scores:
    words = {q: [(h.message.message_id, h.score) for h in bound.lexical_search(q).items] for q in WORDS}
    meaning = {q: [(h.message.message_id, h.score) for h in bound.semantic_search(q)] for q in MEANING}
    return json.loads(json.dumps({**words, **meaning}))  # type: ignore[no-any-return]
