"""Stage 3's gates: a proposed claim is believed only as far as the words it cites carry it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from mnemon.contracts.claims import Language, ToolStats
from mnemon.contracts.drafts import Draft, Extraction
from mnemon.contracts.governance import EvidenceLevel, Governance, Kind, Status
from mnemon.contracts.models import Violation
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.tags import ValueTag, WriteAction
from mnemon.contracts.turns import Role, Span, Turn
from mnemon.logic import dates
from mnemon.logic.clauses import around
from mnemon.logic.evidence import Conversation, is_own, judged, own_words
from mnemon.logic.governance import governed, join
from mnemon.logic.language import language_of
from mnemon.logic.senses import carried, senses
from mnemon.logic.shelves import SHELVES
from mnemon.logic.spans import place_of, problem
from mnemon.logic.support import THE_USER, Cited, says_nothing, twisted, unsupported
from mnemon.logic.toolwork import added, calls
from mnemon.logic.topics import is_topic, names_a_topic, stands

USER = "user"
UNFILED = "general"

_ENDED = {Status.DONE: "done", Status.CANCELLED: "cancel"}


@dataclass(frozen=True, slots=True)
class DraftInput:
    """What one extractor is given: the turns that were kept, what stage 2 said of them, and when each was said.

    `subjects` are those a claim may be about besides whom the words name."""

    conversation: Conversation
    kept: frozenset[str]
    tags: tuple[ValueTag, ...]
    said_at: Mapping[str, datetime]
    shelves: frozenset[Shelf]
    summary: str = ""
    tools: str = ""
    subjects: tuple[str, ...] = ()

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(t for t in self.conversation.turns if t.turn_id in self.kept)

    @property
    def language(self) -> Language:
        return language_of("\n".join(t.text for t in self.turns if t.role is Role.USER))


def mend(given: DraftInput, output: Extraction) -> Extraction:
    return output.model_copy(update={"facts": tuple(_mended(given, draft) for draft in output.facts)})


def _mended(given: DraftInput, draft: Draft) -> Draft:
    """Places of quotes that stand exactly once, and everything beside the statement that its words do not carry."""
    draft = draft.model_copy(update={"spans": tuple(_placed(given, span) for span in draft.spans)})
    cited = _cited(given, draft)
    source = _source(cited)
    begins = draft.valid_from if _known_date(draft.valid_from, cited) else ""
    ends = draft.valid_to if _known_date(draft.valid_to, cited, said_counts=False) else ""
    return draft.model_copy(
        update={
            "title": _fair(draft.title, draft, cited),
            "overview": _fair(draft.overview, draft, cited),
            "content": _fair(draft.content, draft, cited),
            "rationale": _fair(draft.rationale, draft, cited),
            "routing_key": _topic(draft.routing_key, source),
            "dedup_key": draft.dedup_key if is_topic(draft.dedup_key, source) else "",
            "subject": USER if THE_USER.fullmatch(draft.subject.strip()) else draft.subject,
            "entity_names": tuple(n for n in draft.entity_names if stands(n, source)),
            "status": _status(draft, source),
            "valid_from": begins,
            "valid_to": ends if not begins or begins[:10] < ends[:10] else "",
            "tool": _counted(given, draft, cited) if draft.tool else None,
        }
    )


def _topic(name: str, source: str) -> str:
    """Words said, or of the table, or a word of the model's own that only says where a thing belongs."""
    return name if is_topic(name, source) or names_a_topic(name, source) else UNFILED


def _fair(text: str, draft: Draft, cited: Sequence[Cited]) -> str:
    """A text beside the statement, if it says nothing the words do not; a bare name cannot turn them round."""
    if not text or unsupported(text, cited) or dates.relative(text):
        return ""
    return "" if senses(text) and twisted(text, cited, draft.type) else text


def _status(draft: Draft, source: str) -> Status:
    """Only a task has one, and it is over only if the words say so."""
    if draft.type is not Kind.TASK:
        return Status.NONE
    ended = _ENDED.get(draft.status)
    return draft.status if ended is None or ended in carried(source) else Status.OPEN


def _placed(given: DraftInput, span: Span) -> Span:
    turn = given.conversation.get(span.turn_id)
    if turn is None or turn.text[span.start : span.end] == span.text_exact:
        return span
    place = place_of(turn, span.text_exact)
    return span if place is None else Span.cut(turn, *place)


