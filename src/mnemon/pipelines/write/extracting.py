"""Stage 3: four extractors side by side, every proposal through the gates, what is left as claims."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.commits import PipelineConfig, Rejected
from mnemon.contracts.drafts import Draft, Extraction
from mnemon.contracts.errors import ModelFailed
from mnemon.contracts.governance import Governance, Kind, Status
from mnemon.contracts.models import Violation
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.contracts.tags import ValueTag
from mnemon.contracts.turns import Role
from mnemon.logic.drafting import DraftInput, began, ended, governance_of
from mnemon.logic.evidence import Conversation, asks_to_remember
from mnemon.logic.governance import join
from mnemon.logic.ids import stable_id
from mnemon.logic.language import language_of
from mnemon.logic.shelves import SHELVES
from mnemon.logic.text import fold
from mnemon.pipelines.ask import Answer, Asker, Rules
from mnemon.pipelines.tasks import EXTRACTION, shelves_of
from mnemon.pipelines.write.tagging import windows


@dataclass(slots=True)
class Extracted:
    claims: list[Claim] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    degraded: list[Degraded] = field(default_factory=list)
    unanswered: frozenset[Shelf] = frozenset()
    proposed: int = 0


@dataclass(frozen=True, slots=True)
class Sources:
    """The words stage 3 may use, and what is known of them."""

    record: SessionRecord
    conversation: Conversation
    kept: frozenset[str]
    tags: tuple[ValueTag, ...]
    said_at: Mapping[str, datetime]
    summary: str = ""
    tools: str = ""
    agent_id: str = "default"


async def extract(
    asker: Asker, scope: Scope, given: Sources, config: PipelineConfig, shelves: frozenset[Shelf] | None, now: datetime
) -> Extracted:
    """One extractor of four that fails is told, all four failing is an error. `unanswered` are the shelves nobody was
    asked for, or got no answer about."""
    out = Extracted(unanswered=frozenset() if shelves is None else frozenset(Shelf) - shelves)
    inputs = list(_inputs(asker, given, shelves))
    if not inputs:
        return out
    answers = await asyncio.gather(
        *(asker.ask(EXTRACTION[name], part, scope) for name, part in inputs), return_exceptions=True
    )
    failures = [a for a in answers if isinstance(a, BaseException)]
    for failure in failures:
        if not isinstance(failure, ModelFailed) or len(failures) == len(answers):
            raise failure
    candidates: list[Claim] = []
    for (name, part), answer in zip(inputs, answers, strict=True):
        if isinstance(answer, BaseException):
            out.degraded.append(Degraded(name, f"{answer}; the other extractors went on"))
            out.unanswered |= part.shelves
        elif answer.output is None:
            out.degraded.append(Degraded(name, "no answer of the right shape; nothing was taken from it"))
            out.unanswered |= part.shelves
        else:
            candidates += _believed(given, part, answer, answer.output.facts, config, out, now, asker)
    if not asker.by_rules:
        candidates += await _remembered(given, inputs, candidates, scope, config, out, now)
    out.claims = _normalised(candidates, config, out)
    return out


async def _remembered(
    given: Sources,
    inputs: Sequence[tuple[str, DraftInput]],
    candidates: Sequence[Claim],
    scope: Scope,
    config: PipelineConfig,
    out: Extracted,
    now: datetime,
) -> list[Claim]:
    """What the user asked to remember and the model made nothing of: the rules read it."""
    heard = {turn_id for claim in candidates for turn_id in claim.source_turn_ids}
    asked = {t.turn_id for t in given.conversation.turns if t.role is Role.USER and asks_to_remember(t.text)}
    found: list[Claim] = []
    by_rules = Asker(Rules())
    for name, part in inputs:
        if missed := (asked & part.kept) - heard:
            left = replace(part, kept=frozenset(missed))
            answer = await by_rules.ask(EXTRACTION[name], left, scope)
            drafts = answer.output.facts if answer.output else ()
            found += _believed(given, left, answer, drafts, config, out, now, by_rules)
    if found:
        told = f"{len(found)} claims the user asked to remember and the model passed over were taken by the rules"
        out.degraded.append(Degraded("remember", told))
    return found


def _inputs(asker: Asker, given: Sources, shelves: frozenset[Shelf] | None) -> list[tuple[str, DraftInput]]:
    kept = [t for t in given.conversation.turns if t.turn_id in given.kept]
    if not kept:
        return []
    parts = [tuple(kept)] if asker.by_rules else list(windows(kept))
    found = []
    for name in EXTRACTION:
        wanted = shelves_of(name) & shelves if shelves is not None else shelves_of(name)
        if not wanted:
            continue
        for part in parts:
            ids = frozenset(turn.turn_id for turn in part)
            tags = tuple(tag for tag in given.tags if tag.turn_id in ids)
            found.append(
                (
                    name,
                    DraftInput(
                        conversation=given.conversation,
                        kept=ids,
                        tags=tags,
                        said_at=given.said_at,
                        shelves=wanted,
                        summary=given.summary,
                        tools=given.tools,
                        subjects=(given.record.key.owner.principal, *given.record.principals),
                    ),
                )
            )
    return found


def _believed(
    given: Sources,
    part: DraftInput,
    answer: Answer[Extraction],
    drafts: Sequence[Draft],
    config: PipelineConfig,
    out: Extracted,
    now: datetime,
    asker: Asker,
) -> list[Claim]:
    out.proposed += len(drafts)
    claims: list[Claim] = []
    for n, draft in enumerate(drafts):
        wrong = [v for v in answer.violations if v.item == n]
        life = None if wrong else governance_of(part, draft)
        why = _refused(draft, wrong, life, config)
        if why or life is None:
            turn_ids = tuple(dict.fromkeys(span.turn_id for span in draft.spans))
            out.rejected.append(Rejected("claim", draft.statement, why, turn_ids))
        else:
            claims.append(_claim(given, part, draft, life, config, now, asker, answer.trace.prompt_version))
    return claims


def _refused(draft: Draft, wrong: Sequence[Violation], life: Governance | None, config: PipelineConfig) -> str:
    if wrong:
        return "; ".join(str(v) for v in wrong)
    if draft.confidence < config.min_confidence:
        return f"confidence {draft.confidence} is below {config.min_confidence}"
    return "" if life else "the words behind it are archived only"


def _claim(
    given: Sources,
    part: DraftInput,
    draft: Draft,
    life: Governance,
    config: PipelineConfig,
    now: datetime,
    asker: Asker,
    prompt_version: str,
) -> Claim:
    record = given.record
    rule = SHELVES[draft.category]
    principals = {*record.principals, f"a:{given.agent_id}"} if rule.agent else set(record.principals)
    status = draft.status
    if draft.type is Kind.TASK and status is Status.NONE:
        status = Status.OPEN
    statement = draft.statement.strip()
    return Claim(
        claim_id=claim_id(record.key, draft.type, statement),
        tenant_id=record.tenant_id,
        owner_kind=record.owner_kind,
        owner_id=record.owner_id,
        session_id=record.session_id,
        principals=tuple(sorted(principals)),
        kind=draft.type,
        shelf=draft.category,
        routing_key=draft.routing_key.strip(),
        statement=statement,
        title=draft.title,
        overview=draft.overview[: config.max_content_length],
        content=draft.content[: config.max_content_length],
        confidence=draft.confidence,
        status=status,
        language=language_of(statement),
        subject=_subject(draft, record),
        entities=draft.entity_names,
        dedup_key=draft.dedup_key.strip(),
        rationale=draft.rationale,
        spans=draft.spans,
        governance=life,
        state=ClaimState.PENDING if life.requires_confirmation else ClaimState.ACTIVE,
        valid_from=began(part, draft),
        valid_to=ended(draft),
        said_until=ended(draft),
        recorded_at=now,
        expires_at=life.expires_at(now),
        tool=draft.tool,
        provider=asker.llm_used["provider"],
        model=asker.llm_used["model"],
        prompt_version=prompt_version,
    )


def claim_id(key: SessionKey, kind: Kind, statement: str) -> str:
    """The same words said of the same session are the same claim, however often it is extracted."""
    return stable_id("claim", key.tenant_id, key.owner.space, key.session_id, kind.value, fold(statement))


def _subject(draft: Draft, record: SessionRecord) -> str:
    return draft.subject if draft.subject and draft.subject != "user" else record.key.owner.principal


def _normalised(candidates: Sequence[Claim], config: PipelineConfig, out: Extracted) -> list[Claim]:
    """Two that say the same become one with the words of both; beyond the limit the least important go, and are
    named."""
    found: dict[str, Claim] = {}
    for claim in candidates:
        there = found.get(claim.claim_id)
        found[claim.claim_id] = claim if there is None else _joined(there, claim)
    limit = config.max_candidates_per_commit
    ranked = sorted(found.values(), key=lambda c: (-c.governance.importance, -c.confidence))
    for claim in ranked[limit:]:
        why = f"more than {limit} candidates in one commit"
        out.rejected.append(Rejected("claim", claim.statement, why, claim.source_turn_ids))
    if len(ranked) > limit:
        told = f"{len(ranked) - limit} of {len(ranked)} claims are over max_candidates_per_commit={limit}"
        out.degraded.append(Degraded("candidates", told))
    kept = {claim.claim_id for claim in ranked[:limit]}
    return [claim for claim in found.values() if claim.claim_id in kept]


def _joined(a: Claim, b: Claim) -> Claim:
    best, other = (a, b) if a.confidence >= b.confidence else (b, a)
    spans = tuple(dict.fromkeys([*best.spans, *other.spans]))
    life = join([a.governance, b.governance])
    return best.model_copy(update={"spans": spans, "governance": life, "expires_at": life.expires_at(best.recorded_at)})


def with_limit(config: PipelineConfig, asked: int | None, configured: int) -> PipelineConfig:
    """What the call asks for, else the stricter of the two settings."""
    limit = min(config.max_candidates_per_commit, configured) if asked is None else asked
    return replace(config, max_candidates_per_commit=limit)
