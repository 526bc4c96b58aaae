"""Seed 002: a bot's `end`, the historian behind it, events and profiles, how they are found, and what it may cost."""

from __future__ import annotations

import inspect
import json
import logging
import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from mnemon import AsyncMemory, Config, Memory, Scope, errors
from mnemon.contracts.chats import Alert, EventHit
from mnemon.contracts.cognitive import CognitiveConfig, HistorianConfig, QueryConfig
from mnemon.contracts.filters import Eq
from mnemon.contracts.jobs import JobKind
from mnemon.contracts.models import ChatMessage, Completion
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.llm.providers.one_prompt import OnePrompt
from mnemon.engine.cognitive import AsyncCognitive
from mnemon.engine.sync import Cognitive
from mnemon.engine.tokens import Tokens
from mnemon.logic.front_matter import split
from mnemon.pipelines.index.projection import PROFILE
from mnemon.surfaces.cli import cli
from mnemon.surfaces.http.app import create_app
from mnemon.surfaces.http.identity import Gatekeeper
from mnemon.surfaces.tools import ChatTurn, call_tool, prompt_text, tool_definitions
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import Said, ScriptedLLM

ROOT = Path(__file__).parent.parent.parent
sys.path += [str(ROOT / "tests" / "absolute"), str(ROOT / "benchmarks")]

from absolute_lines import SETTINGS, rows, scores
from end import measured
from report import p95

QUIET = Config(background_worker=False)
START = datetime(2026, 2, 21, 6, 30, tzinfo=UTC)
NULL = "1708213363"
GROUP: dict[str, Any] = {
    "group_id": "10086", "group_name": "技术群", "user_id": NULL, "sender_name": "Null", "bot_name": "小忆",
    "location": "杭州", "timestamp": "2026-02-21T14:30:00+08:00", "timezone": "Asia/Shanghai",
}  # fmt: skip
PRIVATE: dict[str, Any] = {
    "user_id": "maya", "sender_name": "Maya", "bot_name": "Mnemo", "location": "Boston",
    "timestamp": "2026-03-10T18:45:00-04:00", "timezone": "America/New_York",
}  # fmt: skip
ASKED = {"message_id": "m1", "sender_id": NULL, "sender_name": "Null", "text": "我昨天搬到了杭州。这里明天会下雨吗？"}
TOLD = {"message_id": "m7", "sender_id": "maya", "sender_name": "Maya", "text": "I moved here yesterday. Any trams?"}
GOOD = {
    "did_what": "小忆告诉 Null 杭州 2026-02-22 会下雨",
    "new_info": "Null 2026-02-20 搬到了杭州",
    "canonical_text": "2026-02-21 14:30 小忆在技术群告诉 Null 杭州 2026-02-22 会下雨；Null 2026-02-20 搬到了杭州",
    "about": "user",
    "topic": "residence",
    "tags": ["杭州"],
}


def opened(home: Path, config: Config = QUIET, llm: Any = "rules", clock: FixedClock | None = None) -> Memory:
    return Memory(home, llm=llm, embedder=HashEmbedder(), config=config, clock=clock or FixedClock(START))


def cognitive(**settings: Any) -> Config:
    return replace(QUIET, cognitive=CognitiveConfig(**settings))


def scripted(*answers: Said) -> ScriptedLLM:
    return ScriptedLLM(by_prompt={"historian.absolutise": answers})


def chinese_turn(memory: Memory, request: str = "req", **given: Any) -> Any:
    turn = {"action_summary": "告诉他这里明天会下雨", "new_info": "用户昨天搬到了杭州", "messages": [ASKED], **GROUP}
    return memory.end("t", request, 1, **{**turn, **given})


def english_turn(memory: Memory) -> Any:
    turn = {"action_summary": "Told her about the trams here", "new_info": "The user moved here yesterday"}
    return memory.end("t", "req-en", 2, **turn, messages=[TOLD], **PRIVATE)


def done(memory: Memory) -> None:
    while (report := memory.run_jobs()).claimed:
        assert not report.failed, [job.error for job in memory.jobs()]


def queued(home: Path) -> dict[str, int]:
    """How many jobs lie in which folder."""
    return {name: len([*(home / "queue" / name).glob("*.json")]) for name in ("pending", "processing", "failed")}


def in_group(memory: Memory, group: str = "10086") -> Cognitive:
    return memory.cognitive("t", NULL, group)


def event_of(memory: Memory, event_id: str = "req:1") -> EventHit:
    (found,) = [hit for hit in in_group(memory).search_events("雨") if hit.metadata["event_id"] == event_id]
    return found


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START)


@pytest.fixture
def memory(home: Path, clock: FixedClock) -> Iterator[Memory]:
    with opened(home, clock=clock) as made:
        yield made


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """One turn in a Chinese group and one in an English private chat, digested; for tests that only look."""
    with opened(tmp_path_factory.mktemp("remembered")) as made:
        chinese_turn(made)
        english_turn(made)
        done(made)
        yield made


