"""The same program against a Memory Service: the same answers, and a model key that never leaves the client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from mnemon import Config, Memory
from mnemon.contracts.errors import (
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
    VersionConflict,
)
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.config import ServiceConfig
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.tokens import Tokens
from mnemon.surfaces.http.app import create_app
from mnemon.surfaces.http.identity import Gatekeeper
from mnemon.testing.clock import FixedClock
from mnemon.testing.llm_server import llm_server

KEY = "sk-never-leaves-7f3a9c"
SECRET = "a shared secret"
TURNS = [
    {"turn_id": "t1", "role": "user", "speaker": "Ann", "timestamp_iso": "2025-03-01T10:00:00Z",
     "text": "I live in Berlin and I work at Siemens. My sister Lea is a doctor."},
    {"turn_id": "t2", "role": "assistant", "timestamp_iso": "2025-03-01T10:01:00Z", "text": "Good to know!"},
    {"turn_id": "t3", "role": "user", "speaker": "Ann", "timestamp_iso": "2025-03-01T10:02:00Z",
     "text": "我喜欢喝绿茶。昨天我和小王去了杭州。"},
    {"turn_id": "t4", "role": "user", "speaker": "Ann", "timestamp_iso": "2025-05-01T10:02:00Z",
     "text": "I moved to Munich last week. I live in Munich now."},
]  # fmt: skip


@dataclass
class Recorded:
    """A service at a port of this machine, and every byte that came to it."""

    url: str
    tokens: Tokens
    home: Path
    heard: list[bytes] = field(default_factory=list)

    def user(self, user: str = "ann", tenant: str = "acme", **more: Any) -> str:
        return self.tokens.create(tenant, user, **more)[1]


class _Ears:
    def __init__(self, app: Any, heard: list[bytes]) -> None:
        self._app, self._heard = app, heard

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._heard.append(scope["raw_path"] + b"?" + scope["query_string"])
        self._heard += [part for header in scope["headers"] for part in header]

        async def listen() -> Any:
            message = await receive()
            self._heard.append(message.get("body", b""))
            return message

        await self._app(scope, listen, send)


@pytest.fixture
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Recorded]:
    settings = ServiceConfig(signing_secret=getattr(request, "param", ""))
    home, heard = tmp_path / "service", list[bytes]()
    memory = AsyncMemory(
        home, embedder=HashEmbedder(), config=Config(background_worker=False), clock=FixedClock(), llm=None
    )
    tokens = Tokens(home)
    app = create_app(memory, Gatekeeper(tokens, local=True), settings)
    server = uvicorn.Server(uvicorn.Config(_Ears(app, heard), port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Recorded(f"http://127.0.0.1:{port}", tokens, home, heard)
    server.should_exit = True
    thread.join(30)


def told(memory: Memory) -> dict[str, Any]:
    """A story through every door, and what came of it, but for times and the order of a graph's pages."""
    who = {"tenant_id": "acme", "user_id": "ann"}
    wrote = memory.session_write("acme", "ann", "s1", turns=TURNS)
    again = memory.session_write("acme", "ann", "s1", turns=TURNS)
    more = memory.session_write(
        "acme", "ann", "s1", turns=[{**TURNS[0], "turn_id": "t9", "text": "I work at Bosch now."}], mode="append"
    )
    second = memory.session_write("acme", "ann", "s2", turns=[{**TURNS[2], "text": "我不喜欢喝绿茶了。"}])
    bound = memory.bind("acme", "ann")
    graph = memory.graph("acme", "ann")
    claims = memory.claims("acme", "ann", state=None).items
    moved = next(c for c in claims if "Munich now" in c.statement)
    corrected = memory.correct("acme", "ann", moved.claim_id, "Ann lives in Munich", "said so")
    receipt = memory.write(
        [{"kind": "semantic", "contents": ["Ann has a cat"], "metadata": {"source": "mem0"}}], **who, return_id_map=True
    )
    entry = next(iter((receipt.id_map or {}).values()))
    memory.update(entry, {"metadata": {"note": "a cat"}}, "why not", **who)
    around = bound.lexical_search("Siemens").items[0].message.message_id
    ann = graph.resolve("Ann").entity
    assert ann is not None
    shelf = [n.uri for n in memory.nodes("acme", "ann", "preferences")]
    moved_to = memory.move_node("acme", "ann", shelf[0], "drinks")
    return {
        "moved": (moved_to.key, moved_to.content),
        "wrote": (wrote.status, wrote.counts, [c.statement for c in wrote.claims], wrote.debug["graph_upsert_status"]),
        "again": (again.status, more.status, second.status),
        "superseded": sorted(c.statement for c in (*more.superseded, *second.superseded)),
        "claims": sorted((c.claim_id, c.statement, c.state) for c in claims),
        "corrected": (corrected.statement, corrected.corrected_from != ""),
        "nodes": sorted((n.uri, memory.node("acme", "ann", n.uri).content) for n in memory.nodes("acme", "ann")),
        "history": [r.reason for r in memory.node_history("acme", "ann", memory.nodes("acme", "ann")[0].uri)],
        "hits": {
            strategy: [
                (h.id, round(h.final_score, 5), h.source, h.evidence)
                for h in memory.retrieval("where does Ann live? 茶", **who, strategy=strategy, topk=8).hits
            ]
            for strategy in ("dialog_v1", "dialog_v2", "auto_v1")
        },
        "prompt": memory.retrieval("绿茶", **who, strategy="auto_v1", budget={"top_k": 2}).prompt,
        "ranged": [h.id for h in memory.retrieval("Munich", **who, time_range={"gte": "2025-04-01T00:00:00Z"}).hits],
        "recalled": memory.recall("Where do I live? 我喜欢喝什么？", **who, context={"role_pref": "any"}).model_dump(),
        "messages": [m.content for m in bound.messages_list(page_size=3).items],
        "words": [(h.message.content, h.highlights) for h in bound.lexical_search("绿茶").items],
        "meaning": [h.message.message_id for h in bound.semantic_search("Berlin", top_k=2)],
        "around": [m.content for m in bound.neighbors(around, 0, 1)],
        "found": [(h.id, h.entry.contents) for h in memory.search("a cat", **who, topk=3).hits][:1],
        "trail": [v.op for v in memory.history(entry, **who)],
        "events": sorted(e.id for e in graph.events(limit=50).items),
        "days": sorted(s.id for s in graph.timeslices("2025-03-01T00:00:00Z", "2025-03-02T00:00:00Z", "day").items),
        "entity": ann,
        "life": [e.summary for e in graph.timeline(ann.id).items],
        "states": sorted(s.state.value for s in graph.states_current(ann.id)),
        "before": [s.state.value for s in graph.states_at(ann.id, "2025-03-05T00:00:00Z", "residence")],
        "changed": sorted(str(c.to_value) for c in graph.states_changes(ann.id, "employer")),
        "why": [
            (q.text_exact, u.utterance.raw_text)
            for u in graph.explain_knowledge(moved.claim_id).utterances
            for q in u.quotes
        ],
        "pending": len(graph.pending_equivs()),
    }


