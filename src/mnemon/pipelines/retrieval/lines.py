"""Hits as lines for a model to read: what kind, when, who, and the words."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mnemon.contracts.retrieval import RetrievalHit, Source

KINDS: dict[Source, str] = {"fact_search": "Fact", "reference_trace": "Reference", "event_search": "Event"}


def evidence_lines(hits: Sequence[RetrievalHit]) -> str:
    """`1. [Fact] 2026-01-31 Ann: "text"`; texts are JSON strings, so none can pose as a line."""
    return "\n".join(f"{n}. [{KINDS[hit.source]}] {told(hit)}" for n, hit in enumerate(hits, 1))


def told(hit: RetrievalHit) -> str:
    said = hit.entry.metadata
    who = str(said.get("speaker") or said.get("role") or "")
    head = " ".join(part for part in (str(said.get("timestamp", ""))[:10], _on_a_line(who)) if part)
    words = json.dumps(hit.entry.contents[0], ensure_ascii=False)
    return f"{head}: {words}" if head else words


def _on_a_line(name: str) -> str:
    return name if name.isprintable() else json.dumps(name, ensure_ascii=False)
