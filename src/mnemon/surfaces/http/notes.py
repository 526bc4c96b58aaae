"""The log of the service: one line of JSON for each thing worth telling, under the id of its request."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from mnemon.surfaces.wire import as_json

log = logging.getLogger("mnemon.service")
request_id: ContextVar[str] = ContextVar("request_id", default="")


def note(event: str, level: int = logging.WARNING, **facts: Any) -> None:
    """One line of JSON. What goes in here is read by people: no token, no key, none of what was said."""
    if log.isEnabledFor(level):
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": logging.getLevelName(level), "event": event, "request_id": request_id.get(), **facts}
        log.log(level, as_json(line).decode())
