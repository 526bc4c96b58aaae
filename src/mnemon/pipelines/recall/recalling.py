"""The whole of one recall: a model plans where there is one, the rules where there is none or where it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from mnemon.contracts.errors import MnemonError, ResourceExhausted, Unavailable
from mnemon.contracts.filters import Eq
from mnemon.contracts.ports import Clock, Index
from mnemon.contracts.recall import RecallResult, RecallSettings, Recollection
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Scope
from mnemon.logic.recall import Flow, recall_flow
from mnemon.logic.skills import Skill
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.index.projection import TURN
from mnemon.pipelines.messages import MessageTools
from mnemon.pipelines.recall.agent import Agent, NotToBeUsed
from mnemon.pipelines.recall.driving import OnRound, drive, tell
from mnemon.pipelines.recall.tools import BoundTools

Planner = Literal["auto", "rules"]


class Elsewhere(Protocol):
    """Where the messages are kept, and can be recalled from without a model of ours; None where it has not that
    skill."""

    async def recall(
        self, scope: Scope, question: str, settings: RecallSettings, skill: Skill, planner: Planner
    ) -> RecallResult | None: ...


@dataclass(frozen=True, slots=True)
class Recaller:
    messages: MessageTools
    clock: Clock
    elsewhere: Elsewhere | None = None
    index: Index | None = None
    flow: Callable[[str, RecallSettings, datetime], Flow] = recall_flow

    async def recall(
        self,
        scope: Scope,
        question: str,
        settings: RecallSettings,
        asker: Asker | None,
        skill: Skill,
        on_round: OnRound | None = None,
        strict: bool = False,
    ) -> RecallResult:
        """`strict` lets a model's failure be an error; else the rules stand in, and it is said so."""
        if asker is None or asker.by_rules:
            return await self._by_rules(scope, question, settings, skill, on_round, "rules" if asker else "auto")
        tools = BoundTools(self.messages, scope)
        agent = Agent(question, settings, skill, asker, tools, scope, self.clock.now(), on_round)
        try:
            made = await agent.recall()
        except NotToBeUsed as refused:
            why = f"what the model said could not be used: {refused}"
        except ResourceExhausted:
            why = "the model used up its tokens before it had a result"
        except MnemonError as error:
            if strict:
                raise
            why = f"llm_error: {error}"
        else:
            if made.view.items():
                return await self._result(scope, question, made, tools, "model", asker)
            why = ""
        # Also where the model found nothing: messages can ask it to.
        stood_in = await self._by_rules(scope, question, settings, skill, on_round, "rules")
        if not why and not stood_in.memory_view.items():
            return stood_in.model_copy(update={"planner": "model", "llm_used": _used(asker)})
        degraded = Degraded("planner", why or "the model found nothing, the rules did")
        return stood_in.model_copy(update={"degraded": (degraded, *stood_in.degraded), "llm_used": _used(asker)})

    async def _by_rules(
        self,
        scope: Scope,
        question: str,
        settings: RecallSettings,
        skill: Skill,
        on_round: OnRound | None,
        planner: Planner,
    ) -> RecallResult:
        found = self.elsewhere and await self.elsewhere.recall(scope, question, settings, skill, planner)
        if found:
            tell(found.trace, on_round)
            return found
        tools = BoundTools(self.messages, scope)
        made = await drive(self.flow(question, settings, self.clock.now()), tools, settings, on_round)
        if tools.fruitless:
            raise tools.failures[0][1]
        return await self._result(scope, question, made, tools, "rules")

    async def _result(
        self,
        scope: Scope,
        question: str,
        made: Recollection,
        tools: BoundTools,
        planner: Literal["rules", "model"],
        asker: Asker | None = None,
    ) -> RecallResult:
        failed = {tool: error.message for tool, error in tools.failures if isinstance(error, Unavailable)}
        there = await self.index.count(scope, Eq("kind", TURN)) if self.index else None
        return RecallResult(
            question=question,
            answer=made.answer,
            memory_view=made.view,
            evidence=made.evidence,
            limits=made.limits.model_copy(update={"messages_in_scope": there}),
            trace=made.trace,
            degraded=tuple(Degraded(tool, why) for tool, why in failed.items()),
            planner=planner,
            llm_used=_used(asker) if asker else None,
        )


def _used(asker: Asker) -> dict[str, Any]:
    """Which model, and what it took."""
    spent = asker.spent
    cost = {"steps": len(asker.traces), "input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
    return {**asker.llm_used, **cost}
