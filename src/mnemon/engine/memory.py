"""The front door, asynchronous: each method checks what it is given, tells one story, and says what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from mnemon.contracts.commits import CommitOptions, CommitResult
from mnemon.contracts.errors import CommitError, InvalidArgument, ModelNotConfigured, StorageFailed
from mnemon.contracts.reports import Degraded
from mnemon.contracts.results import SessionWriteResult
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import InputFormat, Turn
from mnemon.engine.addressing import DEFAULT_AGENT, Visibility, addressed, one_of, source_of, traced
from mnemon.engine.bound import AsyncBoundMemory
from mnemon.engine.build import redactor
from mnemon.engine.doors import Doors
from mnemon.engine.entries import AsyncEntries, Entries
from mnemon.engine.graph import AsyncGraphView, Graphing
from mnemon.engine.knowledge import Knowledge
from mnemon.engine.models import LlmChoice
from mnemon.engine.parts import Parts
from mnemon.engine.recalling import Recalling
from mnemon.engine.recollection import Recollection
from mnemon.engine.summaries import Summaries
from mnemon.engine.upkeep import Upkeep
from mnemon.logic.toolwork import told_of
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.govern import quotas
from mnemon.pipelines.write.intake import Intake, take_in
from mnemon.pipelines.write.order import GraphPolicy, LlmPolicy, Mode, Stages, Wait, WriteOrder
from mnemon.pipelines.write.source import Raw
from mnemon.pipelines.write.telling import committed, told


class AsyncMemory(Entries, Graphing, Knowledge, Recalling, Recollection, Summaries, Upkeep):
    """Long-term memory. `AsyncMemory("./data")`; `":memory:"` for a test; `AsyncMemory("http://host:8700", token=…)`
    for one that a Memory Service keeps."""

    # --- writing

    async def session_write(
        self,
        tenant_id: str,
        user_id: str,
        session_id: str,
        *,
        turns: Sequence[Turn | Mapping[str, Any]] | None = None,
        raw: Raw | None = None,
        input_format: str | InputFormat | None = None,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
        visibility: Visibility = "private",
        extract: bool = True,
        write_events: bool = True,
        write_facts: bool = True,
        graph_upsert: bool = True,
        graph_policy: GraphPolicy = "best_effort",
        overwrite_existing: bool = False,
        mode: Mode = "once",
        cleanup_on_failure: bool = False,
        llm: LlmChoice | None = None,
        llm_policy: LlmPolicy = "require",
        stages: Stages = "full",
        redact: bool | None = None,
        wait: Wait = "indexed",
        memory_api: Mapping[str, Any] | None = None,
        trace_id: str | None = None,
    ) -> SessionWriteResult:
        """Keep a conversation word for word, work out what is worth remembering, and make both findable.

        `turns` are canonical turns; anything else comes as `raw` (text, bytes, a `Path`, an open file, parsed data)
        with its `input_format`. `stages="off"` keeps every turn as it is; `"full"` denoises and judges first. A session
        that is complete is not written again, except to make up for what a model owes: `mode="append"` adds the turns
        it has not seen (those without ids by what they say: a transcript that has grown gives its end, anything else
        follows), `overwrite_existing=True` extracts anew. With `wait="archived"` the words are durable and found as
        words; the rest is left to a worker. `extract=False` keeps the words only. `graph_upsert` tells the temporal
        graph of it too; with `graph_policy="require"` a session the graph does not take is failed, not completed, and
        can be written again. `memory_api` (`{base_url, auth_headers?, timeout_s?}`) writes it to another Memory
        Service. `trace_id` is your name for this call, in its job, its commit record, its log lines and its result.
        """
        if memory_api is not None:
            given = {name: value for name, value in locals().items() if name not in ("self", "memory_api")}
            return await self._elsewhere(memory_api).session_write(**given)
        key, principals, scope = addressed(tenant_id, user_id, session_id, product_id, group_id, agent_id, visibility)
        scope = traced(scope, trace_id)
        for name, value, kind in (
            ("stages", stages, Stages),
            ("mode", mode, Mode),
            ("wait", wait, Wait),
            ("llm_policy", llm_policy, LlmPolicy),
            ("graph_policy", graph_policy, GraphPolicy),
        ):
            one_of(name, value, get_args(kind))
        order = WriteOrder(
            extract=extract,
            write_events=write_events,
            write_facts=write_facts,
            graph_upsert=graph_upsert,
            graph_policy=graph_policy,
            stages=stages,
            mode=mode,
            overwrite=overwrite_existing,
            cleanup_on_failure=cleanup_on_failure,
            llm_policy=llm_policy,
            wait=wait,
            agent_id=agent_id or DEFAULT_AGENT,
            trace_id=scope.trace_id,
        )
        parts = self._at_work()
        asker = self._asker(llm, llm_policy) if extract else None
        self._check_wait(wait, asker)
        intake = await self._taken_in(turns, raw, input_format, stages, redact)
        try:
            await quotas.check(parts.index, parts.config.quotas, tenant_id, key.owner, intake.spool.count)
            telling = await parts.writer.write(scope, key, principals, intake, order, asker, lent=llm is not None)
        finally:
            intake.spool.close()
        if wait == "archived" and self._worker is not None:
            self._worker.wake()
        return _with_notices(told(telling), parts)

    async def commit_session(
        self,
        tenant_id: str,
        user_id: str,
        session_id: str,
        messages: Sequence[Mapping[str, Any]] | None = None,
        *,
        turns: Sequence[Turn | Mapping[str, Any]] | None = None,
        raw: Raw | None = None,
        input_format: str | InputFormat | None = None,
        product_id: str | None = None,
        group_id: str | None = None,
        agent_id: str | None = None,
        visibility: Visibility = "private",
        used_contexts: Sequence[str] | None = None,
        used_tools: Sequence[Mapping[str, Any]] | None = None,
        options: CommitOptions | None = None,
        llm: LlmChoice | None = None,
        redact: bool | None = None,
        trace_id: str | None = None,
    ) -> CommitResult:
        """The same write in the words of a commit: a session as far as it goes, with its archive, the nodes it
        touched and what is owed to the index. `messages` are `{role, content}`; a later commit of the same session
        sends all of them again, or turns with ids of their own. `used_tools` are the calls of this round, or their
        sums, a tool each: `{name, ok?, duration_ms?, tokens?}` or `{name, call_count, success_count, …}`.

        Raises `CommitError` when the archive, the extraction or the plan fails: no memory was changed then. A memory
        that cannot be written is passed over and named; the status is `partial`, and the same call again completes it.
        """
        key, principals, scope = addressed(tenant_id, user_id, session_id, product_id, group_id, agent_id, visibility)
        scope = traced(scope, trace_id)
        if messages is not None:
            if turns is not None or raw is not None:
                raise InvalidArgument("give either messages, turns or raw", field="messages")
            raw, input_format = [dict(m) for m in messages], InputFormat.OPENAI_MESSAGES
        parts = self._at_work()
        chosen = options or CommitOptions()
        config = parts.config.commit
        chosen = replace(
            chosen,
            dry_run=chosen.dry_run or config.dry_run,
            skip_dedup=chosen.skip_dedup or not config.enable_dedup,
            skip_relations=chosen.skip_relations or not config.enable_relations,
        )
        order = WriteOrder(
            mode="append",
            capped=True,
            agent_id=agent_id or DEFAULT_AGENT,
            options=chosen,
            used_contexts=tuple(used_contexts or ()),
            used_tools=tuple(dict(tool) for tool in used_tools or ()),
            trace_id=scope.trace_id,
        )
        told_of(order.used_tools)
        asker = self._asker(llm, "require")
        assert asker is not None
        intake = await self._taken_in(turns, raw, input_format, "full", redact)
        try:
            await quotas.check(parts.index, parts.config.quotas, tenant_id, key.owner, intake.spool.count)
            if chosen.dry_run:
                telling = await parts.writer.rehearse(scope, key, principals, intake, order, asker)
            else:
                telling = await parts.writer.write(scope, key, principals, intake, order, asker)
        except StorageFailed as error:
            raise CommitError(error.message, phase="archive", cause=error.code, **error.details) from error
        finally:
            intake.spool.close()
        if telling.error is not None and telling.error.phase != "write":
            raise telling.error
        return committed(telling)

    def _asker(self, llm: LlmChoice | None, policy: LlmPolicy) -> Asker | None:
        """Before the first byte is written: is there a model, or may one be missing?"""
        asker = self._parts.asker(llm)
        if asker is None and policy == "require":
            raise ModelNotConfigured(
                "this needs a language model and none is configured: pass llm='rules' to do without one, "
                "llm={'provider': …, 'model': …, 'api_key': …}, set MNEMON_LLM_PROVIDER and MNEMON_LLM_API_KEY, "
                "or keep the words only with extract=False or llm_policy='best_effort'",
                field="llm",
            )
        return asker

    def _check_wait(self, wait: Wait, asker: Asker | None) -> None:
        if self._parts.service is not None and wait == "archived" and asker is not None:
            raise InvalidArgument(
                "the service has not your model: write with wait='indexed', or let the service do it all "
                "(POST /v1/sessions)",
                field="wait",
            )

    async def _taken_in(
        self,
        turns: Sequence[Turn | Mapping[str, Any]] | None,
        raw: Raw | None,
        input_format: str | InputFormat | None,
        stages: Stages,
        redact: bool | None,
    ) -> Intake:
        source, form = source_of(turns, raw, input_format)
        config = self._parts.config
        mask = redactor(config) if (config.redact if redact is None else redact) else None
        given = source, form, config.denoise if stages == "full" else None, mask
        if isinstance(source, list) and _is_little(source):
            return take_in(*given)  # over before a thread would have started
        return await asyncio.to_thread(take_in, *given)

    # --- reading

    def bind(
        self, tenant_id: str, user_id: str, product_id: str | None = None, group_id: str | None = None
    ) -> AsyncBoundMemory:
        """The message tools for one person: nothing they are asked can reach beyond this scope."""
        return AsyncBoundMemory(self._open, Scope.of(tenant_id, user_id, product_id, group_id))

    def doors(self, scope: Scope) -> Doors:
        """Everything a scope may do, for a surface that has one of its own."""
        made = AsyncBoundMemory(self._open, scope), AsyncEntries(self._open, scope), AsyncGraphView(self._open, scope)
        return Doors(*made)


def _is_little(rows: Sequence[Any]) -> bool:
    """A turn or two of a chat, not a pasted book."""
    texts = (row.get("text") for row in rows if isinstance(row, Mapping))
    return len(rows) <= 4 and all(isinstance(text, str) and len(text) <= 2_000 for text in texts)


def _with_notices(result: SessionWriteResult, parts: Parts) -> SessionWriteResult:
    """What a caller should know beyond what was done."""
    if parts.embedder.semantic:
        return result
    notice = Degraded("embedder", "this embedder is not semantic; see `mnemon doctor`")
    return replace(result, degraded=(*result.degraded, notice))
