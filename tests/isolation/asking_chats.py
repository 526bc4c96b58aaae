"""Questions at every door a chat's memories could come out of, each answer held against every mark of the town."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from asking_http import Knocking
from chat_town import GROUPS, STRANGERS, Asker, ChatTown, Spoken
from tally import Tally
from town import Town, Visitor
from world import Caller, marks

from mnemon import AsyncMemory, Scope
from mnemon.contracts.errors import NotFound
from mnemon.contracts.filters import EVERYTHING
from mnemon.contracts.graph import GraphAsk, ItemKind
from mnemon.engine.cognitive import AsyncCognitive
from mnemon.pipelines.index.projection import CLAIM, PROFILE, TURN
from mnemon.surfaces.tools import ChatTurn, call_tool_async

ALL = 200  # more than any chat holds
QUESTIONS = ("唱片", "bee hive", "暗号是什么？", "Which room?", "*", "%", "q1q")
STRATEGIES = ("dialog_v1", "dialog_v2", "auto_v1", "video_v1")
_GRAPH: tuple[ItemKind, ...] = ("entity", "event", "state", "utterance", "knowledge")
_SHOWN = 5

Door = Callable[[Asker], Awaitable[None]]
T = TypeVar("T")


@dataclass
class Verdicts(Tally):
    """One check is one asker, one door, one mark: may it be in the answer, and is it?"""

    town: frozenset[str] = frozenset()
    answers: int = 0
    found_at: Counter[str] = field(default_factory=Counter)

    def hold(self, who: object, door: str, got: set[str], may: Collection[str], must: Collection[str] = ()) -> None:
        self.answers += 1
        self.checks += len(self.town)
        self.found_at[door.partition("(")[0]] += len(got & set(may))
        if more := got - set(may):
            self.leaks.append(f"{who} asked {door} and got {sorted(more)[:_SHOWN]}")
        if less := set(must) - got:
            self.missing.append(f"{who} asked {door} and did not get {sorted(less)[:_SHOWN]}")


@dataclass(frozen=True)
class _Thing:
    """Something with a name to ask for, whose the memory says it is, and the marks it holds."""

    name: str
    tenant: str
    principals: frozenset[str]
    held: set[str]


class Examination:
    """Asks in the name of anybody, for their own and for others'."""

    def __init__(self, memory: AsyncMemory, town: ChatTown, tally: Verdicts) -> None:
        self._memory = memory
        self._town = town
        self._tally = tally
        self._rng = random.Random(town.seed + 1)
        self._askers = town.askers()
        self._by_mark = {said.mark: said for said in town.spoken}
        self._things: dict[str, list[_Thing]] = {}

    @property
    def doors(self) -> tuple[Door, ...]:
        return (
            self._context,
            *[self._search_events] * 3,
            *[self._get_profile] * 3,
            *[self._search_profiles] * 2,
            self._profile_history,
            self._tools,
            self._messages,
            self._message_searches,
            *[self._retrieval] * 2,
            self._search,
            self._claims,
            self._nodes_and_history,
            self._graph_lists,
            self._graph_of_one,
        )

    async def look_around(self) -> None:
        """Names of what there is at all, as stewards see it."""
        parts = self._memory.parts
        for tenant in dict.fromkeys(said.tenant for said in self._town.spoken):
            scope = Scope.steward_of(tenant)
            for entry in (await parts.index.scroll(scope, EVERYTHING, limit=100_000)).entries:
                name = entry.fields["uri"] if entry.kind == PROFILE else entry.id
                self._note(entry.kind, _Thing(name, tenant, frozenset(entry.principals), marks(entry.text)))
            for kind in _GRAPH:
                for item in (await parts.graph.find(scope, GraphAsk(kind, limit=100_000))).items:
                    self._note(kind, _Thing(item.id, tenant, frozenset(item.user_id), marks(item)))

    def _note(self, kind: str, thing: _Thing) -> None:
        self._things.setdefault(kind, []).append(thing)

    async def ask(self, rounds: int) -> None:
        """Somebody goes from door to door, so many times."""
        for _ in range(rounds):
            asker = next(self._askers)
            for door in self.doors:
                await door(asker)

    # --- what to ask for

    def _mark(self, asker: Asker) -> str:
        """One's own, one of the tenant's, or any."""
        drawn = self._rng.random()
        own = self._town.said_to(asker, asker.everything) if drawn < 0.5 else set()
        here = {said.mark for said in self._town.spoken if said.tenant == asker.tenant} if drawn < 0.8 else set()
        return self._rng.choice(sorted(own or here or self._tally.town))

    def _thing(self, asker: Asker, kind: str) -> _Thing:
        """Something that seems to be one's own, or anything."""
        all_ = self._things[kind]
        own = [t for t in all_ if t.tenant == asker.tenant and t.principals <= asker.everything]
        return self._rng.choice(own if own and self._rng.random() < 0.5 else all_)

    def _person(self, asker: Asker) -> str:
        return self._rng.choice((*[asker.user] * 4, *self._town.people, self._rng.choice(STRANGERS)))

    def _group(self, asker: Asker) -> str:
        return self._rng.choice((*[asker.group or "g1"] * 4, *self._town.members_of, self._rng.choice(GROUPS)))

    def _entity(self, asker: Asker) -> tuple[Any, str]:
        return ("group", self._group(asker)) if self._rng.random() < 0.3 else ("user", self._person(asker))

    def _door(self, asker: Asker) -> AsyncCognitive:
        return self._memory.cognitive(asker.tenant, asker.user, asker.group, include_private=asker.private)

    def _told(self, asker: Asker, also: Callable[[Spoken], bool] = lambda _: True) -> set[str]:
        """What the chat tools may say: what the historian made of a bot's turns in this chat."""
        return self._town.said_to(asker, asker.in_chat, lambda said: _digested(said) and also(said))

    # --- the chat tools

    async def _context(self, asker: Asker) -> None:
        """With the profile of the person, that of the group, and the events nearest to a mark."""
        mark, may = self._mark(asker), self._told(asker)
        made = await self._door(asker).context(mark, top_k=3, max_tokens=100_000)
        profiles = self._told(asker, lambda said: said.entity in (("user", asker.user), ("group", asker.group)))
        self._tally.hold(asker, "context", marks(made), may, profiles | {mark} & may)

    async def _search_events(self, asker: Asker) -> None:
        user = self._person(asker) if self._rng.random() < 0.5 else None
        group = self._group(asker) if self._rng.random() < 0.4 else None
        may = self._told(asker, lambda said: user in (None, said.sender) and group in (None, said.group))
        asked = {"target_user_id": user, "target_group_id": group, "top_k": ALL}
        found = await self._door(asker).search_events(self._rng.choice((*QUESTIONS, self._mark(asker))), **asked)
        self._tally.hold(asker, f"search_events({user}, {group})", marks(found), may, may)
        mark = self._mark(asker)
        by_mark = await self._memory.search_events(
            mark, **asker.options, include_private=asker.private, **{**asked, "top_k": 3}
        )
        self._tally.hold(asker, f"search_events({mark}, {user}, {group})", marks(by_mark), may, {mark} & may)

    async def _get_profile(self, asker: Asker) -> None:
        entity = self._entity(asker)
        may = self._told(asker, lambda said: said.entity == entity)
        found = await unless_missing(self._door(asker).get_profile(*entity))
        self._tally.hold(asker, f"get_profile({entity})", marks(found), may, may)

    async def _search_profiles(self, asker: Asker) -> None:
        kind, id_ = self._entity(asker)
        narrow = {"entity_type": self._rng.choice((None, kind)), "entity_id": self._rng.choice((None, id_))}

        def fits(said: Spoken) -> bool:
            asked = (narrow["entity_type"], narrow["entity_id"])
            return said.entity is not None and all(a in (None, b) for a, b in zip(asked, said.entity, strict=True))

        may = self._told(asker, fits)
        found = await self._door(asker).search_profiles(self._rng.choice(QUESTIONS), **narrow, top_k=ALL)
        must = may if not asker.private else ()  # of somebody who is known in two places one is shown
        self._tally.hold(asker, f"search_profiles({narrow})", marks(found), may, must)
        mark = self._mark(asker)
        by_mark = await self._door(asker).search_profiles(mark, **narrow, top_k=1)
        self._tally.hold(asker, f"search_profiles({mark}, {narrow})", marks(by_mark), may, {mark} & may)

    async def _profile_history(self, asker: Asker) -> None:
        entity, door = self._entity(asker), self._door(asker)
        may = self._told(asker, lambda said: said.entity == entity)
        versions = await unless_missing(door.profile_history(*entity))
        must = may if not asker.private else ()  # the history is that of one place
        self._tally.hold(asker, f"profile_history({entity})", marks(versions), may, must)
        before = min((version.version for version in versions or ()), default=1)
        diff = await unless_missing(door.profile_diff(*entity, before))
        self._tally.hold(asker, f"profile_diff({entity})", marks(diff), may)

    async def _tools(self, asker: Asker) -> None:
        """As a bot's model calls them."""
        turn = ChatTurn(**asker.options, request_id="r", include_private=asker.private)
        kind, id_ = self._entity(asker)
        mark, may = self._mark(asker), self._told(asker)
        about = self._told(asker, lambda said: said.entity == (kind, id_))
        calls: dict[str, tuple[dict[str, Any], set[str], set[str]]] = {
            "cognitive.search_events": ({"query": mark}, may, {mark} & may),
            "cognitive_search_profiles": (
                {"query": mark, "entity_id": id_, "entity_type": kind},
                about,
                {mark} & about,
            ),
            "cognitive.get_profile": ({"entity_type": kind, "entity_id": id_}, about, about),
        }
        for name, (arguments, allowed, must) in calls.items():
            got = await unless_missing(call_tool_async(self._memory, turn, name, arguments))
            self._tally.hold(asker, f"{name}({arguments})", marks(got), allowed, must)

    # --- the words

    async def _messages(self, asker: Asker) -> None:
        bound = self._memory.bind(asker.tenant, asker.user, None, asker.group)
        may = self._town.said_to(asker, asker.everything)
        self._tally.hold(asker, "messages_list", marks(await bound.messages_list(page_size=ALL)), may, may)
        session = self._rng.choice(("beside", "chat-2026-01-01-08", "chat-2026-01-01-07"))
        page = await bound.messages_list(page_size=ALL, session_id=session)
        self._tally.hold(asker, f"messages_list({session})", marks(page), may)
        turn = self._thing(asker, TURN)
        around = await unless_missing(bound.neighbors(turn.name, 20, 20))
        self._tally.hold(asker, f"neighbors({turn})", marks(around), may, turn.held & may)

    async def _message_searches(self, asker: Asker) -> None:
        bound = self._memory.bind(asker.tenant, asker.user, None, asker.group)
        may, mark = self._town.said_to(asker, asker.everything), self._mark(asker)
        hits = await bound.lexical_search(f'"{mark}"', page_size=ALL)
        self._tally.hold(asker, f"lexical_search({mark})", marks(hits.items), may, {mark} & may)
        near = await bound.semantic_search(self._rng.choice(QUESTIONS), top_k=ALL)
        self._tally.hold(asker, "semantic_search", marks(near), may, may)

    # --- retrieval and search

    async def _retrieval(self, asker: Asker) -> None:
        mark, strategy = self._mark(asker), self._rng.choice(STRATEGIES)
        options = {**asker.options, "include_private": asker.private, "strategy": strategy, "topk": ALL}
        result = await self._memory.retrieval(mark, **options)
        may = self._town.said_to(asker, asker.in_chat)
        beside = self._town.said_to(asker, asker.in_chat, lambda said: not _digested(said))
        must = {"dialog_v1": self._told(asker) | beside, "dialog_v2": beside}.get(strategy, set()) & {mark}
        self._tally.hold(asker, strategy, marks((result.hits, result.prompt, result.debug.executed_calls)), may, must)

    async def _search(self, asker: Asker) -> None:
        result = await self._memory.search(self._mark(asker), **asker.options, topk=ALL)
        may = self._town.said_to(asker, asker.everything)
        self._tally.hold(asker, "search", marks((result.hits, result.neighbors)), may, may)

    # --- what is known

    async def _claims(self, asker: Asker) -> None:
        may = self._town.said_to(asker, asker.everything)
        digested = self._town.said_to(asker, asker.everything, _digested)
        page = await self._memory.claims(**asker.options, state=None, limit=500)
        self._tally.hold(asker, "claims", marks(page), may, digested)
        claim = self._thing(asker, CLAIM)
        one = await unless_missing(self._memory.claim(**asker.options, claim_id=claim.name))
        self._tally.hold(asker, f"claim({claim})", marks(one), may, claim.held & may)

    async def _nodes_and_history(self, asker: Asker) -> None:
        """The folder of the group where one is named, else the person's own."""
        here = {f"g:{asker.group}"} if asker.group is not None else asker.everything
        may = self._town.said_to(asker, here)
        listed = await self._memory.nodes(**asker.options)
        self._tally.hold(asker, "nodes", marks(listed), may)
        known = self._town.said_to(asker, here, lambda said: bool(said.about))
        read: set[str] = set()
        for uri in [*(summary.uri for summary in listed), self._thing(asker, PROFILE).name]:
            read |= marks(await unless_missing(self._memory.node(**asker.options, uri=uri)))
            history = await unless_missing(self._memory.node_history(**asker.options, uri=uri))
            self._tally.hold(asker, f"node_history({uri})", marks(history), may)
        self._tally.hold(asker, "node", read, may, known)

    # --- the graph

    async def _graph_lists(self, asker: Asker) -> None:
        view = self._memory.graph(asker.tenant, asker.user, None, asker.group)
        may = self._town.said_to(asker, asker.everything)
        digested = self._town.said_to(asker, asker.everything, _digested)
        self._tally.hold(asker, "graph.events", marks(await view.events(limit=500)), may, digested)
        for name, answer in {
            "graph.entities": view.entities(limit=500),
            "graph.timeslices": view.timeslices(limit=500),
            "graph.pending_equivs": view.pending_equivs(),
            "graph.resolve": view.resolve(self._person(asker)),
        }.items():
            self._tally.hold(asker, name, marks(await answer), may)

    async def _graph_of_one(self, asker: Asker) -> None:
        view = self._memory.graph(asker.tenant, asker.user, None, asker.group)
        may = self._town.said_to(asker, asker.everything)
        entity = self._thing(asker, "entity").name
        for name, answer in {
            "graph.timeline": view.timeline(entity, limit=500),
            "graph.evidences": view.evidences(entity, limit=500),
            "graph.states": view.states_current(entity),
        }.items():
            self._tally.hold(asker, name, marks(await unless_missing(answer)), may)
        for name, kind, ask in (
            ("graph.event", "event", view.event),
            ("graph.explain_event", "event", view.explain_event),
            ("graph.explain_knowledge", "knowledge", view.explain_knowledge),
        ):
            thing = self._thing(asker, kind)
            told = marks(await unless_missing(ask(thing.name)))
            self._tally.hold(asker, f"{name}({thing})", told, may, thing.held & may)


