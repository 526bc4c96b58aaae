"""Stage 2: which words are worth keeping, judged in windows and settled as one. A bad tag goes, the words stay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mnemon.contracts.commits import Rejected
from mnemon.contracts.models import Violation
from mnemon.contracts.scope import Scope
from mnemon.contracts.tags import TaggingStats, ValueTaggingOutput
from mnemon.contracts.turns import Turn
from mnemon.logic import rules
from mnemon.logic.evidence import Conversation
from mnemon.logic.tagging import REMEMBER, TagInput, settle
from mnemon.pipelines.ask import Answer, Asker
from mnemon.pipelines.tasks import TAGGING

# What one call to a model is given at most.
WINDOW_TURNS = 80
WINDOW_CHARACTERS = 24_000


@dataclass(frozen=True, slots=True)
class Tagged:
    """`degraded` says what a model got wrong to the last; of the turns in `unread` it said nothing that can be read."""

    output: ValueTaggingOutput
    rejected: tuple[Rejected, ...] = ()
    degraded: str = ""
    unread: frozenset[str] = frozenset()


async def tag(
    asker: Asker, scope: Scope, session_id: str, subjects: Sequence[str], conversation: Conversation
) -> Tagged:
    whole = conversation.turns
    parts = [whole] if asker.by_rules else list(windows(whole))
    given = [TagInput(session_id, tuple(part)) for part in parts]
    answers = await asyncio.gather(*(asker.ask(TAGGING, part, scope) for part in given))
    outputs: list[ValueTaggingOutput] = []
    wrong: list[Violation] = []
    dropped: list[Rejected] = []
    unread: set[str] = set()
    for part, answer in zip(given, answers, strict=True):
        bad = [v for v in answer.violations if v.rule != REMEMBER]
        if answer.output is None:
            outputs.append(everything(session_id, part.turns))
            unread |= {turn.turn_id for turn in part.turns}
            wrong += bad
            continue
        # What is wrong with the lists alone is put right when they are settled.
        wrong += [v for v in bad if v.item is not None]
        dropped += _told(answer, bad)
        outputs += [_without(answer.output, bad, part) if bad else answer.output, *_honoured(part, answer)]
    output, rejected = settle(conversation, session_id, subjects, outputs)
    return Tagged(output, (*dropped, *rejected), _why(wrong) if wrong or unread else "", frozenset(unread))


def _without(output: ValueTaggingOutput, wrong: Sequence[Violation], given: TagInput) -> ValueTaggingOutput:
    """The good tags. What the rest was about is not judged, so all that is not plainly dropped counts as kept."""
    bad = {v.item for v in wrong}
    tags = tuple(tag for n, tag in enumerate(output.tags) if n not in bad)
    dropped = {*output.dropped_turn_ids} - {*output.kept_turn_ids, *(tag.turn_id for tag in output.tags)}
    kept = tuple(turn.turn_id for turn in given.turns if turn.turn_id not in dropped)
    return output.model_copy(update={"tags": tags, "kept_turn_ids": kept})


def windows(turns: Sequence[Turn]) -> Iterator[tuple[Turn, ...]]:
    """Stretches small enough for one call."""
    part: list[Turn] = []
    size = 0
    for turn in turns:
        if part and (len(part) >= WINDOW_TURNS or size + len(turn.text) > WINDOW_CHARACTERS):
            yield tuple(part)
            part, size = [], 0
        part.append(turn)
        size += len(turn.text)
    if part:
        yield tuple(part)


def everything(session_id: str, turns: Sequence[Turn]) -> ValueTaggingOutput:
    """Turns that are kept and not judged: all of a session (`stages="off"`), or those a model gave no answer about."""
    kept = tuple(turn.turn_id for turn in turns)
    return ValueTaggingOutput(
        session_id=session_id, kept_turn_ids=kept, stats=TaggingStats(input_turns=len(kept), kept_turns=len(kept))
    )


def _honoured(given: TagInput, answer: Answer[ValueTaggingOutput]) -> list[ValueTaggingOutput]:
    """What the user asked to remember and the model would not: the rules tag it, or the whole turn."""
    missed = {v.where.removeprefix("turn ") for v in answer.violations if v.rule == REMEMBER}
    if not missed:
        return []
    return [rules.tag([turn for turn in given.turns if turn.turn_id in missed], given.session_id)]


def _told(answer: Answer[ValueTaggingOutput], wrong: Sequence[Violation]) -> tuple[Rejected, ...]:
    tags = answer.output.tags if answer.output else ()
    bad = {v.item: str(v) for v in wrong if v.item is not None}
    return tuple(
        Rejected("tag", tags[n].span.text_exact, why, (tags[n].turn_id,)) for n, why in bad.items() if n < len(tags)
    )


def _why(wrong: Sequence[Violation]) -> str:
    return f"the model's tags failed the gates twice ({'; '.join(str(v) for v in wrong[:3]) or 'no usable answer'})"
