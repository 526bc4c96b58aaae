"""What an agent has looked at so far, as it is shown to it: every message once, under a short label."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mnemon.contracts.errors import BadQuery
from mnemon.contracts.recall import Seen
from mnemon.contracts.results import Message
from mnemon.logic.lexical import highlights, parse

# A page is read by a model, step after step: neither it nor a message on it is shown without end.
PAGE = 20
_LENGTH = 500
_BEFORE = 100


@dataclass(slots=True)
class Looking:
    """Calls and what came of them, in order. Labels are copied without a slip, as ids would not be."""

    labels: dict[str, Message] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    around: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _label_of: dict[str, str] = field(default_factory=dict)

    def message(self, name: str) -> Message | None:
        """By its label, or by its id; only what was shown is known."""
        return self.labels.get(name) or self.labels.get(self._label_of.get(name, ""))

    def add(self, tool: str, arguments: Mapping[str, Any], seen: Seen) -> int:
        """Take down a call, as it was made or as it was wanted; how many of its messages are new."""
        asked = _quoted([tool, arguments])[:_LENGTH]
        if seen.error:
            self.lines.append(f"{asked}: error {_quoted(seen.error)}")
            return 0
        known = len(self.labels)
        shown = list(self._shown(str(arguments.get("query_text", "")), seen))
        self.lines += [f"{asked}: {len(shown)} messages{', and there are more' if seen.more else ''}", *shown]
        if tool == "neighbors":
            anchor = str(arguments["message_id"])
            ids = (message.message_id for message in seen.messages)
            self.around[anchor] = (*self.around.get(anchor, ()), *(id_ for id_ in ids if id_ != anchor))
        return len(self.labels) - known

    def _shown(self, query: str, seen: Seen) -> Iterator[str]:
        for message in seen.messages:
            if label := self._label_of.get(message.message_id):
                yield f"{label} (as above)"
                continue
            label = f"m{len(self.labels) + 1}"
            self.labels[label], self._label_of[message.message_id] = message, label
            place = f"{message.role} {_quoted(message.speaker)} {message.ts} {_quoted(message.session_id)}"
            yield f"{label} {place}: {_excerpt(message.content, query)}"


def _excerpt(text: str, query: str) -> str:
    """A JSON string, so that no message can pose as a line; a long one around the words that were asked for."""
    if len(text) <= _LENGTH:
        return _quoted(text)
    start = max(_first(text, query) - _BEFORE, 0)
    cut = text[start : start + _LENGTH]
    before, after = "…" if start else "", "…" if start + _LENGTH < len(text) else ""
    return f"{before}{_quoted(cut)}{after}"


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _first(text: str, query: str) -> int:
    try:
        return next((start for start, _ in highlights(parse(query), text)), 0) if query else 0
    except BadQuery:
        return 0
