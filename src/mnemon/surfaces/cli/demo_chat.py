"""The scene of `mnemon demo` in which a bot remembers a group: its turns, the historian, a profile, and questions."""

from __future__ import annotations

import time
import tomllib
from importlib import resources
from typing import Any

from rich.markdown import Markdown
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from mnemon.contracts.chats import EventHit
from mnemon.engine.sync import Cognitive, Memory
from mnemon.surfaces.cli.output import console

_ELSEWHERE = "book-club"


def remember_group(memory: Memory, tenant: str, quiet: bool) -> dict[str, Any]:
    """What happened, for those who asked for JSON; shown on the way to those who did not. Nobody else may be at
    work: the historian is called when it is his turn."""
    told = resources.files("mnemon.surfaces.cli").joinpath("data", "group.toml").read_text(encoding="utf-8")
    scene = tomllib.loads(told)
    if not quiet:
        console.print(Rule(f"a bot in a group: {scene['group_name']}"))
    ended = [_end(memory, tenant, scene, turn, quiet) for turn in scene["turns"]]
    begun = time.perf_counter()
    done = memory.run_jobs()
    seconds = time.perf_counter() - begun
    here = memory.cognitive(tenant, scene["profile_of"], scene["group_id"])
    there = memory.cognitive(tenant, scene["profile_of"], _ELSEWHERE)
    profile = here.get_profile("user", scene["profile_of"])
    if not quiet:
        console.print(f"the historian, afterwards: {done.succeeded} turns in {seconds:.1f} s", highlight=False)
        console.print(Panel(Markdown(profile.body), title=f"{profile.name}, as this group knows them"))
    answers = {query: _ask(here, there, query, quiet) for query in scene["questions"]}
    return {"ended": ended, "profile": profile.text, "answers": answers}


def _end(memory: Memory, tenant: str, scene: dict[str, Any], turn: dict[str, str], quiet: bool) -> str:
    message = {name: turn[name] for name in ("message_id", "sender_id", "sender_name", "text", "time")}
    begun = time.perf_counter()
    result = memory.end(
        tenant,
        f"turn-{turn['message_id']}",
        1,
        turn["action_summary"],
        turn["new_info"],
        sender_id=turn["sender_id"],
        group_id=scene["group_id"],
        group_name=scene["group_name"],
        bot_name=scene["bot_name"],
        messages=[message],
        timestamp=turn["time"],
        timezone=scene["timezone"],
    )
    took_ms = (time.perf_counter() - begun) * 1000
    if not quiet:
        console.print(Text.assemble(f"{turn['sender_name']}: ", (turn["text"], "cyan")))
        words = f"  end: “{turn['action_summary']}” · “{turn['new_info']}”"
        console.print(f"{words} ({result.status} in {took_ms:.1f} ms)", markup=False, highlight=False)
    return result.status


def _ask(here: Cognitive, there: Cognitive, query: str, quiet: bool) -> dict[str, Any]:
    """The best event with its words, in this group and in another."""
    found, elsewhere = here.search_events(query, top_k=1), there.search_events(query, top_k=1)
    if not quiet:
        console.print(Rule(f"asked in the group: {query}"))
        for hit in found:
            console.print(Text.assemble((hit.text, "bold"), *((f"\n  “{words}”", "cyan") for words in _words(hit))))
        told = elsewhere[0].text if elsewhere else "nothing found"
        console.print(f"the same in another group: {told}", markup=False, highlight=False)
    return {
        "found": [{"text": hit.text, "words": _words(hit)} for hit in found],
        "elsewhere": [hit.text for hit in elsewhere],
    }


def _words(hit: EventHit) -> list[str]:
    """What people said; the bot's own words are no proof."""
    said = set(hit.metadata["message_ids"])
    return [quote.text for quote in hit.evidence if quote.turn_id in said]
