"""Questions over HTTP, each judged: every reading door, by people with tokens and by services that name people."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from tally import Tally
from town import EVERYBODY_S, HEADERS, Holder, Told, Town, Visitor, called
from world import AWKWARD, WORDS, Asker, Row, marks, without_user

from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.ports import Archive, Holds, Likeness, Replicator
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.logic.operations import operations
from mnemon.logic.shelves import key_at
from mnemon.pipelines.jobs import digest_job
from mnemon.testing.archive_suite import claim, record, turn
from mnemon.testing.clock import FixedClock

QUESTIONS = ("What is my dog called?", "我喜欢喝什么？", "Where do I live?", "spicy food", "Momo", "*", "%", "绿茶")
STRATEGIES = ("dialog_v2", "dialog_v1", "auto_v1", "video_v1")
FOR_SERVICES = ("dump", "erase_tenant", "get_blob", "owners", "read_log", "repair", "resolve_path", "verify")
_PLACES: dict[type, str] = {Archive: "archive", Holds: "holds", Replicator: "replicas", Likeness: "likeness"}
CLOCK = FixedClock()

T = TypeVar("T", Told, Row)
Door = Callable[[Visitor], Awaitable[None]]


class Knocking:
    """Requests as a visitor sends them."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def get(self, visitor: Visitor, path: str, **query: Any) -> httpx.Response:
        return _sound(await self._client.get(path, params=query, headers=visitor.headers))

    async def post(self, visitor: Visitor, path: str, body: Any = None, **headers: bytes) -> httpx.Response:
        sent = {**visitor.headers, **{HEADERS.get(name, name): value for name, value in headers.items()}}
        return _sound(await self._client.post(path, json=body, headers=sent))

    async def call(self, visitor: Visitor, port: type, name: str, *args: Any, **named: Any) -> httpx.Response:
        """One operation of a port, in the words of its driver."""
        body = operations(port, frozenset({"load", "close"}))[name].request(*args, **named)
        sent = {**visitor.headers, "Content-Type": b"application/json"}
        return _sound(await self._client.post(f"/v1/{_PLACES[port]}/{name}", content=body, headers=sent))


def _sound(answer: httpx.Response) -> httpx.Response:
    assert answer.status_code < 500, answer.text
    return answer


def seen_of(things: Iterable[Told | Row], asker: Asker) -> set[str]:
    return {
        mark
        for thing in things
        if asker.may_see(thing.tenant, thing.principals)
        for mark in (thing.marks if isinstance(thing, Told) else (thing.mark,))
    }


