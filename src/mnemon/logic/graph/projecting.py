"""What a session says of the graph: its turns as utterances and happenings in time, its claims as knowledge that rests
on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.graph import (
    Entity,
    Event,
    Evidence,
    GraphBatch,
    GraphEdge,
    Knowledge,
    Pointer,
    Provenance,
    Segment,
    State,
    TimeSlice,
    UtteranceEvidence,
)
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.sessions import SessionRecord, StoredTurn
from mnemon.contracts.turns import Role, Span, parse_time
from mnemon.logic.graph.names import same
from mnemon.logic.ids import event_id, space_of, stable_id, within
from mnemon.logic.language import language_of
from mnemon.logic.memo import remembered

DOMAIN = "dialog"
_SUMMARY = 160  # code points of a turn that stand for it where it is listed
_KNOWN = (ClaimState.ACTIVE, ClaimState.SUPERSEDED)
_BY = {role: Provenance(source=role.value) for role in Role}
_CALENDAR = Provenance(source="calendar")
_LEVEL = {"month": 2, "day": 3}
_POINTER = set(Pointer.model_fields)
_new, _put = object.__new__, object.__setattr__


@cache
def _blank(made: type[BaseModel]) -> tuple[dict[str, Any], set[str]]:
    """One of its type with nothing said of it. It shares the defaults: they are never changed."""
    fields = made.model_fields
    shared = {name: one.default for name, one in fields.items() if one.default is not PydanticUndefined}
    return shared, set(fields)


def _made(made: type[BaseModel], fields: set[str], values: dict[str, Any]) -> Any:
    """What `model_construct` does, without looking at every field again."""
    one = _new(made)
    _put(one, "__dict__", values)
    _put(one, "__pydantic_fields_set__", fields)
    _put(one, "__pydantic_extra__", None)
    _put(one, "__pydantic_private__", None)
    return one


@dataclass(slots=True)
class _Page:
    """Items and edges as they are found, each once. They are made of what the archive has checked, so each is put
    together from a blank one of its type and not checked again: a long session has tens of thousands of them."""

    record: SessionRecord
    published: bool
    utterances: bytes = field(init=False)
    events: bytes = field(init=False)
    scope: dict[str, Any] = field(init=False)
    blanks: dict[type[BaseModel], tuple[dict[str, Any], set[str]]] = field(default_factory=dict)
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], GraphEdge] = field(default_factory=dict)
    speakers: dict[str, str] = field(default_factory=dict)
    days: dict[str, str] = field(default_factory=dict)
    called: dict[date, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.utterances, self.events = (space_of(kind, self.record.key) for kind in ("turns", "events"))
        self.scope = {
            "tenant_id": self.record.tenant_id,
            "user_id": self.record.principals,
            "memory_domain": DOMAIN,
            "published": self.published,
        }

    def make(self, made: type[BaseModel], values: dict[str, Any]) -> Any:
        known = self.blanks.get(made)
        if known is None:
            shared, fields = _blank(made)
            known = self.blanks[made] = {**shared, **self.scope}, fields
        blank, fields = known
        return _made(made, fields, blank | values)

    def add(self, kind: str, made: type[BaseModel], id: str, **values: Any) -> str:
        values["id"] = id
        self.items.setdefault(kind, {})[id] = self.make(made, values)
        return id

    def join(self, src: str, rel: str, dst: str, evidence: tuple[Pointer, ...] = (), **values: Any) -> None:
        """One edge between two, however often there is reason for it."""
        there = self.edges.get((src, rel, dst))
        if there is not None:
            evidence = tuple(dict.fromkeys((*there.evidence, *evidence)))
        values |= {"src_id": src, "rel_type": rel, "dst_id": dst, "evidence": evidence}
        self.edges[src, rel, dst] = self.make(GraphEdge, values)

    def utterance_id(self, turn: str) -> str:
        return within(self.utterances, turn)

    def event_id(self, turn: str) -> str:
        return within(self.events, turn)

    def day_of(self, said: datetime) -> str:
        day = said.date()
        if day not in self.called:
            self.called[day] = f"{day:%Y-%m-%d}"
        return self.called[day]

    def speaker(self, name: str, role: Role) -> str:
        if name not in self.speakers:
            self.speakers[name] = self.entity(name, "person" if role is Role.USER else "agent")
        return self.speakers[name]

    def entity(self, name: str, type_: str = "thing", *aliases: str) -> str:
        id = entity_id(self.record, name)
        there: Entity | None = self.items.setdefault("entities", {}).get(id)
        known = {there.name, *there.aliases} if there else set()
        known |= {name, *aliases}
        first = there.name if there else name
        kind = there.type if there and there.type != "thing" else type_
        return self.add("entities", Entity, id, name=first, type=kind, aliases=tuple(sorted(known - {first})))

    def batch(self) -> GraphBatch:
        blank, fields = _blank(GraphBatch)
        filled = {kind: tuple(rows.values()) for kind, rows in self.items.items()}
        return cast(GraphBatch, _made(GraphBatch, fields, {**blank, **filled, "edges": tuple(self.edges.values())}))


def entity_id(record: SessionRecord, name: str) -> str:
    """Equal names are one entity, among those who may see it."""
    return _shared_id("entity", record.tenant_id, record.principals, same(name))


@remembered(4096)
def _shared_id(kind: str, tenant_id: str, principals: tuple[str, ...], *name: str) -> str:
    """Of what those who may see it have in common: every one of their sessions speaks of it."""
    return stable_id(kind, tenant_id, *sorted(principals), DOMAIN, *name)


def segment_id(record: SessionRecord) -> str:
    return stable_id("segment", record.key.uri)


# --- turns


def of_turns(record: SessionRecord, turns: Sequence[StoredTurn], published: bool, before: str = "") -> GraphBatch:
    """Turns that are remembered, in their order; `before` is the event the first of them follows."""
    page = _Page(record, published)
    segment = _segment(page, turns)
    for stored in turns:
        event = _turn(page, stored, segment)
        if before:
            page.join(before, "NEXT_EVENT", event)
        before = event
    return page.batch()


def last_event(record: SessionRecord, turns: Sequence[StoredTurn]) -> str:
    return event_id(record.key, turns[-1].turn.turn_id) if turns else ""


def _segment(page: _Page, turns: Sequence[StoredTurn]) -> str:
    id = segment_id(page.record)
    return page.add("segments", Segment, id, source_id=page.record.session_id) if turns else id


def _turn(page: _Page, stored: StoredTurn, segment: str) -> str:
    record, turn, learnt = page.record, stored.turn, stored.archived_at
    said = parse_time(turn.timestamp_iso) if turn.timestamp_iso else learnt
    name = turn.speaker or (record.owner_id if turn.role is Role.USER else turn.role.value)
    day = page.day_of(said)
    utterance = page.add(
        "utterances",
        UtteranceEvidence,
        page.utterance_id(turn.turn_id),
        raw_text=turn.text,
        speaker=name,
        lang=language_of(turn.text),
        segment_id=segment,
        turn_id=turn.turn_id,
        t_abs_start=said,
        provenance=_BY[turn.role],
        created_at=learnt,
    )
    speaker = page.speaker(name, turn.role)
    event = page.add(
        "events",
        Event,
        page.event_id(turn.turn_id),
        summary=turn.text[:_SUMMARY],
        t_abs_start=said,
        source_turn_ids=(turn.turn_id,),
        evidence_status="mapped",
        time_bucket=(day, day[:7]),
        actor_id=speaker,
        provenance=_BY[turn.role],
        created_at=learnt,
    )
    words = (_pointer(utterance, 0, len(turn.text)),)
    page.join(segment, "CONTAINS_EVIDENCE", utterance, words)
    page.join(utterance, "SPOKEN_BY", speaker, words)
    page.join(event, "SUPPORTED_BY", utterance, words)
    page.join(event, "OCCURS_AT", _day(page, day, said), words)
    return event


def _pointer(utterance: str, start: int, end: int) -> Pointer:
    values = {"utterance_id": utterance, "span_start": start, "span_end": end}
    return cast(Pointer, _made(Pointer, _POINTER, values))


def _day(page: _Page, name: str, moment: datetime) -> str:
    """The day something happened on, in its month, by the clock it was said by."""
    if name not in page.days:
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        month = day.replace(day=1)
        after = (month + timedelta(days=32)).replace(day=1)
        above = _slice(page, "month", name[:7], month, after)
        page.days[name] = _slice(page, "day", name, day, day + timedelta(days=1), above)
        page.join(above, "TEMPORALLY_CONTAINS", page.days[name], provenance=_CALENDAR)
    return page.days[name]


def _slice(page: _Page, kind: str, name: str, start: datetime, end: datetime, parent: str = "") -> str:
    record = page.record
    id = _shared_id("slice", record.tenant_id, record.principals, kind, name)
    return page.add(
        "time_slices",
        TimeSlice,
        id,
        slice_kind=kind,
        t_abs_start=start,
        t_abs_end=end,
        granularity_level=_LEVEL[kind],
        parent_id=parent,
        provenance=_CALENDAR,
    )


# --- claims


def of_claims(
    record: SessionRecord,
    claims: Iterable[Claim],
    said: Mapping[str, UtteranceEvidence],
    unkept: Sequence[StoredTurn],
    published: bool,
) -> GraphBatch:
    """What is known from a session. `said` are the utterances it cites, by turn; those that are remembered for no
    other reason than being cited come as `unkept`."""
    page = _Page(record, published)
    segment = _segment(page, unkept)
    for stored in unkept:
        _turn(page, stored, segment)
    for claim in claims:
        if claim.state in _KNOWN:
            _knowledge(page, claim, said)
        elif claim.state is ClaimState.REPEATED:
            _rests(page, claim.repeats, claim, said)  # further evidence of what is known already
    return page.batch()


def _knowledge(page: _Page, claim: Claim, said: Mapping[str, UtteranceEvidence]) -> None:
    carried = _carried(claim)
    page.add(
        "knowledge",
        Knowledge,
        claim.claim_id,
        summary=claim.statement,
        t_abs_start=claim.valid_from,
        data=_data(claim),
        **carried,
    )
    words = _rests(page, claim.claim_id, claim, said)
    subject = _subject(page, claim, said)
    met = {page.entity(name): _named(name, claim.spans, said) or words for name in claim.entities}
    for span in claim.spans:
        for entity, found in met.items():
            there = tuple(p for p in found if p.utterance_id == _utterance(page, span))
            if there:
                page.join(page.event_id(span.turn_id), "MENTIONS", entity, there)
    if claim.shelf is Shelf.EVENTS:
        _happening(page, claim, subject, met, words, carried)
    if claim.dedup_key:
        _state(page, claim, subject, carried)
    if claim.superseded_by:
        page.join(claim.superseded_by, "SUPERSEDES", claim.claim_id, words)


def _rests(page: _Page, knowledge: str, claim: Claim, said: Mapping[str, UtteranceEvidence]) -> tuple[Pointer, ...]:
    """Down to the words: each span as evidence, and what the knowledge has to do with where it was said."""
    pointers: list[Pointer] = []
    for span in claim.spans:
        utterance = _utterance(page, span)
        pointer = _pointer(utterance, span.start, span.end)
        pointers.append(pointer)
        page.add(
            "evidences",
            Evidence,
            stable_id("evidence", utterance, str(span.start), str(span.end)),
            utterance_id=utterance,
            span_start=span.start,
            span_end=span.end,
            text=span.text_exact,
            confidence=claim.confidence,
            created_at=claim.recorded_at,
            expires_at=claim.expires_at,
        )
        page.join(knowledge, "SUPPORTED_BY", utterance, (pointer,))
        page.join(knowledge, "DERIVED_FROM", page.event_id(span.turn_id), (pointer,))
        if span.turn_id in said:
            page.join(knowledge, "STATED_BY", entity_id(page.record, said[span.turn_id].speaker), (pointer,))
    return tuple(pointers)


def _subject(page: _Page, claim: Claim, said: Mapping[str, UtteranceEvidence]) -> str:
    """Who or what it is about. Of the owner themselves the names they spoke under are further names."""
    owner = claim.session.owner
    if claim.subject in ("", owner.principal):
        cited = [said[s.turn_id] for s in claim.spans if s.turn_id in said]
        return page.entity(owner.id, "person", *sorted({u.speaker for u in cited if u.provenance == _BY[Role.USER]}))
    prefix, _, rest = claim.subject.partition(":")
    return page.entity(rest if prefix in ("u", "g", "a") and rest else claim.subject)


def _happening(
    page: _Page,
    claim: Claim,
    subject: str,
    met: Mapping[str, tuple[Pointer, ...]],
    words: tuple[Pointer, ...],
    carried: dict[str, Any],
) -> None:
    day = page.day_of(claim.valid_from)
    event = page.add(
        "events",
        Event,
        stable_id("happening", claim.claim_id),
        summary=claim.statement,
        t_abs_start=claim.valid_from,
        t_abs_end=claim.said_until,
        source_turn_ids=claim.source_turn_ids,
        evidence_status="mapped",
        topic_path=f"{claim.shelf.value}/{claim.routing_key}",
        tags=(claim.kind.value,),
        keywords=claim.entities,
        time_bucket=(day, day[:7]),
        actor_id=subject,
        **carried,
    )
    page.join(claim.claim_id, "DERIVED_FROM", event, words)
    page.join(event, "INVOLVES", subject, words)
    for entity, found in met.items():
        page.join(event, "INVOLVES", entity, found)
    for pointer in words:
        page.join(event, "SUPPORTED_BY", pointer.utterance_id, (pointer,))
    page.join(event, "OCCURS_AT", _day(page, day, claim.valid_from), words)


def _state(page: _Page, claim: Claim, subject: str, carried: dict[str, Any]) -> None:
    page.add(
        "states",
        State,
        stable_id("state", claim.claim_id),
        subject_id=subject,
        property=claim.dedup_key,
        value=claim.statement,
        raw_value=claim.spans[0].text_exact,
        valid_from=claim.valid_from,
        valid_to=claim.said_until,
        source_event_id=page.event_id(claim.spans[0].turn_id),
        evidence_level=claim.governance.evidence_level,
        **carried,
    )


def _carried(claim: Claim) -> dict[str, Any]:
    """The claim's governance, on everything it makes."""
    governance = claim.governance
    return {
        "provenance": Provenance.model_construct(
            source=claim.provider or "person",
            model_version=claim.model,
            prompt_version=claim.prompt_version,
            confidence=claim.confidence,
        ),
        "ttl": governance.ttl_seconds,
        "importance": governance.importance,
        "forgetting_policy": governance.forget_policy,
        "expires_at": claim.expires_at,
        "created_at": claim.recorded_at,
    }


def _data(claim: Claim) -> dict[str, Any]:
    return {
        "fact_type": claim.kind.value,
        "shelf": claim.shelf.value,
        "status": claim.status.value,
        "state": claim.state.value,
        "subject": claim.subject,
        "evidence_level": claim.governance.evidence_level.value,
        "session_id": claim.session_id,
        "source_turn_ids": list(claim.source_turn_ids),
        "node": claim.node_uri,
        "valid_to": claim.valid_to.isoformat() if claim.valid_to else None,
    }


def _utterance(page: _Page, span: Span) -> str:
    return page.utterance_id(span.turn_id)


def _named(name: str, spans: Sequence[Span], said: Mapping[str, UtteranceEvidence]) -> tuple[Pointer, ...]:
    """Where the name itself stands in what was cited."""
    found = []
    for span in spans:
        at = span.text_exact.find(name)
        if at >= 0 and span.turn_id in said:
            start = span.start + at
            found.append(_pointer(said[span.turn_id].id, start, start + len(name)))
    return tuple(found)
