"""A bot's turn in our words: the turns it is archived as, the occasion, and the claims it comes to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mnemon.contracts.chats import Absolute, EndCall, Occasion, Perspective
from mnemon.contracts.claims import Claim
from mnemon.contracts.governance import EvidenceLevel, Kind
from mnemon.contracts.models import Violation
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.scope import Owner, SessionKey
from mnemon.contracts.turns import Role, Span, Turn, parse_time
from mnemon.logic.absolute import Rewritten, Setting, Speaker, absolute, canonical, findings
from mnemon.logic.clauses import sentences
from mnemon.logic.governance import governed_end
from mnemon.logic.ids import stable_id
from mnemon.logic.language import language_of
from mnemon.logic.redaction import Redactor
from mnemon.logic.rules import is_of_group, topic_of
from mnemon.logic.support import Cited, invented, is_mostly_new, twisted, unsupported

# What the bot learnt weighs more than what it did.
_LEARNT, _DID = 0.6, 0.4
_SURE, _UNSURE = 0.9, 0.5
_CALL = "end:"
_RELATIVE = "relative"
_FIRST_PERSON = re.compile(r"我|俺|咱|i\b|my\b|we\b|our\b", re.IGNORECASE)
# Said as something that is so, and not as something to be asked about.
_TOLD = re.compile(r"了|过|已|正在|一直|\b(?:already|just|have|had|am|was|were|\w+ed)\b", re.IGNORECASE)


# --- where and when


def session_of(tenant_id: str, call: EndCall) -> SessionKey:
    """The hour of the chat it happened in, by the chat's own clock: a stretch people can read, and one that does not
    grow for ever."""
    return SessionKey(tenant_id, call.owner, f"chat-{moment_of(call):%Y-%m-%d-%H}")


def moment_of(call: EndCall) -> datetime:
    return parse_time(call.timestamp)


def has_its_own_time(call: EndCall) -> bool:
    """Was it told when it happened? Otherwise it happened when it was told."""
    return moment_of(call) != parse_time(call.queued_at)


def name_of_sender(call: EndCall) -> str:
    return call.sender_name or call.sender_id


def name_of_group(call: EndCall) -> str:
    return (call.group_name or call.group_id) if call.request_type == "group" else ""


def setting_of(call: EndCall) -> Setting:
    own = {call.sender_id, call.sender_name}
    named = [m.sender_name or m.sender_id for m in call.messages if m.role is Role.USER and m.sender_id not in own]
    return Setting(
        said_at=moment_of(call),
        sender=name_of_sender(call),
        bot=call.bot_name,
        group=name_of_group(call),
        location=call.location,
        others=tuple(reversed(dict.fromkeys(reversed([name for name in named if name])))),
    )


def occasion_of(call: EndCall, made: Absolute, is_absolute: bool, unresolved: Sequence[str]) -> Occasion:
    at = moment_of(call)
    return Occasion(
        event_id=call.event_id,
        request_id=call.request_id,
        end_seq=call.end_seq,
        timestamp_utc=at.astimezone(UTC).isoformat(),
        timestamp_local=at.isoformat(),
        timezone=call.timezone,
        location_abs=call.location,
        request_type=call.request_type,
        user_id=call.user_id,
        group_id=call.group_id,
        sender_id=call.sender_id,
        sender_name=call.sender_name,
        group_name=call.group_name,
        message_ids=call.message_ids,
        has_new_info=bool(made.new_info),
        is_absolute=is_absolute,
        unresolved=tuple(unresolved),
        did_what=made.did_what,
        new_info=made.new_info,
        queued_at=call.queued_at,
    )


# --- the words


def turns_of(call: EndCall) -> list[Turn]:
    """The batch as it was said, and the call itself: the bot's own words."""
    said = [_message(call, n) for n in range(len(call.messages))]
    words = "\n".join(part for part in (call.action_summary, call.new_info) if part)
    if not words:
        return said
    meta = {"event_id": call.event_id, "action_summary": len(call.action_summary), "message_ids": [*call.message_ids]}
    speaker = call.bot_name or "bot"
    own = Turn(turn_id=call_turn_id(call.event_id), role=Role.ASSISTANT, speaker=speaker, text=words, meta=meta)
    return [*said, own.model_copy(update={"timestamp_iso": call.timestamp})]


def _message(call: EndCall, n: int) -> Turn:
    message = call.messages[n]
    return Turn(
        turn_id=message.message_id,
        role=message.role,
        speaker=message.sender_name or message.sender_id,
        timestamp_iso=message.time or call.timestamp,
        text=message.text,
        meta={"sender_id": message.sender_id} if message.sender_id else {},
    )


def renamed(turn: Turn) -> Turn:
    """A message whose id is taken by other words (it was edited since): its own words under a name of their own."""
    digest = hashlib.sha256(turn.model_dump_json().encode()).hexdigest()[:8]
    return turn.model_copy(update={"turn_id": f"{turn.turn_id}~{digest}"})


