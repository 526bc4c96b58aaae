"""A model that recalls with the message tools: step by step, within its budgets, and through the gates."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.recall import (
    Call,
    Hypothesis,
    Limits,
    RecallSettings,
    Recollection,
    Round,
    Seen,
    ToolName,
    Window,
)
from mnemon.contracts.scope import Scope
from mnemon.logic.moments import moment_of
from mnemon.logic.skills import Skill
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.recall.driving import OnRound, tell
from mnemon.pipelines.recall.looking import PAGE, Looking
from mnemon.pipelines.recall.steps import STEP, Step, StepInput
from mnemon.pipelines.recall.synthesis import told_answer, viewed
from mnemon.pipelines.recall.tools import TOOLS, BoundTools, checked

_THOUGHT = 300
_SIZES = frozenset({"page_size", "top_k", "before", "after"})
_TOLD = {
    "zh": {"found": "{found} 条，{fresh} 条是新的", "again": "再看：{tool}", "final": "给出结果"},
    "en": {"found": "{found} messages, {fresh} of them new", "again": "look again: {tool}", "final": "give the result"},
}


class NotToBeUsed(Exception):
    """What the model said did not pass the gates, also when it was told what was wrong."""


@dataclass(slots=True)
class Agent:
    """Made for one recall."""

    question: str
    settings: RecallSettings
    skill: Skill
    asker: Asker
    tools: BoundTools
    scope: Scope
    now: datetime
    on_round: OnRound | None = None
    _looking: Looking = field(default_factory=Looking)
    _asked: set[str] = field(default_factory=set)
    _rounds: list[Round] = field(default_factory=list)
    _hypotheses: tuple[Hypothesis, ...] = ()

    async def recall(self) -> Recollection:
        while True:
            given = StepInput(self.question, self.settings, self.skill, self._looking, self._calls_left(), self.now)
            answered = await self.asker.ask(STEP, given, self.scope)
            step = answered.output
            if step is None or answered.violations:
                raise NotToBeUsed("; ".join(dict.fromkeys(found.rule for found in answered.violations)))
            self._close_round(step, _TOLD[given.language])
            if step.final is None:
                await self._look(step, _TOLD[given.language])
                continue
            view, evidence = viewed(step.final, given.gate, given.language)
            limits = self.tools.counted(self._covered(), self._rounds, given.calls_left == 0)
            answer = told_answer(view, evidence, given.language)
            return Recollection(view, evidence, limits, tuple(self._rounds), answer, self.tools.read)

    def _calls_left(self) -> int:
        """None, too, where another look would leave no tokens to answer with: a step costs at least what the one
        before it did."""
        last = self.asker.traces[-1] if self.asker.traces else None
        cost = last.input_tokens + last.output_tokens if last else 0
        rounds = self._rounds[-1].number if self._rounds else 0
        if self.asker.spent.tokens + 2 * cost > self.settings.max_tokens or rounds >= self.settings.max_rounds:
            return 0
        return max(self.settings.max_calls - self.tools.calls, 0)

    async def _look(self, step: Step, told: Mapping[str, str]) -> None:
        """Use the tool, if it can be used so; what cannot is told back and counted, and not carried out."""
        try:
            arguments = self._prepared(step)
        except InvalidArgument as wrong:
            self.tools.calls += 1
            arguments, seen = {}, Seen(error=wrong.message)
        else:
            seen = await self.tools.use(Call(cast(ToolName, step.tool), arguments))
        fresh = self._looking.add(step.tool, arguments or step.arguments, seen)
        if step.tool not in TOOLS:
            return
        self._hypotheses = step.hypotheses or self._hypotheses
        found = told["found"].format(found=len(seen.messages), fresh=fresh)
        before = self._rounds[-1] if self._rounds else None
        goes_on = before is not None and before.tool == step.tool == "neighbors"
        self._rounds.append(
            Round(
                number=(before.number if before else 0) + (not goes_on),
                hypotheses=self._hypotheses,
                tool=cast(ToolName, step.tool),
                arguments=arguments,
                why=step.thought[:_THOUGHT],
                found=len(seen.messages),
                reflection=(seen.error or found,),
            )
        )

    def _close_round(self, step: Step, told: Mapping[str, str]) -> None:
        """What follows from a round is known with the next step."""
        if not self._rounds or self._rounds[-1].decision:
            return
        decision = told["final"] if step.final is not None else told["again"].format(tool=step.tool[:_THOUGHT])
        self._rounds[-1] = self._rounds[-1].model_copy(update={"decision": decision})
        tell(self._rounds[-1:], self.on_round)

    def _prepared(self, step: Step) -> dict[str, Any]:
        """The arguments as they are sent: a label as the id it stands for, no page larger than can be shown, no time
        outside the one that was asked for, and nothing twice."""
        arguments = checked(step.tool, step.arguments)
        for size in _SIZES & arguments.keys():
            arguments[size] = min(arguments[size], PAGE)
        if step.tool == "neighbors":
            message = self._looking.message(arguments["message_id"])
            if message is None:
                raise InvalidArgument("message_id is none of the messages that were shown", field="message_id")
            arguments["message_id"] = message.message_id
        elif step.tool == "messages_list":
            arguments |= self._within(arguments)
        else:
            wanted = arguments.get("filter", {})
            if span := self._within(wanted.get("time_range", {})):
                arguments["filter"] = {**wanted, "time_range": span}
        said = json.dumps([step.tool, arguments], sort_keys=True)
        if said in self._asked:
            raise InvalidArgument("this was asked before, and its answer is above", field="arguments")
        self._asked.add(said)
        return arguments

    def _within(self, span: Mapping[str, Any]) -> dict[str, str]:
        """A stretch of time, cut to the one that was asked for."""
        times = {
            "since": _bound(max, span.get("since"), self.settings.since),
            "until": _bound(min, span.get("until"), self.settings.until),
        }
        return {name: moment for name, moment in times.items() if moment}

    def _covered(self) -> Limits:
        """The stretch of time and the role that all searches together looked at."""
        spans: list[Mapping[str, Any]] = []
        roles: set[str] = set()
        for made in self._rounds:
            if made.tool != "neighbors" and made.arguments:
                wanted = made.arguments if made.tool == "messages_list" else made.arguments.get("filter", {})
                spans.append(wanted if made.tool == "messages_list" else wanted.get("time_range", {}))
                roles.add(wanted.get("role", ""))
        bounds = {
            name: choose(moments, key=_at)
            for name, choose in (("since", min), ("until", max))
            if all(moments := [str(span.get(name) or "") for span in spans]) and moments
        }
        return Limits(time_range=Window(**bounds), role=roles.pop() if len(roles) == 1 else "")


def _bound(choose: Callable[..., str], *moments: str | None) -> str:
    given = [moment for moment in moments if moment]
    return choose(given, key=_at) if given else ""


def _at(moment: str) -> datetime:
    return moment_of("time_range", moment)
