"""Asking memory: one method, named strategies, and a model only where one is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar, get_args

from mnemon.contracts.errors import InvalidArgument, ModelNotConfigured
from mnemon.contracts.filters import EVERYTHING, Range, Where
from mnemon.contracts.memories import MODALITIES
from mnemon.contracts.retrieval import PromptBudget, Rerank, RetrievalResult
from mnemon.contracts.scope import Scope, checked_id
from mnemon.engine.addressing import DEFAULT_AGENT, one_of
from mnemon.engine.models import LlmChoice
from mnemon.engine.opened import OpenMemory
from mnemon.logic.hints import hint
from mnemon.logic.moments import moment_ms
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.retrieval.desk import Request
from mnemon.pipelines.retrieval.retriever import Extras
from mnemon.pipelines.retrieval.strategies import STRATEGIES
from mnemon.pipelines.write.order import LlmPolicy

Options = TypeVar("Options", Rerank, PromptBudget)

MAX_TOPK = 200


class Recollection(OpenMemory):
    async def retrieval(
        self,
        query: str,
        tenant_id: str,
        user_id: str,
        product_id: str | None = None,
        group_id: str | None = None,
        *,
        include_private: bool = False,
        strategy: str = "dialog_v1",
        topk: int = 30,
        time_range: Mapping[str, Any] | None = None,
        modality: Sequence[str] | None = None,
        with_answer: bool = False,
        task: str = "GENERAL",
        rerank: Mapping[str, Any] | Rerank | None = None,
        budget: Mapping[str, Any] | PromptBudget | None = None,
        llm: LlmChoice | None = None,
        llm_policy: LlmPolicy = "best_effort",
        agent_id: str | None = None,
        memory_api: Mapping[str, Any] | None = None,
    ) -> RetrievalResult:
        """What is remembered that bears on the query, best first, with the words that prove it and how it was found.

        `dialog_v1` is fixed for ever; `dialog_v2` is the one to choose; `auto_v1` makes a piece of prompt within
        `budget` (`{top_k, max_tokens}`); `video_v1` looks through a lifelog. In a group private memories are left out
        unless `include_private`. `time_range` is `{gte?, gt?, lte?, lt?}`. `with_answer` lets a model answer from
        the evidence, `rerank={"enabled": True}` lets it put the hits in order; without a model `llm_policy="require"`
        is an error, `"best_effort"` does without and says so. `memory_api` asks another Memory Service this once.
        """
        if memory_api is not None:
            given = {name: value for name, value in locals().items() if name not in ("self", "memory_api")}
            return await self._elsewhere(memory_api).retrieval(**given)
        one_of("strategy", strategy, tuple(STRATEGIES))
        one_of("llm_policy", llm_policy, get_args(LlmPolicy))
        if not isinstance(query, str) or not query.strip():
            raise InvalidArgument("query must be a non-empty string", field="query")
        if not 1 <= topk <= MAX_TOPK:
            raise InvalidArgument(f"topk must be between 1 and {MAX_TOPK}", field="topk")
        ranking = _options("rerank", Rerank, rerank)
        scope = _asking(tenant_id, user_id, product_id, group_id, agent_id, include_private)
        request = Request(
            query, scope, topk, _when(time_range), _kinds(modality), _options("budget", PromptBudget, budget), user_id
        )
        parts = self._open()
        extras = Extras(
            rerank=ranking,
            reranker=self._lent(llm, llm_policy, ranking.model) if ranking.enabled else None,
            with_answer=with_answer,
            task=task,
            answerer=self._lent(llm, llm_policy) if with_answer else None,
            strict=llm_policy == "require",
        )
        asked = partial(parts.retriever.retrieve, strategy, request, extras)
        result, degraded = await parts.answered(scope, asked)
        if not degraded:
            return result
        return replace(result, debug=replace(result.debug, degraded=(*degraded, *result.debug.degraded)))

    def _lent(self, llm: LlmChoice | None, policy: LlmPolicy, model: str = "") -> Asker | None:
        """The model to ask; None where there is none, or only rules, which can neither answer nor compare."""
        asker = self._parts.asker(llm, model)
        usable = asker is not None and not asker.by_rules
        if not usable and policy == "require":
            raise ModelNotConfigured(
                "answering and reranking need a language model and none is configured: pass llm={'provider': …, "
                "'model': …, 'api_key': …}, set MNEMON_LLM_PROVIDER and MNEMON_LLM_API_KEY, or do without with "
                "llm_policy='best_effort'",
                field="llm",
            )
        return asker if usable else None


def _asking(
    tenant_id: str,
    user_id: str,
    product_id: str | None,
    group_id: str | None,
    agent_id: str | None,
    include_private: bool,
) -> Scope:
    """In a group only what belongs to the group, unless the person wants their own as well."""
    checked_id("user_id", user_id)
    own = group_id is None or include_private
    return Scope.of(tenant_id, user_id if own else None, product_id, group_id, agent_id or DEFAULT_AGENT)


def _when(given: Mapping[str, Any] | None) -> Where:
    bounds = ("gte", "gt", "lte", "lt")
    for name in given or {}:
        if name not in bounds:
            raise InvalidArgument(f"time_range has no bound {name!r}{hint(str(name), bounds)}", field="time_range")
    limits = {name: moment_ms(f"time_range.{name}", (given or {}).get(name)) for name in bounds}
    return Range("ts", **limits) if any(value is not None for value in limits.values()) else EVERYTHING


def _kinds(modality: Sequence[str] | None) -> tuple[str, ...]:
    named = (modality,) if isinstance(modality, str) else tuple(modality or ())
    for name in named:
        one_of("modality", name, MODALITIES)
    return named


def _options(name: str, kind: type[Options], given: Mapping[str, Any] | Options | None) -> Options:
    if given is None:
        return kind()
    if not isinstance(given, Mapping):
        return given
    known: dict[str, type] = {f.name: type(f.default) for f in fields(kind)}
    for key, value in given.items():
        if key not in known:
            raise InvalidArgument(f"{name} has no field {key!r}{hint(str(key), known)}", field=f"{name}.{key}")
        if type(value) is not known[key]:
            raise InvalidArgument(f"{name}.{key} must be of type {known[key].__name__}", field=f"{name}.{key}")
        if isinstance(value, int) and value < 1 and known[key] is int:
            raise InvalidArgument(f"{name}.{key} must be at least 1", field=f"{name}.{key}")
    return kind(**given)
