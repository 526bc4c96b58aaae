"""What to ask the tools next (003 §4.1–§4.5): first by what the question is like, then by what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mnemon.contracts.claims import Language
from mnemon.contracts.recall import Call, RecallSettings, Seen, ToolName, Window
from mnemon.contracts.results import Message
from mnemon.contracts.turns import Role
from mnemon.logic.recall.adjudicating import Finding, decided
from mnemon.logic.recall.asking import Asked
from mnemon.logic.recall.fit import Fit
from mnemon.logic.recall.fitting import Fits
from mnemon.logic.recall.nearness import by_words, nearness
from mnemon.logic.recall.tables import TAKEN_BACK, load
from mnemon.logic.recall.wording import KIN, Needle, query, quoted, relation
from mnemon.logic.text import pieces

_WHY = load("telling")["why"]
_LANGUAGES: tuple[Language, ...] = ("zh", "en")
_PAGE = 40
_NEAREST = 100
_LIST_PAGE = 200
_BEFORE, _AFTER = 3, 3
_MOST_ANCHORS = 3
_FEW = 2
_OTHER: dict[ToolName, ToolName] = {
    "lexical_search": "semantic_search",
    "semantic_search": "lexical_search",
    "messages_list": "lexical_search",
    "neighbors": "semantic_search",
}


@dataclass(frozen=True, slots=True)
class Move:
    """A call and what it is for; `goes_on` with the round before, as several looks around one decision; `near`: it asks
    for what the question itself says, and its scores tell how near each message is."""

    name: str
    call: Call
    window: Window | None = None
    role: Role | None = None
    goes_on: bool = False
    near: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A move that was made, what it brought, and how things stood after it."""

    move: Move
    seen: Seen
    new: int
    fits: int
    rejected: tuple[Fit, ...]
    conflict: bool


@dataclass
class Case:
    """A question and everything that came of it so far."""

    asked: Asked
    settings: RecallSettings
    now: datetime
    read: dict[str, Message] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    looked_around: set[str] = field(default_factory=set)
    around: dict[str, tuple[str, ...]] = field(default_factory=dict)
    broken: set[ToolName] = field(default_factory=set)
    cut_short: bool = False

    def __post_init__(self) -> None:
        self._fits = Fits(self.asked, self.now)

    @property
    def calls(self) -> int:
        return len(self.steps)

    @property
    def rounds(self) -> int:
        return sum(not step.move.goes_on for step in self.steps)

    @property
    def spent(self) -> bool:
        return self.calls >= self.settings.max_calls

    def has_made(self, call: Call) -> bool:
        return any((s.move.call.tool, s.move.call.arguments) == (call.tool, call.arguments) for s in self.steps)

    @property
    def topic(self) -> str:
        return self._fits.topic or self.asked.text

    def take(self, move: Move, seen: Seen) -> None:
        """What a call brought, and what follows from all that was read."""
        before = len(self.read)
        for message in seen.messages:
            self.read.setdefault(message.message_id, message)
        ids = [message.message_id for message in seen.messages]
        if move.near and move.call.tool == "semantic_search":
            self._fits.near |= nearness(ids, seen.scores)
        elif move.name == "trace":
            lead = self.read[self.findings[0].lead.message.message_id]
            self._fits.trace(lead, nearness(ids, seen.scores), self.read)
        elif move.near and len(seen.scores) == len(ids):
            self._fits.words |= by_words(ids, seen.scores)
        if seen.error:
            self.broken.add(move.call.tool)
        if move.call.tool == "neighbors":
            anchor = str(move.call.arguments["message_id"])
            self.around[anchor] = tuple(id_ for id_ in ids if id_ != anchor)
            self.looked_around.update(ids[1:-1] or ids, {anchor})
        self._judge()
        here = {m.message_id for m in seen.messages}
        fitting = [fit for fit in self.fits if fit.message.message_id in here]
        self.steps.append(
            Step(
                move=move,
                seen=seen,
                new=len(self.read) - before,
                fits=len({fit.message.message_id for fit in fitting if fit.counts}),
                rejected=tuple(fit for fit in fitting if not fit.counts),
                conflict=any(finding.conflict for finding in self.findings),
            )
        )

    def _judge(self) -> None:
        self.fits = self._fits.of(self.read.values())
        if self.asked.of_project and self._fits.follow(self.fits):
            self.fits = self._fits.of(self.read.values())
        self.findings = decided(self.asked, self.fits)

    @property
    def thread(self) -> str:
        return self._fits.thread


