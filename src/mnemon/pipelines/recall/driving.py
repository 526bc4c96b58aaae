"""Driving a flow: it says what it wants to see, the tools show it, and the budget says when that is enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from mnemon.contracts.recall import Limits, MemoryView, RecallSettings, Recollection, Round, Seen
from mnemon.logic.recall import Flow
from mnemon.pipelines.recall.tools import BoundTools

OnRound = Callable[[Round], None]

SPENT = "no calls are left"


def tell(rounds: Iterable[Round], on_round: OnRound | None) -> None:
    """Rounds, to somebody who may be listening."""
    if on_round is not None:
        for made in rounds:
            on_round(made)


async def drive(
    flow: Flow, tools: BoundTools, settings: RecallSettings, on_round: OnRound | None = None
) -> Recollection:
    """The end of the flow, with what it took. A flow that goes on asking when its calls are used up is told so, as
    often as it may ask at all; then it is ended, with nothing to say. Rounds are told as they end."""
    refused = told = 0
    try:
        call = next(flow)
        while refused < settings.max_calls:
            if call.ended is not None:
                tell([call.ended], on_round)
                told += 1
            if tools.calls < settings.max_calls:
                seen = await tools.use(call)
            else:
                refused += 1
                seen = Seen(error=SPENT)
            call = flow.send(seen)
    except StopIteration as ended:
        made: Recollection = ended.value
    else:
        flow.close()
        made = Recollection(MemoryView(), (), Limits(), (), "")
    tell(made.trace[told:], on_round)
    return replace(made, limits=tools.counted(made.limits, made.trace, refused > 0))