def mask_call(call: EndCall, mask: Redactor) -> EndCall:
    """The same call without what nobody should keep."""

    def masked(text: str) -> str:
        return mask(Turn(turn_id="end", role=Role.ASSISTANT, text=text))[0].text

    messages = tuple(m.model_copy(update={"text": masked(m.text)}) for m in call.messages)
    texts = {name: masked(getattr(call, name)) for name in ("action_summary", "new_info", "location")}
    return call.model_copy(update={**texts, "messages": messages})


def call_turn_id(event_id: str) -> str:
    """Under which name the call itself is archived."""
    return f"{_CALL}{event_id}"


def is_call(turn: Turn) -> bool:
    return is_call_id(turn.turn_id)


def is_call_id(turn_id: str) -> bool:
    """Is this turn a bot's own note, rather than a message?"""
    return turn_id.startswith(_CALL)


# --- the rewrite


def by_rules(call: EndCall) -> Absolute:
    """What the rules make of it; nothing in it that the words do not say."""
    setting = setting_of(call)
    did, new = (part.text for part in resolved(call))
    topic = topic_of(new, name_of_sender(call))
    return Absolute(
        did_what=did,
        new_info=new,
        canonical_text=canonical(did, new, setting),
        about="group" if call.request_type == "group" and is_of_group(call.new_info, name_of_sender(call)) else "user",
        topic=topic.key,
        tags=topic.names,
    )


def resolved(call: EndCall) -> tuple[Rewritten, Rewritten]:
    """What was done and what was learnt, each made absolute by the rules."""
    setting = setting_of(call)
    return absolute(call.action_summary, setting), absolute(call.new_info, setting, _voice(call))


def _voice(call: EndCall) -> Speaker:
    """Whose 我 and "I" stands in what was learnt: the sender's where it is put down in his own words, or begins as he
    would; else the bot's."""
    own = [m.text for m in call.messages if m.role is Role.USER and m.sender_id in ("", call.sender_id)]
    if any(call.new_info in text for text in own):
        return "sender"
    begins = _FIRST_PERSON.match(call.new_info) is not None
    return "sender" if begins and name_of_sender(call) not in call.new_info else "bot"


def not_absolute(made: Absolute) -> list[Violation]:
    """The absolutise gate: words only the moment could explain."""
    found = []
    for field in ("did_what", "new_info", "canonical_text"):
        for finding in findings(getattr(made, field)):
            told = f"an absolute {finding.kind}: a name, a date, a place"
            found.append(Violation(f"{_RELATIVE} {finding.kind}", field, told, finding.text))
    return found


def is_relative(violation: Violation) -> bool:
    """Is that all that is wrong, that only the moment explains it?"""
    return violation.rule.startswith(_RELATIVE)


def unfounded(call: EndCall, made: Absolute) -> list[Violation]:
    """What a rewrite says and nobody said, or leaves out."""
    cited = _cited(call)
    odd = {field: invented(getattr(made, field), cited) for field in ("did_what", "canonical_text")}
    odd["new_info"] = unsupported(made.new_info, cited)  # it goes into a profile: it is held to every word
    told = "only what the call and the messages say"
    found = [Violation("says what nobody said", field, told, ", ".join(o[:8])) for field, o in odd.items() if o]
    if is_mostly_new(made.canonical_text, cited):
        found.append(Violation("is mostly what nobody said", "canonical_text", told, made.canonical_text[:80]))
    for given, field in ((call.action_summary, "did_what"), (call.new_info, "new_info")):
        if bool(given.strip()) != bool(getattr(made, field).strip()):
            wanted = "as much as was given" if given.strip() else "empty, as it was given"
            found.append(Violation("is not what was given", field, wanted, getattr(made, field)[:80]))
    if call.request_type == "private" and made.about == "group":
        found.append(Violation("there is no group in a private chat", "about", "user", "group"))
    return found


def _cited(call: EndCall) -> list[Cited]:
    at = moment_of(call)
    who = f"{name_of_sender(call)} {name_of_group(call)} {call.bot_name} {call.location}"
    here = f"{who} {call.sender_id} {call.user_id} {call.group_id} {at:%Y-%m-%d %H:%M} {call.timezone}"
    own = [Cited(text, said_at=at) for text in (call.action_summary, call.new_info, here) if text.strip()]
    return [*own, *_said(call)]


def _said(call: EndCall) -> list[Cited]:
    return [
        Cited(m.text, m.sender_name or m.sender_id, parse_time(m.time) if m.time else moment_of(call))
        for m in call.messages
        if m.role is Role.USER
    ]


# --- the claims


@dataclass(frozen=True, slots=True)
class Maker:
    """Who made the sentences."""

    provider: str
    model: str
    prompt_version: str = ""


