"""What a write has to tell: gathered on the way, told at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from mnemon.contracts.claims import ClaimState
from mnemon.contracts.commits import CommitResult, CommitStats, OutboxEvent, OutboxEventType, PlanAction
from mnemon.contracts.errors import CommitError, MnemonError
from mnemon.contracts.reports import Degraded
from mnemon.contracts.results import SessionWriteResult, SessionWriteStatus
from mnemon.contracts.scope import SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.logic.ids import stable_id
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.write.commit import Outcome
from mnemon.pipelines.write.intake import LISTED, Intake
from mnemon.pipelines.write.order import WriteOrder

GraphStatus = Literal["ok", "failed", "skipped", "pending"]


@dataclass(slots=True)
class Telling:
    key: SessionKey
    intake: Intake
    order: WriteOrder
    asker: Asker | None
    lent: bool = False
    leaves_work: bool = False
    begun: float = field(default_factory=time.perf_counter)
    counts: dict[str, Any] = field(default_factory=lambda: {"events_written": 0, "facts_written": 0})
    degraded: list[Degraded] = field(default_factory=list)
    latency_ms: dict[str, float] = field(default_factory=dict)
    graph: GraphStatus = "skipped"
    graph_error: str = ""
    outcome: Outcome = field(default_factory=Outcome)
    error: CommitError | None = None
    status: SessionWriteStatus = "failed"
    record: SessionRecord | None = None

    def ended(self, status: SessionWriteStatus, record: SessionRecord) -> Self:
        self.status, self.record = status, record
        self.timed("total_ms", self.begun)
        return self

    def degrade(self, what: str, why: str) -> None:
        self.degraded.append(Degraded(what, why))

    def skip_facts(self, reason: str, why: str) -> None:
        self.counts["facts_skipped_reason"] = reason
        self.degrade("facts", why)

    def tell_forgotten(self, count: int) -> None:
        if count:
            why = "of these turns were forgotten here and stay so; new words need ids of their own"
            self.degrade("forgotten", f"{count} {why}")

    def graph_failed(self, error: MnemonError) -> None:
        self.graph, self.graph_error = "failed", error.message

    def timed(self, name: str, begun: float) -> None:
        self.latency_ms[name] = round((time.perf_counter() - begun) * 1000, 3)

    def appended(self, written: int, already_there: int, in_session: int) -> None:
        self.timed("archive_ms", self.begun)
        self.counts |= {
            "events_written": written if self.order.write_events else 0,
            "turns_already_there": already_there,
            "turns_dropped": self.intake.dropped_count,
            "turns_in_session": in_session,
            "turns_indexed": 0,
            "masked": self.intake.masked_count,
        }


def told(telling: Telling) -> SessionWriteResult:
    intake, outcome, record, asker = telling.intake, telling.outcome, telling.record, telling.asker
    assert record is not None
    if intake.dropped_count > LISTED:
        telling.degrade("dropped_list", f"{intake.dropped_count} turns were dropped, {LISTED} are listed")
    own = {claim.claim_id for claim in outcome.claims}
    wrote = telling.order.facts and asker is not None and telling.status == "ok"
    return SessionWriteResult(
        status=telling.status,
        session_id=record.session_id,
        uri=record.key.uri,
        version=record.version,
        counts={**telling.counts, **(_memories(outcome) if wrote else {})},
        degraded=(*telling.degraded, *outcome.degraded),
        dropped=tuple(intake.dropped),
        redacted=tuple(intake.masked),
        tags=outcome.tags,
        claims=tuple(outcome.claims),
        superseded=tuple(c for c in outcome.others if c.superseded_by in own),
        rejected=tuple(outcome.rejected),
        nodes=tuple(outcome.results),
        error_reason=telling.error.message if telling.error else None,
        debug=_debug(telling),
    )


def _debug(telling: Telling) -> dict[str, Any]:
    asker = telling.asker
    spent = {"extract_ms": 0.0, **telling.latency_ms, **telling.outcome.latency_ms}
    return {
        "llm_used": asker.llm_used if asker else None,
        "latency_ms": {**spent, "write_ms": round(spent["total_ms"] - spent["extract_ms"], 3)},
        "calls": [asdict(trace) for trace in asker.traces] if asker else [],
        "spent": asdict(asker.spent) if asker else {},
        "graph_upsert_status": telling.graph,
        **({"trace_id": telling.order.trace_id} if telling.order.trace_id else {}),
        **({"graph_error": telling.graph_error} if telling.graph_error else {}),
        **({"failed_phase": telling.error.phase} if telling.error else {}),
    }


def _memories(outcome: Outcome) -> dict[str, Any]:
    actions = Counter(result.action for result in outcome.results)
    pending = sum(c.state is ClaimState.PENDING for c in outcome.claims)
    return {
        "facts_written": len(outcome.claims) - pending,
        "facts_pending": pending,
        "facts_rejected": sum(r.what == "claim" for r in outcome.rejected),
        "facts_removed": len(outcome.gone),
        "turns_kept": outcome.kept,
        "nodes_created": actions[PlanAction.CREATE],
        "nodes_merged": actions[PlanAction.MERGE] + actions[PlanAction.APPEND],
        "nodes_deleted": actions[PlanAction.DELETE],
    }


def committed(telling: Telling) -> CommitResult:
    """The same, in the words of 004."""
    outcome = telling.outcome
    events = () if any(d.what == "queue" for d in telling.degraded) else tuple(_events(outcome))
    actions = Counter(result.action for result in outcome.results)
    if telling.order.options.dry_run:
        actions = Counter(plan.action for plan in outcome.plans)
    stats = CommitStats(
        candidates_extracted=outcome.proposed,
        candidates_skipped=outcome.skipped + sum(r.what == "claim" for r in outcome.rejected),
        nodes_created=actions[PlanAction.CREATE],
        nodes_merged=actions[PlanAction.MERGE],
        nodes_appended=actions[PlanAction.APPEND],
        relations_written=len(outcome.edges),
        outbox_events_queued=len(events),
        duration_ms=round(telling.latency_ms.get("total_ms", 0)),
    )
    return CommitResult(
        archive=outcome.archive,
        write_results=tuple(outcome.results),
        outbox_events=events,
        stats=stats,
        status=_status(outcome),
        claims=tuple(outcome.claims),
        plans=tuple(outcome.plans),
        rejected=tuple(outcome.rejected),
        degraded=(*telling.degraded, *outcome.degraded, *(Degraded("node", why) for why in outcome.failures)),
        debug=_debug(telling),
    )


def _status(outcome: Outcome) -> Literal["success", "partial", "failed"]:
    if not outcome.failures:
        return "success"
    return "partial" if outcome.results else "failed"


def _events(outcome: Outcome) -> Iterator[OutboxEvent]:
    """What the commit owes to its replicas: every node it touched, every relation it wrote."""
    for result in outcome.results:
        if result.action is PlanAction.SKIP:
            continue
        gone = result.action is PlanAction.DELETE
        kind = OutboxEventType.DELETE_CONTEXT if gone else OutboxEventType.UPSERT_CONTEXT
        payload = {"action": result.action.value, "version": result.node_version}
        event_id = stable_id("outbox", kind, result.uri, str(result.node_version))
        yield OutboxEvent(event_id, kind, result.uri, payload)
    for edge in outcome.edges:
        kind = OutboxEventType.UPSERT_RELATION
        event_id = stable_id("outbox", kind, edge.from_uri, edge.to_uri, edge.relation_type)
        yield OutboxEvent(event_id, kind, edge.from_uri, {"to_uri": edge.to_uri, "relation_type": edge.relation_type})
