"""Stage 3: four extractors side by side, every proposal through the gates, what is left as claims."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mnemon.contracts.claims import Claim, ClaimState, ToolStats
from mnemon.contracts.commits import PipelineConfig, Rejected
from mnemon.contracts.drafts import Draft, Extraction
from mnemon.contracts.errors import ModelFailed
from mnemon.contracts.governance import EvidenceLevel, Governance, Kind, Status
from mnemon.contracts.models import Violation
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.contracts.tags import ValueTag
from mnemon.contracts.turns import Role
from mnemon.logic.drafting import DraftInput, began, ended, governance_of
from mnemon.logic.evidence import Conversation, asks_to_remember
from mnemon.logic.governance import governed, join
from mnemon.logic.ids import stable_id
from mnemon.logic.language import language_of
from mnemon.logic.rules import tools
from mnemon.logic.shelves import EXTRACTORS, SHELVES
from mnemon.logic.text import fold
from mnemon.logic.toolwork import added, calls, sums
from mnemon.pipelines.ask import Answer, Asker, Rules
from mnemon.pipelines.tasks import EXTRACTION, shelves_of
from mnemon.pipelines.write.archiving import tools_text
from mnemon.pipelines.write.tagging import windows

_PROCEDURES = "extraction.procedure"


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
    untimed: frozenset[str] = frozenset()
    summary: str = ""
    used_tools: tuple[dict[str, Any], ...] = ()
    agent_id: str = "default"


async def extract(
    asker: Asker, scope: Scope, given: Sources, config: PipelineConfig, shelves: frozenset[Shelf] | None, now: datetime
) -> Extracted:
    """One extractor of four that fails is told, all four failing is an error. `unanswered` are the shelves nobody was
    asked for, or got no answer about."""
    out = Extracted(unanswered=frozenset() if shelves is None else frozenset(Shelf) - shelves)
    inputs = list(_inputs(asker, given, shelves))
    if not inputs:
        out.claims = _worked(given, [], shelves, config, out, now, asker.by_rules)
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
    out.claims = _worked(given, _normalised(candidates, config, out), shelves, config, out, now, asker.by_rules)
    return out


def _worked(
    given: Sources,
    claims: list[Claim],
    shelves: frozenset[Shelf] | None,
    config: PipelineConfig,
    out: Extracted,
    now: datetime,
    by_rules: bool,
) -> list[Claim]:
    """What the tools did is counted, not asked for: every tool's statistics stand on one claim of the commit, one that
    was proposed or one of our own. Without a model, what the trace proves is told as well."""
    wanted = frozenset(Shelf) if shelves is None else shelves
    if not wanted & EXTRACTORS[_PROCEDURES]:
        return claims
    turns = given.conversation.turns
    shown = [call for call in calls(turns) if call.recorded or by_rules]
    stats = sums(shown, given.used_tools)
    claims = [_carrying(given, claim, stats, claims) for claim in claims]
    told = {claim.tool.tool_name for claim in claims if claim.tool and claim.shelf is Shelf.SKILLS}
    drafts = tools.skills(shown, {name: s for name, s in stats.items() if name not in told})
    drafts += tools.cases(turns) if by_rules else []
    made = [d for d in drafts if d.category in wanted]
    out.proposed += len(made)
    return [*claims, *(_proven(given, draft, config, now) for draft in made)]


def _carrying(given: Sources, claim: Claim, stats: Mapping[str, ToolStats], claims: Sequence[Claim]) -> Claim:
    """The first claim about a tool carries what it did; the others tell of it without counting it again."""
    if claim.tool is None:
        return claim
    alike = [c for c in claims if c.tool and c.tool.tool_name == claim.tool.tool_name]
    counted = dict.fromkeys(("call_count", "success_count", "total_duration_ms", "total_tokens"), 0)
    if alike[0] is claim:
        cited = dict.fromkeys(turn_id for c in alike for turn_id in c.source_turn_ids)
        seen = calls(t for i in cited if (t := given.conversation.get(i)) is not None)
        name = claim.tool.tool_name
        whole = stats.get(name) or added([call.stats for call in seen if call.tool == name])
        counted |= {n: getattr(whole, n) for n in counted}
        notes = {n: getattr(claim.tool, n) or getattr(whole, n) for n in ("best_for", "common_failures")}
        return _counting(claim.model_copy(update={"tool": claim.tool.model_copy(update={**counted, **notes})}))
    return claim.model_copy(update={"tool": claim.tool.model_copy(update=counted)})


def _counting(claim: Claim) -> Claim:
    """Calls are counted by the turns they stand in: the same sentence about others of the session is another claim."""
    first = claim.spans[0].turn_id
    return claim.model_copy(update={"claim_id": claim_id(claim.session, claim.kind, claim.statement, first)})


def _proven(given: Sources, draft: Draft, config: PipelineConfig, now: datetime) -> Claim:
    life = governed(draft.type, draft.status, EvidenceLevel.TOOL_GROUNDED, importance=draft.importance)
    part = DraftInput(given.conversation, frozenset(), (), given.said_at, frozenset({draft.category}))
    return _counting(_claim(given, part, draft, life, config, now, Asker(Rules()), ""))


def recurring(given: Sources, cases: Sequence[Claim], config: PipelineConfig, now: datetime) -> list[Claim]:
    """Cases whose steps were gone before, as patterns."""
    return [_proven(given, tools.pattern(case), config, now) for case in cases]


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
                        tools=tools_text(given.used_tools),
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
        arrived=not draft.valid_from and given.untimed.issuperset(s.turn_id for s in draft.spans),
        recorded_at=now,
        expires_at=life.expires_at(now),
        tool=draft.tool,
        provider=asker.llm_used["provider"],
        model=asker.llm_used["model"],
        prompt_version=prompt_version,
    )


def claim_id(key: SessionKey, kind: Kind, statement: str, *of: str) -> str:
    """The same words said of the same session (or of the same turn of it) are the same claim, however often it is
    extracted."""
    return stable_id("claim", key.tenant_id, key.owner.space, key.session_id, kind.value, fold(statement), *of)


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
