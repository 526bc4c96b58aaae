"""The one JSON object in what a model said."""

from __future__ import annotations

import json
from typing import Any

from mnemon.logic.adapters.strict_json import decoder

_DECODER = decoder(strict=False)


def only_object(text: str) -> dict[str, Any] | None:
    """The object, also from behind prose or within a code fence; None unless there is exactly one.

    A brace that opens no whole object ends the search: the first object inside an answer that was cut off is not the
    answer."""
    found: list[dict[str, Any]] = []
    place = text.find("{")
    # A list of objects is not an object, and the first of them is not the answer.
    if text.lstrip().startswith("["):
        return None
    while place >= 0:
        try:
            data, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return None
        found.append(data)
        place = text.find("{", end)
    return found[0] if len(found) == 1 and _is_text(found[0]) else None


def _is_text(data: dict[str, Any]) -> bool:
    """Half a character can be written in JSON, but neither stored nor said again."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
