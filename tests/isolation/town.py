"""A service with people at its door: tokens of every shape, and what they and others have told it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from world import Asker, Caller, Row, World, Written, marks

from mnemon import AsyncMemory, Config
from mnemon.contracts.scope import Owner, OwnerKind, SessionKey
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.tokens import Tokens
from mnemon.surfaces.http.app import create_app
from mnemon.surfaces.http.identity import Gatekeeper
from mnemon.testing.clock import FixedClock

DEFAULT = "default"
HEADERS = {"user": "X-User-ID", "product": "X-Product-ID", "group": "X-Group-ID", "agent": "X-Agent-ID"}
EVERYBODY_S = "everybody's"
"""An entity that every row of the graph speaks of."""
_KINDS = {"u": OwnerKind.USERS, "g": OwnerKind.GROUPS}
# Marks of what comes in by different doors are kept apart.
_ENTRIES, _ITEMS, _OUTPUTS = 1_000_000, 2_000_000, 3_000_000

Headers = dict[str, Any]  # of bytes, which no type of the client's allows under a name of text


@dataclass(frozen=True)
class Holder(Caller):
    """Whoever holds exactly these principals."""

    holds: frozenset[str] = frozenset()

    @cached_property
    def principals(self) -> frozenset[str]:
        return self.holds


@dataclass(frozen=True)
class Visitor:
    """Somebody with a token, and what their requests name. `holds` is all the token lets them name at the ports."""

    caller: Caller
    service: bool
    headers: Headers = field(repr=False)
    groups: frozenset[str] = frozenset()
    holds: frozenset[str] = frozenset()

    @cached_property
    def asker(self) -> Asker:
        return Asker(replace(self.caller, agent=self.caller.agent or DEFAULT))

    @cached_property
    def reader(self) -> Asker:
        """As the message tools see: no agent has a part in what was said."""
        return Asker(replace(self.caller, agent=None))

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    @property
    def owner(self) -> Owner:
        """Whose readable memories they look at."""
        group = self.caller.group
        return Owner.user(str(self.caller.user)) if group is None else Owner.group(group)

    @property
    def sendable(self) -> bool:
        """Spaces around a header's value do not survive the wire."""
        return all(value == value.strip() for value in self.headers.values())


@dataclass(frozen=True)
class Told:
    """A session as it was written, and the names it has got."""

    written: Written
    claims: tuple[str, ...]
    nodes: tuple[str, ...]
    messages: tuple[str, ...]
    attachments: tuple[str, ...]

    @property
    def tenant(self) -> str:
        return self.written.caller.tenant

    @property
    def principals(self) -> frozenset[str]:
        return self.written.principals

    @property
    def marks(self) -> tuple[str, ...]:
        return self.written.marks

    @cached_property
    def key(self) -> SessionKey:
        letter, _, id_ = self.written.owner.partition(":")
        return SessionKey(self.tenant, Owner(_KINDS[letter], id_), self.written.session)


def apart(rows: tuple[Row, ...], first: int) -> list[Row]:
    return [replace(row, mark=f"q{first + n}q") for n, row in enumerate(rows)]


def named(caller: Caller) -> Headers:
    given = {header: getattr(caller, name) for name, header in HEADERS.items()}
    return {header: id_.encode() for header, id_ in given.items() if id_ is not None}


