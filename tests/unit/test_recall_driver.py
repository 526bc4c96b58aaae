"""Driving a flow: bound tools, counted calls, errors that come back as something seen, budgets that hold."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Generator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

from mnemon import AsyncMemory, Config
from mnemon.contracts.errors import InvalidArgument, Unavailable
from mnemon.contracts.recall import Call, Limits, MemoryView, RecallSettings, Recollection, Round, Seen, ToolName
from mnemon.contracts.scope import Scope
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.logic.recall import recall_flow
from mnemon.logic.skills import Skill
from mnemon.pipelines.recall.driving import SPENT, drive
from mnemon.pipelines.recall.loading import shipped_skill
from mnemon.pipelines.recall.recalling import Recaller
from mnemon.pipelines.recall.tools import TOOLS, WHOSE, BoundTools, checked
from mnemon.testing.clock import FixedClock

LIN = Scope.of("acme", "lin")
SKILL: Skill = shipped_skill("recall", "zh")
SAID = (
    ("2026-01-01T08:00:00Z", "user", "我不吃辣，也不吃海鲜。"),
    ("2026-01-01T08:00:10Z", "assistant", "好的，记住了：不吃辣。"),
    ("2026-01-10T09:00:00Z", "user", "I moved to Hangzhou for the new job."),
)
Flow = Generator[Call, Seen, Recollection]


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[AsyncMemory]:
    config = Config(background_worker=False)
    async with AsyncMemory(tmp_path, embedder=HashEmbedder(), config=config, clock=FixedClock()) as opened:
        turns = [{"role": role, "text": text, "timestamp_iso": when} for when, role, text in SAID]
        await opened.session_write("acme", "lin", "s1", turns=turns, extract=False)
        secret = [{"role": "user", "text": "我不吃辣，这是秘密。"}]
        await opened.session_write("acme", "wang", "s1", turns=secret, extract=False)
        yield opened


def tools(memory: AsyncMemory) -> BoundTools:
    return BoundTools(memory.parts.messages, LIN)


def asking(*calls: Call, seen: list[Seen] | None = None) -> Flow:
    """A flow that makes these calls, and tells what it saw."""
    rounds = []
    for number, call in enumerate(calls, 1):
        shown = yield call
        if seen is not None:
            seen.append(shown)
        rounds.append(Round(number=number, tool=call.tool, found=len(shown.messages)))
    return Recollection(MemoryView(), (), Limits(role="user"), tuple(rounds), "done")


def test_a_call_has_no_place_for_a_person() -> None:
    assert tuple(TOOLS) == get_args(ToolName)
    assert {field.name for field in fields(Call)} == {"tool", "arguments", "why", "ended"}
    for form in TOOLS.values():
        assert not WHOSE & form.model_fields.keys()
    assert list(TOOLS["messages_list"].model_fields) == ["since", "until", "role", "page_size", "cursor"]
    assert list(TOOLS["lexical_search"].model_fields) == ["query_text", "filter", "page_size", "cursor"]
    assert list(TOOLS["semantic_search"].model_fields) == [
        "query_text",
        "query_embedding",
        "filter",
        "top_k",
        "min_score",
    ]
    assert list(TOOLS["neighbors"].model_fields) == ["message_id", "before", "after"]
    assert "user_id" not in inspect.signature(BoundTools.use).parameters


async def test_the_four_tools_show_what_there_is(memory: AsyncMemory) -> None:
    seen: list[Seen] = []
    bound = tools(memory)
    anchor = (await memory.bind("acme", "lin").lexical_search("Hangzhou")).items[0].message
    made = await drive(
        asking(
            Call("messages_list", {"role": "user", "page_size": 1}),
            Call("lexical_search", {"query_text": "不吃辣", "filter": {"role": "user"}}),
            Call("semantic_search", {"query_text": "Hangzhou", "top_k": 2}),
            Call("neighbors", {"message_id": anchor.message_id, "before": 1}),
            seen=seen,
        ),
        bound,
        RecallSettings(),
    )
    assert [len(s.messages) for s in seen] == [1, 1, 2, 2]
    assert [s.more for s in seen] == [True, False, True, False]
    assert [len(s.scores) for s in seen] == [0, 1, 2, 0]
    limits = made.limits
    assert limits.messages_considered == len(bound.read) == 3
    assert limits.routes == ("messages_list", "lexical_search", "semantic_search", "neighbors")
    assert (limits.rounds, limits.calls, limits.truncated, limits.role) == (4, 4, False, "user")


async def test_a_person_smuggled_into_a_call_is_not_listened_to(
    memory: AsyncMemory, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Seen] = []
    arguments = {"query_text": "不吃辣", "user_id": "wang", "filter": {"tenant_id": "umbrella", "role": "user"}}
    with caplog.at_level(logging.WARNING):
        await drive(asking(Call("lexical_search", arguments), seen=seen), tools(memory), RecallSettings())
    assert [m.content for m in seen[0].messages] == [SAID[0][2]]
    assert "lexical_search was given user_id, filter.tenant_id" in caplog.text
    assert "wang" not in caplog.text


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("drop_table", {}, "tool"),
        ("lexical_search", {}, "query_text"),
        ("lexical_search", {"query_text": "x", "limit": 5}, "limit"),
        ("lexical_search", {"query_text": "x", "filter": {"speaker": "x"}}, "filter.speaker"),
        ("lexical_search", {"query_text": "x", "page_size": 10_000}, "page_size"),
        ("messages_list", {"role": "boss"}, "role"),
        ("messages_list", {"page_size": "many"}, "page_size"),
        ("semantic_search", {"query_text": "x", "min_score": float("nan")}, "min_score"),
        ("neighbors", {"message_id": "x", "before": -1}, "before"),
        ("neighbors", {"message_id": ["x"]}, "message_id"),
    ],
)
def test_what_a_tool_does_not_take_is_named(tool: str, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        checked(tool, arguments)
    assert caught.value.field == field


async def test_an_error_of_a_tool_is_something_seen(memory: AsyncMemory) -> None:
    theirs = (await memory.bind("acme", "wang").messages_list()).items[0].message_id
    seen: list[Seen] = []
    bound = tools(memory)
    calls = (
        Call("neighbors", {"message_id": theirs}),
        Call("messages_list", {"since": "last week"}),
        Call("lexical_search", {"query_text": '"open'}),
        Call("messages_list", {}),
    )
    made = await drive(asking(*calls, seen=seen), bound, RecallSettings())
    assert [bool(s.error) for s in seen] == [True, True, True, False]
    assert "秘密" not in "".join(s.error for s in seen)
    assert (made.limits.calls, made.limits.routes) == (4, ("messages_list",))
    assert not bound.fruitless


def endless() -> Flow:
    while True:
        yield Call("messages_list", {})


async def test_a_flow_that_asks_without_end_is_ended(memory: AsyncMemory) -> None:
    bound = tools(memory)
    made = await drive(endless(), bound, RecallSettings(max_calls=3))
    assert (bound.calls, made.limits.calls, made.limits.truncated) == (3, 3, True)
    assert made.view.items() == ()


async def test_a_flow_is_told_when_its_calls_are_used_up_and_may_still_conclude(memory: AsyncMemory) -> None:
    seen: list[Seen] = []
    calls = [Call("messages_list", {"page_size": n}) for n in range(1, 5)]
    made = await drive(asking(*calls, seen=seen), tools(memory), RecallSettings(max_calls=3))
    assert [s.error for s in seen] == ["", "", "", SPENT]
    assert (made.answer, made.limits.calls, made.limits.truncated) == ("done", 3, True)


async def test_rounds_are_told_in_order(memory: AsyncMemory) -> None:
    heard: list[Round] = []
    flow = asking(Call("messages_list", {}), Call("messages_list", {"page_size": 1}))
    made = await drive(flow, tools(memory), RecallSettings(), heard.append)
    assert tuple(heard) == made.trace


class _Broken:
    """An index that is down."""

    async def messages_list(self, *args: Any, **named: Any) -> Any:
        raise Unavailable("the index does not answer")


async def test_where_no_tool_works_that_is_an_error_and_not_an_empty_memory() -> None:
    broken: Any = _Broken()
    recaller = Recaller(broken, FixedClock(), flow=lambda *_: asking(Call("messages_list", {})))
    with pytest.raises(Unavailable, match="the index does not answer"):
        await recaller.recall(LIN, "?", RecallSettings(), None, SKILL)


async def test_where_one_tool_fails_the_others_go_on_and_it_is_said(memory: AsyncMemory) -> None:
    class Half(_Broken):
        lexical_search = staticmethod(memory.parts.messages.lexical_search)

    half: Any = Half()
    calls = Call("messages_list", {}), Call("lexical_search", {"query_text": "不吃辣"})
    recaller = Recaller(half, FixedClock(), flow=lambda *_: asking(*calls))
    result = await recaller.recall(LIN, "?", RecallSettings(), None, SKILL)
    assert [(d.what, d.why) for d in result.degraded] == [("messages_list", "the index does not answer")]
    assert (result.planner, result.llm_used) == ("rules", None)


async def test_rounds_of_the_rules_are_told_as_they_end(memory: AsyncMemory) -> None:
    bound, told = tools(memory), []
    flow = recall_flow("我是不是说过我不吃辣？", RecallSettings(), memory.parts.clock.now())
    made = await drive(flow, bound, RecallSettings(), lambda ended: told.append((ended, bound.calls)))
    assert tuple(ended for ended, _ in told) == made.trace
    # When a round is told, no call after it was made yet.
    assert [calls for _, calls in told] == list(range(1, len(made.trace) + 1))
