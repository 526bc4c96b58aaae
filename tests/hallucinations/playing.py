"""A fabricated or honest answer as data, played through the front door by a scripted model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnemon import AsyncMemory, Config
from mnemon.contracts.results import SessionWriteResult
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.logic.denoise import DenoiseRules
from mnemon.logic.shelves import EXTRACTORS, SHELVES
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import ScriptedLLM

HERE = Path(__file__).parent
WHO = ("t", "ann")
SAID_AT = "2026-03-10T10:30:00Z"
# A model that insists: the same answer however often it is asked.
_TRIES = 3
# Long enough for one tool output to be cut.
_CUT = DenoiseRules(tool_text_limit=400)

_DIGEST = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Case = dict[str, Any]


def cases(name: str) -> list[Case]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def label(case: Case) -> str:
    told = case.get("says") or (case["tags"][0]["quote"] if "tags" in case else case["summary"]["summary"])
    return f"{case.get('kind', 'honest')}: {told}".replace("::", "-")


def opened(home: Path) -> AsyncMemory:
    config = Config(background_worker=False, denoise=_CUT)
    return AsyncMemory(home, embedder=HashEmbedder(), config=config, clock=FixedClock())


async def play(memory: AsyncMemory, case: Case) -> SessionWriteResult:
    """Writes what came earlier, if anything did, and then the session the case is about."""
    if "earlier" in case:
        before = {"shelf": "profile", **case, **case.get("before", {"says": ""}), "turns": case["earlier"]}
        await _write(memory, "earlier", before, "other-")
    return await _write(memory, "now", case, "t")


async def _write(memory: AsyncMemory, session_id: str, case: Case, prefix: str) -> SessionWriteResult:
    turns = [_turn(f"{prefix}{n}", *row) for n, row in enumerate(case["turns"])]
    model = ScriptedLLM(by_prompt={id: [said] * _TRIES for id, said in _script(case, turns).items()})
    return await memory.session_write(*WHO, session_id, turns=turns, llm=model)


def _turn(turn_id: str, who: str, text: str) -> dict[str, Any]:
    role, _, speaker = who.partition(":")
    if role == "tool":
        speaker, text = "tool:lookup", text.replace("LONG", "entry " * 100)
    return {"turn_id": turn_id, "role": role, "speaker": speaker, "text": text, "timestamp_iso": SAID_AT}


def _script(case: Case, turns: list[dict[str, Any]]) -> dict[str, Any]:
    drafts = [_draft(case, turns)] if case.get("says") else []
    asked = case.get("asked") or (SHELVES[case["shelf"]].extractor if drafts else "")
    return {
        "tagging.value_tags": _tagging(case, turns),
        "compression.archive_summary": case.get("summary", {"summary": ""}),
        "policy.merge_bundle": case.get("merged", {"abstract": ""}),
        **{name: {"facts": drafts if name == asked else []} for name in EXTRACTORS},
    }


def _tagging(case: Case, turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Unless the case is about tags: every turn is kept and nothing judged, so that stage 3 stands alone."""
    dropped = [turns[n]["turn_id"] for n in case.get("drops", [])]
    return {
        "kept_turn_ids": [t["turn_id"] for t in turns if t["turn_id"] not in dropped],
        "dropped_turn_ids": dropped,
        "tags": [_tag(n, tag, turns) for n, tag in enumerate(case.get("tags", []))],
    }


def _tag(n: int, tag: dict[str, Any], turns: list[dict[str, Any]]) -> dict[str, Any]:
    more = tag.get("more", {})
    kind = more.get("category", "fact")
    return {
        "tag_id": f"x{n}",
        "turn_id": _id(tag["turn"], turns),
        "span": _span(tag["turn"], tag["quote"], turns, tag.get("at")),
        "category": kind,
        "evidence_level": "S0_user_claim",
        "importance": 0.9,
        "ttl_seconds": 0,
        "forget_policy": "temporary",
        "write_action": f"write_{kind}",
        **more,
    }


def _draft(case: Case, turns: list[dict[str, Any]]) -> dict[str, Any]:
    spans = [{"turn_id": _id(n, turns), **_span(n, quote, turns)} for n, quote in case["cites"]]
    kind = min(SHELVES[case["shelf"]].kinds)
    return {
        "type": kind,
        "category": case["shelf"],
        "routing_key": "general",
        "statement": case["says"],
        "confidence": 0.95,
        "spans": spans,
        **case.get("more", {}),
    }


def _id(turn: int | str, turns: list[dict[str, Any]]) -> str:
    return turn if isinstance(turn, str) else str(turns[turn]["turn_id"])


def _span(turn: int | str, quote: str, turns: list[dict[str, Any]], at: int | None = None) -> dict[str, Any]:
    """Where the quote stands, or, where it stands nowhere, somewhere."""
    if at is None:
        at = max(0, str(turns[turn]["text"]).find(quote)) if isinstance(turn, int) else 0
    return {"start": at, "end": at + len(quote), "text_exact": quote}


def derived(home: Path) -> Iterator[tuple[str, str]]:
    """Everything on disk that is not the conversation itself: tags, claims, nodes, records, logs. Digests and ids may
    spell anything and are left out."""
    for path in sorted(home.rglob("*")):
        verbatim = path.name == "turns.jsonl" or path.name.startswith(("index.db", "graph.db")) or "blobs" in path.parts
        if path.is_file() and not verbatim:
            yield str(path.relative_to(home)), _DIGEST.sub("", path.read_bytes().decode("utf-8", "replace"))