def test_a_service_answers_as_the_same_memory_at_hand(service: Recorded, tmp_path: Path) -> None:
    config = Config(background_worker=False)
    with Memory(tmp_path / "here", llm="rules", embedder=HashEmbedder(), config=config, clock=FixedClock()) as memory:
        here = told(memory)
    with Memory(service.url, token=service.user(), llm="rules", clock=FixedClock()) as memory:
        there = told(memory)
    assert there == here
    assert any("Munich" in text for text, _ in here["why"])


def test_what_one_client_wrote_another_finds_and_can_forget(service: Recorded) -> None:
    with Memory(service.url, token=service.user(), llm="rules") as one:
        one.session_write("acme", "ann", "s1", turns=TURNS)
    with Memory(service.url, token=service.user()) as two:
        claim = two.claims("acme", "ann").items[0]
        assert two.forget("acme", "ann", claim_id=claim.claim_id).complete
        with pytest.raises(NotFound):
            two.claim("acme", "ann", claim.claim_id)
        receipt = two.forget("acme", "ann")
        assert receipt.complete
        assert receipt.removed["graph_rows"]
        assert two.bind("acme", "ann").messages_list().items == ()
        assert two.graph("acme", "ann").events().items == ()


def test_others_are_kept_out_by_the_token_not_by_the_client(service: Recorded) -> None:
    with Memory(service.url, token=service.user(), llm="rules") as memory:
        memory.session_write("acme", "ann", "s1", turns=TURNS)
    with Memory(service.url, token=service.user("bob"), llm="rules") as memory:
        for refused in (
            lambda: memory.session_write("acme", "ann", "s9", turns=TURNS),
            lambda: memory.claims("acme", "ann"),
            lambda: memory.claims("other", "bob"),
            lambda: memory.retrieval("tea", "acme", "ann"),
            lambda: memory.graph("acme", "ann").events(),
            lambda: memory.forget("acme", "ann"),
        ):
            with pytest.raises(PermissionDenied):
                refused()
        assert memory.claims("acme", "bob").items == ()
        memory.session_write("acme", "bob", "s1", turns=TURNS)
        assert {c.owner_id for c in memory.claims("acme", "bob").items} == {"bob"}


