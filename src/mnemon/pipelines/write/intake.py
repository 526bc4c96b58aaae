"""Stage 1 as a whole: a raw export in, checked and denoised turns out, or an error that says where it is broken."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mnemon.contracts.results import DroppedTurn, MaskedText
from mnemon.contracts.turns import InputFormat, Turn
from mnemon.logic.adapters import normalise
from mnemon.logic.denoise import Denoised, DenoiseRules, OutputCheck, denoise
from mnemon.logic.redaction import Redactor
from mnemon.pipelines.write.source import Raw, opened
from mnemon.pipelines.write.spool import Spool

# How many dropped turns and masks a result lists; beyond that it counts.
LISTED = 1000


@dataclass(slots=True)
class Intake:
    """What stage 1 made of an input. `named` is how many of its turns brought ids of their own."""

    spool: Spool = field(default_factory=Spool)
    named: int = 0
    dropped: list[DroppedTurn] = field(default_factory=list)
    dropped_count: int = 0
    masked: list[MaskedText] = field(default_factory=list)
    masked_count: int = 0


def take_in(
    raw: Raw, input_format: str | InputFormat | None, rules: DenoiseRules | None, redactor: Redactor | None
) -> Intake:
    """Parse, redact, denoise (with `rules`), check. Blocking; nothing is stored until all is known to be good."""
    intake = Intake()
    check = OutputCheck()

    def named() -> None:
        intake.named += 1

    with opened(raw) as source:
        turns: Iterable[Turn] = normalise(source, input_format, named)
        if redactor is not None:
            turns = _redacted(turns, redactor, intake)
        for step in denoise(turns, rules) if rules is not None else (Denoised(turn=t) for t in turns):
            if step.dropped is not None:
                _list_dropped(intake, DroppedTurn(step.dropped.turn_id, step.dropped.reason, step.dropped.raw_path))
            if step.turn is not None:
                check.add(step.turn)
                intake.spool.add(step.turn, step.blobs)
    check.finish()
    return intake


def _redacted(turns: Iterable[Turn], redactor: Redactor, intake: Intake) -> Iterable[Turn]:
    for turn in turns:
        clean, masked = redactor(turn)
        for mask in masked:
            intake.masked_count += mask.count
            if len(intake.masked) < LISTED:
                intake.masked.append(MaskedText(mask.turn_id, mask.pattern, mask.count))
        yield clean


def _list_dropped(intake: Intake, dropped: DroppedTurn) -> None:
    intake.dropped_count += 1
    if len(intake.dropped) < LISTED:
        intake.dropped.append(dropped)
