"""Gates before a recall by a model: every quote stands in a message it was shown, and no point says more than its
quotes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from mnemon.contracts.governance import Kind
from mnemon.contracts.models import Violation
from mnemon.contracts.recall import ItemStatus, Reason, RecallSettings, Shelf
from mnemon.contracts.results import Message
from mnemon.contracts.turns import Attachment, Role, Turn, epoch_ms, parse_time
from mnemon.logic.clauses import around
from mnemon.logic.evidence import confirms, is_own
from mnemon.logic.spans import place_of, problem
from mnemon.logic.support import Cited, says_nothing, twisted, unsupported
from mnemon.pipelines.recall.looking import Looking

_KINDS: dict[Shelf, Kind] = {"preferences": Kind.PREFERENCE, "profile": Kind.FACT, "constraints": Kind.RULE}
_SHOWN = 80


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Quote(_Form):
    message_id: str
    quote: str


class Point(_Form):
    """One point as a model makes it; what else an item holds the program knows better."""

    shelf: Shelf
    statement: str = Field(min_length=1, max_length=500)
    status: ItemStatus = "settled"
    confidence: float = Field(default=0.8, ge=0.0, le=1.0)
    evidence: tuple[Quote, ...] = Field(min_length=1, max_length=12)
    against: tuple[Quote, ...] = Field(default=(), max_length=12)
    reason: Reason = ""


class Final(_Form):
    items: tuple[Point, ...] = Field(default=(), max_length=20)


@dataclass(frozen=True, slots=True)
class Held:
    """A quote that holds: the message, and where in it."""

    message: Message
    start: int
    end: int

    @property
    def words(self) -> str:
        return self.message.content[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Gate:
    """What a result is held against: the messages that were shown, and how the recall is set."""

    looking: Looking
    settings: RecallSettings

    def wrong_with(self, final: Final) -> list[Violation]:
        return [found for n, point in enumerate(final.items) for found in self._wrong_with(n, point)]

    def _wrong_with(self, n: int, point: Point) -> Iterator[Violation]:
        where = f"items[{n}]"
        misquoted = False
        for name, quotes in (("evidence", point.evidence), ("against", point.against)):
            for m, quote in enumerate(quotes):
                held = self.held(quote)
                if isinstance(held, str):
                    misquoted = True
                    yield Violation(held, f"{where}.{name}[{m}]", "words of a message that was shown", _cut(quote), n)
        if not misquoted:
            yield from self._wrong_in(where, n, point)

    def _wrong_in(self, where: str, n: int, point: Point) -> Iterator[Violation]:
        """With quotes that hold: is the point what they say?"""
        proof, against = self.all_held(point.evidence), self.all_held(point.against)
        said = f"{where}.statement"
        if says_nothing(point.statement):
            yield Violation("says nothing", said, "what the quotes say", point.statement[:_SHOWN], n)
        quoted = [self._cited(held, held.words, proof) for held in (*proof, *against)]
        if odd := unsupported(point.statement, quoted):
            yield Violation("says more than its quotes", said, "only what the quotes say", ", ".join(odd[:8]), n)
        # In their sentences: half of one can say the opposite of the whole.
        whole = [self._cited(held, _sentences(held), proof) for held in proof]
        if why := twisted(point.statement, whole, _KINDS[point.shelf]):
            yield Violation(why, said, "what the quoted words say", point.statement[:_SHOWN], n)
        of_user = any(held.message.role == Role.USER for held in proof)
        if self.settings.role is Role.USER and not of_user and point.status != "uncertain":
            told = "the user's own words, or status uncertain"
            yield Violation("rests on what the user did not say", f"{where}.evidence", told, item=n)
        if against and not point.reason:
            told = "context | changed | source | unclear"
            yield Violation("does not say why what is against it does not count", f"{where}.reason", told, item=n)
        if point.status == "changed" and against and _latest(proof) <= _latest(against):
            told = "evidence that was said later than what is against it"
            yield Violation("is not the later word", f"{where}.evidence", told, item=n)

    def held(self, quote: Quote) -> Held | str:
        """Where a quote stands, or why it does not."""
        message = self.looking.message(quote.message_id)
        if message is None:
            return "cites a message that was not shown"
        if len(quote.quote) > self.settings.evidence_length:
            return f"is longer than {self.settings.evidence_length} characters"
        turn = _turn(message)
        if quote.quote not in turn.text:
            return "does not stand in that message"
        place = place_of(turn, quote.quote)
        if place is None:
            return "stands in that message more than once; quote more of it"
        if why := problem(turn, *place, quote.quote):
            return why
        if not is_own(turn, *place):
            return "is not what the speaker said there"
        if not self._in_time(message):
            return "was said outside the time that was asked for"
        return Held(message, *place)

    def all_held(self, quotes: Iterable[Quote]) -> list[Held]:
        return [held for held in map(self.held, quotes) if isinstance(held, Held)]

    def _in_time(self, message: Message) -> bool:
        at = _ms(message.ts)
        since, until = self.settings.since, self.settings.until
        return not (since and at < _ms(since)) and not (until and at >= _ms(until))

    def _cited(self, held: Held, words: str, proof: list[Held]) -> Cited:
        message = held.message
        return Cited(
            words,
            message.speaker,
            parse_time(message.ts),
            asked=self._asked(message),
            from_tool=message.role == Role.TOOL,
            confirmed=any(_answers(other.message, message) and confirms(other.words) for other in proof),
        )

    def _asked(self, message: Message) -> str:
        """The question right before it, if that was shown."""
        before = next((other for other in self.looking.labels.values() if _answers(message, other)), None)
        if before is None or before.role != Role.ASSISTANT:
            return ""
        end = len(before.content.rstrip())
        last = around(before.content, max(end - 1, 0), end)
        return last if last.rstrip().endswith(("?", "？")) else ""


def _answers(message: Message, other: Message) -> bool:
    """Does it come right after the other, in the same session?"""
    here, there = message.meta, other.meta
    return here.get("uri") == there.get("uri") and here.get("seq", 0) == there.get("seq", 0) + 1


def _turn(message: Message) -> Turn:
    return Turn(
        turn_id="m",
        role=Role(message.role),
        text=message.content,
        attachments=tuple(Attachment.model_validate(a) for a in message.meta.get("attachments", ())),
    )


def _sentences(held: Held) -> str:
    return around(held.message.content, held.start, held.end)


def _ms(moment: str) -> int:
    return epoch_ms(parse_time(moment))


def _latest(quotes: list[Held]) -> int:
    return max(_ms(held.message.ts) for held in quotes)


def _cut(quote: Quote) -> str:
    return f"{quote.message_id[:_SHOWN]}: {quote.quote[:_SHOWN]}"
