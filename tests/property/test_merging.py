"""Two homes that went apart and meet again: what comes of it is what one home would hold that saw both."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from mnemon import Config, Memory
from mnemon.testing.clock import FixedClock

QUIET = Config(background_worker=False)
SAID = [
    "I live in Rome now.",
    "I live in Oslo now.",
    "I like basil soup.",
    "I don't like basil soup any more.",
    "I work at Bosch now.",
    "My sister is called Anna.",
    "我住在北京。",
    "我现在住在上海。",
    "我喜欢绿茶。",
]
HOMES = 60 if os.environ.get("MNEMON_LONG") else 4


def opened(home: Path, hours: int = 0) -> tuple[Memory, FixedClock]:
    clock = FixedClock()
    clock.tick(hours=hours)
    return Memory(home, llm="rules", embedder="hash", config=QUIET, clock=clock), clock


def say(memory: Memory, session: str, turn_id: str, text: str) -> None:
    turn = {"role": "user", "turn_id": turn_id, "text": text}
    assert memory.session_write("t", "u", session, turns=[turn], mode="append").status == "ok"


def held(memory: Memory) -> dict[str, Any]:
    """Claims with their states and intervals, the words of nodes, what is found, what the graph tells."""
    states = ("active", "superseded", "repeated")
    claims = [c for state in states for c in memory.claims("t", "u", state=state, limit=200).items]
    nodes = [memory.node("t", "u", n.uri) for n in memory.nodes("t", "u")]
    return {
        "claims": {c.claim_id: c for c in claims},
        "nodes": {n.key.uri: (n.abstract, n.overview, n.content) for n in nodes},
        "found": sorted(h.message.content for h in memory.bind("t", "u").lexical_search("live like 北京 绿茶").items),
        "changes": memory.graph("t", "u").states_changes("user"),
        "proven": memory.verify().defects,
    }


@pytest.mark.parametrize("seed", range(HOMES))
def test_two_homes_merged_equal_one_that_saw_both(tmp_path: Path, seed: int) -> None:
    """Said one an hour: first in the home both come from, then in one of the two; a session goes on in one of them."""
    rng = random.Random(seed)
    whose: dict[str, str] = {}
    story = []
    for hour in range(rng.randrange(5, 12)):
        session = f"s{rng.randrange(4)}"
        where = "both" if hour < 3 else whose.setdefault(session, rng.choice("ab"))
        story.append((hour, where, session, rng.choice(SAID)))

    def told(home: Path, *where: str, since: int = 0) -> Memory:
        memory, clock = opened(home, since)
        for hour, there, session, text in story:
            if there in where and hour >= since:
                clock.tick(hours=hour - since)
                since = hour
                say(memory, session, f"x{hour}", text)
        clock.tick(hours=48 - since)
        return memory

    with told(tmp_path / "one", "both", "a", "b") as one:
        wanted = held(one)
    told(tmp_path / "start", "both").close()
    homes = {}
    for name in "ab":
        shutil.copytree(tmp_path / "start", tmp_path / name, symlinks=True)
        homes[name] = told(tmp_path / name, name, since=3)
        homes[name].export(tmp_path / f"{name}.zip")
    for name, other in ("ab", "ba"):
        memory = homes[name]
        assert memory.import_archive(tmp_path / f"{other}.zip").conflicts == ()
        assert held(memory) == wanted
        assert memory.import_archive(tmp_path / f"{other}.zip").added == 0
        memory.rebuild()
        assert held(memory) == wanted
        memory.close()
    assert wanted["proven"] == []


def test_nothing_rests_on_words_that_were_refused_and_hand_edits_stay(tmp_path: Path) -> None:
    for name, text in (("a", "My sister is called Anna. I like basil soup."), ("b", "I live in Oslo now.")):
        memory, _ = opened(tmp_path / name)
        with memory:
            say(memory, "same", "y1", text)
            say(memory, f"own {name}", "z1", "I work at Bosch now." if name == "a" else "I live in Rome now.")
            (profile,) = [n for n in memory.nodes("t", "u") if n.uri.endswith("/profile")]
            if name == "a":
                path = next((tmp_path / "a").rglob("memories/profile/profile/content.md"))
                path.write_text(path.read_text() + "\nWritten by hand.\n")
                memory.repair()
            memory.export(tmp_path / f"{name}.zip")
    for name, other in ("ab", "ba"):
        memory, _ = opened(tmp_path / name)
        with memory:
            named = memory.import_archive(tmp_path / f"{other}.zip").conflicts
            assert any("same/turns.jsonl" in path for path in named), "other words under the same name are named"
            assert not [path for path in named if "memories" in path]
            assert memory.verify().defects == []
            statements = {c.statement for c in memory.claims("t", "u").items}
            mine = {"a": "User likes basil soup", "b": "User lives in Oslo now"}
            # Said later than what lies in the other home under the same name.
            assert mine[other] not in statements
            assert "User works at Bosch now" in statements
            content = memory.node("t", "u", profile.uri).content
            assert "Written by hand." in content
            assert "Rome" in content
            assert "Bosch" in content
