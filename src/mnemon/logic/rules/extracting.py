"""Stage 3 by rules: the tagged words as drafts, each a sentence in hardly other words that cites them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from mnemon.contracts.drafts import Draft, Extraction
from mnemon.contracts.governance import EvidenceLevel, Kind, Status
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.tags import ValueTag
from mnemon.contracts.turns import Role, Span, Turn
from mnemon.logic import dates
from mnemon.logic.governance import governed
from mnemon.logic.rules import tools
from mnemon.logic.rules.filing import dedup_key, entity_names, routing_key
from mnemon.logic.rules.reading import Reading
from mnemon.logic.rules.tagging import USER, Held, held
from mnemon.logic.rules.wording import statement

_LONGEST_KEY = 200
# When it happened, or since when it holds, is what the words say; anything else holds from when it was said.
_BEGINS_WITH_ITS_DATE = ("event", "decision")


def extract(
    shelves: frozenset[Shelf], turns: Sequence[Turn], tags: Sequence[ValueTag], said_at: Mapping[str, datetime]
) -> Extraction:
    """Drafts for the tags whose shelf is wanted, in the order of the turns."""
    tagged: dict[str, list[ValueTag]] = {}
    for tag in tags:
        tagged.setdefault(tag.turn_id, []).append(tag)
    drafts = [
        _draft(found, said_at)
        for found in held(turns)
        if found.reading.shelf in shelves and found.turn.turn_id in said_at and _is_tagged(found, tagged)
    ]
    if Shelf.ENTITIES in shelves:
        drafts += _tool_facts(turns, tagged)
    return Extraction(facts=tuple(drafts))


def _is_tagged(found: Held, tagged: Mapping[str, Sequence[ValueTag]]) -> bool:
    reading = found.reading
    return any(
        tag.category is reading.kind and tag.span.start < reading.end and reading.start < tag.span.end
        for tag in tagged.get(found.turn.turn_id, ())
    )


def _draft(found: Held, said_at: Mapping[str, datetime]) -> Draft:
    reading, pattern, moment = found.reading, found.reading.pattern, said_at[found.turn.turn_id]
    status = Status.OPEN if reading.kind is Kind.TASK else Status.NONE
    speaker = (found.confirmed_by or found.turn).speaker
    spans = [Span.cut(found.turn, reading.start, reading.end)]
    if found.confirmed_by is not None:
        spans.append(Span.whole(found.confirmed_by))
    return Draft(
        type=reading.kind,
        category=reading.shelf,
        routing_key=routing_key(reading)[:_LONGEST_KEY] or pattern.name,
        statement=statement(reading, found.turn, speaker, moment, of_you=found.confirmed_by is not None),
        status=status,
        scope=governed(reading.kind, status, found.evidence).forget_policy,
        importance=pattern.importance,
        confidence=pattern.confidence,
        subject=reading.who.name or reading.who.kin or USER,
        entity_names=entity_names(reading),
        dedup_key=dedup_key(reading),
        valid_from=_begins(found.turn, reading, moment),
        spans=tuple(spans),
    )


def _begins(turn: Turn, reading: Reading, moment: datetime) -> str:
    """ "" leaves it at the moment it was said."""
    if reading.pattern.subtype not in _BEGINS_WITH_ITS_DATE and reading.pattern.name != "moved":
        return ""
    found = dates.find(turn.text[reading.start : reading.end], moment, turn.text[slice(*reading.around)])
    return next((dated.begins.isoformat() for dated in found if dated.precision != "time"), "")


def _tool_facts(turns: Sequence[Turn], tagged: Mapping[str, Sequence[ValueTag]]) -> Iterator[Draft]:
    for turn in turns:
        if turn.role is not Role.TOOL or turn.turn_id not in tagged:
            continue
        result = tools.plain_result(turn)
        if result is None:
            continue
        life = governed(Kind.FACT, Status.NONE, EvidenceLevel.TOOL_GROUNDED)
        yield Draft(
            type=Kind.FACT,
            category=Shelf.ENTITIES,
            routing_key=result.about[:_LONGEST_KEY],
            statement=tools.fact(turn, result),
            scope=life.forget_policy,
            importance=0.5,
            confidence=0.9,
            subject=result.about,
            entity_names=(result.about,) if result.fields else (),
            spans=(Span.whole(turn),),
        )
