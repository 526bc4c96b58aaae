"""Recall over HTTP: the same answer as at the engine's door, whole or round by round, and nobody else's words."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from starlette.types import Message

from conftest import TURNS, Service, refused
from mnemon.contracts.errors import Internal, Unavailable
from mnemon.contracts.recall import RecallResult, Round
from mnemon.engine.models import Chosen
from mnemon.surfaces.http.limits import Deadline
from mnemon.surfaces.wire import as_json
from mnemon.testing.scripted import ScriptedLLM

QUESTION = "What food do I not eat?"
LOOK = {"thought": "look", "tool": "messages_list", "arguments": {}}
DONE = {
    "final": {
        "items": [
            {
                "shelf": "preferences",
                "statement": "The user doesn't eat spicy food any more",
                "evidence": [{"message_id": "m3", "quote": "I don't eat spicy food any more."}],
            }
        ]
    }
}
Events = list[tuple[str, Any]]


@pytest.fixture
async def ann(service: Service) -> dict[str, str]:
    headers = service.token("acme", "ann")
    for user, turns in (("ann", TURNS), ("bob", [{**TURNS[0], "text": "I don't eat peanuts, that is a secret."}])):
        who = service.token("acme", user)
        body = {"session_id": "s1", "turns": turns, "extract": False}
        assert (await service.post("/v1/sessions", body, who)).status_code == 200
    return headers


def with_model(service: Service, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> ScriptedLLM:
    """The model of the service."""
    model = ScriptedLLM(*answers)
    choose = service.memory.parts.models.choose

    def chosen(call: Any, *rest: Any) -> Chosen:
        return choose(call, *rest) if call is not None else Chosen(model)

    monkeypatch.setattr(service.memory.parts.models, "choose", chosen)
    return model


def events(text: str) -> Events:
    assert text.endswith("\n\n")
    found = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


async def test_the_answer_is_the_memory_s_own(service: Service, ann: dict[str, str]) -> None:
    context = {"time_range": {"since": "2026-01-01T00:00:00Z"}, "role_pref": "user"}
    answer = await service.post("/v1/recall", {"question": QUESTION, "context": context}, ann)
    assert answer.status_code == 200, answer.text
    own = await service.memory.recall(QUESTION, "acme", "ann", context=context)
    assert answer.json() == json.loads(as_json(own))
    result = RecallResult.model_validate_json(answer.content)
    assert result.planner == "rules"
    assert {"memory_view", "evidence", "limits"} <= answer.json().keys()
    assert "secret" not in answer.text


@pytest.mark.parametrize("way", ["body", "header"])
async def test_rounds_come_as_events_and_the_result_last(
    service: Service, ann: dict[str, str], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_model(service, monkeypatch, LOOK, DONE)
    body = {"question": QUESTION, **({"stream": True} if way == "body" else {})}
    headers = ann if way == "body" else {**ann, "Accept": "text/event-stream"}
    answer = await service.post("/v1/recall", body, headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    *rounds, (last, result) = events(answer.text)
    assert [name for name, _ in rounds] == ["round"]
    assert last == "result"
    assert [Round.model_validate(told) for _, told in rounds] == [*RecallResult.model_validate(result).trace]
    assert (result["planner"], result["evidence"][0]["content"]) == ("model", TURNS[0]["text"])
    assert result["llm_used"]["provider"] == "scripted"


async def test_the_rules_can_be_asked_for(
    service: Service, ann: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = with_model(service, monkeypatch, LOOK)
    answer = await service.post("/v1/recall", {"question": QUESTION, "planner": "rules"}, ann)
    assert (answer.json()["planner"], model.asked) == ("rules", [])


async def test_what_is_wrong_is_told_before_anything_is_streamed(service: Service, ann: dict[str, str]) -> None:
    for body, field in (
        ({}, "question"),
        ({"question": ""}, "question"),
        ({"question": " "}, "question"),
        ({"question": "x" * 2001}, "question"),
        ({"question": "x", "context": {"role_pref": "boss"}}, None),
        ({"question": "x", "context": {"time_range": {"since": "soon"}}}, "context.time_range.since"),
        ({"question": "x", "context": {"user": "bob"}}, "context.user"),
        ({"question": "x", "skill": "/etc/passwd"}, "skill"),
        ({"question": "x", "skill": "../../SKILL.md"}, "skill"),
        ({"question": "x", "llm": {"provider": "openai", "api_key": "sk-1"}}, "llm"),
        ({"question": "x", "max_calls": 100}, "max_calls"),
    ):
        for stream in (False, True):
            refused(await service.post("/v1/recall", {**body, "stream": stream}, ann), 422, "INVALID_ARGUMENT", field)


async def test_the_credentials_say_who_asks(
    service: Service, ann: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    plain = await service.post("/v1/recall", {"question": QUESTION}, ann)
    with caplog.at_level(logging.WARNING, "mnemon.service"):
        smuggled = await service.post("/v1/recall", {"question": QUESTION, "user_id": "bob"}, ann)
    assert smuggled.json() == plain.json()
    assert "user_id_ignored" in caplog.text
    refused(await service.post("/v1/recall", {"question": QUESTION}), 401, "UNAUTHENTICATED")
    other = {**ann, "X-User-ID": "bob"}
    refused(await service.post("/v1/recall", {"question": QUESTION}, other), 403, "PERMISSION_DENIED")
    refused(await service.post("/v1/recall", {"question": QUESTION}, service.token("acme")), 422, "INVALID_ARGUMENT")
    backend = {**service.token("acme"), "X-User-ID": "bob"}
    assert "secret" in (await service.post("/v1/recall", {"question": QUESTION}, backend)).text


async def test_what_goes_wrong_on_the_way_is_an_event(
    service: Service, ann: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"question": QUESTION, "stream": True}
    for error, code in ((Unavailable("the index is away"), "UNAVAILABLE"), (Internal("a path /x"), "INTERNAL")):

        async def broken(*args: Any, error: Exception = error, **named: Any) -> Any:
            raise error

        for tool in ("messages_list", "lexical_search", "semantic_search"):
            monkeypatch.setattr(type(service.memory.parts.messages), tool, broken)
        (*_, (name, told)) = events((await service.post("/v1/recall", body, ann)).text)
        assert (name, told["error"]["code"]) == ("error", code)
        assert "/x" not in json.dumps(told)
        refused(await service.post("/v1/recall", {"question": QUESTION}, ann), error.status, code)


class Listener:
    """A client at the other end of a stream, who may hang up."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._sent: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        self.gone = asyncio.Event()
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive(self) -> Message:
        if self._sent:
            return self._sent.pop(0)
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message.get("body"):
            self.heard.put_nowait(message["body"])