class Examination:
    def __init__(self, client: httpx.AsyncClient, town: Town, visitors: Sequence[Visitor], tally: Tally) -> None:
        self._knock = Knocking(client)
        self._town = town
        self._visitors = visitors
        self._tally = tally
        self._rng = random.Random(town.world.seed + 3)
        self._at = {told.key: told for told in town.told}
        self._at_door = ""
        self.found: Counter[str] = Counter()

    @property
    def doors(self) -> tuple[Door, ...]:
        return (
            self._messages,
            self._session,
            self._words,
            self._meaning,
            self._around,
            self._attachment,
            self._claims,
            self._claim,
            self._nodes,
            self._node,
            *[self._search] * 3,
            self._search_by_names,
            *[self._retrieval] * 2,
            *[self._recall] * 2,
            *[self._chat_events] * 2,
            self._chat_profiles,
            self._history,
            self._events,
            self._event,
            self._entities,
            self._entity,
            self._everybody_s,
            self._states,
            self._undecided,
            self._explained,
            self._in_another_name,
            *[self._papers] * 3,
            self._listings,
            self._for_services,
            self._replicas,
        )

    async def ask(self, count: int) -> None:
        enough = self._tally.checks + count
        while self._tally.checks < enough:
            visitor = self._rng.choice(self._visitors)
            for door in self.doors:
                self._at_door, before = door.__name__, self._tally.found
                await door(visitor)
                self.found[self._at_door] += self._tally.found - before

    # --- verdicts

    def _judge(
        self, visitor: Visitor, asked: str, answer: httpx.Response, may: set[str], all_of: Iterable[str] = ()
    ) -> None:
        """Nothing but `may`, and `all_of` it; a refusal tells nothing at all."""
        told = marks(answer.text)
        wanted = set(all_of)
        self.found[self._at_door] += len(told & may)
        self._tally.judge(visitor, f"{asked}: {answer.status_code}", told - (may - wanted), wanted)

    def _refused(self, visitor: Visitor, asked: str, answer: httpx.Response) -> None:
        self._tally.refused(visitor, asked, answer.status_code == 403 and not marks(answer.text))

    # --- who is asked for

    def _told(self, visitor: Visitor) -> Told:
        return self._one_of(visitor, self._town.told)

    def _row(self, visitor: Visitor, rows: Sequence[Row]) -> Row:
        return self._one_of(visitor, rows)

    def _one_of(self, visitor: Visitor, all_: Sequence[T]) -> T:
        """Something of their own, of their tenant, or of anybody."""
        drawn = self._rng.random()
        here = [one for one in all_ if one.tenant == visitor.tenant] if drawn < 0.8 else []
        own = [one for one in here if visitor.asker.may_see(one.tenant, one.principals)] if drawn < 0.35 else []
        return self._rng.choice(own or here or all_)

    def _said(self, asker: Asker) -> set[str]:
        return seen_of(self._town.told, asker)

    def _charted(self, visitor: Visitor) -> set[str]:
        """All that the graph may say to them."""
        return self._said(visitor.asker) | seen_of(self._town.items, visitor.asker)

    # --- what was said

    async def _messages(self, visitor: Visitor) -> None:
        smuggled = self._told(visitor).written.caller.user
        answer = await self._knock.get(visitor, "/v1/messages", page_size=200, user_id=smuggled)
        said = self._said(visitor.reader)
        self._judge(visitor, "every message", answer, said, said)

    async def _session(self, visitor: Visitor) -> None:
        session = self._told(visitor).written.session
        answer = await self._knock.get(visitor, "/v1/messages", session_id=session, page_size=200)
        said = seen_of((told for told in self._town.told if told.written.session == session), visitor.reader)
        self._judge(visitor, f"messages of {session!r}", answer, said, said)

    async def _words(self, visitor: Visitor) -> None:
        words = self._rng.choice((*QUESTIONS, self._rng.choice(AWKWARD), f'"{self._told(visitor).marks[0]}"'))
        body = {"query_text": words, "page_size": 200, "user_id": self._rng.choice(("*", ["u:bob"], None))}
        answer = await self._knock.post(visitor, "/v1/messages/lexical_search", body)
        self._judge(visitor, f"words {words!r}", answer, self._said(visitor.reader))

    async def _meaning(self, visitor: Visitor) -> None:
        body = {"query_text": self._rng.choice(QUESTIONS), "top_k": 200, "user_id": "alice"}
        answer = await self._knock.post(visitor, "/v1/messages/semantic_search", body)
        said = self._said(visitor.reader)
        self._judge(visitor, "by meaning", answer, said, said)

    async def _around(self, visitor: Visitor) -> None:
        told = self._told(visitor)
        answer = await self._knock.get(visitor, f"/v1/messages/{told.messages[0]}/neighbors", before=20, after=20)
        said = seen_of([told], visitor.reader)
        self._judge(visitor, f"around {told.messages[0]}", answer, said, said)

    async def _attachment(self, visitor: Visitor) -> None:
        """By the message it came with, or by another one."""
        told = self._one_of(visitor, [told for told in self._town.told if told.attachments])
        by = told if self._rng.random() < 0.7 else self._told(visitor)
        answer = await self._knock.get(visitor, f"/v1/messages/{by.messages[0]}/attachments/{told.attachments[0]}")
        whole = seen_of([told], visitor.reader) if by is told else set()
        self._judge(visitor, "an attachment", answer, whole, whole)

    # --- what is known

    async def _claims(self, visitor: Visitor) -> None:
        answer = await self._knock.get(visitor, "/v1/claims", state="any", limit=500)
        own = {id_ for told in self._known(visitor) for id_ in told.claims}
        self._tally.judge(visitor, "every claim", {item["claim_id"] for item in answer.json()["items"]}, own)
        self._judge(visitor, "words of claims", answer, self._said(visitor.asker))
        answer = await self._knock.get(visitor, "/v1/pending")
        self._judge(visitor, "what is pending", answer, self._said(visitor.asker))

    def _known(self, visitor: Visitor) -> list[Told]:
        return [told for told in self._town.told if visitor.asker.may_see(told.tenant, told.principals)]

    async def _claim(self, visitor: Visitor) -> None:
        told = self._told(visitor)
        for claim_id in told.claims[:1]:
            answer = await self._knock.get(visitor, f"/v1/claims/{claim_id}")
            may = seen_of([told], visitor.asker)
            self._tally.counted(visitor, f"claim {claim_id}", int(answer.status_code == 200), int(bool(may)))
            self._judge(visitor, f"claim {claim_id}", answer, may)

    async def _nodes(self, visitor: Visitor) -> None:
        answer = await self._knock.get(visitor, "/v1/nodes")
        own = {uri for told in self._known(visitor) if told.key.owner == visitor.owner for uri in told.nodes}
        self._tally.judge(visitor, "every node", {item["uri"] for item in answer.json()["items"]}, own)

    async def _node(self, visitor: Visitor) -> None:
        """By the address of anybody's: what is shown is one's own of that name, or nothing."""
        for uri in self._told(visitor).nodes[:1]:
            for door in ("one", "history"):
                answer = await self._knock.get(visitor, f"/v1/nodes/{door}", uri=uri)
                own = [told for told in self._known(visitor) if told.key.owner == visitor.owner]
                self._judge(visitor, f"{door} of {uri}", answer, seen_of(own, visitor.asker))

    # --- entries

    async def _search(self, visitor: Visitor) -> None:
        """Whatever principals a filter names, under whatever rule, it only takes away; a group that the token holds
        may be entered by naming it."""
        filters: dict[str, Any] = {}
        asker, principals = visitor.asker, visitor.asker.principals
        if self._rng.random() < 0.7:
            foreign = sorted(self._row(visitor, self._town.entries).principals)
            own = sorted(principals | visitor.groups)
            names = self._rng.choice((foreign, own, [], ["*"], ["%"], ["u:*"], [*own[:1], *foreign], [*own, "u:_"]))
            rule = self._rng.choice(("within", "any", "all"))
            filters = {"user_id": names, "user_match": rule}
            asker = _narrowed(visitor.tenant, principals | (visitor.groups & set(names)), rule, names)
        if self._rng.random() < 0.1:
            filters["tenant_id"] = self._told(visitor).tenant
        body = {"query": self._rng.choice(WORDS), "topk": 200, "filters": filters}
        answer = await self._knock.post(visitor, "/search", body)
        if filters.get("tenant_id", visitor.tenant) != visitor.tenant:
            self._refused(visitor, f"search another tenant: {filters}", answer)
            return
        entries = seen_of(self._town.entries, asker)
        self._judge(visitor, f"search {filters}", answer, self._said(asker) | entries, entries)

    async def _search_by_names(self, visitor: Visitor) -> None:
        """A service that leaves it to the filter to name the person."""
        service = replace(visitor, headers=self._town.service(visitor.tenant))
        names = sorted(self._row(visitor, self._town.entries).principals)
        rule = self._rng.choice(("within", "any", "all"))
        body = {"query": self._rng.choice(WORDS), "topk": 200, "filters": {"user_id": names, "user_match": rule}}
        answer = await self._knock.post(service, "/search", body)
        asker = _narrowed(visitor.tenant, {*names, "pub", "a:default"}, rule, names)
        entries = seen_of(self._town.entries, asker)
        self._judge(visitor, f"search {names} {rule}", answer, self._said(asker) | entries, entries)
        for wrong in ([], ["*"], ["alice"], ["%:alice"]):
            body["filters"] = {"user_id": wrong}
            answer = await self._knock.post(service, "/search", body)
            self._tally.refused(visitor, f"search {wrong}", answer.status_code == 422)

    async def _history(self, visitor: Visitor) -> None:
        row = self._row(visitor, self._town.entries)
        answer = await self._knock.get(visitor, f"/v1/entries/{quote(row.id, safe='')}/history")
        own = seen_of([r for r in self._town.entries if r.id == row.id], visitor.asker)
        self._judge(visitor, f"history of {row.id!r}", answer, own, own)

    # --- retrieval

    async def _retrieval(self, visitor: Visitor) -> None:
        """In a group what is private stays out, unless it is asked for."""
        private = self._rng.random() < 0.5
        alone = Asker(without_user(visitor.asker.caller))
        asker = visitor.asker if private or visitor.caller.group is None else alone
        strategy = self._rng.choice(STRATEGIES)
        query = self._rng.choice((*QUESTIONS, self._rng.choice(AWKWARD)))
        body = {"query": query, "strategy": strategy, "topk": self._rng.choice((5, 200)), "include_private": private}
        answer = await self._knock.post(visitor, "/v1/retrieval", body)
        self._judge(visitor, f"{strategy} {query!r}", answer, self._said(asker) | seen_of(self._town.entries, asker))
        self.found[strategy] += len(marks(answer.text))

    async def _recall(self, visitor: Visitor) -> None:
        """Whole, or round by round; by whomever the body names."""
        question = self._rng.choice((*QUESTIONS, self._rng.choice(AWKWARD).strip() or "?"))
        body = {"question": question, "user_id": self._told(visitor).written.caller.user}
        answer = await self._knock.post(visitor, "/v1/recall", {**body, "stream": self._rng.random() < 0.3})
        self._judge(visitor, f"recall {question!r}", answer, self._said(visitor.reader))

    # --- the chat tools

    def _in_chat(self, visitor: Visitor) -> set[str]:
        """In a group what belongs to it, in private what is the person's; nothing that is public or for a product."""
        group, user = visitor.caller.group, str(visitor.caller.user)
        return self._said(
            Asker(Holder(visitor.tenant, holds=frozenset({f"u:{user}" if group is None else f"g:{group}"})))
        )

    async def _chat_events(self, visitor: Visitor) -> None:
        """Whomever the targets name, they only take away; with a person's own, no more than both."""
        told = self._told(visitor)
        targets = self._rng.choice(({}, {"target_user_id": told.key.owner.id}, {"target_group_id": told.key.owner.id}))
        private = self._rng.random() < 0.3
        may = self._said(visitor.asker) if private else self._in_chat(visitor)
        body = {"query": self._rng.choice(QUESTIONS), "top_k": 200, "include_private": private, "user_id": "alice"}
        for door in ("search_events", "context"):
            asked = {**body, **targets} if door == "search_events" else body
            answer = await self._knock.post(visitor, f"/v1/cognitive/{door}", asked)
            self._judge(visitor, f"{door} {targets}", answer, may)

    async def _chat_profiles(self, visitor: Visitor) -> None:
        """By the name of anybody."""
        told = self._told(visitor)
        may = self._in_chat(visitor)
        answer = await self._knock.post(visitor, "/v1/cognitive/search_profiles", {"query": "Momo", "top_k": 200})
        self._judge(visitor, "whose profile fits", answer, may)
        kind = "group" if told.written.owner.startswith("g:") else "user"
        at = f"/v1/cognitive/profiles/{kind}/{quote(told.key.owner.id, safe='')}"
        for door, query in (("", {}), ("/history", {}), ("/diff", {"from_version": 1})):
            answer = await self._knock.get(visitor, at + door, **query)
            self._judge(visitor, f"profile{door} of {told.key.owner}", answer, may)

    # --- the graph

    async def _events(self, visitor: Visitor) -> None:
        answer = await self._knock.get(visitor, "/graph/v0/events", limit=500)
        self._judge(visitor, "events", answer, self._charted(visitor), seen_of(self._town.items, visitor.asker))
        answer = await self._knock.get(visitor, "/graph/v0/timeslices/range", limit=500)
        audiences = [frozenset(item["user_id"]) for item in answer.json()["items"]]
        seen = [visitor.asker.may_see(visitor.tenant, audience) for audience in audiences]
        self._tally.counted(visitor, "days and months", len(seen), sum(seen))

    async def _event(self, visitor: Visitor) -> None:
        row = self._row(visitor, self._town.items)
        own, items = self._same_id(visitor, row), seen_of(self._town.items, visitor.asker)
        answer = await self._knock.get(visitor, f"/graph/v0/events/{quote(row.id, safe='')}")
        self._judge(visitor, f"event {row.id!r}", answer, own, own)
        for path in (f"event/{quote(row.id, safe='')}", f"knowledge/{quote(f'k {row.id}', safe='')}"):
            answer = await self._knock.get(visitor, f"/graph/v0/explain/{path}")
            self._judge(visitor, f"why {path}", answer, items if own else own, own)

    def _same_id(self, visitor: Visitor, row: Row) -> set[str]:
        return seen_of([item for item in self._town.items if item.id == row.id], visitor.asker)

    async def _entities(self, visitor: Visitor) -> None:
        answer = await self._knock.get(visitor, "/graph/v0/entities", limit=500)
        self._judge(visitor, "entities", answer, self._charted(visitor), seen_of(self._town.items, visitor.asker))
        row = self._row(visitor, self._town.items)
        name = called(row)
        for path in ("entities", "entities/resolve"):
            answer = await self._knock.get(visitor, f"/graph/v0/{path}", name=name)
            own = seen_of([row], visitor.asker)
            echo = {row.mark} if path != "entities" else set()  # it says again whom it was asked for
            self._judge(visitor, f"who is {name!r}", answer, self._charted(visitor) | echo, own)

    async def _entity(self, visitor: Visitor) -> None:
        row = self._row(visitor, self._town.items)
        for part in ("timeline", "evidences"):
            answer = await self._knock.get(visitor, f"/graph/v0/entities/{quote(f'e {row.id}', safe='')}/{part}")
            own = self._same_id(visitor, row)
            self._judge(visitor, f"{part} of {row.id!r}", answer, own, own if part == "timeline" else ())

    async def _everybody_s(self, visitor: Visitor) -> None:
        """What all speak of is a different thing to each of them."""
        for part in ("timeline", "evidences"):
            answer = await self._knock.get(visitor, f"/graph/v0/entities/{quote(EVERYBODY_S)}/{part}", limit=500)
            self._judge(visitor, f"{part} of everybody's", answer, seen_of(self._town.items, visitor.asker))

    async def _states(self, visitor: Visitor) -> None:
        row = self._row(visitor, self._town.items)
        own = self._same_id(visitor, row)
        moment = {"when": "2026-06-01T00:00:00Z"}
        for path, query in (("current", {}), ("at_time", moment), ("changes", {})):
            answer = await self._knock.get(visitor, f"/graph/v0/states/{path}", subject=f"e {row.id}", **query)
            self._judge(visitor, f"states of {row.id!r}", answer, own, own)

    async def _undecided(self, visitor: Visitor) -> None:
        answer = await self._knock.get(visitor, "/graph/v0/pending_equivs")
        items = seen_of(self._town.items, visitor.asker)
        self._judge(visitor, "who may be one", answer, self._charted(visitor), items)

    async def _explained(self, visitor: Visitor) -> None:
        told = self._told(visitor)
        for claim_id in told.claims[:1]:
            answer = await self._knock.get(visitor, f"/graph/v0/explain/knowledge/{claim_id}")
            may = seen_of([told], visitor.asker)
            self._tally.counted(visitor, f"why {claim_id}", int(answer.status_code == 200), int(bool(may)))
            self._judge(visitor, f"why {claim_id}", answer, may)

    # --- somebody else's name

    async def _in_another_name(self, visitor: Visitor) -> None:
        """What the token does not hold cannot be put on it by a header."""
        other = self._told(visitor).written.caller
        tries = {"X-Tenant-ID": other.tenant}
        if not visitor.service:
            tries |= {header: getattr(other, name) for name, header in HEADERS.items()}
        held: dict[str, set[str | None]] = {
            "X-Tenant-ID": {visitor.tenant},
            "X-User-ID": {visitor.caller.user},
            "X-Product-ID": {visitor.caller.product},
            "X-Group-ID": {group[2:] for group in visitor.groups},
            "X-Agent-ID": {principal[2:] for principal in visitor.holds if principal.startswith("a:")},
        }
        for header, value in tries.items():
            if value is not None and value == value.strip() and value not in held[header]:
                answer = await self._knock.post(
                    visitor, "/search", {"query": "tea", "topk": 200}, **{header: value.encode()}
                )
                self._refused(visitor, f"search with {header} {value!r}", answer)

    # --- the ports

    def _scope(self, visitor: Visitor, target: Told) -> Scope:
        """Of one's own; or wider, in every way it could be."""
        own = frozenset(visitor.holds or visitor.asker.principals)
        part = frozenset(self._rng.sample(sorted(own), self._rng.randint(1, len(own)))) | {"pub"}
        return self._rng.choice(
            (
                Scope(visitor.tenant, own),
                Scope(visitor.tenant, part),
                Scope(visitor.tenant, own | target.principals),
                Scope(visitor.tenant, own | {"u:*"}),
                Scope(visitor.tenant, target.principals),
                Scope(visitor.tenant, own, steward=True),
                Scope(visitor.tenant, own, "any", target.principals),
                Scope(target.tenant, own),
                Scope(target.tenant, target.principals, steward=True),
            )
        )

    def _allowed(self, visitor: Visitor, scope: Scope, owner: Owner) -> bool:
        if visitor.service:
            return scope.tenant_id == visitor.tenant
        within = scope.principals <= visitor.holds and not scope.steward and owner.principal in visitor.holds
        return within and scope.tenant_id == visitor.tenant

    def _sees(self, scope: Scope, tenant: str, principals: frozenset[str]) -> bool:
        holder = Holder(scope.tenant_id, holds=principals if scope.steward else scope.principals)
        return Asker(holder, scope.match, scope.narrow).may_see(tenant, principals)

    async def _papers(self, visitor: Visitor) -> None:
        """By its own address, or by the same address in another tenant or under another owner."""
        target = self._told(visitor)
        scope, key = self._scope(visitor, target), target.key
        if self._rng.random() < 0.3:
            tenant = self._rng.choice((visitor.tenant, self._told(visitor).tenant))
            owner = self._rng.choice((key.owner, Owner.user(str(visitor.caller.user))))
            key = SessionKey(tenant, owner, key.session_id)
        name = self._rng.choice(
            ("read_session", "read_turns", "read_turns", "read_claims", "read_tags", "read_commits", "read_tombstones")
        )
        answer = await self._knock.call(visitor, Archive, name, scope, key)
        there = self._at.get(key)
        seen = there is not None and self._sees(scope, there.tenant, there.principals)
        words = set(there.marks) if there and seen else set()
        if self._allowed(visitor, scope, key.owner):
            self._judge(visitor, f"{name} of {key}", answer, words, words if name == "read_turns" else ())
        else:
            self._refused(visitor, f"{name} of {key} in {scope}", answer)
        for uri in target.nodes[:1]:
            await self._file(visitor, scope, target, uri)

    async def _file(self, visitor: Visitor, scope: Scope, target: Told, uri: str) -> None:
        place = key_at(target.tenant, target.key.owner, uri)
        name = self._rng.choice(("read_node", "stat_node", "exists", "revisions", "get_edges"))
        answer = await self._knock.call(visitor, Archive, name, scope, place)
        if not self._allowed(visitor, scope, place.owner):
            self._refused(visitor, f"{name} of {place}", answer)
            return
        there = self._sees(scope, target.tenant, target.principals)
        if name in ("read_node", "exists"):
            found = answer.status_code == 200 and answer.text != "false"
            self._tally.counted(visitor, f"{name} of {place}", int(found), int(there))
        of_owner = {
            mark
            for told in self._town.told
            if told.key.owner == place.owner and self._sees(scope, told.tenant, told.principals)
            for mark in told.marks
        }
        self._judge(visitor, f"{name} of {place}", answer, of_owner if there else set())

    async def _listings(self, visitor: Visitor) -> None:
        target = self._told(visitor)
        scope, owner = self._scope(visitor, target), target.key.owner
        sessions = await self._knock.call(visitor, Archive, "sessions", scope, owner)
        nodes = await self._knock.call(visitor, Archive, "list_children", scope, owner, recursive=True)
        if not self._allowed(visitor, scope, owner):
            self._refused(visitor, f"sessions of {owner} in {scope}", sessions)
            self._refused(visitor, f"nodes of {owner} in {scope}", nodes)
            return
        own = [t for t in self._town.told if t.key.owner == owner and self._sees(scope, t.tenant, t.principals)]
        listed = {line for line in sessions.text.splitlines() if line}
        self._tally.counted(visitor, f"sessions of {owner}", len(listed), len(own))
        files = {item["uri"] for item in nodes.json() if not item["is_dir"]}
        self._tally.judge(visitor, f"nodes of {owner}", files, {uri for told in own for uri in told.nodes})

    async def _for_services(self, visitor: Visitor) -> None:
        """Everything of a tenant is for its services, and of no other."""
        target = self._told(visitor)
        scope = Scope(target.tenant, target.principals, steward=True)
        if visitor.service and target.tenant == visitor.tenant:
            owners = await self._knock.call(visitor, Archive, "owners", scope)
            here = {told.key.owner for told in self._town.told if told.tenant == visitor.tenant}
            self._tally.counted(visitor, "owners", len(owners.text.split("\n")) - 1, len(here))
            tenants = await self._knock.call(visitor, Archive, "tenants")
            self._tally.judge(visitor, "tenants", set(map(json.loads, tenants.text.splitlines())), {visitor.tenant})
            return
        name = self._rng.choice(FOR_SERVICES)
        place = NodeKey(target.tenant, target.key.owner, Shelf.PREFERENCES, "tea")
        further: dict[str, list[Any]] = {"get_blob": ["0" * 64], "read_log": ["ledger"], "resolve_path": [place]}
        self._refused(
            visitor, f"{name} in {scope}", await self._knock.call(visitor, Archive, name, scope, *further.get(name, []))
        )

    async def _replicas(self, visitor: Visitor) -> None:
        """Holding, publishing and comparing, for somebody else."""
        target = self._told(visitor)
        scope = Scope(target.tenant, target.principals | {"pub"})
        if target.tenant == visitor.tenant and (visitor.service or target.key.owner.principal in visitor.holds):
            return
        page = record(CLOCK, target.key, tuple(sorted(target.principals)))
        like = claim(turn("t1"), target.key, principals=tuple(sorted(target.principals)))
        tries = {
            "index": self._knock.call(visitor, Replicator, "index_session", target.key),
            "project": self._knock.call(visitor, Replicator, "project", target.key),
            "stage": self._knock.call(visitor, Replicator, "stage", page),
            "ask after": self._knock.call(visitor, Replicator, "is_behind", page),
            "compare": self._knock.call(visitor, Likeness, "nearest", scope, [like]),
            "hold": self._knock.call(visitor, Holds, "take", digest_job(target.key, {}), "me"),
        }
        reach = visitor.holds >= target.principals and target.tenant == visitor.tenant
        for what, attempt in tries.items():
            answer = await attempt
            if what != "compare" or not reach:
                self._refused(visitor, f"{what} {target.key}", answer)


def _narrowed(tenant: str, principals: Iterable[str], rule: str, names: Iterable[str]) -> Asker:
    """As the oracle says it: `within` leaves what is held and named, the others need something named in the row."""
    held, narrow = frozenset(principals), frozenset(names)
    if rule == "within":
        return Asker(Holder(tenant, holds=held & narrow))
    return Asker(Holder(tenant, holds=held), "any" if rule == "any" else "all", narrow)