def claims_of(
    key: SessionKey,
    principals: tuple[str, ...],
    call: EndCall,
    turns: Sequence[Turn],
    made: Absolute,
    occasion: Occasion,
    maker: Maker,
    now: datetime,
) -> list[Claim]:
    """The event as the chat saw it; in a group also as the person who spoke was concerned; and, where something was
    learnt, a line of a profile. `turns` are those archived for this call."""
    own = [turn for turn in turns if is_call(turn)]
    said = [turn for turn in turns if not is_call(turn) and turn.text]
    proof = _proof(call, made, said)
    level = EvidenceLevel.USER_CLAIM if proof else EvidenceLevel.AI_INFERENCE
    whole = tuple(Span.whole(turn) for turn in [*said, *own])
    same = _Same(key, principals, occasion, maker, now, level)
    weight = _LEARNT if made.new_info else _DID
    found = [same.event("", made.canonical_text, whole, weight, made.tags)]
    if not made.new_info:
        return found
    if call.request_type == "group":
        found.append(same.event("sender", made.new_info, whole, weight, made.tags))
    rests = proof or (_learnt(call, own[0]),)
    about = _about(call, made)
    subject = about or key.owner.principal
    return [*found, same.line(made, about, subject, rests)]


def _about(call: EndCall, made: Absolute) -> str:
    """Whom the line describes, where it is not the one whose folder it lies in."""
    if call.request_type == "private" or made.about == "group":
        return ""
    return f"user:{call.sender_id}"


def _learnt(call: EndCall, own: Turn) -> Span:
    return Span.cut(own, len(own.text) - len(call.new_info), len(own.text))


def _proof(call: EndCall, made: Absolute, said: Sequence[Turn]) -> tuple[Span, ...]:
    """The words that say what was learnt: a piece of one message, else messages as they are, else all together; none
    where they do not."""
    at = moment_of(call)
    users = [turn for turn in said if turn.role is Role.USER]
    when = {t.turn_id: parse_time(t.timestamp_iso) if t.timestamp_iso else at for t in users}
    if not made.new_info or not users:
        return ()
    for statement in (made.new_info, call.new_info):
        for turn in users:
            for start, end in _pieces(turn.text):
                if _holds(statement, [Cited(turn.text[start:end], turn.speaker, when[turn.turn_id])]):
                    return (Span.cut(turn, start, end),)
        if _holds(statement, [Cited(t.text, t.speaker, when[t.turn_id]) for t in users]):
            return tuple(Span.whole(turn) for turn in users)
    return ()


def _pieces(text: str) -> list[tuple[int, int]]:
    """Sentences, the whole, and what of a question is told before it asks: 我昨天搬到了杭州，今天天气怎么样？"""
    found = sentences(text)
    told = []
    for start, end in found:
        head = text[start:end].rpartition("，")[0] or text[start:end].rpartition(", ")[0]
        if head and _TOLD.search(head):
            told.append((start, start + len(head)))
    return [(a, b) for a, b in dict.fromkeys([*found, (0, len(text)), *told]) if text[a:b].strip()]


def _holds(statement: str, cited: Sequence[Cited]) -> bool:
    return not unsupported(statement, cited) and not twisted(statement, cited)


@dataclass(frozen=True, slots=True)
class _Same:
    """What all claims of one call have in common."""

    key: SessionKey
    principals: tuple[str, ...]
    occasion: Occasion
    maker: Maker
    now: datetime
    level: EvidenceLevel

    def event(
        self, perspective: Perspective, text: str, spans: tuple[Span, ...], weight: float, names: tuple[str, ...]
    ) -> Claim:
        at = self.occasion.model_copy(update={"perspective": perspective})
        return self._claim(at, "event", Shelf.EVENTS, text, spans, weight, routing_key=at.id, entities=names)

    def line(self, made: Absolute, about: str, subject: str, spans: tuple[Span, ...]) -> Claim:
        return self._claim(
            self.occasion,
            "profile",
            Shelf.PROFILE,
            made.new_info,
            spans,
            _LEARNT,
            routing_key=made.topic or "profile",
            entities=made.tags,
            dedup_key=made.topic,
            about=about,
            subject=subject,
        )

    def _claim(
        self,
        at: Occasion,
        what: str,
        shelf: Shelf,
        text: str,
        spans: tuple[Span, ...],
        weight: float,
        *,
        routing_key: str,
        entities: tuple[str, ...],
        dedup_key: str = "",
        about: str = "",
        subject: str = "",
    ) -> Claim:
        key = self.key
        life = governed_end(self.level, weight)
        return Claim(
            claim_id=claim_id(key.tenant_id, key.owner, what, at.id),
            tenant_id=key.tenant_id,
            owner_kind=key.owner.kind,
            owner_id=key.owner.id,
            session_id=key.session_id,
            principals=self.principals,
            kind=Kind.FACT,
            shelf=shelf,
            routing_key=routing_key,
            statement=text,
            confidence=_UNSURE if self.level is EvidenceLevel.AI_INFERENCE else _SURE,
            language=language_of(text),
            subject=subject or key.owner.principal,
            entities=entities,
            dedup_key=dedup_key,
            spans=spans,
            governance=life,
            valid_from=parse_time(at.timestamp_utc),
            recorded_at=self.now,
            expires_at=life.expires_at(self.now),
            about=about,
            occasion=at,
            provider=self.maker.provider,
            model=self.maker.model,
            prompt_version=self.maker.prompt_version,
        )


def claim_id(tenant_id: str, owner: Owner, what: str, event_id: str) -> str:
    """One event, one claim, however often the job is done."""
    return stable_id(what, tenant_id, owner.space, event_id)