def test_the_model_key_never_leaves_the_client(service: Recorded) -> None:
    said = {"answer": "green tea"}  # which is no tagging and no order: those fail, and are tried again
    with llm_server(lambda _: said) as model:
        llm = {"provider": "openai", "model": "m", "api_key": KEY, "base_url": f"{model.url}/v1"}
        with Memory(service.url, token=service.user(), llm=llm) as memory:
            memory.session_write("acme", "ann", "s0", turns=TURNS, llm="rules")
            memory.session_write("acme", "ann", "s1", turns=TURNS, llm_policy="best_effort")
            other = {**llm, "model": "other"}
            memory.session_write("acme", "ann", "s2", turns=TURNS, llm=other, llm_policy="best_effort")
            result = memory.retrieval("tea", "acme", "ann", with_answer=True, rerank={"enabled": True})
        assert result.answer == "green tea"
        assert model.asked, "the model was asked from here"
        assert all(KEY in asked.headers["authorization"] for asked in model.asked)
    assert len(service.heard) > 100
    assert not [heard for heard in service.heard if KEY.encode() in heard]
    assert not [path for path in service.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert KEY not in repr(asdict(result))


def test_a_model_recalls_at_the_client_over_the_tools_of_the_service(service: Recorded, tmp_path: Path) -> None:
    proof = {"message_id": "m1", "quote": "I live in Munich now."}
    point = {"shelf": "profile", "statement": "The user lives in Munich now", "evidence": [proof]}

    def plan(said: str) -> dict[str, Any]:
        if "m1 user" in said:
            return {"final": {"items": [point]}}
        return {"tool": "lexical_search", "arguments": {"query_text": "Munich"}}

    question = "Where do I live?"
    with llm_server(plan) as model:
        llm = {"provider": "openai", "model": "m", "api_key": KEY, "base_url": f"{model.url}/v1"}
        with Memory(service.url, token=service.user(), llm=llm, clock=FixedClock()) as memory:
            memory.session_write("acme", "ann", "s1", turns=TURNS, extract=False)
            rounds: list[Any] = list(memory.recall_rounds(question, "acme", "ann"))
            assert (rounds[-1].planner, rounds[-1].evidence[0].content) == ("model", proof["quote"])
            assert [round_.tool for round_ in rounds[:-1]] == ["lexical_search"]
            model.script = ["500"] * 9
            stood_in = memory.recall(question, "acme", "ann")
            assert (stood_in.planner, stood_in.degraded[0].what) == ("rules", "planner")
            assert b"/v1/recall?" in service.heard
            with pytest.raises(PermissionDenied):
                memory.recall(question, "acme", "bob")
    assert len(model.asked) > 2
    assert not [heard for heard in service.heard if KEY.encode() in heard]
    assert KEY not in stood_in.model_dump_json() + rounds[-1].model_dump_json()
    (tmp_path / "SKILL.md").write_text("---\nname: own\ndescription: mine\n---\nLook.\n", encoding="utf-8")
    with Memory(service.url, token=service.user(), clock=FixedClock()) as memory:
        service.heard.clear()
        there = memory.recall(question, "acme", "ann")
        assert b"/v1/recall?" in service.heard
        service.heard.clear()
        uncounted = there.limits.model_copy(update={"messages_in_scope": None})  # no tool counts them all
        there = there.model_copy(update={"limits": uncounted})
        assert memory.recall(question, "acme", "ann", skill=tmp_path) == there, "the same flow, over the tools"
        assert b"/v1/recall?" not in service.heard
        assert not [heard for heard in service.heard if str(tmp_path).encode() in heard]


@pytest.mark.parametrize("service", [SECRET], indirect=True)
def test_requests_are_signed_where_the_service_wants_it(service: Recorded) -> None:
    token = service.user()
    with Memory(service.url, token=token, signing_secret=SECRET, llm="rules") as memory:
        assert memory.session_write("acme", "ann", "s/1 一", turns=TURNS).status == "ok"
        assert memory.claim("acme", "ann", memory.claims("acme", "ann").items[0].claim_id).owner_id == "ann"
    for wrong in ("", "another secret"):
        with Memory(service.url, token=token, signing_secret=wrong) as memory, pytest.raises(Unauthenticated):
            memory.claims("acme", "ann")


def test_one_call_can_go_to_a_service(service: Recorded, tmp_path: Path) -> None:
    api = {"base_url": service.url, "auth_headers": {"X-API-Token": service.user()}, "timeout_s": 10}
    with Memory(tmp_path / "here", llm="rules", embedder=HashEmbedder()) as memory:
        wrote = memory.session_write("acme", "ann", "s1", turns=TURNS, memory_api=api)
        assert wrote.status == "ok"
        assert memory.status().sessions == 0
        assert memory.retrieval("Munich", "acme", "ann", memory_api=api).hits
        assert memory.retrieval("Munich", "acme", "ann").hits == ()
        for wrong, field in (({"url": 1}, "memory_api"), ({}, "memory_api.base_url")):
            with pytest.raises(InvalidArgument) as refused:
                memory.retrieval("x", "acme", "ann", memory_api=wrong)
            assert refused.value.field == field


def test_errors_are_the_errors_they_are(service: Recorded) -> None:
    with Memory(service.url, token="nobody") as memory, pytest.raises(Unauthenticated):
        memory.claims("acme", "ann")
    with Memory("http://127.0.0.1:9", token="x", timeout_s=2) as memory, pytest.raises(Unavailable) as away:
        memory.claims("acme", "ann")
    assert "127.0.0.1:9" in str(away.value)
    with Memory(service.url, token=service.user(), llm="rules") as memory:
        with pytest.raises(NotFound):
            memory.claim("acme", "ann", "no such claim")
        for upkeep in (memory.verify, memory.rebuild, memory.repair, memory.run_jobs, memory.status):
            with pytest.raises((InvalidArgument, PermissionDenied)):
                upkeep()
        with pytest.raises(InvalidArgument) as refused:
            memory.session_write("acme", "ann", "s1", turns=TURNS, wait="archived")
        assert refused.value.field == "wait"
    for place in ("http://", "http://key@host", "http://host?token=1"):
        with pytest.raises(InvalidArgument):
            Memory(place)
    with pytest.raises(InvalidArgument):
        Memory(service.url, embedder="hash")


def test_a_token_is_in_no_error_and_no_repr(service: Recorded) -> None:
    token = service.user()
    with Memory("http://127.0.0.1:9", token=token, signing_secret=SECRET, timeout_s=2) as memory:
        with pytest.raises(Unavailable) as away:
            memory.claims("acme", "ann")
        shown = f"{away.value!r} {away.value.details} {memory.parts.service!r} {memory.parts.archive!r}"
    assert token not in shown
    assert SECRET not in shown
    assert away.value.__cause__ is None


def test_pages_are_compared_and_set_over_the_wire(service: Recorded) -> None:
    with Memory(service.url, token=service.user(), llm="rules") as memory:
        memory.session_write("acme", "ann", "s1", turns=TURNS)
        archive = memory.parts.archive

        async def behind() -> None:
            scope = memory.bind("acme", "ann").scope
            records = [record async for record in archive.sessions(scope)]
            await archive.write_session(scope, records[0], records[0].version - 1)

        with pytest.raises(VersionConflict):
            memory._loop.run(behind())