def _cited(given: DraftInput, draft: Draft) -> list[Cited]:
    """The sentences the quotes stand in, as far as they can carry anything."""
    return [cited for cited, _ in _bearing(given, draft)]


def _bearing(given: DraftInput, draft: Draft) -> list[tuple[Cited, EvidenceLevel]]:
    talk = given.conversation
    found: dict[str, list[Span]] = {}
    for span in draft.spans:
        turn = talk.get(span.turn_id)
        if turn is None or problem(turn, span.start, span.end, span.text_exact):
            continue
        if talk.bears(span.turn_id, span.start, span.end) is not EvidenceLevel.AI_INFERENCE:
            found.setdefault(span.turn_id, []).append(span)
    return [_quoted(given, talk.turns[talk.places[turn_id]], spans) for turn_id, spans in found.items()]


def _quoted(given: DraftInput, turn: Turn, spans: Sequence[Span]) -> tuple[Cited, EvidenceLevel]:
    own = own_words(turn)
    level = min((given.conversation.bears(s.turn_id, s.start, s.end) for s in spans), key=list(EvidenceLevel).index)
    cited = Cited(
        text="\n".join(dict.fromkeys(around(own, s.start, s.end) for s in spans)),
        speaker=turn.speaker,
        said_at=given.said_at.get(turn.turn_id),
        asked=given.conversation.question_before(turn.turn_id),
        before=own[: max(s.end for s in spans)],
        from_tool=level is EvidenceLevel.TOOL_GROUNDED,
        confirmed=turn.role is Role.ASSISTANT and level is EvidenceLevel.USER_CONFIRMED,
    )
    return cited, level


def _source(cited: Sequence[Cited]) -> str:
    return "\n".join([*(c.text for c in cited), *(c.speaker for c in cited)])


def check(given: DraftInput, output: Extraction) -> list[Violation]:
    return [v for n, draft in enumerate(output.facts) for v in _violations(given, n, draft)]


def _violations(given: DraftInput, n: int, draft: Draft) -> list[Violation]:
    where = f"fact {n + 1} ({draft.statement[:60]!r})"
    found: list[Violation] = []
    if draft.category not in given.shelves or draft.type not in SHELVES[draft.category].kinds:
        allowed = ", ".join(sorted(f"{s} ({'/'.join(sorted(SHELVES[s].kinds))})" for s in given.shelves))
        found.append(Violation("not a category of this task", where, allowed, f"{draft.category} ({draft.type})", n))
    if not draft.spans:
        return [*found, Violation("cites no words", where, "at least one span", "none", n)]
    for span in draft.spans:
        found += _span_violations(given, n, where, span)
    if found:
        return found
    cited = _cited(given, draft)
    if not cited:
        rests = "words of the user or a tool, or words the user confirmed"
        return [Violation("rests on the assistant's words alone", where, rests, "assistant", n)]
    return _statement_violations(given, n, where, draft, cited)


def _statement_violations(
    given: DraftInput, n: int, where: str, draft: Draft, cited: Sequence[Cited]
) -> list[Violation]:
    found: list[Violation] = []
    quotes = [s.text_exact for s in draft.spans]
    if says_nothing(draft.statement):
        found.append(Violation("says nothing", where, "what the quoted words say", repr(draft.statement), n))
    if odd := unsupported(draft.statement, cited):
        told = "only what the quoted words say"
        found.append(Violation("says what the quoted words do not", where, told, ", ".join(odd[:8]), n))
    if why := twisted(draft.statement, cited, draft.type):
        found.append(Violation(why, where, repr(quotes[0]), repr(draft.statement), n))
    if vague := dates.relative(draft.statement):
        found.append(Violation("holds a relative date", where, "an absolute date", ", ".join(vague), n))
    spoken = {language_of("\n".join(quotes)), language_of("\n".join(c.text for c in cited))}
    if (written := language_of(draft.statement)) not in spoken:
        found.append(Violation("is not in the language of the words", where, "/".join(sorted(spoken)), written, n))
    if draft.subject not in ("", USER, *given.subjects) and not stands(draft.subject, _source(cited)):
        told = "the user, or whom the quoted words name"
        found.append(Violation("is about somebody the words do not name", where, told, draft.subject, n))
    if len(people := given.conversation.people) > 1 and THE_USER.search(draft.statement):
        told = f"the speaker by name ({', '.join(sorted(people))})"
        found.append(Violation("does not say which of the speakers", where, told, draft.statement, n))
    return found