async def test_who_hangs_up_ends_the_recall(
    service: Service, ann: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, ended = asyncio.Event(), asyncio.Event()
    model = with_model(service, monkeypatch, LOOK, {**LOOK, "arguments": {"page_size": 1}}, DONE)
    complete = model.complete

    async def slow(*args: Any) -> Any:
        if len(model.asked) == 2:
            waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
        return await complete(*args)

    monkeypatch.setattr(model, "complete", slow)
    listener = Listener({"question": QUESTION, "stream": True})
    headers = {**ann, "Content-Type": "application/json", "Host": "localhost"}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/recall",
        "raw_path": b"/v1/recall",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    request = asyncio.create_task(service.app(scope, listener.receive, listener.send))
    assert (await listener.heard.get()).startswith(b"event: round\n")
    await waiting.wait()
    listener.gone.set()
    await request
    await asyncio.wait_for(ended.wait(), 10)
    assert model.left == 1


@pytest.mark.parametrize(
    ("kind", "in_time"), [(b"text/event-stream; charset=utf-8", True), (b"application/json", False)]
)
async def test_what_is_told_as_it_happens_has_no_deadline(kind: bytes, in_time: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        for _ in range(3):
            await asyncio.sleep(0)  # the time that is up would be noticed here
        await send({"type": "http.response.body", "body": b"done"})

    listener = Listener({})
    at_once = Deadline(app, 0)
    if in_time:
        await at_once({}, listener.receive, listener.send)
        assert listener.heard.get_nowait() == b"done"
    else:
        with pytest.raises(TimeoutError):
            await at_once({}, listener.receive, listener.send)


async def test_message_tools_name_what_is_wrong_with_a_cursor(service: Service, ann: dict[str, str]) -> None:
    page = (await service.get("/v1/messages", ann, page_size=1)).json()
    for cursor in ("x", page["next_cursor"][:-4]):
        refused(await service.get("/v1/messages", ann, cursor=cursor), 422, "INVALID_ARGUMENT", "cursor")
    body = {"query_text": "food", "cursor": page["next_cursor"]}
    refused(await service.post("/v1/messages/lexical_search", body, ann), 422, "INVALID_ARGUMENT", "cursor")
    theirs = (await service.get("/v1/messages", service.token("acme", "bob"))).json()["items"][0]["message_id"]
    refused(await service.get(f"/v1/messages/{theirs}/neighbors", ann), 404, "NOT_FOUND")
    words = (await service.post("/v1/messages/lexical_search", {"query_text": "eat"}, ann)).text
    assert "secret" not in words