def next_move(case: Case) -> Move | None:
    """The next call, or None when there is enough, nothing more to gain, or no budget."""
    if case.spent:
        return None
    move = _search(case) or _context(case)
    if move is not None and not move.goes_on and case.rounds >= case.settings.max_rounds:
        case.cut_short = True
        return None
    return move


def _search(case: Case) -> Move | None:
    """First the tool the question calls for, in the narrowest window; then the other one, wider; once something was
    found, as far back as allowed, because what was said once may have changed since."""
    asked, made = case.asked, {step.move.name for step in case.steps}
    steps, first, second = asked.windows.steps, *_tools(case)
    if not case.steps:
        return _looking(case, "first", first, steps[0])
    if _tried(case, second) == 0:
        name = "cover" if case.findings else "wider" if len(steps) > 1 else "other"
        return _looking(case, name, second, steps[-1] if case.findings else steps[min(1, len(steps) - 1)])
    if case.thread and "thread" not in made:
        return _looking(case, "thread", "lexical_search", steps[-1], words=quoted([case.thread]))
    if not case.findings and case.steps[-1].seen.more and "narrow" not in made and len(asked.needles) > 1:
        return _looking(case, "narrow", "lexical_search", steps[-1], words=_strict(asked.needles))
    for tool in (_by_search(first), _by_search(second, "lexical_search")):
        if not _tried(case, tool, steps[-1]):
            return _looking(case, "cover" if case.findings else "wider", tool, steps[-1])
    if 0 < len(case.findings) <= _FEW and "trace" not in made and _traceable(case):
        told = _looking(case, "trace", "semantic_search", steps[-1], words=case.findings[0].lead.message.content)
        if not case.has_made(told.call):
            return told
    by_meaning = "semantic_search" not in case.broken
    if not case.findings and asked.role is Role.USER and "everyone" not in made and by_meaning:
        return _looking(case, "everyone", "semantic_search", steps[-1], role=None)
    return None


def _traceable(case: Case) -> bool:
    """Can what was found have been told otherwise at another time?"""
    asked = case.asked
    by_meaning = "semantic_search" not in case.broken
    return (
        by_meaning
        and asked.role is Role.USER
        and not (asked.said or asked.of_schedule or asked.of_project or asked.about)
    )


def _context(case: Case) -> Move | None:
    """Around what the answer would rest on; what the assistant repeated leads back to the user's own words."""
    made = [step.move for step in case.steps]
    goes_on = made[-1].call.tool == "neighbors"
    looks = sum(move.call.tool == "neighbors" for move in made)
    leads = _unseen(case, (finding.lead for finding in case.findings))
    if len(leads) > _MOST_ANCHORS and not any(move.name == "taken_back" for move in made):
        window = case.asked.windows.steps[-1]
        return _looking(case, "taken_back", "lexical_search", window, words=quoted(TAKEN_BACK))
    if leads and looks < _MOST_ANCHORS:
        return _around(case, "around", leads[0], goes_on)
    others = _unseen(case, (fit for finding in case.findings for fit in finding.against[:1]))
    if others and looks < _MOST_ANCHORS + 1:
        return _around(case, "both_sides", others[0], goes_on)
    rejected = _unseen(case, (fit for fit in case.fits if not fit.counts))
    if not case.findings and rejected and looks < 1:
        return _around(case, "behind", rejected[-1], goes_on)
    return None