# --- §0 what is settled


def test_0_1_end_takes_what_was_done_and_what_was_learnt_and_both_may_be_empty(memory: Memory) -> None:
    assert memory.end("t", "r", 1, "回答了天气问题", "Null 喜欢茶", **GROUP).status == "queued"
    assert memory.end("t", "r", 2, action_summary="回答了天气问题", **GROUP).status == "queued"
    assert memory.end("t", "r", 3, new_info="Null likes tea", **GROUP).status == "queued"
    assert memory.end("t", "r", 4, **GROUP).status == "empty"


def test_0_2_the_foreground_only_queues_and_never_waits_for_memory(home: Path) -> None:
    nobody_home = scripted()  # whoever asks it fails
    with opened(home, llm=nobody_home) as memory:
        assert chinese_turn(memory).status == "queued"
        assert not nobody_home.asked
    assert queued(home) == {"pending": 1, "processing": 0, "failed": 0}
    assert not (home / "tenants").exists(), "no memory was written"


@pytest.mark.parametrize(("group", "user"), [("10086", NULL), (None, "maya")])
def test_0_3_the_historian_leaves_no_pronoun_no_relative_time_and_no_relative_place(
    remembered: Memory, group: str | None, user: str
) -> None:
    (hit,) = remembered.cognitive("t", user, group).search_events("moved 搬")
    profile = remembered.get_profile("user", user, "t", user, group).overview
    for text in (hit.text, hit.metadata["did_what"], profile):
        assert not re.search(r"[我你他她]|昨天|明天|这里|\b(?:I|her|here|yesterday)\b", text), text
    assert ("Null", "2026-02-20", "杭州") if group else ("Maya", "2026-03-09", "Boston")
    for word in ("2026-02-20", "杭州") if group else ("2026-03-09", "Boston"):
        assert word in profile
    assert hit.metadata["is_absolute"]


def test_0_4_an_event_is_found_by_meaning_with_its_time_and_place(remembered: Memory) -> None:
    hit = event_of(remembered)
    assert (hit.metadata["location_abs"], hit.metadata["timestamp_local"]) == ("杭州", "2026-02-21T14:30:00+08:00")


def test_0_5_automatic_retrieval_takes_3_and_the_tool_12(memory: Memory) -> None:
    for n in range(14):
        memory.end("t", f"r{n}", 1, f"查了第{n}趟列车", **GROUP)
    done(memory)
    assert len(in_group(memory).context("列车").events) == 3
    assert len(in_group(memory).search_events("列车")) == 12
    assert len(in_group(memory).search_events("列车", top_k=14)) == 14


def test_0_6_profiles_are_markdown_with_front_matter_and_are_found_by_meaning(remembered: Memory) -> None:
    hits = remembered.search_profiles("搬到了杭州", "t", NULL, "10086")
    assert [hit.id for hit in hits] == [f"user:{NULL}"]
    assert remembered.get_profile("user", NULL, "t", NULL, "10086").text.startswith("---\nentity_type: user\n")


def test_0_7_a_profile_is_overwritten_and_can_be_rolled_back(memory: Memory) -> None:
    for n, tea in enumerate(("红茶", "绿茶"), 1):
        memory.end("t", f"r{n}", 1, new_info=f"Null 收藏了{tea}", **GROUP)
        done(memory)
    door = in_group(memory)
    assert "绿茶" in door.get_profile("user", NULL).text
    assert "绿茶" not in door.rollback_profile("user", NULL, 1).text
    assert "红茶" in door.get_profile("user", NULL).text


def test_0_8_a_process_that_is_killed_loses_no_turn(home: Path) -> None:
    """One dies right after `end`, one in the middle of the historian's work."""
    die = "__import__('os').kill(__import__('os').getpid(), 9)"
    start = (
        "from mnemon import Config, Memory\n"
        "from mnemon.testing.scripted import ScriptedLLM\n"
        f"dies = ScriptedLLM(by_prompt={{'historian.absolutise': [lambda *_: {die}]}})\n"
        f"memory = Memory({str(home)!r}, llm=dies, embedder='hash', config=Config(background_worker=False))\n"
    )
    for n, last in enumerate((die, "memory.run_jobs()")):
        told = f"memory.end('t', 'r{n}', 1, '', 'Null 收藏了{n}号唱片', user_id='null')\n"
        killed = subprocess.run([sys.executable, "-c", f"{start}{told}{last}"], check=False)
        assert killed.returncode == -9
    assert queued(home) == {"pending": 1, "processing": 1, "failed": 0}
    with Memory(home, llm="rules", embedder="hash", config=Config(background_worker=False)) as memory:
        memory.parts.queue
        while memory.run_jobs().claimed or memory.repair().requeued:
            pass
        text = memory.get_profile("user", "null", "t", "null").text
    assert "0号唱片" in text
    assert "1号唱片" in text
    assert queued(home) == {"pending": 0, "processing": 0, "failed": 0}
