"""A session in short: what it was about, what was decided, what is open (004's archive)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mnemon.contracts.commits import ArchiveConfig, SessionArchive, SessionStats
from mnemon.contracts.drafts import Summary
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.turns import Turn
from mnemon.logic import rules
from mnemon.logic.chunking import tokens_in
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.tasks import SUMMARY, SummaryInput


async def summarise(
    asker: Asker, scope: Scope, turns: Sequence[Turn], used_tools: Sequence[dict[str, Any]], config: ArchiveConfig
) -> tuple[Summary, list[Degraded]]:
    """The last messages in short. A summary that fails the gates is replaced by sentences of the session itself."""
    recent = tuple(turns[-config.max_recent_messages :])
    given = SummaryInput(recent, tools_text(used_tools), config.summary_max_tokens)
    answer = await asker.ask(SUMMARY, given, scope)
    if answer.output is not None and not answer.violations:
        return answer.output, []
    why = "; ".join(str(v) for v in answer.violations[:2]) or "no usable answer"
    return rules.summarise(recent), [Degraded("summary", f"{why}; taken from the session's own sentences")]


def tools_text(used_tools: Sequence[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(tool, ensure_ascii=False, sort_keys=True, default=str) for tool in used_tools)


def archive_of(
    key: SessionKey,
    number: int,
    summary: Summary,
    turns: Sequence[Turn],
    used_contexts: Sequence[str],
    used_tools: Sequence[dict[str, Any]],
    memories: int,
    compressions: int,
    config: ArchiveConfig,
) -> SessionArchive:
    recent = turns[-config.max_recent_messages :]
    return SessionArchive(
        session_id=key.session_id,
        archive_uri=f"{key.uri}/archives/{number}",
        summary=summary.summary,
        recent_messages=tuple(turn.model_dump(mode="json", exclude_defaults=True) for turn in recent),
        used_contexts=tuple(used_contexts),
        used_tools=tuple(used_tools),
        stats=SessionStats(len(turns), sum(tokens_in(turn.text) for turn in turns), compressions, memories),
        key_topics=summary.key_topics,
        key_decisions=summary.key_decisions,
        unresolved=summary.unresolved,
    )
