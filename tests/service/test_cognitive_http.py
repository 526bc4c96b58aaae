"""A chat bot's memory over HTTP: the same as at hand, for whoever may ask, and watched while it works."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from conftest import Service, Start, refused
from mnemon import AsyncMemory, Config, Memory, tools
from mnemon.contracts.chats import Alert
from mnemon.contracts.errors import Conflict, InvalidArgument, NotFound, PermissionDenied
from mnemon.contracts.jobs import JobKind, Settled
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.tokens import Tokens
from mnemon.surfaces.http.app import create_app
from mnemon.surfaces.http.identity import Gatekeeper
from mnemon.testing.clock import FixedClock

SAID = {"message_id": "m1", "sender_id": "ann", "sender_name": "Ann", "text": "I move to Munich next month."}
TURN: dict[str, Any] = {
    "request_id": "r1",
    "end_seq": 1,
    "action_summary": "Answered Ann",
    "new_info": "Ann moves to Munich next month",
    "sender_name": "Ann",
    "bot_name": "Bot",
    "messages": [SAID],
    "timestamp": "2026-02-21T14:30:00+08:00",
    "timezone": "Asia/Shanghai",
}
PROFILE = "/v1/cognitive/profiles/user/ann"


async def told(service: Service, who: dict[str, str], **more: Any) -> httpx.Response:
    answer = await service.post("/v1/end", {**TURN, **more}, who)
    assert answer.status_code == 200, answer.text
    await service.memory.run_jobs()
    return answer


# --- one person


async def test_a_turn_is_told_and_found_again(service: Service) -> None:
    ann = service.token("acme", "ann")
    answer = await told(service, ann)
    assert answer.json()["status"] == "queued"
    assert answer.json()["event_id"] == "r1:1"
    (hit, *_) = (await service.post("/v1/cognitive/search_events", {"query": "Munich"}, ann)).json()["items"]
    assert hit["metadata"]["location_abs"] == ""
    assert hit["metadata"]["timestamp_utc"].startswith("2026-02-21T06:30")
    assert SAID["text"] in [quote["text"] for quote in hit["evidence"]]
    context = (await service.post("/v1/cognitive/context", {"query": "Where to?", "max_tokens": 200}, ann)).json()
    assert "Munich" in context["text"]
    assert context["tokens"] <= 200
    profile = (await service.get(PROFILE, ann)).json()
    assert profile["id"] == "user:ann"
    assert "Munich" in profile["text"]
    (fits,) = (await service.post("/v1/cognitive/search_profiles", {"query": "Munich"}, ann)).json()["items"]
    assert fits["entity_id"] == "ann"


async def test_a_profile_has_a_past_over_http_too(service: Service) -> None:
    ann = service.token("acme", "ann")
    await told(service, ann)
    await told(service, ann, request_id="r2", new_info="Ann likes green tea", messages=[])
    versions = (await service.get(f"{PROFILE}/history", ann)).json()["items"]
    assert [(v["version"], v["current"]) for v in versions] == [(2, True), (1, False)]
    diff = (await service.get(f"{PROFILE}/diff", ann, from_version=1)).json()
    assert (diff["from_version"], diff["to_version"]) == (1, 2)
    assert "green tea" in diff["text"]
    assert (await service.get(f"{PROFILE}/diff", ann, from_version=1, to_version=2)).json() == diff
    back = await service.post(f"{PROFILE}/rollback", {"version": 1}, ann)
    assert "green tea" not in back.json()["text"]
    assert (await service.get(PROFILE, ann)).json()["text"] == back.json()["text"]
    refused(await service.post(f"{PROFILE}/rollback", {"version": 9}, ann), 404, "NOT_FOUND")
    refused(await service.get("/v1/cognitive/profiles/user/bob", ann), 404, "NOT_FOUND")
    refused(await service.get("/v1/cognitive/profiles/bot/ann", ann), 422, "INVALID_ARGUMENT", "entity_type")


async def test_an_id_may_hold_a_slash(service: Service) -> None:
    who = service.token("acme", "team/ann")
    await told(service, who, messages=[])
    for tail, query in (("", {}), ("/history", {}), ("/diff", {"from_version": 1})):
        answer = await service.get(f"/v1/cognitive/profiles/user/team%2Fann{tail}", who, **query)
        assert answer.status_code == 200, answer.text


async def test_a_turn_told_twice_is_one_and_told_differently_a_conflict(service: Service) -> None:
    ann = service.token("acme", "ann")
    for status in ("queued", "duplicate"):
        assert (await service.post("/v1/end", TURN, ann)).json()["status"] == status
    refused(await service.post("/v1/end", {**TURN, "new_info": "other"}, ann), 409, "CONFLICT", "end_seq")
    empty = {"request_id": "r9", "end_seq": 1}
    assert (await service.post("/v1/end", empty, ann)).json()["status"] == "empty"
    old = (await service.post("/v1/end", {**empty, "summary": "Answered Ann"}, ann)).json()
    assert old["status"] == "queued"
    assert "deprecated" in old["deprecated"][0]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"tenant_id": "other"}, "tenant_id"),
        ({"new_info": ["one", "two"]}, "new_info"),
        ({"messages": [{"text": "no id"}]}, "messages[0].message_id"),
        ({"messages": 5}, "messages"),
        ({"messages": [5]}, "messages[0]"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"timezone": "Mars"}, "timezone"),
        ({"end_seq": -1}, "end_seq"),
        ({"request_type": "group"}, "group_id"),
        ({"message_sent": False}, "force"),
    ],
)
async def test_a_turn_that_makes_no_sense_is_refused(service: Service, wrong: dict[str, Any], field: str) -> None:
    answer = await service.post("/v1/end", {**TURN, **wrong}, service.token("acme", "ann"))
    refused(answer, 422, "INVALID_ARGUMENT", field)
    assert await service.memory.jobs() == []


# --- who may


async def test_a_person_ends_turns_of_their_own_only(service: Service) -> None:
    ann = service.token("acme", "ann", groups=["g1"])
    for names, field in (
        ({"user_id": "bob"}, "user_id"),
        ({"sender_id": "bob"}, "sender_id"),
        ({"group_id": "g2"}, "group_id"),
        ({"user_id": "ann", "sender_id": "ann", "group_id": "g2"}, "group_id"),
    ):
        refused(await service.post("/v1/end", {**TURN, **names}, ann), 403, "PERMISSION_DENIED", field)
    refused(await service.post("/v1/end", TURN, {**ann, "X-Group-ID": "g2"}), 403, "PERMISSION_DENIED", "X-Group-ID")
    refused(await service.post("/v1/end", TURN, {**ann, "X-Tenant-ID": "b"}), 403, "PERMISSION_DENIED", "X-Tenant-ID")
    assert await service.memory.jobs() == []
    for number, names in enumerate(({}, {"user_id": "ann", "sender_id": "ann"}, {"group_id": "g1"})):
        assert (await service.post("/v1/end", {**TURN, "request_id": f"q{number}", **names}, ann)).status_code == 200


async def test_a_service_names_the_person_in_the_headers_or_the_body_but_not_two(service: Service) -> None:
    bot = service.token("acme")
    refused(await service.post("/v1/end", TURN, bot), 422, "INVALID_ARGUMENT", "user_id")
    two = await service.post("/v1/end", {**TURN, "user_id": "bob"}, {**bot, "X-User-ID": "ann"})
    assert refused(two, 422, "INVALID_ARGUMENT", "user_id")["details"]["reason"] == "contradiction"
    groups = await service.post("/v1/end", {**TURN, "user_id": "ann", "group_id": "g1"}, {**bot, "X-Group-ID": "g2"})
    refused(groups, 422, "INVALID_ARGUMENT", "group_id")
    for number, (headers, body) in enumerate(
        (({"X-User-ID": "ann"}, {}), ({}, {"user_id": "ann"}), ({"X-User-ID": "ann"}, {"user_id": "ann"}))
    ):
        answer = await service.post("/v1/end", {**TURN, "request_id": f"q{number}", **body}, {**bot, **headers})
        assert answer.status_code == 200
    assert {job.payload["owner_id"] for job in await service.memory.jobs()} == {"ann"}


async def test_in_a_group_only_what_belongs_to_it_is_seen(service: Service) -> None:
    bot = service.token("acme")
    await told(service, {**bot, "X-User-ID": "ann"})
    await told(service, bot, request_id="r2", user_id="ann", group_id="g1", new_info="Ann likes green tea", messages=[])
    ask = {"query": "Munich tea", "top_k": 50}
    seen = {}
    for name, headers in {
        "private": {"X-User-ID": "ann"},
        "group": {"X-User-ID": "ann", "X-Group-ID": "g1"},
        "group alone": {"X-Group-ID": "g1"},
        "other group": {"X-User-ID": "ann", "X-Group-ID": "g2"},
        "bob": {"X-User-ID": "bob"},
    }.items():
        answer = await service.post("/v1/cognitive/search_events", ask, {**bot, **headers})
        seen[name] = {word for word in ("Munich", "tea") if word in answer.text}
    assert seen == {"private": {"Munich"}, "group": {"tea"}, "group alone": {"tea"}, "other group": set(), "bob": set()}
    both = {**ask, "include_private": True}
    in_group = {**bot, "X-User-ID": "ann", "X-Group-ID": "g1"}
    answer = await service.post("/v1/cognitive/search_events", both, in_group)
    assert "Munich" in answer.text
    assert "tea" in answer.text
    refused(await service.post("/v1/cognitive/search_events", ask, bot), 422, "INVALID_ARGUMENT", "X-User-ID")
    refused(await service.post("/v1/cognitive/context", ask, {**bot, "X-Group-ID": "g1"}), 422, "INVALID_ARGUMENT")


async def test_a_smuggled_user_is_ignored_and_noted(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    await told(service, service.token("acme", "ann"))
    bob = service.token("acme", "bob")
    answer = await service.post("/v1/cognitive/search_events", {"query": "Munich", "user_id": "ann"}, bob)
    assert answer.json() == {"items": []}
    answer = await service.get(PROFILE, bob, user_id="ann")
    refused(answer, 404, "NOT_FOUND")
    assert caplog.text.count("user_id_ignored") == 2
    for targets in ({"target_user_id": "ann"}, {"target_group_id": "g1"}):
        answer = await service.post("/v1/cognitive/search_events", {"query": "Munich", **targets}, bob)
        assert answer.json() == {"items": []}


async def test_the_tools_are_handed_out(service: Service) -> None:
    ann = service.token("acme", "ann")
    for form in ("openai", "anthropic"):
        answer = (await service.get("/v1/tools", ann, form=form, language="en")).json()
        assert answer == {"tools": tools.tool_definitions(form, "en"), "prompt": tools.prompt_text("en")}
    assert (await service.get("/v1/tools", ann)).json()["prompt"] == tools.prompt_text("zh")
    refused(await service.get("/v1/tools", ann, language="fr"), 422, "INVALID_ARGUMENT", "language")
    refused(await service.get("/v1/tools"), 401, "UNAUTHENTICATED")


# --- watched


def figures(text: str) -> dict[str, float]:
    return {
        sample.name + "".join(f"{{{value}}}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("mnemon_historian")
    }


async def test_the_historian_can_be_watched(service: Service) -> None:
    ann = service.token("acme", "ann")
    await told(service, ann)
    parts = service.memory.parts
    for outcome in ("retry", "failed"):
        parts.watch.settled(Settled("end-9", JobKind.END, "acme", outcome, 0.1, 1, 0.2))
    parts.watch.settled(Settled("index-9", JobKind.INDEX, "acme", "done", 0.1, 0, 0.2))
    for _ in range(2):
        parts.alerts.tell(Alert("not_absolute", "event r1:1 could not be made absolute", "2026-02-21T14:30:00+08:00"))
    await service.post("/v1/end", {**TURN, "request_id": "r2"}, ann)
    seen = figures((await service.get("/metrics")).text)
    assert seen["mnemon_historian_events_total{done}"] == 1
    assert seen["mnemon_historian_events_total{failed}"] == 1
    assert seen["mnemon_historian_retries_total"] == 1
    assert seen["mnemon_historian_latency_seconds_count"] == 1
    assert 0 < seen["mnemon_historian_latency_seconds_sum"] < 60
    assert seen["mnemon_historian_not_absolute_total"] == 2
    assert seen["mnemon_historian_failure_rate"] == 0.5
    assert seen["mnemon_historian_queue_age_seconds"] > 0


async def test_the_status_of_a_tenant_counts_its_own_turns_only(service: Service) -> None:
    await told(service, service.token("acme", "ann"))
    await service.post("/v1/end", {**TURN, "request_id": "r2"}, service.token("acme", "ann"))
    mine = (await service.get("/v1/status", service.token("acme"))).json()["historian"]
    assert (mine["events"], mine["waiting"], mine["provider"]) == (1, 1, "rules")
    other = (await service.get("/v1/status", service.token("other"))).json()["historian"]
    assert (other["events"], other["waiting"], other["oldest_waiting_s"]) == (0, 0, 0.0)


async def test_the_journal_names_the_route_and_not_what_was_said(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mnemon.service")
    await told(service, service.token("acme", "ann"))
    await service.get(PROFILE, service.token("acme", "ann"))
    lines = [r.getMessage() for r in caplog.records if r.name == "mnemon.service"]
    assert any('"/v1/end"' in line for line in lines)
    assert not [line for line in lines if "Munich" in line]


async def test_too_many_turns_are_turned_away_like_everything_else(start: Start) -> None:
    service: Service = await start(rate=1.0, burst=1, body_limit=500)
    ann = service.token("acme", "ann")
    refused(await service.post("/v1/end", {**TURN, "new_info": "x" * 600}, ann), 413, "RESOURCE_EXHAUSTED")
    refused(await service.post("/v1/end", TURN, ann), 429, "RESOURCE_EXHAUSTED")


# --- from somewhere else


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A service at a port of this machine, in a thread of its own."""

    url: str
    tokens: Tokens
    memory: AsyncMemory
    loop: asyncio.AbstractEventLoop

    def work(self) -> None:
        asyncio.run_coroutine_threadsafe(self.memory.run_jobs(), self.loop).result(60)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    home, config = tmp_path / "service", Config(background_worker=False)
    memory = AsyncMemory(home, llm="rules", embedder=HashEmbedder(), config=config, clock=FixedClock())
    tokens = Tokens(home)
    app = create_app(memory, Gatekeeper(tokens, local=True))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on"))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(server.serve(),))
    thread.start()
    while not server.started:
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Elsewhere(f"http://127.0.0.1:{port}", tokens, memory, loop)
    server.should_exit = True
    thread.join()
    loop.close()


