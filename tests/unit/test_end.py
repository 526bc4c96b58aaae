"""`end`: what a bot says at the end of its turn is checked, stored as one durable job, and nothing else happens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from mnemon import Config, Memory, errors
from mnemon.contracts.cognitive import CognitiveConfig, HistorianConfig
from mnemon.contracts.jobs import JobKind
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import ScriptedLLM

QUIET = Config(background_worker=False)
START = datetime(2026, 2, 21, 6, 30, tzinfo=UTC)
GROUP = {"group_id": "g1", "group_name": "技术群", "sender_id": "1708", "sender_name": "Null"}

HELLO = {"message_id": "m", "text": "hello"}
CHINA = timezone(timedelta(hours=8))


def opened(home: Path, config: Config = QUIET, **options: Any) -> Memory:
    return Memory(home, embedder=HashEmbedder(), config=config, clock=FixedClock(START), **{"llm": "rules", **options})


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path / "home") as made:
        yield made


def files(memory: Memory) -> list[str]:
    home = Path(memory.parts.home)
    found = (p for p in home.rglob("*.json") if p.is_file() and p.name != "clock.json")
    return sorted(str(p.relative_to(home)) for p in found)


def waiting(memory: Memory) -> list[dict[str, Any]]:
    return [job.payload["call"] for job in memory.jobs() if job.kind is JobKind.END]


def test_a_turn_is_one_waiting_job_and_nothing_else(memory: Memory) -> None:
    result = memory.end("t", "req_1", 1, "回答了天气问题", "Null 搬到了杭州", **GROUP)
    assert (result.status, result.event_id, result.deprecated) == ("queued", "req_1:1", ())
    (job,) = memory.jobs()
    assert (job.job_id, job.kind, job.attempts) == (result.job_id, JobKind.END, 0)
    assert [name for name in files(memory) if "queue/pending/" in name] == files(memory), "no archive was touched"


@pytest.mark.parametrize("words", [("", ""), ("  ", "\n")])
def test_empty_words_end_the_turn_and_leave_no_trace(memory: Memory, words: tuple[str, str]) -> None:
    before = files(memory)
    result = memory.end("t", "r", 1, *words, **GROUP, messages=[{"message_id": "m", "text": "hi"}])
    assert (result.status, result.job_id) == ("empty", None)
    assert files(memory) == before


def test_force_keeps_the_words_of_a_turn_the_bot_has_nothing_to_say_of(memory: Memory) -> None:
    said = [{"message_id": "m1", "sender_id": "1708", "text": "晚安"}]
    assert memory.end("t", "r", 1, force=True, **GROUP, messages=said).status == "queued"
    assert memory.end("t", "r", 2, force=True, **GROUP).status == "empty", "there is nothing to keep"
    memory.run_jobs()
    page = memory.bind("t", "1708", group_id="g1").messages_list()
    assert [m.content for m in page.items] == ["晚安"]
    assert not memory.claims("t", "1708", group_id="g1").items


def test_a_turn_without_a_message_needs_force(memory: Memory) -> None:
    with pytest.raises(errors.InvalidArgument, match="no message was sent") as caught:
        memory.end("t", "r", 1, "打了招呼", message_sent=False, **GROUP)
    assert caught.value.field == "force"
    assert memory.end("t", "r", 1, "打了招呼", message_sent=False, force=True, **GROUP).status == "queued"
    assert memory.end("t", "r", 2, "", "Null 喜欢茶", message_sent=False, **GROUP).status == "queued"


def test_the_old_summary_is_taken_and_told_to_be_old(memory: Memory) -> None:
    result = memory.end("t", "r", 1, summary="聊了天气", **GROUP)
    assert result.status == "queued"
    assert "summary is deprecated" in result.deprecated[0]
    (call,) = waiting(memory)
    assert call["action_summary"] == "聊了天气"
    assert "new_info" not in call
    both = memory.end("t", "r", 2, "做了别的", summary="聊了天气", **GROUP)
    assert both.deprecated
    assert waiting(memory)[1]["action_summary"] == "做了别的"


def test_the_same_turn_told_again_is_one_job(memory: Memory) -> None:
    first = memory.end("t", "r", 1, "答了", **GROUP)
    again = memory.end("t", "r", 1, "答了", **GROUP)
    assert (again.status, again.job_id) == ("duplicate", first.job_id)
    assert len(memory.jobs()) == 1
    with pytest.raises(errors.Conflict, match="next end_seq"):
        memory.end("t", "r", 1, "答了别的", **GROUP)
    other = memory.end("t", "r", 1, "答了别的", **{**GROUP, "group_id": "g2"})
    assert other.status == "queued", "another chat's turn of the same name is another turn"


def test_the_same_turn_told_again_after_it_was_done_changes_nothing(memory: Memory) -> None:
    for _ in range(2):
        memory.end("t", "r", 1, "答了", "Null 喜欢茶", **GROUP, timestamp=START)
        memory.run_jobs()
    assert len(memory.claims("t", "1708", group_id="g1", shelf="events").items) == 2  # the chat's view and the sender's
    assert len(memory.claims("t", "1708", group_id="g1", shelf="profile").items) == 1
    assert not memory.jobs()


def test_a_done_turn_told_differently_fails_where_people_look(memory: Memory) -> None:
    memory.end("t", "r", 1, "答了", **GROUP, timestamp=START)
    memory.run_jobs()
    memory.end("t", "r", 1, "答了别的", **GROUP, timestamp=START)
    memory.run_jobs()
    (job,) = memory.jobs("failed")
    assert "other content" in str(job.error)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("request_id", {"request_id": ""}),
        ("request_id", {"request_id": 7}),
        ("end_seq", {"end_seq": -1}),
        ("end_seq", {"end_seq": True}),
        ("end_seq", {"end_seq": "1"}),
        ("tenant_id", {"tenant_id": " "}),
        ("action_summary", {"action_summary": ["a", "b"]}),
        ("action_summary", {"action_summary": "长" * 4_001}),
        ("new_info", {"new_info": ["a", "b"]}),
        ("new_info", {"new_info": None}),
        ("new_info", {"new_info": "\ud83d"}),
        ("user_id", {"sender_id": None}),
        ("group_id", {"request_type": "private"}),
        ("group_id", {"group_id": None, "request_type": "group"}),
        ("request_type", {"request_type": "channel"}),
        ("timestamp", {"timestamp": "yesterday"}),
        ("timestamp", {"timestamp": True}),
        ("timezone", {"timezone": "Mars/Olympus"}),
        ("timezone", {"timezone": "+99:00"}),
        ("messages", {"messages": "hello"}),
        ("messages[0].message_id", {"messages": [{"text": "hi"}]}),
        ("messages[0].txt", {"messages": [{**HELLO, "txt": "hi"}]}),
        ("messages[1].time", {"messages": [HELLO, {**HELLO, "time": "x"}]}),
        ("message_ids", {"message_ids": [""]}),
        ("location", {"location": 7}),
        ("sender_name", {"sender_name": "n" * 201}),
    ],
)  # fmt: skip
def test_a_mistake_names_its_field_and_leaves_nothing(memory: Memory, field: str, given: dict[str, Any]) -> None:
    call = {"tenant_id": "t", "request_id": "r", "end_seq": 1, "action_summary": "答了", **GROUP, **given}
    with pytest.raises(errors.InvalidArgument) as caught:
        memory.end(**call)
    assert caught.value.field == field
    assert not files(memory)


def test_a_list_of_new_info_says_what_to_do(memory: Memory) -> None:
    with pytest.raises(errors.InvalidArgument, match="next end_seq"):
        memory.end("t", "r", 1, new_info=["a", "b"], **GROUP)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("timestamp", "zone", "local", "named"),
    [
        ("2026-02-21T14:30:00+08:00", None, "2026-02-21T14:30:00+08:00", "+08:00"),
        ("2026-02-21T14:30:00", "Asia/Shanghai", "2026-02-21T14:30:00+08:00", "Asia/Shanghai"),
        ("2026-02-21T06:30:00Z", "Asia/Shanghai", "2026-02-21T14:30:00+08:00", "Asia/Shanghai"),
        (1771655400, "America/New_York", "2026-02-21T01:30:00-05:00", "America/New_York"),
        (datetime(2026, 2, 21, 14, 30, tzinfo=CHINA), None, "2026-02-21T14:30:00+08:00", "+08:00"),
        (None, "+05:30", "2026-02-21T12:00:00+05:30", "+05:30"),
        (None, "UTC+8", "2026-02-21T14:30:00+08:00", "UTC+8"),
    ],
)  # fmt: skip
def test_a_turn_has_its_time_by_the_chats_own_clock(
    memory: Memory, timestamp: Any, zone: str | None, local: str, named: str
) -> None:
    memory.end("t", "r", 1, "答了", **GROUP, timestamp=timestamp, timezone=zone)
    (call,) = waiting(memory)
    assert (call["timestamp"], call["timezone"]) == (local, named)


def test_the_time_zone_of_the_settings_counts_where_the_call_says_nothing(tmp_path: Path) -> None:
    zone = CognitiveConfig(historian=HistorianConfig(timezone="Asia/Tokyo"))
    with opened(tmp_path, replace(QUIET, cognitive=zone)) as memory:
        memory.end("t", "r", 1, "答了", **GROUP)
        (call,) = waiting(memory)
    assert (call["timestamp"], call["timezone"]) == ("2026-02-21T15:30:00+09:00", "Asia/Tokyo")


def test_who_spoke_is_worked_out_from_what_is_said(memory: Memory) -> None:
    said = [{"message_id": "m1", "sender_id": "1708", "sender_name": "Null", "text": "hi"}]
    memory.end("t", "r", 1, "答了", user_id="1708", messages=said)
    (call,) = waiting(memory)
    assert (call["request_type"], call["sender_id"], call["sender_name"]) == ("private", "1708", "Null")
    assert call["message_ids"] == ["m1"]


def test_nobody_waits_for_a_model(tmp_path: Path) -> None:
    fails_closed = ScriptedLLM()
    with opened(tmp_path, llm=fails_closed) as memory:
        assert memory.end("t", "r", 1, "答了", **GROUP).status == "queued"
        assert len(memory.jobs()) == 1


def test_switched_off_no_file_is_touched_and_on_again_nothing_is_lost(tmp_path: Path) -> None:
    off = replace(QUIET, cognitive=CognitiveConfig(enabled=False))
    with opened(tmp_path) as memory:
        memory.end("t", "r", 1, "答了", "Null 喜欢茶", **GROUP)
    with opened(tmp_path, off) as memory:
        before = {p: p.read_bytes() for p in tmp_path.rglob("*.json")}
        assert memory.end("t", "r", 2, "答了", "Null 喜欢咖啡", **GROUP).status == "disabled"
        assert memory.search_events("茶", "t", "1708", "g1") == ()
        assert memory.search_profiles("茶", "t", "1708", "g1") == ()
        assert memory.chat_context("茶", "t", "1708", "g1").text == ""
        assert memory.run_jobs().claimed == 0, "what waits goes on waiting"
        assert {p: p.read_bytes() for p in tmp_path.rglob("*.json")} == before
    with opened(tmp_path) as memory:
        (job,) = memory.jobs()
        assert (job.status, job.attempts) == ("pending", 0)
        memory.run_jobs()
        assert "茶" in memory.get_profile("user", "1708", "t", "1708", "g1").text


def test_what_must_not_be_kept_is_masked_before_it_is_written_anywhere(tmp_path: Path) -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    with opened(tmp_path, replace(QUIET, redact=True)) as memory:
        said = [{"message_id": "m1", "sender_id": "1708", "text": f"my key is {key}"}]
        memory.end("t", "r", 1, f"stored the key {key}", f"the key is {key}", **GROUP, messages=said)
        memory.run_jobs()
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and key.encode() in p.read_bytes()]


def test_a_job_file_is_readable_by_people(memory: Memory) -> None:
    memory.end("t", "req_1", 1, "回答了天气问题", **GROUP)
    (path,) = Path(memory.parts.home).rglob("queue/pending/*.json")
    body = json.loads(path.read_text(encoding="utf-8"))
    assert body["payload"]["call"]["action_summary"] == "回答了天气问题"
    assert "回答了天气问题" in path.read_text(encoding="utf-8"), "Chinese stands as Chinese"
