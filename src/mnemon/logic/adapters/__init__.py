"""Stage 1, first half: four export formats in, verbatim turns out; a new format is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mnemon.contracts.errors import UnknownInputFormat
from mnemon.contracts.turns import InputFormat, Turn
from mnemon.logic.adapters import agent_trace, ai_studio, canonical, openai_messages
from mnemon.logic.adapters.decoding import decoded
from mnemon.logic.adapters.json_stream import Source
from mnemon.logic.adapters.place import printable

Adapter = Callable[[Source], Iterator[Turn]]

ADAPTERS: dict[InputFormat, Adapter] = {
    InputFormat.CANONICAL_TURNS: canonical.adapt,
    InputFormat.OPENAI_MESSAGES: openai_messages.adapt,
    InputFormat.AI_STUDIO_EXPORT: ai_studio.adapt,
    InputFormat.AGENT_TRACE: agent_trace.adapt,
}


def normalise(
    source: Source, input_format: str | InputFormat | None, named: Callable[[], None] | None = None
) -> Iterator[Turn]:
    """Turns in the order of the export. The format is never guessed: a wrong guess would corrupt in silence. `named`
    hears of every turn with an id of its own; the others are numbered by their place."""
    known = [form.value for form in ADAPTERS]
    listed = ", ".join(known)
    if input_format is None or input_format == "":
        raise UnknownInputFormat(
            f"input_format is missing; expected one of {listed}", field="input_format", known=known
        )
    if not isinstance(input_format, str) or input_format not in known:
        raise UnknownInputFormat(
            f"input_format {printable(str(input_format))!r} is unknown; expected one of {listed}",
            field="input_format",
            known=known,
        )
    if input_format == InputFormat.CANONICAL_TURNS:  # no other export has ids for its turns
        return canonical.adapt(source, named)
    return ADAPTERS[InputFormat(input_format)](source)


__all__ = ["ADAPTERS", "Adapter", "Source", "decoded", "normalise"]