def story(memory: Memory, work: Any) -> dict[str, Any]:
    """Through every door of a bot, and what came of it."""
    who = {"tenant_id": "acme", "user_id": "ann"}
    turn = {name: value for name, value in TURN.items() if name not in ("request_id", "end_seq")}
    ends = [
        memory.end("acme", "r1", 1, user_id="ann", **turn),
        memory.end("acme", "r1", 1, user_id="ann", **turn),
        memory.end("acme", "r9", 1, user_id="ann"),
        memory.end("acme", "r2", 1, user_id="ann", force=True, messages=[{**SAID, "message_id": "m2"}]),
        memory.end(
            "acme", "r3", 1, "Made tea", user_id="ann", group_id="g1", group_name="Tea", timestamp=1_771_000_000
        ),
        memory.end("acme", "r4", 1, "", "Ann likes green tea", user_id="ann", timestamp="2026-02-22T09:00:00+08:00"),
        memory.end("acme", "r5", 1, user_id="ann", summary="Said good night", timestamp="2026-02-22T22:00:00+08:00"),
    ]
    with pytest.raises(Conflict):
        memory.end("acme", "r1", 1, "something else", user_id="ann")
    with pytest.raises(InvalidArgument):
        memory.end("acme", "r1", 1, user_id="ann", timezone="Mars")
    work()
    mine, group, both = (
        memory.cognitive("acme", "ann"),
        memory.cognitive("acme", "ann", "g1"),
        memory.cognitive("acme", "ann", "g1", include_private=True),
    )
    with pytest.raises(NotFound):
        mine.get_profile("user", "bob")
    found = {
        "ends": [(e.status, e.event_id, e.job_id, e.deprecated) for e in ends],
        "mine": mine.search_events("Munich tea", top_k=20),
        "then": mine.search_events("tea", time_from="2026-02-22T00:00:00Z", time_to="2026-02-22T12:00:00Z"),
        "targeted": mine.search_events("tea", target_user_id="ann", top_k=2),
        "group": group.search_events("tea"),
        "both": both.search_events("tea", top_k=20),
        "context": group.context("tea?", 2, 300),
        "private": mine.context("Munich"),
        "profile": mine.get_profile("user", "ann"),
        "through": memory.get_profile("user", "ann", **who),
        "profiles": both.search_profiles("green tea", "user", "ann", 3),
        "history": mine.profile_history("user", "ann"),
        "diff": mine.profile_diff("user", "ann", 1),
        "called": tools.call_tool(
            memory, tools.ChatTurn(**who, request_id="r7"), "cognitive.search_events", {"query": "tea"}
        ),
    }
    found["rolled"] = mine.rollback_profile("user", "ann", 1)
    found["imported"] = memory.import_end_summaries(["Made coffee"], "acme", "ann", at="2026-02-23T09:00:00Z")
    return found


