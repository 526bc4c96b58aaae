"""From a session's words to memories: tag, extract, place, write down, carry out, vouch. Each step can be taken up
again where a crash left it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.commits import (
    ArchiveConfig,
    CommitConfig,
    CommitOptions,
    CommitRecord,
    PipelineConfig,
    PlanAction,
    Rejected,
    SessionArchive,
    WritePlan,
    WriteResult,
)
from mnemon.contracts.drafts import Summary
from mnemon.contracts.errors import CommitError, MnemonError, ModelFailed, StorageFailed
from mnemon.contracts.nodes import Edge, Shelf
from mnemon.contracts.ports import Archive, Timekeeper
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord, StoredTurn
from mnemon.contracts.tags import Tagging, ValueTag
from mnemon.logic.evidence import Conversation
from mnemon.logic.governance import lives_begin
from mnemon.logic.rules.tools import STEP
from mnemon.logic.shelves import key_at
from mnemon.logic.superseding import said_in_turn
from mnemon.logic.tagging import kept_turns
from mnemon.logic.toolwork import ACCOUNT, account_turns, calls
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.write import archiving, extracting, tagging
from mnemon.pipelines.write.applying import Applied, Applier, change_of
from mnemon.pipelines.write.placing import Placed, Placer
from mnemon.pipelines.write.settling import as_filed, settle_others, touch


@dataclass(frozen=True, slots=True)
class CommitOrder:
    """What is asked of one commit."""

    options: CommitOptions = field(default_factory=CommitOptions)
    stages: str = "full"
    write_facts: bool = True
    overwrite: bool = False
    capped: bool = False
    agent_id: str = "default"
    used_contexts: tuple[str, ...] = ()
    used_tools: tuple[dict[str, Any], ...] = ()
    trace_id: str = ""


@dataclass(slots=True)
class Outcome:
    """What a commit came to. `commit` is its number, 0 where there was nothing to commit, and `claim_ids` all claims
    the session has after it; of the shelves in `unanswered` nobody could say what belongs there. `owes` is the first
    turn of what a model gave no good answer about: a later call does it once more; 0 where nothing is owed. `recorded`
    are turns that were added to the session: the caller's account of tools nobody else tells of."""

    commit: int = 0
    claim_ids: tuple[str, ...] = ()
    owes: int = 0
    unanswered: frozenset[Shelf] = frozenset()
    claims: list[Claim] = field(default_factory=list)
    others: list[Claim] = field(default_factory=list)
    gone: list[Claim] = field(default_factory=list)
    plans: list[WritePlan] = field(default_factory=list)
    results: list[WriteResult] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    archive: SessionArchive | None = None
    tags: tuple[ValueTag, ...] = ()
    rejected: list[Rejected] = field(default_factory=list)
    same_steps: dict[str, list[Claim]] = field(default_factory=dict)
    recorded: list[StoredTurn] = field(default_factory=list)
    last: StoredTurn | None = None
    degraded: list[Degraded] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    proposed: int = 0
    skipped: int = 0
    kept: int = 0
    latency_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The turns a commit is about: those no commit has covered, or all of them."""

    turns: tuple[StoredTurn, ...]

    @property
    def first_seq(self) -> int:
        return self.turns[0].seq

    @property
    def last_seq(self) -> int:
        return self.turns[-1].seq

    @property
    def head(self) -> str:
        return self.turns[-1].chain

    def is_that_of(self, other: Tagging | CommitRecord) -> bool:
        return (other.first_seq, other.last_seq, other.head) == (self.first_seq, self.last_seq, self.head)


@dataclass(frozen=True, slots=True)
class Committer:
    archive: Archive
    placer: Placer
    clock: Timekeeper
    archive_config: ArchiveConfig
    pipeline_config: PipelineConfig
    commit_config: CommitConfig

    async def commit(
        self, scope: Scope, record: SessionRecord, fresh: Sequence[StoredTurn], order: CommitOrder, asker: Asker
    ) -> Outcome:
        """Everything up to the session's page, which the caller writes when this returns without failures. `fresh` are
        turns just archived, so that they need not be read again.

        Phases 1 to 3 raise `CommitError` and leave nothing but checkpoints; a dry run writes nothing at all."""
        out = Outcome()
        commits = await self.archive.read_commits(scope, record.key, record.commits - 1) if record.version else []
        last = next((c for c in commits if c.number == record.commits), None)
        begun = next((c for c in commits if c.number > record.commits), None)
        if last and begun and begun.first_seq <= last.last_seq and (begun.gone or not record.owes):
            # An overwrite that was begun is gone through with: some of its nodes may be changed already.
            order = replace(order, overwrite=True)
        done = last.last_seq if last and not order.overwrite else 0
        if record.owes:
            done = min(done, record.owes - 1)
        stretch = await self._stretch(scope, record, fresh, done)
        if stretch is None:
            return out
        stretch = await self._accounted(scope, record, stretch, order, out)
        out.last = stretch.turns[-1]
        if order.overwrite:
            order = replace(order, used_tools=await self._used_before(scope, record, order))
        at = time.perf_counter()
        if begun and stretch.is_that_of(begun) and not order.options.dry_run:
            # Decided and not finished: it is finished, without asking again.
            decided = begun
            await self._take_up(scope, record, stretch, decided, out)
        else:
            decided = await self._decide(scope, record, stretch, order, asker, begun, _compressions(last), out)
        out.latency_ms["extract_ms"] = _ms(at)
        if order.options.dry_run:
            return out
        at = time.perf_counter()
        await self._carry_out(scope, record, decided, out, again=begun is not None)
        out.commit = decided.number
        out.latency_ms["nodes_ms"] = _ms(at)
        return out

    async def _stretch(
        self, scope: Scope, record: SessionRecord, fresh: Sequence[StoredTurn], done: int
    ) -> Stretch | None:
        """The turns after `done`; those in `fresh` need not be read, or are nowhere else where nothing is written."""
        if fresh and fresh[0].seq == done + 1 and fresh[-1].seq == record.turn_count:
            return Stretch(tuple(fresh))
        there = await self.archive.read_turns(scope, record.key, after=done) if record.version else []
        held = there[-1].seq if there else done
        turns = (*there, *(t for t in fresh if t.seq > held))
        return Stretch(turns) if turns else None

    async def _accounted(
        self, scope: Scope, record: SessionRecord, stretch: Stretch, order: CommitOrder, out: Outcome
    ) -> Stretch:
        """With what the caller tells of tools that no turn shows, as turns: what is counted has words to point at."""
        said = [t.turn for t in stretch.turns if ACCOUNT not in t.turn.meta]
        if not order.used_tools or not said:
            return stretch
        turns = account_turns(order.used_tools, calls(t.turn for t in stretch.turns), said[-1])
        if order.options.dry_run:
            now, last = self.clock.now(), stretch.last_seq
            out.recorded = [StoredTurn(turn, last + n, now, "") for n, turn in enumerate(turns, 1)]
        elif turns:
            out.recorded = list((await self.archive.append_turns(scope, record.key, turns)).appended)
        return Stretch((*stretch.turns, *out.recorded))

    async def _used_before(self, scope: Scope, record: SessionRecord, order: CommitOrder) -> tuple[dict[str, Any], ...]:
        """What is made anew is counted anew: with what earlier commits were told of their tools."""
        commits = await self.archive.read_commits(scope, record.key) if record.version else []
        told = [tool for commit in commits if commit.number <= record.commits for tool in commit.used_tools]
        return (*told, *order.used_tools)

    async def _take_up(
        self, scope: Scope, record: SessionRecord, stretch: Stretch, decided: CommitRecord, out: Outcome
    ) -> None:
        claims = await self.archive.read_claims(scope, record.key)
        out.claims = [c for c in claims if c.claim_id in set(decided.claim_ids)]
        out.gone = [c for c in claims if c.claim_id in set(decided.gone)]
        out.owes = decided.first_seq if decided.owes else 0
        taggings = await self.archive.read_tags(scope, record.key)
        out.kept = _kept(taggings)
        out.tags = next((t.output.tags for t in taggings if stretch.is_that_of(t)), ())
        if decided.summary:
            said = decided.model_dump(include=set(Summary.model_fields))
            out.archive = self._archive(
                record, stretch, decided.number, Summary(**said), decided, len(out.claims), decided.compressions
            )

    def _archive(
        self,
        record: SessionRecord,
        stretch: Stretch,
        number: int,
        summary: Summary,
        used: CommitOrder | CommitRecord,
        memories: int,
        compressions: int,
    ) -> SessionArchive:
        turns = [t.turn for t in stretch.turns if ACCOUNT not in t.turn.meta]
        return archiving.archive_of(
            record.key,
            number,
            summary,
            turns,
            used.used_contexts,
            used.used_tools,
            memories,
            compressions,
            self.archive_config,
        )

    # --- phases 1 to 3

    async def _decide(
        self,
        scope: Scope,
        record: SessionRecord,
        stretch: Stretch,
        order: CommitOrder,
        asker: Asker,
        begun: CommitRecord | None,
        compressions: int,
        out: Outcome,
    ) -> CommitRecord:
        conversation = Conversation.of([t.turn for t in stretch.turns])
        now = self.clock.now()
        anew = order.overwrite or not record.version
        taggings = [] if anew else await self.archive.read_tags(scope, record.key)
        done = [t for t in taggings if t.last_seq < stretch.first_seq]
        judged = next((t for t in taggings if stretch.is_that_of(t) and not t.degraded), None)
        unread: frozenset[str] = frozenset()
        with _phase("archive"):
            summary = await self._summary(scope, conversation, order, asker, out)
        with _phase("extract"):
            if judged is None:
                judged, unread = await self._judge(scope, record, stretch, conversation, order, asker, out)
                if judged.degraded and order.overwrite and record.commits:
                    raise ModelFailed(f"{judged.degraded}; what was known before stays")
                if not order.options.dry_run:
                    await self.archive.write_tags(scope, record.key, [*done, judged])
            out.kept = _kept([*done, judged])
            out.tags = judged.output.tags
            told = summary.summary if summary else ""
            kept = kept_turns(judged.output) - unread
            claims = await self._extract(
                scope, record, stretch, conversation, judged, kept, told, order, asker, now, out
            )
        with _phase("plan"):
            placed = await self._place(scope, record, claims, order, asker, self.clock.over_by(), out)
            plans = [p for p in placed.plans if p.action is not PlanAction.SKIP]
            if begun:
                plans += await self._left_by(scope, record.key, begun, plans)
                # Whose claims it may have changed already hears of it too.
                begun_with = await as_filed(self.archive, scope, begun.others)
                out.others = _newest([*begun_with.values(), *out.others])
            compressions += summary is not None
            return await self._write_down(scope, record, stretch, summary, compressions, plans, order, now, out)

    async def _summary(
        self, scope: Scope, conversation: Conversation, order: CommitOrder, asker: Asker, out: Outcome
    ) -> Summary | None:
        config = self.commit_config
        said = [turn for turn in conversation.turns if ACCOUNT not in turn.meta]
        short = config.skip_archive_on_short_session and len(said) < config.short_session_threshold
        if order.options.skip_archive or short:
            return None
        summary, degraded = await archiving.summarise(asker, scope, said, order.used_tools, self.archive_config)
        out.degraded += degraded
        return summary

    async def _judge(
        self,
        scope: Scope,
        record: SessionRecord,
        stretch: Stretch,
        conversation: Conversation,
        order: CommitOrder,
        asker: Asker,
        out: Outcome,
    ) -> tuple[Tagging, frozenset[str]]:
        """The tagging, and the turns nobody could say anything about."""
        degraded, unread = "", frozenset[str]()
        if order.stages == "off":
            output = tagging.everything(record.session_id, conversation.turns)
        else:
            subjects = [record.key.owner.principal, *record.principals]
            tagged = await tagging.tag(asker, scope, record.session_id, subjects, conversation)
            output, degraded, unread = tagged.output, tagged.degraded, tagged.unread
            out.rejected += tagged.rejected
        if degraded:
            out.owes = stretch.first_seq
            out.degraded.append(Degraded("tagging", f"{degraded}; the words stay, and the same call again heals it"))
        used = asker.llm_used
        made = Tagging(
            first_seq=stretch.first_seq,
            last_seq=stretch.last_seq,
            head=stretch.head,
            output=output,
            provider=used["provider"],
            model=used["model"],
            prompt_version=next((t.prompt_version for t in asker.traces if t.task == "tagging.value_tags"), ""),
            degraded=degraded,
        )
        return made, unread

    async def _extract(
        self,
        scope: Scope,
        record: SessionRecord,
        stretch: Stretch,
        conversation: Conversation,
        judged: Tagging,
        kept: frozenset[str],
        summary: str,
        order: CommitOrder,
        asker: Asker,
        now: datetime,
        out: Outcome,
    ) -> list[Claim]:
        if not order.write_facts:
            out.unanswered = frozenset(Shelf)
            return []
        sources = extracting.Sources(
            record=record,
            conversation=conversation,
            kept=kept,
            tags=judged.output.tags,
            said_at=said_in_turn(stretch.turns),
            untimed=frozenset(t.turn.turn_id for t in stretch.turns if not t.turn.timestamp_iso),
            summary=summary,
            used_tools=order.used_tools,
            agent_id=order.agent_id,
        )
        wanted = order.options.categories_filter
        limit = self.commit_config.max_candidates_per_commit
        config = (
            extracting.with_limit(self.pipeline_config, order.options.max_candidates, limit)
            if order.capped
            else replace(self.pipeline_config, max_candidates_per_commit=sys.maxsize)
        )
        shelves = frozenset(Shelf if wanted is None else wanted)
        found = await extracting.extract(asker, scope, sources, config, None if wanted is None else shelves, now)
        if found.unanswered & shelves:
            out.owes = stretch.first_seq
        out.rejected += found.rejected
        out.degraded += found.degraded
        out.proposed = found.proposed
        out.unanswered = found.unanswered
        if wanted is not None and Shelf.PATTERNS not in wanted:
            return lives_begin(found.claims, self.clock.lives_from())
        claims = [*found.claims, *await self._recurring(scope, sources, found.claims, now, out)]
        return lives_begin(claims, self.clock.lives_from())

    async def _recurring(
        self, scope: Scope, sources: extracting.Sources, claims: Sequence[Claim], now: datetime, out: Outcome
    ) -> list[Claim]:
        """Steps that led to a result before: here, or in another session as far as the index knows."""
        before: dict[str, list[Claim]] = {}
        again: list[Claim] = []
        try:
            for case in claims:
                if case.shelf is Shelf.CASES and STEP in case.title:
                    known = before.setdefault(case.title, await self.placer.likeness.same_steps(scope, case))
                    again += [case] if known else []
                    known.append(case)
        except MnemonError as error:
            out.degraded.append(Degraded("patterns", f"{error}; whether this was done before was not looked up"))
        out.same_steps = {title: cases for title, cases in before.items() if len(cases) > 1}
        return extracting.recurring(sources, again, self.pipeline_config, now)

    async def _place(
        self,
        scope: Scope,
        record: SessionRecord,
        claims: list[Claim],
        order: CommitOrder,
        asker: Asker,
        now: datetime,
        out: Outcome,
    ) -> Placed:
        there = await self.archive.read_claims(scope, record.key) if record.version else []
        # Overwriting takes away what is no longer extracted, not what nobody looked for; what an unfinished commit
        # left behind goes in any case.
        keep = {c.claim_id for c in claims}
        keep |= {
            c.claim_id
            for c in there
            if c.claim_id in record.claim_ids and (not order.overwrite or c.shelf in out.unanswered)
        }
        out.gone = [c for c in there if c.claim_id not in keep]
        claims = [_as_decided(c, {old.claim_id: old for old in there}) for c in claims]
        placed = await self.placer.place(asker, scope, claims, out.gone, order.options, now, out.same_steps)
        out.claims, out.others, out.plans = placed.claims, placed.others, placed.plans
        out.skipped = placed.skipped
        out.degraded += placed.degraded
        return placed

    async def _left_by(
        self, scope: Scope, key: SessionKey, begun: CommitRecord, plans: Sequence[WritePlan]
    ) -> list[WritePlan]:
        """Nodes an unfinished commit may have changed and this one leaves as they are: it answers for them too, so
        that the index hears of them."""
        changed = {p.target_uri for p in plans}
        left = []
        for uri in dict.fromkeys(c.uri for c in begun.changes if c.uri not in changed):
            node = await self.placer.read(scope, key_at(key.tenant_id, key.owner, uri))
            left.append(WritePlan(PlanAction.SKIP, uri, node, node, reason="left by a commit that was not finished"))
        return left

    async def _write_down(
        self,
        scope: Scope,
        record: SessionRecord,
        stretch: Stretch,
        summary: Summary | None,
        compressions: int,
        plans: Sequence[WritePlan],
        order: CommitOrder,
        now: datetime,
        out: Outcome,
    ) -> CommitRecord:
        """From here on a crash is finished by whoever comes next, without asking a model again."""
        number = record.commits + 1
        told = summary or Summary(summary="")
        archive = self._archive(record, stretch, number, told, order, len(out.claims), compressions)
        out.archive = archive if summary else None
        kept = summary.model_dump() if summary and self.archive_config.persist_archive else {}
        commit = CommitRecord(
            number=number,
            first_seq=stretch.first_seq,
            last_seq=stretch.last_seq,
            head=stretch.head,
            at=now,
            **kept,
            used_contexts=order.used_contexts,
            used_tools=order.used_tools,
            trace_id=order.trace_id,
            total_tokens=archive.stats.total_tokens,
            compressions=compressions,
            claim_ids=tuple(c.claim_id for c in out.claims),
            gone=tuple(c.claim_id for c in out.gone),
            others=tuple(out.others),
            changes=tuple(change_of(p) for p in plans),
            owes=bool(out.owes),
        )
        if not order.options.dry_run:
            await self.archive.put_claims(scope, record.key, out.claims)
            await self.archive.write_commit(scope, record.key, commit)
        return commit

    # --- phase 4

    async def _carry_out(
        self, scope: Scope, record: SessionRecord, commit: CommitRecord, out: Outcome, again: bool
    ) -> None:
        """`again` when somebody began it and was cut off: they may have told another session's file and not turned its
        page, and then nothing in the file would say so."""
        applier = Applier(self.archive, self.placer)
        applied = await applier.apply(scope, record.key, commit, out.claims, self.clock.over_by())
        out.results, out.edges, out.failures = applied.results, applied.edges, applied.failures
        try:
            await self._settle(scope, record, commit, applied, out, again)
        except StorageFailed as error:
            out.failures.append(error.message)

    async def _settle(
        self,
        scope: Scope,
        record: SessionRecord,
        commit: CommitRecord,
        applied: Applied,
        out: Outcome,
        again: bool,
    ) -> None:
        """What the nodes came to, told to the papers of the sessions it concerns."""
        own = _newest([*out.claims, *applied.own])
        others = _newest([*out.others, *commit.others, *applied.others])
        if tuple(applied.changes) != commit.changes:
            commit = commit.model_copy(update={"changes": tuple(applied.changes), "others": tuple(others)})
            await self.archive.write_commit(scope, record.key, commit)
        gone = [] if applied.failures else [c.claim_id for c in out.gone]
        await self.archive.put_claims(scope, record.key, own, gone=gone)
        settled = await settle_others(self.archive, scope, [*own, *others])
        if again:
            for key in dict.fromkeys(c.session for c in others if c.session != record.key):
                await touch(self.archive, scope, key)
        out.claims, out.others = settled[: len(own)], settled[len(own) :]
        out.claim_ids = tuple(c.claim_id for c in await self.archive.read_claims(scope, record.key))

    async def undo(self, scope: Scope, record: SessionRecord, asker: Asker) -> None:
        """What a first commit that failed has put into nodes is taken out of them again."""
        now = self.clock.now()
        gone = await self.archive.read_claims(scope, record.key)
        placed = await self.placer.place(asker, scope, [], gone, CommitOptions(), now)
        commit = CommitRecord(
            number=record.commits + 1,
            first_seq=0,
            last_seq=0,
            head="",
            at=now,
            gone=tuple(c.claim_id for c in gone),
            changes=tuple(change_of(p) for p in placed.plans if p.action is not PlanAction.SKIP),
        )
        applied = await Applier(self.archive, self.placer).apply(scope, record.key, commit, [], now)
        if applied.failures:
            raise CommitError("; ".join(applied.failures), phase="write")
        await settle_others(self.archive, scope, _newest([*placed.others, *applied.others]))


class _phase:
    """What goes wrong in here is a commit that failed in this phase."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MnemonError) and not isinstance(error, CommitError):
            facts = {name: error.details[name] for name in ("path", "errno") if name in error.details}
            raise CommitError(error.message, phase=self._name, cause=error.code, **facts) from error


def _as_decided(claim: Claim, there: dict[str, Claim]) -> Claim:
    """A claim extracted again keeps what people decided about it, and when it was learnt."""
    old = there.get(claim.claim_id)
    if old is None:
        return claim
    if old.corrected_from:
        return old
    ends = old.expires_at if claim.governance == old.governance else claim.governance.expires_at(old.recorded_at)
    keep: dict[str, Any] = {"recorded_at": old.recorded_at, "expires_at": ends}
    if claim.state is ClaimState.PENDING and old.state is not ClaimState.PENDING:
        keep |= {"state": old.state, "governance": old.governance, "expires_at": old.expires_at}
    return claim.model_copy(update=keep)


def _compressions(last: CommitRecord | None) -> int:
    """How often a session was put in short so far; records of before this was counted tell it by their number."""
    return (last.compressions or (last.number if last.summary else 0)) if last else 0


def _newest(claims: Sequence[Claim]) -> list[Claim]:
    return list({c.claim_id: c for c in claims}.values())


def _kept(taggings: Sequence[Tagging]) -> int:
    return sum(len(kept_turns(t.output)) for t in taggings)


def _ms(begun: float) -> float:
    return round((time.perf_counter() - begun) * 1000, 3)
