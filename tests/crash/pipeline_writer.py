"""A process that lives through a small story of writes, changes and forgetting, until it is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forkserver import Say, killer, serve
from memory_writer import instrument

from mnemon import AsyncMemory, Config

Op = dict[str, Any]


def said(day: int, *texts: str, begin: int = 1) -> list[dict[str, Any]]:
    return [
        {"turn_id": f"t{n:04d}", "role": "user", "text": text, "timestamp_iso": f"2026-0{day}-01T10:00:{n:02d}Z"}
        for n, text in enumerate(texts, begin)
    ]


REQUIRED = {"graph_policy": "require"}
FIRST = said(1, "我很喜欢吃辣。", "I work at Siemens.", "My sister Wei lives in Lisbon.", "周五之前把合同发给老周。")
STORY: list[Op] = [
    {"do": "write", "session": "s1", "turns": FIRST},
    {"do": "write", "session": "s2", "turns": said(2, "我现在不吃辣了。", "My sister Wei lives in Lisbon.")},
    {"do": "write", "session": "s1", "turns": FIRST, "overwrite_existing": True},
    {"do": "write", "session": "s3", "turns": said(3, "I love black tea."), "mode": "append"},
    {"do": "write", "session": "s3", "turns": said(3, "I moved to Kyoto.", begin=2), "mode": "append"},
    {"do": "write", "session": "s4", "turns": said(4, "我对花生过敏。", "I work at Bosch."), "wait": "archived"},
    {"do": "forget", "session": "s2"},
    {"do": "write", "session": "s5", "turns": said(5, "I hate mushrooms.", "我又喜欢吃辣了。")},
    {"do": "write", "session": "s6", "turns": said(6, "I live in Oslo.", "我住在上海。")} | REQUIRED,
    {"do": "write", "session": "s6", "turns": said(6, "I love green tea.", begin=3), "mode": "append"} | REQUIRED,
    {"do": "write", "session": "s7", "turns": said(7, "I moved to Bergen."), "graph_upsert": False},
]


# The second session ends what the first one said, in both languages; then a person has the last word.
SUPERSEDING: list[Op] = [
    {"do": "write", "session": "a", "turns": said(1, "I live in Rome.", "I love basil soup.", "我住在上海。")},
    {"do": "write", "session": "b", "turns": said(2, "I live in Oslo now.", "I don't like basil soup any more.")},
    {"do": "correct", "session": "b", "words": "Oslo", "statement": "The user lives in Bergen."},
]
STORIES = {"life": STORY, "superseding": SUPERSEDING}


async def live(home: Path, story: Sequence[Op], begin: int, say: Say, queue: str) -> None:
    config = Config(background_worker=False, queue_url=queue)
    embedder = {"provider": "hash", "cache": False}
    async with AsyncMemory(home, llm="rules", embedder=embedder, config=config) as memory:
        await memory.parts.queue.recover()
        await memory.run_jobs()
        say("ready")
        for number, op in enumerate(story[begin:], begin):
            await _do(memory, op)
            await memory.run_jobs()
            say("done", str(number))


async def _do(memory: AsyncMemory, op: Op) -> None:
    if op["do"] == "forget":
        receipt = await memory.forget("t", "u", session_id=op["session"])
        assert receipt.complete, receipt.left
        return
    if op["do"] == "correct":
        claims = (await memory.claims("t", "u", session_id=op["session"])).items
        chosen = next(c for c in claims if op["words"] in (c.corrected_from or c.statement))
        await memory.correct("t", "u", chosen.claim_id, op["statement"])
        return
    options = {name: value for name, value in op.items() if name not in ("do", "session", "turns")}
    result = await memory.session_write("t", "u", op["session"], turns=op["turns"], **options)
    assert result.status in ("ok", "skipped_existing"), result.error_reason


def run(task: dict[str, Any], say: Say) -> None:
    kill = killer(task["kill_at"], say)
    seen = 0

    def step(name: str) -> None:
        nonlocal seen
        seen += 1
        kill(name)

    instrument(step)
    story = STORIES[task["story"]][: task["end"]]
    asyncio.run(live(Path(task["home"]), story, task["begin"], say, task["queue"]))
    say("total", str(seen))


if __name__ == "__main__":
    serve(run)