def test_a_bot_that_is_somewhere_else_finds_the_same(elsewhere: Elsewhere, tmp_path: Path) -> None:
    config = Config(background_worker=False)
    with Memory(tmp_path / "here", llm="rules", embedder=HashEmbedder(), config=config, clock=FixedClock()) as memory:
        here = story(memory, memory.run_jobs)
    token = elsewhere.tokens.create("acme", "ann", groups=["g1"])[1]
    with Memory(elsewhere.url, token=token, clock=FixedClock()) as memory:
        there = story(memory, elsewhere.work)
    assert here["mine"]
    assert here["group"]
    assert "Munich" in here["private"].text
    for name in here:
        assert there[name] == here[name], name


def test_a_backend_that_is_somewhere_else_speaks_for_everybody(elsewhere: Elsewhere) -> None:
    with Memory(elsewhere.url, token=elsewhere.tokens.create("acme", service=True)[1]) as memory:
        for number, (user, group) in enumerate((("ann", None), ("bob", "g1"))):
            memory.end("acme", f"r{number}", 1, "", f"{user} likes tea", user_id=user, group_id=group)
        elsewhere.work()
        assert "ann" in memory.get_profile("user", "ann", "acme", "ann").text
        assert "bob" in memory.get_profile("user", "bob", "acme", "ann", "g1").text
        assert [hit.metadata["user_id"] for hit in memory.search_events("tea", "acme", "ann", "g1")] == ["bob"]
        assert "bob" in memory.chat_context("tea", "acme", "bob", "g1").text
        with pytest.raises(InvalidArgument, match="where the memory is kept"):
            memory.on_alert(print)


