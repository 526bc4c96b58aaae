"""What a model makes up is refused and named, and leaves no trace; what a model reports faithfully is believed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from playing import WHO, Case, cases, derived, label, opened, play

from mnemon import AsyncMemory
from mnemon.contracts.filters import In, Not
from mnemon.contracts.graph import GraphAsk, ItemKind
from mnemon.contracts.scope import Scope
from mnemon.pipelines.index.projection import MARKER, TURN

FABRICATIONS = cases("fabrications.jsonl")
HONEST = cases("honest.jsonl")


async def indexed(memory: AsyncMemory) -> list[str]:
    """The texts and papers of everything in index and graph that is no turn."""
    steward = Scope.steward_of(WHO[0])
    page = await memory.parts.index.scroll(steward, Not(In("kind", (TURN, MARKER))), "newest", 100, None)
    kinds: tuple[ItemKind, ...] = ("knowledge", "state", "entity", "evidence")
    told = [item for kind in kinds for item in (await memory.parts.graph.find(steward, GraphAsk(kind))).items]
    return [*(f"{entry.text}\n{entry.metadata}" for entry in page.entries), *(str(item) for item in told)]


@pytest.mark.parametrize("case", FABRICATIONS, ids=label)
async def test_nothing_fabricated_is_stored(case: Case, tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        result = await play(memory, case)
        told = [f"{r.text}: {r.reason}" for r in result.rejected] + [f"{d.what}: {d.why}" for d in result.degraded]
        stored = [*await indexed(memory), *(text for _, text in derived(tmp_path))]
        assert (await memory.verify()).ok
        claims = (await memory.claims(*WHO, state=None)).items
        nodes = await memory.nodes(*WHO)
    if not case.get("stored"):
        assert result.status == "ok"
        assert [c for c in claims if c.session_id == "now"] == []
        assert [n for n in nodes if "earlier" not in case] == []
        assert not any(case["says"] in text for text in stored if "says" in case)
        assert case.get("why", "") in "\n".join(told)
        assert any(
            r.text in (case.get("says"), *(t["quote"] for t in case.get("tags", []))) for r in result.rejected
        ) or ("summary" in case and any("summary" in line for line in told))
    for word in case.get("never", ()):
        assert [text for text in stored if word in text] == []


async def test_the_suite_is_large_and_has_every_kind_in_both_languages() -> None:
    kinds = Counter(case["kind"] for case in FABRICATIONS)
    assert (len(FABRICATIONS), len(kinds)) >= (190, 40)
    chinese = sum(any("\u4e00" <= c <= "\u9fff" for c in case["turns"][-1][1]) for case in FABRICATIONS)
    assert 0.35 < chinese / len(FABRICATIONS) < 0.65


@pytest.mark.parametrize("case", HONEST, ids=label)
async def test_what_was_said_is_believed(case: Case, tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        result = await play(memory, case)
        claims = (await memory.claims(*WHO, state=None)).items
        assert (await memory.verify()).ok
    if "refused" in case:
        assert any(case["refused"] in r.reason for r in result.rejected)
        return
    assert [c.statement for c in claims] == [case["says"]], result.rejected
    assert [span.text_exact for span in claims[0].spans] == [quote for _, quote in case["cites"]]


def test_hardly_anything_honest_is_refused() -> None:
    refused = [case for case in HONEST if "refused" in case]
    assert len(HONEST) >= 160
    assert len(refused) <= 0.02 * len(HONEST)
