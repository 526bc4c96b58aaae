"""A process that forgets somebody of whom there are sessions, claims, entries, links and words told to the graph, until
it is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from forkserver import Say, killer, serve
from memory_writer import instrument

from mnemon import AsyncMemory, Config

WHO, OTHER = "wallaby", "bea"
# What stands in the words of each, and nowhere else.
MARKS = {WHO: ("quokka", "貔貅", "numbat"), OTHER: ("pigeon", "麒麟", "heron")}


def opened(home: Path) -> AsyncMemory:
    config = Config(background_worker=False)
    return AsyncMemory(home, llm="rules", embedder={"provider": "hash", "cache": False}, config=config)


async def fill(memory: AsyncMemory, user: str) -> None:
    """A life in every place there is: two sessions, of which one supersedes the other, entries with versions and links,
    a decision, and what others told the graph."""
    one, two, three = MARKS[user]
    first = [f"I love {one} stew.", f"我很喜欢吃{two}糕。", f"My sister Wei lives in {three.title()} Town."]
    for number, texts in enumerate((first, [f"I hate {one} stew.", f"我现在不吃{two}糕了。"]), 1):
        turns = [
            {"role": "user", "text": text, "timestamp_iso": f"2026-0{number}-01T10:00:0{n}Z"}
            for n, text in enumerate(texts)
        ]
        result = await memory.session_write("t", user, f"s{number} {one}", turns=turns)
        assert result.status == "ok"
        assert result.claims
    whose = {"tenant_id": "t", "user_id": user}
    made = [{"id": f"{letter} {one}", "kind": "semantic", "contents": [f"{two} {letter}"]} for letter in "ab"]
    links = [{"src_id": f"a {one}", "dst_id": f"b {one}", "rel_type": f"NEAR_{three}"}]
    await memory.write(made, links, **whose)
    await memory.update(f"a {one}", {"contents": [f"更好的 {two} {three}"]}, **whose, reason=f"a {one} is better")
    await memory.delete(f"b {one}", **whose, reason=three)
    known = {"user_id": [f"u:{user}"], "memory_domain": "dialog"}
    names = [{"id": id, "name": name, **known} for id, name in ((one, f"{three} Smith"), (three, f"{two} Wu"))]
    equiv = {"id": "q", "entity_id": one, "candidate_id": three, "reason": f"{one} says so", **known}
    await memory.graph_upsert({"entities": names, "pending_equivs": [equiv]}, "t", user)
    await memory.graph("t", user).approve("q")


async def forget(home: Path, say: Say) -> None:
    async with opened(home) as memory:
        receipt = await memory.forget("t", WHO)
        assert receipt.complete, receipt.left
    say("forgotten")


def run(task: dict[str, Any], say: Say) -> None:
    instrument(killer(task["kill_at"], say))
    asyncio.run(forget(Path(task["home"]), say))


if __name__ == "__main__":
    serve(run)