def test_others_are_kept_out_by_the_token(elsewhere: Elsewhere) -> None:
    with Memory(elsewhere.url, token=elsewhere.tokens.create("acme", "bob")[1]) as memory:
        for attempt in (
            lambda: memory.end("acme", "r1", 1, "", "Ann likes tea", user_id="ann"),
            lambda: memory.end("acme", "r1", 1, "", "Ann likes tea", user_id="bob", sender_id="ann"),
            lambda: memory.end("acme", "r1", 1, "", "Ann likes tea", user_id="bob", group_id="g1"),
            lambda: memory.search_events("tea", "acme", "ann"),
            lambda: memory.get_profile("user", "ann", "acme", "bob", "g1"),
            lambda: memory.chat_context("tea", "acme", "ann"),
        ):
            with pytest.raises(PermissionDenied):
                attempt()
        with pytest.raises(NotFound):
            memory.get_profile("user", "ann", "acme", "bob")


async def test_the_page_lists_every_route_and_figure(service: Service, root: Path) -> None:
    page = (root / "docs" / "service.md").read_text(encoding="utf-8")
    document = (await service.get("/openapi.json")).json()
    paths = [path for path, of in document["paths"].items() if any("chats" in told["tags"] for told in of.values())]
    assert len(paths) == 9
    for path in paths:
        assert f"`{path}" in page or f" {path}`" in page, path
    told = (await service.get("/metrics")).text
    for name in re.findall(r"^# HELP (mnemon_historian_\w+)(?<!_created) ", told, re.MULTILINE):
        assert f"`{name}" in page, name
