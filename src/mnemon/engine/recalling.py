"""Recalling: a question about somebody, answered from their own words, step by step if one wants to watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, get_args

from mnemon.contracts.errors import InvalidArgument, ModelNotConfigured
from mnemon.contracts.recall import RecallResult, RecallSettings, Round
from mnemon.contracts.scope import Scope, checked_id
from mnemon.engine.addressing import one_of
from mnemon.engine.config import RecallConfig
from mnemon.engine.models import LlmChoice
from mnemon.engine.opened import OpenMemory
from mnemon.logic.hints import hint
from mnemon.logic.language import language_of
from mnemon.logic.moments import moment_of
from mnemon.logic.skills import ROLES, Skill, role_of
from mnemon.pipelines.recall.loading import DEFAULT, load_skill
from mnemon.pipelines.write.order import LlmPolicy

MAX_QUESTION = 2_000
Context = Mapping[str, Any]
_Recall = Callable[..., Coroutine[Any, Any, RecallResult]]


class Recalling(OpenMemory):
    async def recall(
        self,
        question: str,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        *,
        context: Context | None = None,
        skill: str | Path | None = None,
        llm: LlmChoice | None = None,
        llm_policy: LlmPolicy = "best_effort",
        explain: bool = True,
    ) -> RecallResult:
        """What somebody's messages say to a question: a view in which every point carries their own words, what
        speaks against it and why that does not count, how far was looked (`limits`), and every round (`trace`).

        Without a model, or with `llm="rules"`, a deterministic planner looks; a model does it under a recall skill
        (`skill` is a name or a folder with `SKILL.md`), and what it says leaves only through gates. `context` is
        `{time_range?: {since?, until?}, role_pref?}`: where to look, and whose words count (`any` for everybody's).
        `explain=False` leaves the rounds out."""
        named = (tenant_id, user_id, product_id, group_id)
        result = await self._recalling(question, named, context, skill, llm, llm_policy)()
        return result if explain else result.model_copy(update={"trace": ()})

    def recall_rounds(
        self,
        question: str,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        *,
        context: Context | None = None,
        skill: str | Path | None = None,
        llm: LlmChoice | None = None,
        llm_policy: LlmPolicy = "best_effort",
    ) -> AsyncGenerator[Round | RecallResult, None]:
        """The same, round by round as they happen, and the result last; who stops listening ends it."""
        named = (tenant_id, user_id, product_id, group_id)
        return _told(self._recalling(question, named, context, skill, llm, llm_policy))

    def _recalling(
        self,
        question: str,
        named: tuple[str, str, str | None, str | None],
        context: Context | None,
        skill: str | Path | None,
        llm: LlmChoice | None,
        llm_policy: LlmPolicy,
    ) -> _Recall:
        """A recall that can begin: everything is checked before anything is looked at."""
        if not isinstance(question, str) or not question.strip():
            raise InvalidArgument("question must be a non-empty string", field="question")
        if len(question) > MAX_QUESTION:
            raise InvalidArgument(f"question is longer than {MAX_QUESTION} characters", field="question")
        one_of("llm_policy", llm_policy, get_args(LlmPolicy))
        checked_id("user_id", named[1])
        scope = Scope.of(*named)
        parts = self._open()
        loaded = load_skill(DEFAULT if skill is None else skill, language_of(question))
        settings = _settings(parts.config.recall, loaded, context or {})
        asker = parts.asker(llm, max_tokens=settings.max_tokens)
        if asker is None and llm_policy == "require":
            raise ModelNotConfigured(
                "llm_policy='require' asks for a language model and none is configured: pass llm={'provider': …, "
                "'model': …, 'api_key': …}, set MNEMON_LLM_PROVIDER and MNEMON_LLM_API_KEY, or do without with "
                "llm_policy='best_effort'",
                field="llm",
            )
        strict = llm_policy == "require"
        asked = partial(parts.recaller.recall, scope, question, settings, asker, loaded, strict=strict)

        async def recall(**options: Any) -> RecallResult:
            result, degraded = await parts.answered(scope, partial(asked, **options))
            return result.model_copy(update={"degraded": (*degraded, *result.degraded)}) if degraded else result

        return recall


async def _told(recall: _Recall) -> AsyncGenerator[Round | RecallResult, None]:
    rounds: asyncio.Queue[Round | None] = asyncio.Queue()
    task = asyncio.create_task(recall(on_round=rounds.put_nowait))
    task.add_done_callback(lambda _: rounds.put_nowait(None))
    try:
        while (made := await rounds.get()) is not None:
            yield made
        yield await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _settings(config: RecallConfig, skill: Skill, context: Context) -> RecallSettings:
    """What is configured, what the skill makes of it, and what this call asks for."""
    settings = skill.settings(RecallSettings(**asdict(config)))
    _known("context", context, ("time_range", "role_pref"))
    span = context.get("time_range") or {}
    if not isinstance(span, Mapping):
        raise InvalidArgument("context.time_range must be {since?, until?}", field="context.time_range")
    _known("context.time_range", span, ("since", "until"))
    since, until = (_moment(span, name) for name in ("since", "until"))
    if since and until and since >= until:
        raise InvalidArgument("context.time_range.since must be before until", field="context.time_range.since")
    role = context.get("role_pref")
    if role is not None:
        one_of("context.role_pref", role, ROLES)
        settings = replace(settings, role=role_of(str(role)))
    return replace(settings, since=since, until=until)


def _moment(span: Mapping[str, Any], name: str) -> str:
    """In UTC, so that times can be compared as they stand."""
    given = span.get(name)
    return "" if given is None else moment_of(f"context.time_range.{name}", given).astimezone(UTC).isoformat()


def _known(name: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            raise InvalidArgument(f"{name} has no field {key!r}{hint(str(key), known)}", field=f"{name}.{key}")
