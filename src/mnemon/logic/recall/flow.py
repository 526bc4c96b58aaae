"""The loop of recall as a generator: it yields the next call, receives what came, and returns what it came to."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from datetime import datetime

from mnemon.contracts.recall import Call, Limits, RecallSettings, Recollection, Round, Seen, Window
from mnemon.contracts.turns import Role
from mnemon.logic.recall.asking import understood
from mnemon.logic.recall.hypotheses import hypotheses
from mnemon.logic.recall.moves import Case, Step, next_move
from mnemon.logic.recall.synthesis import answer, chosen, evidence, view
from mnemon.logic.recall.tables import load, standings

Flow = Generator[Call, Seen, Recollection]

_TELLING = load("telling")
_STANDINGS = standings()


def recall_flow(question: str, settings: RecallSettings, now: datetime) -> Flow:
    """Observe, reflect, decide, until there is enough, nothing more to gain, or no call left."""
    case = Case(understood(question, settings, now), settings, now)
    trace: list[Round] = []
    while (move := next_move(case)) is not None:
        trace += _ended(case, move.call.why)
        case.take(move, (yield replace(move.call, ended=trace[-1] if trace else None)))
    trace += _ended(case, _stop(case))
    return _recollection(case, tuple(trace))


def _recollection(case: Case, trace: tuple[Round, ...]) -> Recollection:
    limits = _limits(case)
    findings = chosen(case)
    return Recollection(
        view=view(case, findings),
        evidence=evidence(case, findings),
        limits=limits,
        trace=trace,
        answer=answer(case, findings, limits.time_range, limits.role),
        read=dict(case.read),
    )


def _limits(case: Case) -> Limits:
    """The widest window that was looked at, and whose messages."""
    searches = [step.move for step in case.steps if step.move.window is not None]
    windows = [move.window for move in searches if move.window is not None]
    since = min((window.since for window in windows), default="")
    until = max((window.until for window in windows), default="") if all(w.until for w in windows) else ""
    roles = {move.role for move in searches}
    role = next(iter(roles)) if len(roles) == 1 else None
    return Limits(
        time_range=Window(since=since, until=until),
        role=role.value if isinstance(role, Role) else "",
        messages_considered=len(case.read),
        routes=tuple(dict.fromkeys(step.move.call.tool for step in case.steps)),
        rounds=case.rounds,
        calls=case.calls,
        truncated=case.spent or case.cut_short,
    )


def _ended(case: Case, decision: str) -> list[Round]:
    """The last step as a round, and what follows from it; none before the first."""
    if not case.steps:
        return []
    step = case.steps[-1]
    return [
        Round(
            number=case.rounds,
            hypotheses=hypotheses(case.asked),
            tool=step.move.call.tool,
            arguments=step.move.call.arguments,
            why=step.move.call.why,
            found=len(step.seen.messages),
            reflection=tuple(_reflection(case, step)),
            decision=decision,
        )
    ]


def _stop(case: Case) -> str:
    words = _TELLING["stop"][case.asked.language]
    return str(
        words["enough"] if case.findings else words["budget"] if case.spent or case.cut_short else words["nothing"]
    )


def _reflection(case: Case, step: Step) -> list[str]:
    """What this round means: relevance, context, repetition, conflict (003 §4.4)."""
    words, why_not = _TELLING["reflection"][case.asked.language], _STANDINGS[case.asked.language]
    if step.seen.error:
        return [words["error"].format(step.seen.error)]
    found = len(step.seen.messages)
    said = [words["relevance"].format(found, step.fits) if step.fits else words["none"]]
    if step.rejected:
        names = (why_not[fit.saying.standing] for fit in step.rejected)
        said.append(words["rejected"].format(len(step.rejected), ", ".join(dict.fromkeys(names))))
    if step.fits and step.move.call.tool != "neighbors":
        said.append(words["context"])
    if found and not step.new:
        said.append(words["repeated"])
    if not step.fits and step.move.window not in (None, case.asked.windows.steps[-1]):
        said.append(words["coverage"])
    if step.conflict:
        said.append(words["conflict"])
    if step.seen.more:
        said.append(words["more"])
    return said
