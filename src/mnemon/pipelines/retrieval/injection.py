"""`auto_v1`: before every turn of an agent, a small piece of memory for its prompt, and what it rests on."""

from __future__ import annotations

from mnemon.contracts.filters import Eq, every
from mnemon.contracts.retrieval import RetrievalHit
from mnemon.logic.language import language_of
from mnemon.logic.retrieval.prompting import prompt_of
from mnemon.pipelines.index.projection import CHUNK
from mnemon.pipelines.retrieval import hybrid
from mnemon.pipelines.retrieval.desk import Desk, Found, Request
from mnemon.pipelines.retrieval.lines import told

_PROFILE = every(Eq("kind", CHUNK), Eq("shelf", "profile"), Eq("level", 0))
_PROFILES = 3


async def find(request: Request, desk: Desk) -> Found:
    """At most `budget.top_k` memories; a turn is quoted with its day and its speaker."""
    found = await hybrid.find(request, desk)
    profiles = await desk.listed("profile", _PROFILE, _PROFILES)
    near = found.hits[: min(request.topk, request.budget.top_k)]
    prompt, used = prompt_of(
        language_of(request.query),
        "\n".join(dict.fromkeys(entry.text for entry in profiles)),
        [told(hit) for hit in near],
        request.budget.max_tokens,
    )
    hits: tuple[RetrievalHit, ...] = tuple(near[n] for n in used)
    return Found(hits, {**found.understood, "profile": [entry.fields["uri"] for entry in profiles]}, prompt)
