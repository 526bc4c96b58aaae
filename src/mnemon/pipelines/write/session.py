"""One conversation into the archive and its replicas: hold the session, keep the words, make memories of them, vouch,
index."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from mnemon.contracts.claims import Claim
from mnemon.contracts.errors import (
    Busy,
    CommitError,
    MnemonError,
    ModelNotConfigured,
    StorageFailed,
    VersionConflict,
)
from mnemon.contracts.jobs import Job
from mnemon.contracts.ports import Archive, Clock, Holds, Presence, Replicator
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import KeptRule, SessionRecord, SessionStatus, StoredTurn
from mnemon.pipelines.ask import Asker
from mnemon.pipelines.index.indexing import BATCH
from mnemon.pipelines.index.worker import LEASE, lease_kept
from mnemon.pipelines.jobs import digest_job, session_of
from mnemon.pipelines.write.commit import Committer, Outcome
from mnemon.pipelines.write.intake import Intake
from mnemon.pipelines.write.keeping import BESIDE, Appended, WordKeeper
from mnemon.pipelines.write.order import WriteOrder
from mnemon.pipelines.write.pages import new_record, open_page, turn_page
from mnemon.pipelines.write.telling import Telling

# How long one writer waits for another before it gives up.
HOLD_S = 60.0

AskerFactory = Callable[[], Asker | None]


@dataclass(frozen=True, slots=True)
class SessionWriter:
    archive: Archive
    queue: Holds
    replicas: Replicator
    committer: Committer
    clock: Clock
    worker: str
    # The model of the memory, for what the worker takes up; a caller's own model is only lent, while the process lives.
    own_asker: AskerFactory
    lent: dict[str, Asker] = field(default_factory=dict)
    # Where this process is known to be at work, words need no job of their own to be looked after if it dies.
    presence: Presence | None = None

    @property
    def _keeper(self) -> WordKeeper:
        return WordKeeper(self.archive)

    async def write(
        self,
        scope: Scope,
        key: SessionKey,
        principals: tuple[str, ...],
        intake: Intake,
        order: WriteOrder,
        asker: Asker | None,
        lent: bool = False,
    ) -> Telling:
        """`lent` when the model is the caller's own: nobody but this process can finish with it what has to wait."""
        telling = Telling(key, intake, order, asker, lent)
        record = await self.archive.read_session(scope, key)
        if _is_done(record, telling):
            return await self._skipped(scope, record, telling)
        if self.presence is not None and _is_words_alone(record, principals, telling):
            await self.presence.sign()
            kept = await self._keep(scope, record or new_record(key, principals, self.clock), telling)
            if kept is not None:
                return kept
        async with self._held(key, order, telling) as job:
            record = await self.archive.read_session(scope, key)
            if record is not None and _is_done(record, telling):  # by somebody we waited for
                await self._bring_up(record, job, [], telling)
                return await self._skipped(scope, record, telling)
            return await self._write(scope, key, principals, record, telling, job)

    async def _keep(self, scope: Scope, before: SessionRecord, telling: Telling) -> Telling | None:
        """A chat's turn, the way most words come: one step in the archive, then the replicas. Nobody is asked to hold
        the session meanwhile: the archive compares and sets. None where somebody else was faster."""
        order, spool = telling.order, telling.intake.spool
        await asyncio.sleep(0)  # what follows may never wait: others have their turn first
        for blob in spool.blobs():
            await self.archive.put_blob(scope, blob)
        update = {
            "status": SessionStatus.COMPLETED,
            "graph": order.graph_upsert,
            "kept": _kept_rule(order, bool(before.commits)),
            "counts": {**before.counts, "events": before.turn_count, "claims": len(before.claim_ids)},
        }
        page, numbered = before.model_copy(update=update), before.version > 0 and not telling.intake.named
        try:
            kept = await self.archive.keep_turns(scope, page, before.version, list(spool.turns()), numbered)
        except VersionConflict:
            return None
        telling.appended(len(kept.words.appended), kept.words.already_there, kept.words.turn_count)
        telling.tell_forgotten(kept.words.forgotten)
        await self._bring_up(kept.record, None, list(kept.words.appended), telling)
        return telling.ended("ok", kept.record)

    async def _write(
        self,
        scope: Scope,
        key: SessionKey,
        principals: tuple[str, ...],
        before: SessionRecord | None,
        telling: Telling,
        job: Job | None,
    ) -> Telling:
        order, said = telling.order, telling.order.to_payload()
        record = await open_page(self.archive, self.clock, scope, key, principals, before, said)
        if before is not None and _is_complete(before) and order.mode == "once" and not order.overwrite:
            appended = await self._keeper.nothing_new(scope, before, telling)
        else:
            appended = await self._keeper.append(
                scope, record, await self._keeper.known(scope, before, telling), telling
            )
        telling.appended(appended.written, appended.already_there, appended.turn_count)
        if appended.returned:
            returned = record.counts.get(BESIDE, 0) + appended.returned
            record = record.model_copy(update={"counts": {**record.counts, BESIDE: returned}})
        telling.tell_forgotten(appended.forgotten)
        if not order.extract or telling.asker is None:
            update = {**_page(appended), "kept": _kept_rule(order, bool(record.commits))}
            if order.extract:
                telling.skip_facts("llm_missing", "no language model is configured; only the words were kept")
                update |= {"owes": await self._owed(scope, record), "order": said}
            if asked_before := _unfinished(before):
                # These words do not cancel what was asked for others: it is still to be done.
                update |= {"owes": await self._owed(scope, record), "order": asked_before}
                telling.leaves_work = before is not None and before.status is not SessionStatus.FAILED
            try:
                record = await self._complete(scope, record, update, telling)
            except CommitError as error:
                return await self._failed(scope, record, before, job, error, telling)
            return await self._indexed(record, job, appended.fresh, telling)
        begun: dict[str, Any] = {"status": SessionStatus.IN_PROGRESS, "order": said}
        # What is left to the worker is answered at once.
        begun |= {"answered": appended.before if order.wait == "indexed" else None}
        record = await self._turn_page(scope, record, {**_page(appended), **begun})
        if order.wait == "archived":
            return await self._left_to_the_worker(record, job, appended.fresh, telling)
        if not telling.asker.by_rules:  # which take no time
            await self._words(record, appended.fresh, telling)
        try:
            record = await self._digest(scope, record, appended.fresh, telling)
        except CommitError as error:
            return await self._failed(scope, record, before, job, error, telling)
        if telling.outcome.failures:
            partial = _partial(telling.outcome)
            return await self._failed(scope, record, before, job, partial, telling)
        return await self._indexed(record, job, appended.fresh, telling)

    async def rehearse(
        self,
        scope: Scope,
        key: SessionKey,
        principals: tuple[str, ...],
        intake: Intake,
        order: WriteOrder,
        asker: Asker,
    ) -> Telling:
        """Everything a commit would do, and nothing of it done."""
        telling = Telling(key, intake, order, asker)
        record = await self.archive.read_session(scope, key)
        there = await self._keeper.turn_ids(scope, record) if record else set()
        seen = await self._keeper.known(scope, record, telling)
        record = record or new_record(key, principals, self.clock)
        given = islice(intake.spool.turns(), seen.count, None)
        unseen = [turn for turn in given if seen.numbered or turn.turn_id not in there]
        now, known = self.clock.now(), len(there)
        turns = [StoredTurn(turn, n, now, "") for n, turn in enumerate(unseen, known + 1)]
        record = record.model_copy(update={"turn_count": known + len(turns)})
        telling.outcome = await self.committer.commit(scope, record, turns, order.for_commit(), asker)
        return telling.ended("ok", record)

    async def resume(self, job: Job) -> None:
        """A write that was left to the worker, or whose writer died: from its words to its index."""
        key = session_of(job)
        scope = Scope.steward_of(key.tenant_id)
        record = await self.archive.read_session(scope, key)
        if record is None:
            return
        # The page says what is left to do; the job, what whoever put it had in mind.
        order = WriteOrder.from_payload(record.order or job.payload["order"])
        scope = replace(scope, trace_id=order.trace_id)
        asker = self.lent.get(job.job_id) or self.own_asker()
        if not _is_complete(record) and not record.turn_count:
            record = await self._closed(scope, record)
        elif order.extract and (not _is_complete(record) or (record.owes and (asker or order.llm_policy == "require"))):
            record = await self._resume_digest(scope, record, order, asker)
        if record is None:
            return
        await self.replicas.index_session(key)
        await self.replicas.project(key)
        # Also those a writer left that died, or lost its index, after it had completed the page.
        for commit in await self.archive.read_commits(scope, key, after=record.commits - 1):
            await self._index_others(commit.others)
        self.lent.pop(job.job_id, None)

    async def _resume_digest(
        self, scope: Scope, record: SessionRecord, order: WriteOrder, asker: Asker | None
    ) -> SessionRecord:
        """The words before anything a model is asked for: who has none leaves them found, and the rest waiting."""
        if asker is None or not _is_complete(record):
            await self.replicas.index_session(record.key)
        if asker is None:
            raise ModelNotConfigured("this session waits for a language model and none is configured", field="llm")
        telling = Telling(record.key, Intake(), order, asker)
        try:
            record = await self._digest(scope, record, [], telling)
            if telling.outcome.failures:
                raise _partial(telling.outcome)
        except MnemonError as error:
            if not _is_complete(record):
                await self._turn_page(scope, record, _failure(error))
            raise
        return record

    async def _closed(self, scope: Scope, record: SessionRecord) -> SessionRecord | None:
        """A session whose first writer died. Whether its words are all, only he could say: it is told to be written
        again. One without a word was never there."""
        there = await self.archive.append_turns(scope, record.key, ())
        if not there.turn_count:
            await self.archive.drop_session(scope, record.key)
            await self.replicas.index_session(record.key)
            return None
        died = {"status": SessionStatus.FAILED, "error_reason": "its writer died before the end; write it again"}
        words = {"turn_count": there.turn_count, "chain_head": there.chain_head, "answered": 0, "order": None}
        return await self._turn_page(scope, record, {**died, **words})

    # --- one at a time

    @asynccontextmanager
    async def _held(self, key: SessionKey, order: WriteOrder, telling: Telling) -> AsyncIterator[Job | None]:
        """The session to oneself, by holding its job: intent first, so that a crash leaves it to be taken up."""
        job = digest_job(key, order.to_payload())
        try:
            await self._take(job)
        except Busy:
            raise
        except MnemonError as error:
            telling.degrade("queue", f"the job could not be stored ({error}); repair will find the session")
            yield None
            return
        try:
            async with lease_kept(self.queue, self.worker, [job.job_id]):
                yield job
        except BaseException:
            await self.queue.release(job.job_id)
            raise

    async def _take(self, job: Job) -> None:
        pause, waited = 0.01, 0.0
        while not await self.queue.take(job, self.worker, LEASE):
            if waited >= HOLD_S:
                raise Busy(
                    f"session {job.payload['session_id']} is being written by somebody else; try again",
                    session_id=job.payload["session_id"],
                )
            await asyncio.sleep(pause)
            waited += pause
            pause = min(pause * 1.5, 0.5)

    async def _let_go(self, job: Job | None) -> None:
        if job is not None:
            await self.queue.done(job.job_id)
            self.lent.pop(job.job_id, None)

    # --- words

    async def _skipped(self, scope: Scope, record: SessionRecord | None, telling: Telling) -> Telling:
        """Completed already: nothing is written, and turns it has not seen are named, not swallowed."""
        assert record is not None
        await self._keeper.nothing_new(scope, record, telling)
        if record.graph and telling.order.graph_upsert and telling.graph == "skipped":
            # Complete, but perhaps not in the graph: asking again is how a caller has that made good.
            try:
                behind = await self.replicas.is_behind(record)
            except MnemonError as error:
                telling.graph_failed(error)
                telling.degrade("graph_pending", str(error))
            else:
                telling.graph = "ok"
                if behind:
                    await self._into_graph(record, telling)
        return telling.ended("skipped_existing", record)

    async def _owed(self, scope: Scope, record: SessionRecord) -> int:
        """The first turn of which no memories were made."""
        commits = await self.archive.read_commits(scope, record.key, after=record.commits - 1)
        first = max((c.last_seq for c in commits if c.number == record.commits), default=0) + 1
        return min(first, record.owes) if record.owes else first

    # --- memories

    async def _digest(
        self, scope: Scope, record: SessionRecord, fresh: list[StoredTurn], telling: Telling
    ) -> SessionRecord:
        """Stages 2 and 3 and the page that vouches for them. A model that fails costs the facts, if that is allowed."""
        assert telling.asker is not None
        order = telling.order
        try:
            outcome = await self.committer.commit(scope, record, fresh, order.for_commit(), telling.asker)
        except CommitError as error:
            if order.llm_policy == "require" or isinstance(error.__cause__, StorageFailed):
                raise
            reason = "budget" if error.details.get("cause") == "RESOURCE_EXHAUSTED" else "llm_error"
            telling.skip_facts(reason, error.message)
            update = {"owes": await self._owed(scope, record), "order": order.to_payload()}
            kept = {"kept": _kept_rule(order, bool(record.commits))}
            return await self._complete(scope, record, {**update, **kept}, telling)
        telling.outcome = outcome
        if fresh:
            fresh += outcome.recorded
        if outcome.failures:
            return record
        update = {"kept": _kept_rule(order, bool(record.commits or outcome.commit))}
        if outcome.owes:
            update |= {"owes": outcome.owes, "order": order.to_payload()}
        if outcome.commit:
            update |= {"claim_ids": outcome.claim_ids, "commits": outcome.commit}
        if outcome.last is not None and outcome.last.seq > record.turn_count:
            update |= {"turn_count": outcome.last.seq, "chain_head": outcome.last.chain}
        if outcome.recorded:
            beside = record.counts.get(BESIDE, 0) + len(outcome.recorded)
            update |= {"counts": {**record.counts, BESIDE: beside}}
        return await self._complete(scope, record, update, telling)

    async def _complete(
        self, scope: Scope, record: SessionRecord, update: dict[str, Any], telling: Telling
    ) -> SessionRecord:
        """The page that vouches; where the graph is required, not before the graph holds what the page will say."""
        order = telling.order
        nothing_left = {"error_reason": None, "order": None, "answered": None, **({"owes": 0} if order.extract else {})}
        done = {"status": SessionStatus.COMPLETED, **nothing_left, "graph": order.graph_upsert, **update}
        page = record.model_copy(update=done)
        if order.graph_upsert and order.graph_policy == "require":
            try:
                await self.replicas.stage(page)
            except MnemonError as error:
                telling.graph_failed(error)
                raise CommitError(f"the graph does not take it: {error.message}", phase="graph") from error
        counts = {**page.counts, "events": page.turn_count, "claims": len(page.claim_ids)}
        return await self._turn_page(scope, record, {**done, "counts": counts})

    async def _turn_page(self, scope: Scope, record: SessionRecord, update: dict[str, Any]) -> SessionRecord:
        return await turn_page(self.archive, scope, record, lambda _: update)

    async def _failed(
        self,
        scope: Scope,
        record: SessionRecord,
        before: SessionRecord | None,
        job: Job | None,
        error: CommitError,
        telling: Telling,
    ) -> Telling:
        """The words stay, the page says why, and the same call made again completes it."""
        telling.error = error
        try:
            record = await self._turn_page(scope, record, _failure(error))
        except StorageFailed as full:
            telling.degrade("page", f"{full.message}; the worker takes the session up again")
            if job is not None:
                await self.queue.release(job.job_id)
            return telling.ended("failed", record)
        if telling.order.cleanup_on_failure:
            await self._clean_up(scope, record, before, telling)
        try:
            await self.replicas.index_session(record.key)
        except MnemonError:  # the page is enough, and the words are found as words
            await self._words(record, [], telling)
        await self._let_go(job)
        return telling.ended("failed", record)

    async def _clean_up(
        self, scope: Scope, record: SessionRecord, before: SessionRecord | None, telling: Telling
    ) -> None:
        if before is not None and before.turn_count:
            telling.degrade("cleanup", "the session had words before this call; nothing was taken away")
            return
        assert telling.asker is not None
        try:
            await self.committer.undo(scope, record, telling.asker)
            await self.archive.drop_session(scope, record.key)
        except MnemonError as error:
            telling.degrade("cleanup", f"{error}; not everything of this call could be taken away")
        else:
            telling.degrade("cleanup", "the words of this call were taken away again, as asked")

    # --- replicas

    async def _words(self, record: SessionRecord, fresh: list[StoredTurn], telling: Telling) -> None:
        """To be found by word, and by whoever reads on, before any model is asked."""
        try:
            await self.replicas.index_words(record.key, fresh)
        except MnemonError as error:
            telling.degrade("index_pending", f"{error}; the worker will try again")

    async def _left_to_the_worker(
        self, record: SessionRecord, job: Job | None, fresh: list[StoredTurn], telling: Telling
    ) -> Telling:
        await self._words(record, fresh, telling)
        if job is not None:
            if telling.lent and telling.asker is not None:
                self.lent[job.job_id] = telling.asker
            await self.queue.release(job.job_id)
        told = "the words are kept and can be searched; the worker finds them by meaning and makes memories of them"
        telling.degrade("digest_pending", told)
        return telling.ended("ok", record)

    async def _indexed(
        self, record: SessionRecord, job: Job | None, fresh: list[StoredTurn], telling: Telling
    ) -> Telling:
        """Read your writes, or leave it to the worker."""
        if telling.order.wait == "archived":
            await self._words(record, fresh, telling)
            if job is not None:
                await self.queue.release(job.job_id)
            telling.graph = "pending" if record.graph else "skipped"
            told = "the words can be searched; the worker finds them by meaning; wait='archived' was asked for"
            telling.degrade("index_pending", told)
        else:
            await self._bring_up(record, job, fresh, telling)
        return telling.ended("ok", record)

    async def _bring_up(
        self, record: SessionRecord, job: Job | None, fresh: list[StoredTurn], telling: Telling
    ) -> None:
        """The replicas up to the page, and the job with them. A replica that fails is lag, not loss."""
        begun = time.perf_counter()
        failed: MnemonError | None = None
        try:
            telling.counts["turns_indexed"] = await self.replicas.index_session(record.key, fresh, record)
            for key in _sessions(telling.outcome.others):
                await self.replicas.index_session(key)
        except MnemonError as error:
            failed = error
            telling.degrade("index_pending", f"{error}; the worker will try again")
        else:
            telling.timed("index_ms", begun)
        failed = await self._into_graph(record, telling, fresh) or failed
        if failed is None and telling.leaves_work and job is not None:
            await self.queue.release(job.job_id)
        elif failed is None:
            await self._let_go(job)
            return
        if job is None:  # until now it needed none
            job = digest_job(record.key, telling.order.to_payload())
            await self.queue.take(job, self.worker, LEASE)
        await self.queue.fail(job.job_id, str(failed))

    async def _into_graph(
        self, record: SessionRecord, telling: Telling, fresh: Sequence[StoredTurn] = ()
    ) -> MnemonError | None:
        """What goes wrong is told; the session is complete without it, and the same call made again tries again."""
        begun = time.perf_counter()
        try:
            await self.replicas.project(record.key, fresh, page=record)
            for key in _sessions(telling.outcome.others):
                await self.replicas.project(key)
        except MnemonError as error:
            telling.graph_failed(error)
            telling.degrade("graph_pending", f"{error}; the worker will try again")
            return error
        telling.graph = "ok" if record.graph else "skipped"
        telling.timed("graph_ms", begun)
        return None

    async def _index_others(self, others: Sequence[Claim]) -> None:
        """Sessions whose claims hold otherwise since."""
        for key in _sessions(others):
            await self.replicas.index_session(key)
            await self.replicas.project(key)


