"""A model's tool calls, kept verbatim in `meta`, and the words that stand for a call without any."""

from __future__ import annotations

from typing import Any

from mnemon.logic.adapters.fields import Data, as_written

# Results follow their calls closely; a bound keeps a file of any length in bounded memory.
_REMEMBERED = 10_000


def call(call_id: str | None, name: str, arguments: Any) -> Data:
    entry: Data = {"name": name, "arguments": arguments}
    return {"id": call_id, **entry} if call_id is not None else entry


def rendered(calls: list[Data]) -> str:
    """`name(arguments)`, one call a line: nothing is invented, nothing is lost when the message had no words."""
    return "\n".join(f"{entry['name']}({as_written(entry['arguments'])})" for entry in calls)


class CallNames:
    """Which tool a call id belongs to, for results that only name the id."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def note(self, calls: list[Data]) -> None:
        for entry in calls:
            if "id" in entry:
                self._names.pop(entry["id"], None)
                self._names[entry["id"]] = entry["name"]
        while len(self._names) > _REMEMBERED:
            del self._names[next(iter(self._names))]

    def get(self, call_id: str | None) -> str | None:
        return self._names.get(call_id) if call_id is not None else None
