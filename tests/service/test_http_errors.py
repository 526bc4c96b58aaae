"""As a new user would meet them: every error in the one documented form, and none that tells too much."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from conftest import TURNS, Service, Start, refused
from mnemon.contracts.errors import Corrupt

HERE = {"X-Tenant-ID": "acme", "X-User-ID": "ann"}
JSON = {**HERE, "Content-Type": "application/json"}


async def test_there_is_no_such_path(service: Service) -> None:
    refused(await service.get("/nowhere", HERE), 404, "NOT_FOUND")
    refused(await service.get("/v1/claims/", HERE), 404, "NOT_FOUND")


async def test_a_path_does_not_take_every_method(service: Service) -> None:
    answer = await service.client.put("/v1/retrieval", headers=HERE)
    assert refused(answer, 405, "INVALID_ARGUMENT")["details"]["reason"] == "method"
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"query": "spicy', "json_invalid"),
        (b"\xff\xfe{", "json_invalid"),
        (b"[" * 100_000, "json_invalid"),
        (b"[]", "model_attributes_type"),
        (b"", "missing"),
        (b"null", "model_attributes_type"),
    ],
    ids=["cut off", "not UTF-8", "bottomless", "a list", "nothing", "null"],
)
async def test_broken_json_is_told_as_such(service: Service, content: bytes, reason: str) -> None:
    answer = await service.client.post("/v1/retrieval", content=content, headers=JSON)
    assert refused(answer, 422, "INVALID_ARGUMENT", "body")["details"]["reason"] == reason


async def test_json_that_does_not_say_so_is_told_how(service: Service) -> None:
    answer = await service.client.post("/v1/retrieval", content=b'{"query": "x"}', headers=HERE)
    assert "Content-Type: application/json" in refused(answer, 422, "INVALID_ARGUMENT", "body")["message"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": 5}, "query"),
        ({"query": "  "}, "query"),
        ({"query": "x", "topk": "10"}, "topk"),
        ({"query": "x", "topk": 0}, "topk"),
        ({"query": "x", "topc": 3}, "topc"),
        ({"query": "x", "strategy": "dialog_v9"}, "strategy"),
        ({"query": "x", "time_range": {"from": "2026"}}, "time_range.from"),
        ({"query": "x", "time_range": {"gte": "yesterday"}}, "time_range.gte"),
        ({"query": "x", "rerank": {"enable": True}}, "rerank.enable"),
        ({"query": "x", "user_id": "bob"}, "user_id"),
        ({"query": "\ud800"}, "body"),
    ],
)
async def test_a_wrong_field_is_named(service: Service, body: dict[str, Any], field: str) -> None:
    answer = await service.client.post("/v1/retrieval", content=json.dumps(body), headers=JSON)
    refused(answer, 422, "INVALID_ARGUMENT", field)


async def test_several_wrong_fields_are_all_named(service: Service) -> None:
    answer = await service.post("/v1/retrieval", {"topk": 0, "topc": 1}, HERE)
    error = refused(answer, 422, "INVALID_ARGUMENT", "query")
    assert [p["field"] for p in error["details"]["problems"]] == ["query", "topk", "topc"]


async def test_an_unknown_filter_is_named(service: Service) -> None:
    asked = {"query_text": "spicy", "filter": {"rôle": "user"}}
    refused(await service.post("/v1/messages/lexical_search", asked, HERE), 422, "INVALID_ARGUMENT", "filter.rôle")
    refused(await service.get("/v1/messages", HERE, rolle="user"), 422, "INVALID_ARGUMENT", "rolle")
    refused(await service.get("/v1/messages", HERE, role="robot"), 422, "INVALID_ARGUMENT", "role")
    refused(await service.get("/v1/messages", HERE, cursor="x"), 422, "INVALID_ARGUMENT")


@pytest.mark.parametrize("name", ["llm", "api_key"])
async def test_a_model_key_is_refused_and_not_repeated(
    service: Service, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    for path, body in (("/v1/sessions", {"session_id": "s", "turns": TURNS}), ("/v1/retrieval", {"query": "x"})):
        answer = await service.post(path, {**body, name: {"api_key": "sk-very-secret"}}, HERE)
        assert "stay with the client" in refused(answer, 422, "INVALID_ARGUMENT", name)["message"]
        assert "sk-very-secret" not in answer.text + caplog.text


async def test_what_was_sent_is_never_repeated_in_an_error(service: Service) -> None:
    answer = await service.post("/v1/retrieval", {"query": ["my password is hunter2"]}, HERE)
    refused(answer, 422, "INVALID_ARGUMENT", "query")
    assert "hunter2" not in answer.text


async def test_a_huge_body_is_refused_before_it_is_read(start: Start) -> None:
    service = await start(body_limit=1000)
    answer = await service.client.post("/v1/retrieval", content=b"x" * 1001, headers=JSON)
    assert refused(answer, 413, "RESOURCE_EXHAUSTED", "body")["details"]["limit"] == 1000
    fits = json.dumps({"query": "x" * 980}).encode()
    assert (await service.client.post("/v1/retrieval", content=fits, headers=JSON)).status_code == 200


async def test_a_body_that_does_not_say_how_long_it_is_is_counted_as_it_comes(start: Start) -> None:
    service = await start(body_limit=1000)
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 100
            yield b"x" * 100

    answer = await service.client.post("/v1/retrieval", content=parts(), headers=JSON)
    refused(answer, 413, "RESOURCE_EXHAUSTED", "body")
    assert sent <= 1200


async def test_too_many_requests_are_told_when_to_come_again(start: Start) -> None:
    service = await start(rate=0.001, burst=2)
    ann, bob = service.token("acme", "ann"), service.token("acme", "bob")
    assert [(await service.get("/v1/messages", ann)).status_code for _ in range(2)] == [200, 200]
    answer = await service.get("/v1/messages", ann)
    refused(answer, 429, "RESOURCE_EXHAUSTED")
    assert int(answer.headers["retry-after"]) > 1
    assert (await service.get("/v1/messages", bob)).status_code == 200
    assert (await service.get("/health")).status_code == 200


class Held:
    """A memory that answers when it is let."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch, name: str = "retrieval") -> None:
        self.begun, self.let, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        real = getattr(service.memory, name)

        async def held(*args: Any, **kwargs: Any) -> Any:
            self.begun.set()
            await self.let.wait()
            try:
                return await real(*args, **kwargs)
            finally:
                self.ended.set()

        monkeypatch.setattr(service.memory, name, held)