def _sessions(claims: Sequence[Claim]) -> tuple[SessionKey, ...]:
    return tuple(dict.fromkeys(claim.session for claim in claims))


def _is_complete(record: SessionRecord) -> bool:
    return record.status is SessionStatus.COMPLETED


def _unfinished(record: SessionRecord | None) -> dict[str, Any] | None:
    """What was asked of a session and is not done: its memories."""
    order = record.order if record is not None else None
    return order if order is not None and order["extract"] else None


def _is_done(record: SessionRecord | None, telling: Telling) -> bool:
    """Nothing to write, and nothing to make good: what a model owes, this call's model can make up for."""
    if record is None or not _is_complete(record):
        return False
    order = telling.order
    owed = record.owes and order.extract and telling.asker is not None
    return order.mode == "once" and not order.overwrite and not owed


def _is_words_alone(record: SessionRecord | None, principals: tuple[str, ...], telling: Telling) -> bool:
    """Nothing to make of them, nothing to stage, few enough turns for one step, and no doubt which of them are new."""
    order, intake = telling.order, telling.intake
    staged = order.graph_upsert and order.graph_policy == "require"
    if order.extract or staged or order.wait != "indexed" or not 0 < intake.spool.count <= BATCH:
        return False
    if record is None:
        return True
    goes_on = _is_complete(record) and order.mode == "append" and set(record.principals) == set(principals)
    # Turns without ids may be those that are there, sent again: fewer than those cannot be, once all are answered.
    there = record.turn_count - record.counts.get(BESIDE, 0)
    new = intake.spool.count < there and record.answered in (None, record.turn_count)
    return bool(goes_on and not order.overwrite and (intake.named or new))


def _page(appended: Appended) -> dict[str, Any]:
    if not appended.turn_count:
        return {}
    return {"turn_count": appended.turn_count, "chain_head": appended.chain_head}


def _failure(error: MnemonError) -> dict[str, Any]:
    return {"status": SessionStatus.FAILED, "error_reason": error.message}


def _partial(outcome: Outcome) -> CommitError:
    return CommitError("; ".join(outcome.failures), phase="write", partial_results=outcome.results)


def _kept_rule(order: WriteOrder, judged: bool) -> KeptRule:
    """For the whole session, as the last call wants it."""
    if not order.write_events:
        return "none"
    return "tagged" if judged else "all"
