"""The strategies by name; a name keeps its meaning for ever, something better gets a new one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mnemon.pipelines.retrieval import hybrid, injection, lifelog, three_routes
from mnemon.pipelines.retrieval.desk import Desk, Found, Request

Strategy = Callable[[Request, Desk], Awaitable[Found]]

STRATEGIES: dict[str, Strategy] = {
    "dialog_v1": three_routes.find,
    "dialog_v2": hybrid.find,
    "video_v1": lifelog.find,
    "auto_v1": injection.find,
}