async def test_a_full_service_says_so(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    service = await start(at_once=1, waiting=1)
    held = Held(service, monkeypatch)
    first = asyncio.create_task(service.post("/v1/retrieval", {"query": "x"}, HERE))
    await held.begun.wait()
    second = asyncio.create_task(service.get("/v1/messages", HERE))
    for _ in range(10):
        await asyncio.sleep(0)
    answer = await service.get("/v1/messages", HERE)
    refused(answer, 503, "UNAVAILABLE")
    assert answer.headers["retry-after"] == "1"
    assert (await service.get("/health")).status_code == 200
    held.let.set()
    assert [(await first).status_code, (await second).status_code] == [200, 200]


async def test_a_question_that_takes_too_long_is_answered(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    service = await start(timeout_s=0.01)
    held = Held(service, monkeypatch)
    answer = await service.post("/v1/retrieval", {"query": "x"}, HERE)
    assert refused(answer, 504, "UNAVAILABLE")["details"]["reason"] == "timeout"
    assert not held.ended.is_set()


async def test_a_write_that_takes_too_long_goes_on_to_its_end(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    service = await start(timeout_s=0.01)
    held = Held(service, monkeypatch, "session_write")
    answer = await service.post("/v1/sessions", {"session_id": "s1", "turns": TURNS}, HERE)
    refused(answer, 504, "UNAVAILABLE")
    held.let.set()
    await service.app.state.writes.finished()
    page = await service.memory.bind("acme", "ann").messages_list()
    assert len(page.items) == 3


async def test_a_client_that_goes_away_does_not_take_its_write_along(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(service, monkeypatch, "session_write")
    request = asyncio.create_task(service.post("/v1/sessions", {"session_id": "s1", "turns": TURNS}, HERE))
    await held.begun.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    held.let.set()
    await service.app.state.writes.finished()
    assert len((await service.memory.bind("acme", "ann").messages_list()).items) == 3


@pytest.mark.parametrize(
    "error", [RuntimeError("the user said: my card is 4111"), Corrupt("bytes of ann", path="/srv/x", key="sk-1")]
)
async def test_what_breaks_inside_is_for_the_log(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(service.memory, "retrieval", broken)
    answer = await service.post("/v1/retrieval", {"query": "x"}, {**HERE, "X-Request-ID": "req-7"})
    told = refused(answer, 500, "INTERNAL")
    assert "details" not in told
    for secret in ("4111", "ann", "/srv", "sk-1", "Traceback"):
        assert secret not in answer.text
    assert answer.headers["x-request-id"] == "req-7"
    notes = [json.loads(r.message) for r in caplog.records if r.name == "mnemon.service"]
    assert [n["error"] for n in notes if n["request_id"] == "req-7" and "error" in n] == [type(error).__name__]


async def test_a_request_id_is_taken_where_it_is_sane_and_made_where_not(service: Service) -> None:
    assert (await service.get("/health", {"X-Request-ID": "abc.1:2-3"})).headers["x-request-id"] == "abc.1:2-3"
    for odd in ("a b", "x" * 129, '"}\x7f', ""):
        made = (await service.get("/health", {"X-Request-ID": odd})).headers["x-request-id"]
        assert made != odd
        assert len(made) == 32
