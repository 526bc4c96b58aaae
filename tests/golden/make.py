"""Makes the golden archive of a release: `python tests/golden/make.py 0.1.0`. Every later version must open it."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from mnemon import AsyncMemory, Config, Scope
from mnemon.contracts.nodes import Edge, Node, NodeKey, Shelf
from mnemon.contracts.scope import Owner, SessionKey
from mnemon.testing.clock import FixedClock

HERE = Path(__file__).parent
SAID = [
    ("user", "我对花生过敏，一点都不能碰。"),
    ("assistant", "Noted: no peanuts 😀"),
    ("tool", "结果 result " * 1200),
    ("user", "忘掉这一句"),
    ("user", "We go hiking on Sunday, café at noon."),
]
QUESTIONS = ("花生", "hike", '"no peanuts"', "结果")


async def fill(memory: AsyncMemory, clock: FixedClock) -> None:
    turns = [
        {"role": role, "text": text, "timestamp_iso": f"2026-03-0{n + 1}T08:00:00Z"}
        for n, (role, text) in enumerate(SAID)
    ]
    await memory.session_write("acme", "Lin 林", "first/会话", turns=turns, extract=False)
    clock.tick(hours=1)
    more = [{"turn_id": "later", "role": "user", "text": "追加的一句"}]
    await memory.session_write("acme", "Lin 林", "first/会话", turns=more, mode="append", extract=False)
    await memory.session_write("acme", "x" * 300, "s", turns=[{"role": "user", "text": "long id"}], extract=False)
    archive, scope = memory.parts.archive, Scope.of("acme", "Lin 林")
    key = SessionKey("acme", Owner.user("Lin 林"), "first/会话")
    await archive.forget_turns(scope, key, ["t0004"], "asked to")
    node = Node(
        NodeKey("acme", Owner.user("Lin 林"), Shelf.PREFERENCES, "饮食"), ("u:Lin 林",), "花生过敏", "- 花生", "第一版"
    )
    await archive.write_node(scope, node)
    await archive.write_level(scope, node.key, "content", "第二版")
    await archive.append_edges(scope, node.key, [Edge(node.key.uri, "ctx://acme/users/x", "related_to", "因为")])
    await archive.append_log(scope, "ledger", [{"decision": "记住"}])
    await memory.run_jobs()
    await memory.parts.replicas.index_session(key)


async def answers(memory: AsyncMemory) -> dict[str, Any]:
    bound = memory.bind("acme", "Lin 林")
    found = {q: [[h.message.message_id, h.score] for h in (await bound.lexical_search(q)).items] for q in QUESTIONS}
    found["meaning"] = [[h.message.message_id, h.score] for h in await bound.semantic_search("peanuts 花生")]
    return found


async def main(version: str) -> None:
    clock = FixedClock()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        embedder = {"provider": "hash", "cache": False}
        async with AsyncMemory(home, embedder=embedder, config=Config(background_worker=False), clock=clock) as memory:
            await fill(memory, clock)
            await memory.rebuild()
            await memory.export(HERE / f"{version}.zip")
            told = json.dumps(await answers(memory), ensure_ascii=False, indent=1)
            (HERE / f"{version}.json").write_text(told + "\n", encoding="utf-8")
        shutil.copy(home / "index.db", HERE / f"{version}-index.db")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
