"""What the graph answers: who a name is, what held when, and why something is known, down to the words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mnemon.contracts.graph import Entity, Event, Knowledge, State, UtteranceEvidence


@dataclass(frozen=True, slots=True)
class GraphReceipt:
    ok: bool
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity a name may mean, and why."""

    entity: Entity
    reason: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """The one entity a name means, if it means one; `same_as` are the ids that are one with it. `candidates` are those
    it may mean, which nobody has decided."""

    name: str
    entity: Entity | None
    same_as: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldState:
    """A state and from when to when it held, as far as was known; None is still."""

    state: State
    held_from: datetime
    held_to: datetime | None


@dataclass(frozen=True, slots=True)
class StateChange:
    """That a property went from one value to another: when that was, and when we learnt it. None is no value."""

    subject_id: str
    property: str
    from_value: str | None
    to_value: str | None
    changed_at: datetime
    learnt_at: datetime | None
    state_id: str


@dataclass(frozen=True, slots=True)
class Quote:
    """Words exactly as they stand in an utterance: `raw_text[span_start:span_end] == text_exact`."""

    span_start: int
    span_end: int
    text_exact: str


@dataclass(frozen=True, slots=True)
class QuotedUtterance:
    utterance: UtteranceEvidence
    quotes: tuple[Quote, ...]


@dataclass(frozen=True, slots=True)
class ExplainedEvent:
    """An event and what was said of it."""

    event: Event
    utterances: tuple[QuotedUtterance, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole chain: what is known, the events it was derived from, and the words each rests on. `utterances` are
    what the knowledge itself cites; of an event that is explained there is no knowledge above, `known` is what was
    derived from it."""

    knowledge: Knowledge | None
    events: tuple[ExplainedEvent, ...]
    utterances: tuple[QuotedUtterance, ...] = ()
    known: tuple[Knowledge, ...] = ()
    entities: tuple[Entity, ...] = ()
