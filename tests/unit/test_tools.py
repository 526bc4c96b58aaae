"""The chat tools as a bot's model is given them: definitions, prompt text, and calls carried out."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config, Memory, errors, tools
from mnemon.contracts.cognitive import QueryConfig
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.cognitive import MAX_TOP_K, AsyncCognitive
from mnemon.surfaces.tools.definitions import TOOLS

NAMES = {"end", "cognitive_search_events", "cognitive_get_profile", "cognitive_search_profiles"}
TURN = tools.ChatTurn(
    "acme",
    "ann",
    "r1",
    group_id="g1",
    sender_name="Ann",
    group_name="Dev",
    bot_name="Bot",
    messages=[{"message_id": "m1", "sender_id": "ann", "sender_name": "Ann", "text": "I move to Munich next month."}],
    timestamp="2026-02-21T14:30:00+08:00",
    timezone="Asia/Shanghai",
)
LEARNT = {"action_summary": "Answered Ann", "new_info": "Ann moves to Munich next month"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    config = Config(background_worker=False)
    with Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=config) as memory:
        yield memory


@pytest.mark.parametrize("language", ["zh", "en"])
def test_each_form_holds_every_tool_with_a_closed_schema(language: tools.Language) -> None:
    openai = [row["function"] for row in tools.tool_definitions("openai", language)]
    anthropic = tools.tool_definitions("anthropic", language)
    assert {row["name"] for row in openai} == {row["name"] for row in anthropic} == NAMES
    for one, other in zip(openai, anthropic, strict=True):
        assert one["parameters"] == other["input_schema"]
        assert one["description"] == other["description"]
        schema = one["parameters"]
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= schema["properties"].keys()
        for said in schema["properties"].values():
            assert said["description"]
            assert not {"zh", "en", "required"} & said.keys()
    assert json.loads(json.dumps(openai)) == openai


def test_both_languages_say_the_same_in_their_own_words() -> None:
    chinese, english = (tools.tool_definitions("anthropic", language) for language in ("zh", "en"))
    for one, other in zip(chinese, english, strict=True):
        assert one["name"] == other["name"]
        assert not one["description"].isascii()
        assert other["description"].isascii()
        assert one["input_schema"]["properties"].keys() == other["input_schema"]["properties"].keys()
    for text in (tools.prompt_text("zh"), tools.prompt_text("en")):
        assert all(f"`{name}`" in text for name in NAMES | {"action_summary", "new_info", "force"})


def test_the_arguments_are_those_of_the_doors_with_their_defaults() -> None:
    doors = {"end": Memory.end, **{name: getattr(AsyncCognitive, name) for name in QUERIES}}
    for tool in TOOLS:
        assert tool.parameters.keys() <= inspect.signature(doors[tool.method]).parameters.keys()
    asked = {tool.method: tool.parameters for tool in TOOLS}
    assert list(asked["end"]) == ["action_summary", "new_info", "force"]
    assert asked["search_events"]["top_k"]["default"] == QueryConfig().tool_default_top_k
    assert asked["search_profiles"]["top_k"]["default"] == QueryConfig().profile_top_k
    assert {asked[name]["top_k"]["maximum"] for name in ("search_events", "search_profiles")} == {MAX_TOP_K}


QUERIES = ("search_events", "get_profile", "search_profiles")


def test_a_form_or_language_nobody_knows_is_refused() -> None:
    with pytest.raises(errors.InvalidArgument, match="openai, anthropic"):
        tools.tool_definitions("gemini")  # type: ignore[arg-type]
    for ask in (tools.prompt_text, lambda language: tools.tool_definitions("openai", language)):
        with pytest.raises(errors.InvalidArgument, match="zh, en"):
            ask("fr")  # type: ignore[arg-type]


def test_a_model_ends_a_turn_and_finds_it_again(memory: Memory) -> None:
    assert tools.call_tool(memory, TURN, "end", json.dumps(LEARNT)) == {"status": "queued", "event_id": "r1:1"}
    memory.run_jobs()
    for name in ("cognitive.search_events", "cognitive_search_events"):
        found = tools.call_tool(memory, TURN, name, {"query": "Munich", "top_k": 1, "target_user_id": None})
        (hit,) = found["items"]
        assert "Munich in 2026-03" in hit["text"]
        assert "I move to Munich next month." in hit["quotes"]
    whose = {"entity_type": "user", "entity_id": "ann"}
    profile = tools.call_tool(memory, TURN, "cognitive.get_profile", whose)
    assert "Munich" in profile["text"]
    assert profile["tags"] == ["Munich"]
    (fits,) = tools.call_tool(memory, TURN, "cognitive.search_profiles", {"query": "Munich"})["items"]
    assert (fits["entity_type"], fits["entity_id"]) == ("user", "ann")
    json.dumps([profile, fits])


async def test_an_asynchronous_host_calls_the_same(tmp_path: Path) -> None:
    config = Config(background_worker=False)
    async with AsyncMemory(tmp_path, llm="rules", embedder=HashEmbedder(), config=config) as memory:
        assert (await tools.call_tool_async(memory, TURN, "end", LEARNT))["status"] == "queued"
        await memory.run_jobs()
        found = await tools.call_tool_async(memory, TURN, "cognitive_search_events", '{"query": "Munich"}')
        assert found["items"]


@pytest.mark.parametrize("arguments", [None, "", "{}", {}, {"new_info": None}])
def test_a_model_may_say_nothing_at_all(memory: Memory, arguments: Any) -> None:
    assert tools.call_tool(memory, TURN, "end", arguments) == {"status": "empty", "event_id": "r1:1"}


@pytest.mark.parametrize("name", ["user_id", "tenant_id", "group_id", "sender_id", "request_id", "include_private"])
@pytest.mark.parametrize("tool", ["end", "cognitive.search_events"])
def test_a_model_cannot_say_who_it_is(memory: Memory, tool: str, name: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="not the model's to say") as refused:
        tools.call_tool(memory, TURN, tool, {"query": "x", name: "bob"} if tool != "end" else {name: "bob"})
    assert refused.value.field == name
    assert refused.value.envelope()["error"]["details"]["reason"] == "smuggled"


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("cognitive.search", {}, "did you mean cognitive_search"),
        ("delete_everything", {}, "no tool 'delete_everything'; known: end"),
        ("end", {"summry": "x"}, "takes no 'summry'"),
        ("cognitive_search_events", {"query": "x", "topk": 3}, "did you mean top_k"),
        ("end", '{"new_info": ', "not JSON"),
        ("end", "[1]", "must be an object, not list"),
        ("end", {"force": "false"}, "force must be of type boolean, not str"),
        ("end", {"new_info": ["one", "two"]}, "new_info must be of type string, not list"),
        ("cognitive_search_events", {"query": "x", "top_k": True}, "top_k must be of type integer, not bool"),
        ("cognitive_search_events", {}, "cognitive_search_events needs query"),
        ("cognitive_get_profile", {"entity_type": "user"}, "cognitive_get_profile needs entity_id"),
        ("cognitive_get_profile", {"entity_type": "bot", "entity_id": "x"}, "user, group"),
        ("cognitive_search_events", {"query": "x", "top_k": 0}, "between 1 and 200"),
        ("cognitive_search_events", {"query": "x", "time_from": "yesterday"}, "ISO 8601"),
    ],
)
def test_a_call_that_makes_no_sense_is_told_what_is_wrong_with_it(
    memory: Memory, tool: str, arguments: Any, said: str
) -> None:
    with pytest.raises(errors.InvalidArgument) as refused:
        tools.call_tool(memory, TURN, tool, arguments)
    assert said in refused.value.message


def test_a_claim_to_have_done_something_needs_a_message_or_force(memory: Memory) -> None:
    silent = tools.ChatTurn("acme", "ann", "r2", message_sent=False)
    with pytest.raises(errors.InvalidArgument, match="no message was sent"):
        tools.call_tool(memory, silent, "end", {"action_summary": "Answered Ann"})
    assert tools.call_tool(memory, silent, "end", {"action_summary": "Kept quiet", "force": True})["status"] == "queued"
