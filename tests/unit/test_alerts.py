"""Alerts: who is told what, how often, and that nothing suffers from telling it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from mnemon import AsyncMemory, Config, Memory, errors
from mnemon.contracts.chats import Alert, EndCall
from mnemon.contracts.cognitive import AlertsConfig, CognitiveConfig, HistorianConfig
from mnemon.contracts.jobs import JobKind, Settled
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.queue.sqlite import SqliteQueue
from mnemon.drivers.webhook import Webhook
from mnemon.engine.ending import ended
from mnemon.pipelines.historian.alerting import Alerts
from mnemon.pipelines.historian.ending import end_job
from mnemon.pipelines.historian.watching import ENOUGH, Watch
from mnemon.testing.clock import FixedClock

ALERT = Alert("job_failed", "job end-1 failed for good", "2026-02-21T14:30:00+08:00", {"job_id": "end-1"})


class Ticking:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Ear:
    """A web server that writes down what is posted to it."""

    url: str
    heard: list[tuple[str, dict[str, object]]] = field(default_factory=list)


@contextmanager
def listening(status: int = 204, before: Callable[[], None] = lambda: None) -> Iterator[Ear]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            before()
            ear.heard.append((self.path, json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: tests are read by people."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        ear = Ear(f"http://127.0.0.1:{server.server_address[1]}/hooks/secret-of-the-channel")
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield ear
        server.shutdown()
        thread.join()


def settled(**more: object) -> Settled:
    usual = Settled("end-1", JobKind.END, "acme", "done", 0.1, 0, 0.2)
    return replace(usual, **more)  # type: ignore[arg-type]


def a_call() -> EndCall:
    """One turn of Ann's, as it is queued."""
    at = datetime(2026, 2, 21, 14, 30, tzinfo=UTC)
    return ended("r1", 1, "Answered Ann", "", "ann", None, None, "", "", "", (), (), at, None, "", None, at, "")


def watch(tmp_path: Path, **limits: float) -> tuple[Watch, list[Alert]]:
    told: list[Alert] = []
    clock, alerts = FixedClock(), Alerts(0.0)
    alerts.on(told.append)
    return Watch(SqliteQueue(tmp_path / "queue.db", clock), clock, alerts, AlertsConfig(**limits)), told  # type: ignore[arg-type]


def test_the_same_kind_is_told_once_and_later_with_what_was_held_back() -> None:
    told: list[Alert] = []
    counted: list[Alert] = []
    clock = Ticking()
    alerts = Alerts(600.0, clock)
    alerts.on(told.append)
    alerts.count(counted.append)
    for number in range(3):
        alerts.tell(replace(ALERT, facts={"job_id": f"end-{number}"}))
    alerts.tell(replace(ALERT, kind="queue_age"))
    assert [(a.kind, a.facts) for a in told] == [
        ("job_failed", {"job_id": "end-0"}),
        ("queue_age", {"job_id": "end-1"}),
    ]
    alerts.catch_up()
    assert len(told) == 2
    clock.seconds = 600.0
    alerts.catch_up()
    assert told[2].facts == {"job_id": "end-2", "held_back": 1}
    alerts.catch_up()
    assert len(told) == 3
    assert len(counted) == 4


def test_a_hook_that_breaks_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Alert] = []
    alerts = Alerts()

    def broken(alert: Alert) -> None:
        raise RuntimeError("no")

    alerts.on(broken)
    alerts.on(told.append)
    alerts.tell(ALERT)
    assert told == [ALERT]
    assert "an alert hook failed" in caplog.text


async def test_a_coroutine_is_done_beside_the_work_and_waited_for_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Alert] = []
    gate = asyncio.Event()

    async def slow(alert: Alert) -> None:
        await gate.wait()
        told.append(alert)
        raise RuntimeError("after all")

    alerts = Alerts()
    alerts.on(slow)
    alerts.tell(ALERT)
    assert told == []
    gate.set()
    await alerts.close()
    assert told == [ALERT]
    assert "an alert hook failed" in caplog.text


