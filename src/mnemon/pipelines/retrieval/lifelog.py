"""`video_v1`: one search over a life's pictures, sounds and clips (001 §7.4)."""

from __future__ import annotations

from mnemon.contracts.filters import Eq, In, every
from mnemon.contracts.retrieval import Looked, RetrievalHit, Share, Source
from mnemon.pipelines.retrieval.desk import Desk, Found, Request
from mnemon.pipelines.retrieval.showing import shown, shown_id, whole

DEFAULT_MODALITY = ("text", "clip_image")
_SEARCH: Source = "event_search"


async def find(request: Request, desk: Desk) -> Found:
    where = every(Eq("domain", "lifelog"), In("modality", request.modality or DEFAULT_MODALITY), request.when)
    desk.looked = Looked(await desk.index.count(desk.scope, where))
    found = await desk.near(_SEARCH, await desk.embedded(request.query), where, request.topk)
    return Found(
        tuple(
            RetrievalHit(shown_id(row), score, score, _SEARCH, shown(row), whole(row), (Share("dense", 1.0),))
            for row, score in found
        )
    )