def _span_violations(given: DraftInput, n: int, where: str, span: Span) -> list[Violation]:
    turn = given.conversation.get(span.turn_id)
    if turn is None or span.turn_id not in given.kept:
        return [Violation("cites a turn that was not kept", where, "one of the given turn ids", span.turn_id, n)]
    wrong = problem(turn, span.start, span.end, span.text_exact)
    if wrong:
        there = turn.text[span.start : span.end]
        return [Violation(wrong, f"{where}, turn {span.turn_id}", repr(span.text_exact), repr(there), n)]
    if not is_own(turn, span.start, span.end):
        return [Violation("quotes what the speaker did not say", where, "the speaker's own words", span.text_exact, n)]
    return []


def _known_date(text: str, cited: Sequence[Cited], said_counts: bool = True) -> bool:
    """Does a date come from the cited words, or, if that counts, from the day they were said?"""
    if not text:
        return False
    try:
        day = date.fromisoformat(text[:10])
    except ValueError:
        return False
    dated = [(c.text, c.said_at) for c in cited if c.said_at]
    if said_counts and day in {said.date() for _, said in dated}:
        return True
    return any(d.begins <= day <= d.ends for words, said in dated for d in dates.find(words, said))


def _counted(given: DraftInput, draft: Draft, cited: Sequence[Cited]) -> ToolStats:
    """What a tool did is counted in its cited turns, not believed; what is said of it is made of words that fell."""
    assert draft.tool is not None
    ids = dict.fromkeys(span.turn_id for span in draft.spans)
    shown = calls(t for i in ids if (t := given.conversation.get(i)) is not None)
    known = {call.tool for call in shown}
    named = draft.tool.tool_name.strip()
    if named not in known and not (named and (stands(named, given.tools) or stands(named, _source(cited)))):
        named = next(iter(call.tool for call in shown), "")
    said = [*cited, *(Cited(turn.text, turn.speaker) for turn in given.conversation.turns), Cited(given.tools)]
    counted = added([call.stats for call in shown if call.tool == named])
    return counted.model_copy(
        update={
            "tool_name": named,
            "skill_name": _fair(draft.tool.skill_name, draft, said),
            "best_for": _fair(draft.tool.best_for, draft, said),
            "common_failures": _fair(draft.tool.common_failures, draft, said),
        }
    )


def governance_of(given: DraftInput, draft: Draft) -> Governance | None:
    """The lives of the tags behind a draft, joined; None when every one of them is for the archive only."""
    strongest = _carrying(given, draft)
    behind = [tag for tag in given.tags if any(_overlap(tag, span) for span in draft.spans)]
    written = [tag for tag in behind if tag.write_action is not WriteAction.ARCHIVE_ONLY]
    if behind and not written:
        return None
    if not written:
        return governed(draft.type, draft.status, strongest, importance=draft.importance)
    return join([_governance(draft, tag, strongest) for tag in written])


def _carrying(given: DraftInput, draft: Draft) -> EvidenceLevel:
    """The strongest evidence that carries the statement by itself: a yes elsewhere confirms nothing here."""
    bearing = _bearing(given, draft)
    order = list(EvidenceLevel).index
    if len(bearing) == 1:
        return bearing[0][1]
    alone = [level for cited, level in bearing if not unsupported(draft.statement, [cited])]
    return max(alone, key=order) if alone else min((level for _, level in bearing), key=order)


def _overlap(tag: ValueTag, span: Span) -> bool:
    return tag.turn_id == span.turn_id and tag.span.start < span.end and span.start < tag.span.end


def _governance(draft: Draft, tag: ValueTag, strongest: EvidenceLevel) -> Governance:
    """A tag's judgement, carried over to the claim: its life is that of the claim's kind, never longer than its own."""
    return governed(
        draft.type,
        draft.status,
        judged(tag.evidence_level, strongest),
        importance=tag.importance,
        ttl_seconds=tag.ttl_seconds,
        requires_confirmation=tag.requires_confirmation,
    )


def began(given: DraftInput, draft: Draft) -> datetime:
    """When it began to hold: the date it names, else when it was first said."""
    said = min(given.said_at[s.turn_id] for s in draft.spans)
    return _moment(draft.valid_from) or said


def ended(draft: Draft) -> datetime | None:
    return _moment(draft.valid_to)


def _moment(text: str) -> datetime | None:
    return datetime.combine(date.fromisoformat(text[:10]), time(), UTC) if text else None
