"""What is asked of one write, as it is handed on to a job where it has to wait."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from mnemon.contracts.commits import CommitOptions
from mnemon.contracts.nodes import Shelf
from mnemon.pipelines.write.commit import CommitOrder

Mode = Literal["once", "append"]
Wait = Literal["indexed", "archived"]
Stages = Literal["full", "off"]
LlmPolicy = Literal["require", "best_effort"]
GraphPolicy = Literal["require", "best_effort"]


@dataclass(frozen=True, slots=True)
class WriteOrder:
    extract: bool = True
    write_events: bool = True
    write_facts: bool = True
    graph_upsert: bool = True
    graph_policy: GraphPolicy = "best_effort"
    stages: Stages = "full"
    mode: Mode = "once"
    overwrite: bool = False
    cleanup_on_failure: bool = False
    llm_policy: LlmPolicy = "require"
    wait: Wait = "indexed"
    capped: bool = False
    agent_id: str = "default"
    options: CommitOptions = field(default_factory=CommitOptions)
    used_contexts: tuple[str, ...] = ()
    used_tools: tuple[dict[str, Any], ...] = ()
    trace_id: str = ""

    @property
    def facts(self) -> bool:
        return self.extract and self.write_facts

    def for_commit(self) -> CommitOrder:
        return CommitOrder(
            options=self.options,
            stages=self.stages,
            write_facts=self.facts,
            overwrite=self.overwrite,
            capped=self.capped,
            agent_id=self.agent_id,
            used_contexts=self.used_contexts,
            used_tools=self.used_tools,
            trace_id=self.trace_id,
        )

    def to_payload(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_payload(cls, body: dict[str, Any]) -> WriteOrder:
        options = dict(body["options"])
        wanted = options["categories_filter"]
        options["categories_filter"] = None if wanted is None else tuple(map(Shelf, wanted))
        rest = {name: tuple(body[name]) for name in ("used_contexts", "used_tools")}
        return cls(**{**body, **rest, "options": CommitOptions(**options)})
