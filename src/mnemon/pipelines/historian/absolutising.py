"""The rewrite of a bot's turn: asked for, checked, asked for again, and in the end taken as it is, or done by rules."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mnemon.contracts.chats import Absolute, EndCall
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Scope
from mnemon.logic import chats
from mnemon.logic.chats import Maker
from mnemon.pipelines.ask import Asker, Rules
from mnemon.pipelines.tasks import ABSOLUTISE


@dataclass(frozen=True, slots=True)
class Rewrite:
    made: Absolute
    is_absolute: bool
    unresolved: tuple[str, ...]
    rewrites: int
    maker: Maker
    degraded: tuple[Degraded, ...] = ()


async def absolutise(asker: Asker, scope: Scope, call: EndCall, retries: int) -> Rewrite:
    """What is not absolute after the last try is kept and marked. What says more than the words do is not kept: the
    rules' own rewrite takes its place."""
    task = replace(ABSOLUTISE, retries=retries)
    if asker.by_rules:  # they have nothing to say that was not said
        task = replace(task, check=lambda _, made: chats.not_absolute(made))
    answer = await asker.ask(task, call, scope)
    used = asker.llm_used
    maker = Maker(used["provider"], used["model"], answer.trace.prompt_version)
    made, degraded = answer.output, []
    if made is None or any(not chats.is_relative(v) for v in answer.violations):
        wrong = ", ".join(dict.fromkeys(v.rule for v in answer.violations))
        degraded.append(Degraded("rewrite", f"no rewrite could be kept ({wrong}); the rules made one"))
        made, rules = chats.by_rules(call), Rules()
        maker = Maker(rules.provider, rules.model)
    left = chats.not_absolute(made)
    if left:
        words = ", ".join(dict.fromkeys(v.actual for v in left))
        degraded.append(Degraded("absolutise", f"kept with words only the moment explains: {words}"))
    by_rules = maker.provider == Rules().provider
    return Rewrite(made, not left, _unresolved(call) if by_rules else (), answer.trace.retries, maker, tuple(degraded))


def _unresolved(call: EndCall) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for part in chats.resolved(call) for word in part.unresolved))