async def test_a_webhook_is_posted_the_alert(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with listening() as ear:
        await Webhook(ear.url).post(ALERT)
    assert ear.heard == [
        (
            "/hooks/secret-of-the-channel",
            {"kind": "job_failed", "message": ALERT.message, "at": ALERT.at, "facts": {"job_id": "end-1"}},
        )
    ]
    assert "secret-of-the-channel" not in caplog.text + repr(Webhook(ear.url))


async def test_a_webhook_that_is_away_refuses_or_hangs_is_noted_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    with listening(500) as ear:
        await Webhook(ear.url).post(ALERT)
    assert "answered 500" in caplog.text
    await Webhook(ear.url).post(ALERT)
    assert "does not answer (ConnectError)" in caplog.text

    with socket.create_server(("127.0.0.1", 0)) as silent:
        await Webhook(f"http://127.0.0.1:{silent.getsockname()[1]}/secret", timeout_s=0.05).post(ALERT)
    assert "does not answer (TimeoutError)" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("url", ["ftp://host/x", "host", "http://", "http://[::1"])
def test_what_is_no_address_is_refused_when_the_memory_opens(url: str, tmp_path: Path) -> None:
    config = Config(cognitive=CognitiveConfig(alerts=AlertsConfig(webhook=url)))
    with pytest.raises(errors.InvalidArgument) as refused:
        Memory(tmp_path, embedder=HashEmbedder(), config=config)
    assert refused.value.field == "cognitive.alerts.webhook"


def test_a_job_given_up_is_told_without_a_word_of_what_was_said(tmp_path: Path) -> None:
    eye, told = watch(tmp_path)
    eye.settled(settled(outcome="retry", attempts=1, error="ModelFailed: the model is away"))
    assert told == []
    eye.settled(settled(outcome="failed", attempts=5, error="InvalidArgument: 'Ann said this' is odd"))
    (alert,) = told
    assert alert.kind == "job_failed"
    assert alert.facts == {
        "job_id": "end-1",
        "kind": "end",
        "tenant_id": "acme",
        "error": "InvalidArgument",
        "attempts": 5,
    }
    assert "Ann" not in repr(alert)


def test_jobs_of_other_kinds_do_not_count_for_the_historian(tmp_path: Path) -> None:
    eye, told = watch(tmp_path, failure_rate=0.0, queue_age_seconds=1.0)
    for _ in range(ENOUGH):
        eye.settled(settled(kind=JobKind.INDEX, outcome="failed", waited_s=99.0))
    assert {alert.kind for alert in told} == {"job_failed"}
    assert eye.failure_rate == 0.0


def test_a_share_of_failures_is_told_once_it_means_something(tmp_path: Path) -> None:
    eye, told = watch(tmp_path, failure_rate=0.1)
    for number in range(ENOUGH):
        eye.settled(settled(outcome="failed" if number < 2 else "done"))
    assert [a.kind for a in told] == ["job_failed"] * 2
    eye.settled(settled(outcome="failed"))
    assert told[-1].kind == "failure_rate"
    assert told[-1].facts == {"rate": 0.1429, "of": ENOUGH + 1, "limit": 0.1}


async def test_a_turn_that_waited_too_long_is_told_when_it_is_done_or_while_it_waits(tmp_path: Path) -> None:
    eye, told = watch(tmp_path, queue_age_seconds=300.0)
    eye.settled(settled(waited_s=301.0))
    assert [(a.kind, a.facts["seconds"]) for a in told] == [("queue_age", 301.0)]
    told.clear()
    await eye.look()
    assert told == []
    await eye.queue.put([end_job("acme", a_call())])
    await eye.look()
    assert told == []
    assert isinstance(eye.clock, FixedClock)
    eye.clock.tick(seconds=400)
    await eye.look()
    assert [(a.kind, a.facts["seconds"]) for a in told] == [("queue_age", 400.0)]
    await eye.queue.close()


def broken_memory(tmp_path: Path, webhook: str = "") -> tuple[AsyncMemory, list[Alert]]:
    """One whose historian fails with every turn, at the first try."""
    cognitive = CognitiveConfig(alerts=AlertsConfig(webhook=webhook), historian=HistorianConfig(job_max_retries=0))
    config = Config(background_worker=False, cognitive=cognitive)
    memory = AsyncMemory(tmp_path, llm="rules", embedder=HashEmbedder(), config=config)
    told: list[Alert] = []
    memory.on_alert(told.append)
    return memory, told


async def test_a_memory_tells_its_hooks_and_its_webhook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        raise errors.Conflict("this cannot be")

    with listening() as ear:
        memory, told = broken_memory(tmp_path, ear.url)
        async with memory:
            monkeypatch.setattr(memory.parts.archive, "append_turns", fails)
            for number in range(3):
                await memory.end("acme", f"r{number}", 1, "Answered Ann", user_id="ann")
            assert (await memory.run_jobs()).failed == 3
            assert [alert.kind for alert in told] == ["job_failed"]
    ((_, posted),) = ear.heard
    assert posted["facts"] == told[0].facts
    assert "Answered" not in json.dumps(posted)


async def test_jobs_go_on_while_the_webhook_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    posting = asyncio.Event()

    async def hangs(self: Webhook, alert: Alert) -> None:
        await posting.wait()

    monkeypatch.setattr(Webhook, "post", hangs)
    memory, told = broken_memory(tmp_path, "http://127.0.0.1:9/")
    async with memory:
        memory.parts.alerts.tell(ALERT)
        await memory.end("acme", "r1", 1, "Answered Ann", user_id="ann")
        assert (await memory.run_jobs()).succeeded == 1
        assert told == [ALERT]
        posting.set()


def test_a_program_without_a_loop_is_told_too(tmp_path: Path) -> None:
    told: list[Alert] = []
    config = Config(background_worker=False)
    with Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=config) as memory:
        memory.on_alert(told.append)
        memory.parts.watch.settled(settled(outcome="failed", attempts=1))
    assert [alert.kind for alert in told] == ["job_failed"]
