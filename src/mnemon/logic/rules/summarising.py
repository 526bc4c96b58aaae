"""A session in short, in its own sentences: what the user began with, what was decided, what they came to, what is
open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mnemon.contracts.drafts import Summary
from mnemon.contracts.governance import Kind
from mnemon.contracts.turns import Role, Turn
from mnemon.logic.clauses import sentences
from mnemon.logic.rules.filing import said_topics
from mnemon.logic.rules.tagging import held

_MOST = 8
_LONGEST = 240
_GREETING = 6


def summarise(turns: Sequence[Turn]) -> Summary:
    """Every sentence is verbatim, cut at a length; topics are words that fell."""
    found = [(h.reading, h.turn.text[h.reading.start : h.reading.end]) for h in held(turns)]
    decisions = _few(words for reading, words in found if reading.pattern.subtype == "decision")
    tasks = [words for reading, words in found if reading.kind is Kind.TASK]
    said = [s for turn in turns if turn.role is Role.USER for s in _said(turn) if len(s) > _GREETING]
    told = _few([*said[:1], *(d for d in decisions if not any(d in s for s in (*said[:1], *said[-1:]))), *said[-1:]])
    return Summary(
        summary="\n".join(told),
        key_topics=_few(topic for reading, _ in found for topic in said_topics(reading)),
        key_decisions=decisions,
        unresolved=_few([*tasks, *_unanswered(turns)]),
    )


def _said(turn: Turn) -> list[str]:
    return [turn.text[start:end].strip()[:_LONGEST] for start, end in sentences(turn.text)]


def _unanswered(turns: Sequence[Turn]) -> list[str]:
    """Questions of the user after which the assistant said no more."""
    open_questions: list[str] = []
    for turn in turns:
        if turn.role is Role.ASSISTANT:
            open_questions.clear()
        elif turn.role is Role.USER:
            open_questions += [said for said in _said(turn) if said.endswith(("?", "？"))]
    return open_questions


def _few(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))[:_MOST]