@dataclass
class Town:
    world: World
    app: FastAPI
    memory: AsyncMemory
    tokens: Tokens
    client: httpx.AsyncClient
    told: list[Told] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    entries: list[Row] = field(default_factory=list)
    items: list[Row] = field(default_factory=list)
    _services: dict[str, Headers] = field(default_factory=dict)

    def service(self, tenant: str) -> Headers:
        """The headers of a tenant's service, which names nobody yet."""
        if tenant not in self._services:
            secret = self.tokens.create(tenant, service=True)[1]
            self._services[tenant] = {"Authorization": f"Bearer {secret}".encode()}
        return self._services[tenant]

    def backend(self, caller: Caller) -> Visitor:
        return Visitor(caller, True, {**self.service(caller.tenant), **named(caller)})

    def person(self, caller: Caller, more: list[str], entered: bool) -> Visitor:
        """With a token for further groups and agents; one of the groups may be entered."""
        groups = [*([caller.group] if caller.group else []), *more]
        agents = [*([caller.agent] if caller.agent else []), *more[:1]]
        secret = self.tokens.create(
            caller.tenant, caller.user, product_id=caller.product, groups=groups, agents=agents
        )[1]
        caller = caller if entered else replace(caller, group=None)
        chosen = {name: value for name, value in named(caller).items() if name in ("X-Group-ID", "X-Agent-ID")}
        places = frozenset(f"g:{group}" for group in groups)
        holds = {f"u:{caller.user}", "pub", f"a:{DEFAULT}", *places, *(f"a:{agent}" for agent in agents)}
        holds |= {f"p:{caller.product}"} if caller.product else set()
        headers = {"Authorization": f"Bearer {secret}".encode(), **chosen}
        return Visitor(caller, False, headers, places, frozenset(holds))

    def visitors(self, count: int) -> list[Visitor]:
        rng = random.Random(self.world.seed + 2)
        found = []
        for n in range(count):
            known = rng.choice(self.told).written.caller if rng.random() < 0.6 else self.world.caller()
            if n % 3 == 0:
                found.append(self.backend(known))
                continue
            more = rng.sample(self.world.casts.get(known.tenant, ("team",)), 1) if rng.random() < 0.5 else []
            found.append(self.person(known, more, entered=rng.random() < 0.7))
        return found

    async def fill(self, sessions: int) -> None:
        await self._converse(sessions)
        await self._note()
        await self._chart()

    async def _converse(self, sessions: int) -> None:
        """Sessions through the door; one that would lie where another lies is left out."""
        made: set[SessionKey] = set()
        for written in (*self.world.sessions(sessions), *self._outputs()):
            key = Told(written, (), (), (), ()).key
            if key in made:
                continue
            made.add(key)
            role = "tool" if written.session.startswith("output") else "user"
            body = {
                "session_id": written.session,
                "visibility": written.visibility,
                "turns": [{"role": role, "speaker": "Ann", "text": text} for text in written.turns],
                "extract": role == "user",
            }
            headers = self.backend(written.caller).headers
            answer = await self.client.post("/v1/sessions", json=body, headers=headers)
            assert answer.json().get("status") == "ok", answer.text
            claims = answer.json()["claims"]
            query: dict[str, Any] = {"session_id": written.session, "page_size": 200}
            page = (await self.client.get("/v1/messages", params=query, headers=headers)).json()["items"]
            own = [message for message in page if marks(message["content"]) & set(written.marks)]
            assert len(own) == len(written.turns)
            self.told.append(
                Told(
                    written,
                    tuple(claim["claim_id"] for claim in claims),
                    tuple(dict.fromkeys(claim["node_uri"] for claim in claims)),
                    tuple(message["message_id"] for message in own),
                    tuple(a["sha256"] for message in own for a in message["meta"].get("attachments", [])),
                )
            )

    def _outputs(self) -> Iterator[Written]:
        """Outputs of tools, so long that the whole of them is kept beside the words."""
        for n, tenant in enumerate(self.world.tenants * 2):
            mark = f"q{_OUTPUTS + n}q"
            yield Written(self.world.caller(tenant), f"output {n}", "private", (f"{mark} {'x' * 9_000}",), (mark,))

    async def _note(self) -> None:
        """Entries; the service leaves it to them to say whom they are for."""
        self.entries = apart(self.world.rows, _ENTRIES)
        for (tenant, audience), rows in _together(self.entries).items():
            metadata = {"user_id": sorted(audience), "memory_domain": "lifelog", "dedup_skip": True}
            notes = [{"id": r.id, "kind": "episodic", "contents": [r.text], "metadata": metadata} for r in rows]
            answer = await self.client.post("/write", json={"entries": notes}, headers=self.service(tenant))
            assert answer.status_code == 200, answer.text
            self.versions |= dict.fromkeys((row.mark for row in rows), answer.json()["version"])

    async def _chart(self) -> None:
        """Items of the graph, those of one audience at a time."""
        self.items = apart(self.world.rows, _ITEMS)
        for (tenant, _), rows in _together(self.items).items():
            answer = await self.client.post("/graph/v0/upsert", json=batch(rows), headers=self.service(tenant))
            assert answer.status_code == 200, answer.text


def _together(rows: list[Row]) -> dict[tuple[str, frozenset[str]], list[Row]]:
    found: dict[tuple[str, frozenset[str]], list[Row]] = {}
    for row in rows:
        found.setdefault((row.tenant, row.principals), []).append(row)
    return found


def called(row: Row) -> str:
    return f"{row.session[:100]} {row.mark}"


def batch(rows: list[Row]) -> dict[str, Any]:
    """Of each row an event, somebody in it, what they are, who else they may be, what was said of it, what follows."""
    when = "2026-01-01T00:00:00Z"

    def one(row: Row, fields: dict[str, str]) -> dict[str, Any]:
        filled = {name: form.format(id=row.id, mark=row.mark, who=called(row)) for name, form in fields.items()}
        return {**filled, "user_id": sorted(row.principals), "memory_domain": "dialog"}

    def each(**fields: str) -> list[dict[str, Any]]:
        return [one(row, fields) for row in rows]

    edges = [
        *each(src_id="{id}", dst_id="e {id}", rel_type="INVOLVES"),
        *each(src_id="{id}", dst_id=EVERYBODY_S, rel_type="MENTIONS"),
        *each(src_id="{id}", dst_id="w {id}", rel_type="SUPPORTED_BY"),
        *each(src_id="k {id}", dst_id="{id}", rel_type="DERIVED_FROM"),
    ]
    for edge in edges:
        if edge["rel_type"] in ("MENTIONS", "SUPPORTED_BY"):
            edge["evidence"] = [{"utterance_id": f"w {edge['src_id']}", "span_start": 0, "span_end": 3}]
    return {
        "events": each(id="{id}", summary="{mark}", t_abs_start=when),
        "entities": [
            *each(id="e {id}", name="{who}"),
            *each(id="f {id}", name="somebody {mark}"),
            *each(id=EVERYBODY_S, name="name {mark}")[:1],
        ],
        "states": each(id="s {id}", subject_id="e {id}", property="colour", value="{mark}", valid_from=when),
        "pending_equivs": each(id="q {id}", entity_id="e {id}", candidate_id="f {id}", reason="{mark}"),
        "utterances": each(id="w {id}", raw_text="{mark}", t_abs_start=when),
        "knowledge": each(id="k {id}", summary="{mark}"),
        "edges": edges,
    }


@asynccontextmanager
async def opened(home: Path, world: World) -> AsyncIterator[Town]:
    memory = AsyncMemory(
        home, llm="rules", embedder=HashEmbedder(), config=Config(background_worker=False), clock=FixedClock()
    )
    tokens = Tokens(home)
    app = create_app(memory, Gatekeeper(tokens, local=False))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
    ):
        yield Town(world, app, memory, tokens, client)


@asynccontextmanager
async def on_the_wire(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """The same service at a port of this machine."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  it tells nobody when it has
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        server.should_exit = True
        await serving


def in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