class HttpExamination(Examination):
    """The same people with tokens of their own, or spoken for by a service, at the routes for chats."""

    def __init__(self, town: Town, chats: ChatTown, tally: Verdicts) -> None:
        super().__init__(town.memory, chats, tally)
        self._service = town
        self._knock = Knocking(town.client)
        self._known: dict[tuple[str, str, str | None, bool], Visitor] = {}

    @property
    def doors(self) -> tuple[Door, ...]:
        return (self._context_route, self._events_route, self._profiles_route, self._profile_routes)

    def _visitor(self, asker: Asker) -> Visitor:
        """A person holds a token for all groups they are in and names one; a service names whom it likes."""
        by_service = self._rng.random() < 0.4
        who = (asker.tenant, asker.user, asker.group, by_service)
        if who not in self._known:
            caller = Caller(asker.tenant, asker.user, group=asker.group)
            others = [group for group, members in self._town.members_of.items() if asker.user in members]
            person = self._service.person(caller, others, entered=asker.group is not None)
            self._known[who] = self._service.backend(caller) if by_service else person
        return self._known[who]

    async def _context_route(self, asker: Asker) -> None:
        mark, may = self._mark(asker), self._told(asker)
        body = {"query": mark, "include_private": asker.private}
        answer = await self._knock.post(self._visitor(asker), "/v1/cognitive/context", body)
        self._tally.hold(asker, "/context", marks(answer.text), may, {mark} & may)

    async def _events_route(self, asker: Asker) -> None:
        mark = self._mark(asker)
        user = self._rng.choice((None, self._person(asker)))
        group = self._rng.choice((None, self._group(asker)))
        may = self._told(asker, lambda said: user in (None, said.sender) and group in (None, said.group))
        body = {"query": mark, "include_private": asker.private, "target_user_id": user, "target_group_id": group}
        answer = await self._knock.post(self._visitor(asker), "/v1/cognitive/search_events", body)
        self._tally.hold(asker, "/search_events", marks(answer.text), may, {mark} & may)

    async def _profiles_route(self, asker: Asker) -> None:
        mark, (kind, id_) = self._mark(asker), self._entity(asker)
        may = self._told(asker, lambda said: said.entity == (kind, id_))
        body = {"query": mark, "include_private": asker.private, "entity_type": kind, "entity_id": id_}
        answer = await self._knock.post(self._visitor(asker), "/v1/cognitive/search_profiles", body)
        self._tally.hold(asker, "/search_profiles", marks(answer.text), may, {mark} & may)

    async def _profile_routes(self, asker: Asker) -> None:
        kind, id_ = self._entity(asker)
        may = self._told(asker, lambda said: said.entity == (kind, id_))
        visitor, at = self._visitor(asker), f"/v1/cognitive/profiles/{kind}/{quote(id_, safe='')}"
        asked = {"include_private": asker.private}
        answer = await self._knock.get(visitor, at, **asked)
        self._tally.hold(asker, f"/profiles({kind}, {id_}): {answer.status_code}", marks(answer.text), may, may)
        for path, more in (("history", {}), ("diff", {"from_version": 1})):
            answer = await self._knock.get(visitor, f"{at}/{path}", **asked, **more)
            self._tally.hold(asker, f"/profiles/{path}", marks(answer.text), may)


def _digested(said: Spoken) -> bool:
    return said.kind == "end"


async def unless_missing(answer: Awaitable[T]) -> T | None:
    """Nothing where that is what there is to see."""
    try:
        return await answer
    except NotFound:
        return None


def all_marks(town: ChatTown) -> frozenset[str]:
    return frozenset(said.mark for said in town.spoken)