def _unseen(case: Case, fits: Iterable[Fit]) -> list[str]:
    """Messages nobody has looked around yet, each once."""
    if "neighbors" in case.broken:
        return []
    ids = dict.fromkeys(fit.message.message_id for fit in fits)
    return [id_ for id_ in ids if id_ not in case.looked_around]


def _tools(case: Case) -> tuple[ToolName, ToolName]:
    """Words where the question names something, meaning where it can be put in many ways, time where that is what
    matters (003 §4.1, §4.3); then the other."""
    asked, area = case.asked, case.asked.area
    first: ToolName = "semantic_search"
    if area is not None and area.first != first and not (area.first == "messages_list" and asked.needles):
        first = area.first
    elif asked.names_something and not (area is not None and area.asks):
        first = "lexical_search"
    second = area.then if area is not None and area.then and first == area.first else _OTHER[first]
    if first in case.broken:
        first = second
    if second in case.broken:
        second = "messages_list"
    return first, second


def _by_search(tool: ToolName, instead: ToolName = "semantic_search") -> ToolName:
    """Reading everything is for short windows: beyond them one searches."""
    return instead if tool == "messages_list" else tool


def _tried(case: Case, tool: ToolName, window: Window | None = None) -> int:
    plain = (
        step.move
        for step in case.steps
        if step.move.name not in ("thread", "narrow", "taken_back", "everyone", "trace")
    )
    return sum(move.call.tool == tool and (window is None or move.window == window) for move in plain)


def _looking(
    case: Case, name: str, tool: ToolName, window: Window, words: str = "", role: Role | str | None = "as asked"
) -> Move:
    asked = case.asked
    said_by = asked.role if isinstance(role, str) else role
    span = {key: value for key, value in (("since", window.since), ("until", window.until)) if value}
    why = _WHY[asked.language][f"first.{tool}" if name == "first" else name].format(case.thread)
    if tool == "messages_list":
        listed: dict[str, Any] = {**span, **_role(said_by), "page_size": _LIST_PAGE}
        return Move(name, Call(tool, listed, why), window, said_by)
    narrowed: dict[str, Any] = {**_role(said_by), **({"time_range": span} if span else {})}
    how_many = {"top_k": _NEAREST} if tool == "semantic_search" else {"page_size": _PAGE}
    arguments = {"query_text": words or _words(asked, tool), **({"filter": narrowed} if narrowed else {}), **how_many}
    near = not words and said_by is asked.role
    return Move(name, Call(tool, arguments, why), window, said_by, near=near)


def _role(role: Role | None) -> dict[str, str]:
    return {"role": role.value} if role is not None else {}


def _around(case: Case, name: str, message_id: str, goes_on: bool) -> Move:
    arguments = {"message_id": message_id, "before": _BEFORE, "after": _AFTER}
    return Move(name, Call("neighbors", arguments, _WHY[case.asked.language][name]), goes_on=goes_on)


def _words(asked: Asked, tool: ToolName) -> str:
    """What to look for: what the question names and its other names, and the words of the area in both languages, since
    people do not keep to one."""
    mine, other = sorted(_LANGUAGES, key=lambda language: language != asked.language)
    areas = asked.areas[:3]
    spoken = " ".join(dict.fromkeys(f"{area.words[mine]} {area.words[other]}" for area in areas))
    wanted = [*asked.needles, *asked.either]
    whom = [Needle(asked.about, KIN.get(relation(asked.about), ()))] if asked.about else []
    named = query([*whom, *wanted], asked.language)
    if tool == "semantic_search":
        broad = not wanted and bool(areas) and areas[0].of_things
        return f"{areas[0].words[mine]} {asked.text}" if broad else asked.text
    plain = " ".join(run or word for run, word in pieces(asked.text))
    return " ".join(part for part in (plain, named, "" if wanted else spoken) if part)


def _strict(needles: Iterable[Needle]) -> str:
    return " AND ".join(f"({quoted(wanted.forms[:6])})" for wanted in needles)
