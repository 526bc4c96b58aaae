"""Everything said is found: by every way to ask, in homes of any size, whoever judged it; and what people wrote."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from findable import DEPTH, QUIET, STRATEGIES, WAYS, compared, everyday, filled
from mnemon import Memory
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.surfaces.cli import cli

PRACTICE = everyday(Path(__file__).with_name("practice.jsonl"))
SAID = (
    "The spare key hangs behind the blue door.",
    "I like green tea.",
    "楼下的桂花开了。",
    "备用电池在书桌左边的抽屉里。",
    "My sister lives in Oslo.",
    "Ok, thanks!",
)
ASKED = {"Where does the spare key hang?": SAID[0], "备用电池在哪里？": SAID[3]}


def test_a_judge_hides_nothing() -> None:
    """With the rules as the model, no way to ask finds less than without any."""
    figures = compared(PRACTICE, HashEmbedder(), [*STRATEGIES, "search"])
    assert {way: rules for way, (rules, _) in figures.items() if rules < figures[way][1]} == {}
    assert min(rules for rules, _ in figures.values()) > 0.8


@pytest.fixture(params=[1, 3, 6])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Memory, int]]:
    with Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=QUIET) as memory:
        turns = [{"turn_id": text, "role": "user", "text": text} for text in SAID[: request.param]]
        memory.session_write("findable", "lin", "s", turns=turns)
        yield memory, request.param


def test_few_messages_are_found_like_many(home: tuple[Memory, int]) -> None:
    memory, there = home
    for question, said in ASKED.items():
        if said not in SAID[:there]:
            continue
        for strategy in STRATEGIES:
            found = memory.retrieval(question, "findable", "lin", strategy=strategy, topk=DEPTH)
            assert said in [quote.turn_id for hit in found.hits for quote in hit.evidence], (strategy, question)
            assert (found.looked.turns, found.looked.left_out) == (there, {}), strategy
        searched = memory.search(question, "findable", "lin", topk=DEPTH)
        assert said in [hit.entry.contents[0] for hit in searched.hits]
        assert searched.trace["counts"]["looked_at"] >= there
        recalled = memory.recall(question, "findable", "lin")
        assert recalled.limits.messages_in_scope == there
        assert said in [row.content for row in recalled.evidence] or not recalled.memory_view.items()


def test_every_way_looks_through_every_turn(home: tuple[Memory, int]) -> None:
    memory, there = home
    for said in SAID[:there]:
        for strategy in STRATEGIES:
            found = memory.retrieval(said, "findable", "lin", strategy=strategy, topk=30, budget={"top_k": 6})
            assert said in [quote.turn_id for hit in found.hits for quote in hit.evidence], (strategy, said)


def test_a_line_written_by_hand_is_found(tmp_path: Path) -> None:
    line = "The kettle stands in the left cupboard, above the sink."
    with Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=QUIET) as memory:
        filled(memory, PRACTICE)
        memory.session_write("findable", "practice", "tea", turns=[{"role": "user", "text": "I like green tea."}])
        (page,) = [path for path in tmp_path.rglob("content.md") if "green tea" in path.read_text(encoding="utf-8")]
        page.write_text(page.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
        assert memory.repair().reindexed_nodes == 1
        asked = ("In which cupboard is the kettle?", "findable", "practice")
        for strategy in ("dialog_v2", "auto_v1"):
            assert memory.retrieval(*asked, strategy=strategy, topk=DEPTH).hits[0].entry.contents == (line,), strategy
        found = memory.search(*asked, topk=DEPTH).hits[0].entry
        assert (found.contents, found.metadata["source"]) == ((line,), "by_hand")
        assert "green tea" not in " ".join(
            hit.entry.contents[0]
            for hit in memory.search("green tea", *asked[1:]).hits
            if "level" in hit.entry.metadata
        ), "what claims and turns say is not served a second time"
    shared = ["--home", str(tmp_path), "--embedder", "hash", "--tenant", "findable", "--user", "practice"]
    for command in ("retrieve", "search"):
        shown = CliRunner().invoke(cli, [command, asked[0], *shared])
        assert "left cupboard" in " ".join(shown.output.split()), shown.output
    assert "looked through 41 turns" in CliRunner().invoke(cli, ["retrieve", asked[0], *shared]).output


def test_all_ways_are_scored() -> None:
    assert {*STRATEGIES, "search", "recall"} == {*WAYS}
