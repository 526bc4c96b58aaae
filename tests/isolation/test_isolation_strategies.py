"""Whoever asks memory itself: every strategy, the message tools, claims and nodes show their own and nobody else's."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from asking_index import Seen
from tally import Tally
from world import AWKWARD, SEED, SHARES, TIMES, Asker, Caller, World, Written, as_options, marks, without_user

from mnemon import AsyncMemory, Config, Scope
from mnemon.contracts.entries import Entry
from mnemon.contracts.errors import BadQuery, InvalidArgument, NotFound
from mnemon.contracts.filters import EVERYTHING
from mnemon.contracts.ports import Index
from mnemon.contracts.scope import Owner
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.pipelines.index.projection import CHUNK, CLAIM, TURN, claim_of
from mnemon.testing.clock import FixedClock

QUESTIONS = ("What is my dog called?", "我喜欢喝什么？", "Where do I live?", "spicy food", "Momo", "*", "%", "绿茶")
STRATEGIES = ("dialog_v2", "dialog_v2", "dialog_v1", "auto_v1", "video_v1")
SESSIONS = 150


def agent(caller: Caller) -> Caller:
    """Everybody speaks through some agent."""
    return replace(caller, agent=caller.agent or "default")


@pytest.fixture
async def memory() -> AsyncIterator[AsyncMemory]:
    config = Config(background_worker=False)
    async with AsyncMemory(
        ":memory:", embedder=HashEmbedder(), llm="rules", config=config, clock=FixedClock()
    ) as opened:
        yield opened


async def remembered(memory: AsyncMemory, world: World) -> list[Written]:
    """Sessions through the front door; one that would lie where another lies is left out."""
    made: dict[tuple[str, str, str], Written] = {}
    for written in world.sessions(SESSIONS):
        place = (written.caller.tenant, written.owner, written.session)
        if place not in made:
            turns = [{"role": "user", "speaker": "Ann", "text": text} for text in written.turns]
            result = await memory.session_write(
                **as_options(written.caller),
                session_id=written.session,
                turns=turns,
                visibility=written.visibility,
            )
            assert result.status == "ok"
            made[place] = written
    return list(made.values())


async def filmed(memory: AsyncMemory, world: World) -> None:
    """A lifelog, which comes in by another door than sessions."""
    for row in world.rows:
        fields = {"ts": 0, "seq": 0, "domain": "lifelog", "modality": "text", "session_id": row.session}
        (vector,) = await memory.parts.embedder.embed_texts([row.text])
        entry = Entry(row.id, tuple(row.principals), row.text, "entry", fields, {}, np.asarray(vector.dense_vector))
        await memory.parts.index.upsert(Scope.steward_of(row.tenant), [entry])


class Examination:
    def __init__(self, memory: AsyncMemory, world: World, sessions: list[Written], tally: Tally) -> None:
        self._memory = memory
        self._rng = random.Random(world.seed + 1)
        self._world = world
        self._sessions = sessions
        self._tally = tally
        self._claims: dict[str, tuple[str, frozenset[str]]] = {}
        self._owners: dict[str, str] = {}
        self._nodes: dict[str, tuple[str, frozenset[str]]] = {}
        self._messages: dict[str, tuple[str, frozenset[str], set[str]]] = {}
        self.found: Counter[str] = Counter()

    async def look_around(self) -> None:
        """What there is at all, as stewards see it: ids to ask for, in whose name."""
        index = self._memory.parts.index
        for tenant in self._world.tenants:
            for entry in await _all_entries(index, tenant):
                principals = frozenset(entry.principals)
                if entry.kind == CLAIM:
                    self._claims[entry.id] = (tenant, principals)
                    self._owners[entry.id] = claim_of(entry).session.owner.principal
                elif entry.kind == CHUNK:
                    self._nodes[entry.fields["uri"]] = (tenant, principals)
                elif entry.kind == TURN:
                    self._messages[entry.id] = (tenant, principals, marks(entry.text))

    def said_to(self, asker: Asker) -> set[str]:
        return {
            mark
            for written in self._sessions
            if asker.may_see(written.caller.tenant, written.principals)
            for mark in written.marks
        }

    async def ask(self, count: int) -> None:
        while self._tally.checks < count:
            known = self._rng.choice(self._sessions).caller
            caller = agent(known if self._rng.random() < 0.5 else self._world.caller())
            await self._retrieve(caller)
            await self._message_tools(caller)
            await self._knowledge(caller)

    async def _retrieve(self, caller: Caller) -> None:
        """In a group what is private stays out, unless it is asked for."""
        private = self._rng.random() < 0.5
        asker = Asker(caller if private or caller.group is None else without_user(caller))
        strategy = self._rng.choice(STRATEGIES)
        result = await self._memory.retrieval(
            self._rng.choice((*QUESTIONS, self._rng.choice(AWKWARD))),
            **as_options(caller),
            agent_id=caller.agent,
            include_private=private,
            strategy=strategy,
            topk=self._rng.choice((5, 200)),
        )
        may = self.said_to(asker)
        if strategy == "video_v1":
            may = {row.mark for row in Seen(asker, self._world).rows}
        self._tally.judge(caller, f"{strategy} {result.query!r}", marks(result), may, complete=False)
        self.found[strategy] += len(marks(result))

    async def _message_tools(self, caller: Caller) -> None:
        bound = self._memory.bind(caller.tenant, str(caller.user), caller.product, caller.group)
        may = self.said_to(Asker(replace(caller, agent=None)))
        listed: set[str] = set()
        cursor: str | None = None
        while True:
            page = await bound.messages_list(page_size=200, cursor=cursor)
            listed |= marks(page)
            cursor = page.next_cursor
            if cursor is None:
                break
        self._tally.judge(caller, "every message", listed, may)
        session = self._rng.choice(self._sessions).session
        page = await bound.messages_list(session_id=session, page_size=200)
        self._tally.judge(caller, f"messages of {session}", marks(page), may, complete=False)
        query = self._rng.choice((*QUESTIONS, self._rng.choice(AWKWARD)))
        try:
            hits = await bound.lexical_search(query, page_size=200)
        except (BadQuery, InvalidArgument):
            pass
        else:
            self._tally.judge(caller, f"words {query}", marks(hits), may, complete=False)
        near = await bound.semantic_search(self._rng.choice(QUESTIONS), top_k=200)
        self._tally.judge(caller, "by meaning", marks(near), may, at_most=200)
        id_, (tenant, principals, told) = self._rng.choice(list(self._messages.items()))
        allowed = Asker(replace(caller, agent=None)).may_see(tenant, principals)
        around = await _unless_missing(bound.neighbors(id_, 20, 20))
        self._tally.judge(caller, f"around {id_}", marks(around), may if allowed else (), complete=False)
        self._tally.counted(caller, f"message {id_}", int(bool(around)), int(allowed))
        assert not allowed or told <= marks(around)

    async def _knowledge(self, caller: Caller) -> None:
        options = {**as_options(caller), "agent_id": caller.agent}
        asker = Asker(caller)
        may = self.said_to(asker)
        page = await self._memory.claims(**options, limit=500, state=None)
        got = {claim.claim_id for claim in page.items}
        own = {id_ for id_, whose in self._claims.items() if asker.may_see(*whose)}
        self._tally.judge(caller, "every claim", got, own)
        self._tally.judge(caller, "words of claims", marks(page), may, complete=False)
        claim_id = self._rng.choice(list(self._claims))
        claim = await _unless_missing(self._memory.claim(**options, claim_id=claim_id))
        self._tally.counted(caller, f"claim {claim_id}", int(claim is not None), int(claim_id in own))
        nodes = await self._memory.nodes(**options)
        owner = Owner.user(str(caller.user)) if caller.group is None else Owner.group(caller.group)
        here = f"{owner.uri(caller.tenant)}/memories/"
        theirs = {uri for uri, whose in self._nodes.items() if uri.startswith(here) and asker.may_see(*whose)}
        self._tally.judge(caller, "every node", {summary.uri for summary in nodes}, theirs)
        for summary in nodes:
            node = await self._memory.node(**options, uri=summary.uri)
            self._tally.judge(caller, f"node {summary.uri}", marks(node), may, complete=False)
            history = await self._memory.node_history(**options, uri=summary.uri)
            self._tally.judge(caller, f"history of {summary.uri}", marks(history), may, complete=False)

    async def try_to_change(self, rounds: int) -> None:
        """Another's claim can be neither confirmed, nor rejected, nor corrected, nor forgotten, whoever names it.

        People forget their own through whatever product they speak."""
        for _ in range(rounds):
            caller = agent(self._world.caller())
            claim_id, whose = self._rng.choice(list(self._claims.items()))
            if Asker(caller).may_see(*whose) or self._owners[claim_id] == f"u:{caller.user}":
                continue
            options = {**as_options(caller), "agent_id": caller.agent, "claim_id": claim_id}
            tries: dict[str, Awaitable[Any]] = {
                "confirm": self._memory.confirm(**options),
                "reject": self._memory.reject(**options),
                "correct": self._memory.correct(**options, statement="mine now"),
                "forget": self._memory.forget(caller.tenant, caller.user, claim_id=claim_id),
            }
            for what, attempt in tries.items():
                try:
                    await attempt
                except NotFound:
                    self._tally.refused(caller, what, True)
                else:
                    self._tally.refused(caller, f"{what} {claim_id}", False)


async def _unless_missing(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except NotFound:
        return None


async def _all_entries(index: Index, tenant: str) -> list[Entry]:
    page = await index.scroll(Scope.steward_of(tenant), EVERYTHING, limit=100_000)
    return list(page.entries)


async def test_no_strategy_and_no_tool_reaches_beyond_its_scope(memory: AsyncMemory) -> None:
    world, tally = World(SEED + 5, rows_per_tenant=20), Tally(SEED)
    examination = Examination(memory, world, await remembered(memory, world), tally)
    await filmed(memory, world)
    await examination.look_around()
    await examination.try_to_change(150 * TIMES)
    assert tally.checks > 300
    await examination.ask(SHARES["strategies"] * TIMES)
    tally.close("strategies")
    assert all(examination.found[strategy] > 100 for strategy in STRATEGIES)
