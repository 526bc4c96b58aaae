"""The example bot against the simulated server: real sockets, a real memory on disk, real processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from examples.onebot_bot.bot import Bot
from examples.onebot_bot.brains import Brain, Heard, ModelBrain, Thought
from examples.onebot_bot.onebot import Message, OneBot, Refused
from examples.onebot_bot.recall import RecallBrain
from examples.onebot_bot.simulated_server import SCRIPT, SimulatedServer

from mnemon import AsyncMemory, Config
from mnemon.contracts.errors import NotFound
from mnemon.drivers.embed.hash import HashEmbedder

ROOT = Path(__file__).parents[2]
QUIET = Config(background_worker=False)
TENANT, GROUP, LIN, ANN = "onebot-10000", "7001", "1001", "1002"
NOON = datetime(2026, 2, 21, 4, 0, tzinfo=UTC).timestamp()  # noon in Shanghai
UNKNOWN = ("这里没有人告诉过我。", "Nobody told me that here.")


def remembering(home: Path) -> AsyncMemory:
    return AsyncMemory(home, embedder=HashEmbedder(), llm="rules", config=QUIET)


@dataclass(frozen=True, slots=True)
class Chat:
    server: SimulatedServer
    memory: AsyncMemory
    bot: Bot

    async def ask(self, chat: str, who: str, text: str) -> str:
        """What the bot answers, in the chat it was asked in."""
        id = await self.server.say(chat, who, text)
        sent = await self.server.replied()
        assert (sent.chat, sent.reply_to) == ((chat, id) if chat else (who, ""))
        return sent.text

    async def remembered(self) -> None:
        """The historian has done what waited."""
        await self.bot.idle()
        await self.memory.run_jobs()
        assert await self.memory.jobs() == []

    async def words(self, group: str | None = GROUP) -> list[str]:
        bound = self.memory.bind(TENANT, LIN, group_id=group)
        return [m.content for m in (await bound.messages_list(role="user", page_size=200)).items]


@asynccontextmanager
async def chatting(home: Path, brain: Brain | None = None, first_id: int = 1) -> AsyncIterator[Chat]:
    async with (
        SimulatedServer(token="secret", now=NOON, first_id=first_id) as server,
        remembering(home) as memory,
        OneBot(server.url, "secret", backoff_s=(0.01, 0.05)) as onebot,
    ):
        bot = Bot(onebot, memory, brain or RecallBrain())
        running = asyncio.create_task(bot.run())
        yield Chat(server, memory, bot)
        onebot.stop()
        await asyncio.wait_for(running, 20)


async def test_what_it_was_told_is_told_again_with_the_words_that_prove_it(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        assert await chat.ask("A", "林岚", "@小忆 我昨天搬到杭州西湖区了") == "记住了。"
        assert await chat.ask("A", "Ann", "@小忆 I am allergic to peanuts.") == "Noted."
        assert await chat.ask("", "林岚", "我的生日是五月三号。") == "记住了。"
        assert await chat.ask("A", "林岚", "@小忆 我搬到哪里了？") in UNKNOWN  # the historian has not been here yet
        await chat.remembered()
        moved = await chat.ask("A", "林岚", "小忆，我搬到哪里了？")
        assert "林岚2026-02-20搬到杭州西湖区" in moved
        assert "“@小忆 我昨天搬到杭州西湖区了”" in moved
        allergic = await chat.ask("A", "Ann", "@小忆 What am I allergic to?")
        assert "Ann is allergic to peanuts" in allergic
        assert "“@小忆 I am allergic to peanuts.”" in allergic
        assert "我的生日是五月三号" in await chat.ask("", "林岚", "我的生日是哪天？")
        profile = await chat.memory.cognitive(TENANT, LIN, GROUP).get_profile("user", LIN)
        assert profile.name == "林岚"
        assert "> @小忆 我昨天搬到杭州西湖区了" in profile.text


async def test_nobody_is_told_of_himself_what_somebody_else_said(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ask("A", "林岚", "@小忆 我住在杭州")
        await chat.remembered()
        assert await chat.ask("A", "Ann", "@小忆 我住在哪里？") in UNKNOWN
        assert "杭州" in await chat.ask("A", "Ann", "@小忆 谁住在杭州？")


async def test_a_chat_is_not_told_what_was_said_in_another(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ask("A", "林岚", "@小忆 我住在杭州")
        await chat.ask("", "林岚", "我住在绍兴路的秘密花园")
        await chat.remembered()
        assert "杭州" in await chat.ask("A", "林岚", "@小忆 我住在哪里？")
        assert await chat.ask("B", "林岚", "@小忆 我住在哪里？") in UNKNOWN
        assert await chat.ask("", "Ann", "我住在哪里？") in UNKNOWN
        assert await chat.ask("", "林岚", "我的猫叫什么？") in UNKNOWN
        alone = await chat.ask("", "林岚", "我住在哪里？")
        assert "秘密花园" in alone
        assert "杭州" not in alone
        told = [sent.text for sent in chat.server.sent if sent.chat != "林岚"]
        assert not any("秘密花园" in text for text in told)
        with pytest.raises(NotFound):
            await chat.memory.cognitive(TENANT, LIN, "7002").get_profile("user", LIN)


async def test_it_speaks_when_spoken_to_and_keeps_what_people_say_among_themselves(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.server.say("A", "Ann", "Anyone up for a hike on Saturday?")
        await chat.server.say("A", "林岚", "我周六有空")
        await chat.ask("A", "林岚", "@小忆 我喜欢爬山")
        await chat.remembered()
        assert len(chat.server.sent) == 1
        said = ["Anyone up for a hike on Saturday?", "我周六有空", "@小忆 我喜欢爬山"]
        assert sorted(await chat.words()) == sorted(said)
        (event,) = await chat.memory.cognitive(TENANT, LIN, GROUP).search_events("爬山", top_k=1)
        assert event.metadata["group_name"] == "徒步群"
        assert event.metadata["timestamp_local"] == "2026-02-21T12:00:00+08:00"
        assert [*event.metadata["message_ids"]] == ["1", "2", "3"]
        assert "原话：“@小忆 我喜欢爬山”" in await chat.ask("A", "林岚", "@小忆 我喜欢什么？")


async def test_a_reply_is_said_again_when_the_connection_was_lost_and_the_turn_is_remembered_once(
    tmp_path: Path,
) -> None:
    async with chatting(tmp_path) as chat:
        chat.server.swallow = 2
        assert await chat.ask("A", "林岚", "@小忆 我住在杭州") == "记住了。"
        assert chat.server.connections == 3
        await chat.server.drop()
        assert await chat.ask("A", "林岚", "@小忆 我有一只猫") == "记住了。"
        await chat.remembered()
        assert sorted(await chat.words()) == ["@小忆 我住在杭州", "@小忆 我有一只猫"]
        assert "杭州" in await chat.ask("A", "林岚", "@小忆 我住在哪里？")


async def test_a_message_that_comes_twice_is_answered_once(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        frame = json.dumps(chat.server.event("A", "林岚", "@小忆 我住在杭州"))
        await chat.server.raw(frame)
        await chat.server.replied()
        await chat.server.drop()
        await chat.server.raw(frame)
        await chat.ask("", "Ann", "I like tea.")
        await chat.remembered()
        assert [sent.chat for sent in chat.server.sent] == ["A", "Ann"]


BROKEN: list[str | bytes] = [
    "",
    "not JSON",
    "[]",
    "7",
    "null",
    "[" * 100_000,
    b"\xff\xfe\x00",
    "{}",
    '{"echo": "999", "status": "ok"}',
    '{"echo": {"odd": []}, "status": "ok"}',
    '{"post_type": "message"}',
    '{"post_type": ["message"]}',
    '{"post_type": "message", "message_type": "group", "message_id": 1, "self_id": 1, "user_id": 2, "time": 3,'
    ' "message": []}',
    '{"post_type": "message", "message_type": "private", "message_id": 1, "self_id": 1, "user_id": "x", "time": 3,'
    ' "message": []}',
    '{"post_type": "message", "message_type": "private", "message_id": 1, "self_id": 1, "user_id": 2, "time": "noon",'
    ' "message": [{"type": 3}]}',
    '{"post_type": "message", "message_type": "private", "message_id": 1, "self_id": 1, "user_id": 2, "message": [],'
    ' "time": 99999999999999}',
    '{"post_type": "notice", "notice_type": "group_increase"}',
]


async def test_broken_frames_do_no_harm(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        for n, frame in enumerate(BROKEN):
            await chat.server.raw(frame)
            assert await chat.ask("", "林岚", f"我有 {n} 本书") == "记住了。"
        assert chat.server.connections == 1
        await chat.remembered()
        assert len(await chat.words(None)) == len(BROKEN)


async def test_strange_but_whole_messages_are_taken(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        event = chat.server.event("A", "林岚", "")
        event |= {"message": "[CQ:at,qq=10000] 价格 &#91;a&#93; &amp; b[CQ:image,file=x.png]", "sender": {"card": None}}
        await chat.server.raw(json.dumps(event))
        assert (await chat.server.replied()).text == "记住了。"
        halved = json.dumps(chat.server.event("A", "林岚", "@小忆 我X爱茶")).replace("X", "\\ud83d")
        await chat.server.raw(halved)
        assert (await chat.server.replied()).text == "记住了。"
        silent = chat.server.event("A", "Ann", "@小忆")
        silent["message"] = [{"type": "at", "data": {"qq": 10000}}, {"type": "dice", "data": None}]
        await chat.server.raw(json.dumps(silent))
        assert (await chat.server.replied()).text == "Noted."
        await chat.remembered()
        assert sorted(await chat.words()) == ["@小忆 [dice]", "@小忆 价格 [a] & b[image]", "@小忆 我?爱茶"]


async def test_the_reply_does_not_wait_for_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chatting(tmp_path) as chat:
        may_write, put = asyncio.Event(), chat.memory.parts.queue.put

        async def slow(*args: Any) -> Any:
            await may_write.wait()
            return await put(*args)

        monkeypatch.setattr(chat.memory.parts.queue, "put", slow)
        assert await chat.ask("A", "林岚", "@小忆 我住在杭州") == "记住了。"
        assert await chat.memory.jobs() == []
        may_write.set()
        await chat.remembered()
        assert await chat.words() == ["@小忆 我住在杭州"]


class BrokenBrain:
    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def think(self, heard: Heard) -> Thought:
        self.asked.set()
        raise RuntimeError("a bug of the author's")


async def test_a_brain_that_fails_costs_one_reply_and_no_words(tmp_path: Path) -> None:
    brain = BrokenBrain()
    async with chatting(tmp_path, brain) as chat:
        await chat.server.say("", "林岚", "我住在杭州")
        await asyncio.wait_for(brain.asked.wait(), 20)
    async with remembering(tmp_path) as memory:
        await memory.run_jobs()
        (kept,) = (await memory.bind(TENANT, LIN).messages_list()).items
        assert kept.content == "我住在杭州"


async def test_a_wrong_token_is_said_and_not_tried_for_ever() -> None:
    async with SimulatedServer(token="secret") as server:
        for token in ("", "wrong"):
            async with OneBot(server.url, token) as onebot:
                with pytest.raises(Refused, match="access token"):
                    await anext(onebot)


# --- a model's bot


def model(*answers: dict[str, Any]) -> tuple[httpx.AsyncClient, list[dict[str, Any]]]:
    """A service that says these, one after another, and what it was asked."""
    asked: list[dict[str, Any]] = []
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        return httpx.Response(200, json={"choices": [{"message": {"role": "assistant", **left.pop(0)}}]})

    return httpx.AsyncClient(base_url="http://model/v1", transport=httpx.MockTransport(answer)), asked


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": f"call-{name}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


async def test_a_model_looks_things_up_answers_and_ends(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        await chat.ask("A", "林岚", "@小忆 我住在杭州")
        await chat.remembered()
    client, asked = model(
        {"content": None, "tool_calls": [calling("cognitive_search_events", query="林岚住在哪里")]},
        {"content": None, "tool_calls": [calling("cognitive_search_events", query="猫", user_id=ANN)]},
        {"content": None, "tool_calls": [calling("end", action_summary="告诉林岚她住在杭州", new_info="林岚打算养猫")]},
        {"content": "你住在杭州。"},
    )  # fmt: skip
    async with client, chatting(tmp_path, ModelBrain(client, "some-model", "你是小忆。"), first_id=100) as chat:
        assert await chat.ask("A", "林岚", "@小忆 我住在哪里？我打算养猫。") == "你住在杭州。"
        await chat.remembered()
        events = await chat.memory.cognitive(TENANT, LIN, GROUP).search_events("养猫")
        assert any("林岚打算养猫" in e.text and "住在杭州" in e.metadata["did_what"] for e in events)
    system, found, refused = (asked[n]["messages"][m]["content"] for n, m in ((0, 0), (1, -1), (2, -1)))
    assert system.startswith("你是小忆。\n\n## 长期记忆")
    assert "杭州" in system  # what is remembered comes along by itself
    assert "我住在杭州" in found
    assert "smuggled" in refused or "not the model's to say" in refused
    assert {tool["function"]["name"] for tool in asked[0]["tools"]} >= {"end", "cognitive_search_events"}


async def test_a_model_that_is_away_costs_no_words(tmp_path: Path) -> None:
    asked = asyncio.Event()

    def answer(_: httpx.Request) -> httpx.Response:
        asked.set()
        return httpx.Response(503)

    down = httpx.AsyncClient(base_url="http://model/v1", transport=httpx.MockTransport(answer))
    async with down, chatting(tmp_path, ModelBrain(down, "some-model")) as chat:
        await chat.server.say("", "林岚", "我住在杭州")
        await asyncio.wait_for(asked.wait(), 20)
    async with remembering(tmp_path) as memory:
        await memory.run_jobs()
        assert [m.content for m in (await memory.bind(TENANT, LIN).messages_list()).items] == ["我住在杭州"]


# --- the program


@asynccontextmanager
async def program(home: Path, server: SimulatedServer) -> AsyncIterator[asyncio.subprocess.Process]:
    env = {**os.environ, "MNEMON_HOME": str(home), "MNEMON_EMBEDDER": "hash", "ONEBOT_URL": server.url}
    env |= {"ONEBOT_TOKEN": server.token, "PYTHONWARNINGS": "error"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "examples.onebot_bot", cwd=ROOT, env=env, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def logged(process: asyncio.subprocess.Process, pattern: str) -> str:
    """The next line of its log that says so."""
    assert process.stderr is not None
    seen = ""
    async with asyncio.timeout(60):
        while line := (await process.stderr.readline()).decode():
            if re.search(pattern, line):
                return line
            seen += line
    raise AssertionError(seen)


async def test_killed_between_the_reply_and_the_historian_it_has_lost_nothing(tmp_path: Path) -> None:
    settings = tmp_path / "mnemon.toml"
    settings.write_text("background_worker = false\n")  # nobody writes history before the kill
    async with SimulatedServer(token="secret", now=NOON) as server:
        facts = ["我住在杭州", "I am allergic to peanuts."]
        for n, fact in enumerate(facts):
            async with program(tmp_path, server) as process:
                await server.say("A", "林岚", f"@小忆 {fact}")
                await server.replied()
                await logged(process, "ended .*: queued")
                process.send_signal(signal.SIGKILL)
                assert await process.wait() == -signal.SIGKILL
            async with remembering(tmp_path) as memory:
                assert len(await memory.jobs("pending")) == n + 1
        settings.unlink()
        async with program(tmp_path, server) as process:
            async with asyncio.timeout(60):
                reply = ""
                while "杭州" not in reply:  # the historian is at work while it is asked
                    await server.say("A", "林岚", "@小忆 我住在哪里？")
                    reply = (await server.replied()).text
            assert "原话：“@小忆 我住在杭州”" in reply
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 30) == 0
    async with remembering(tmp_path) as memory:
        await memory.run_jobs()
        assert await memory.jobs("failed") == []
        kept = [m.content for m in (await memory.bind(TENANT, LIN, group_id=GROUP).messages_list(role="user")).items]
        assert [text for text in kept if "哪里" not in text] == [f"@小忆 {fact}" for fact in reversed(facts)]
        assert (await memory.verify()).ok


async def test_told_to_stop_it_finishes_and_keeps_what_it_heard(tmp_path: Path) -> None:
    async with SimulatedServer(now=NOON) as server, program(tmp_path, server) as process:
        await server.say("A", "Ann", "Nobody is spoken to here.")
        await server.say("A", "林岚", "@小忆 我住在杭州")
        await server.replied()
        await server.say("A", "Ann", "Nor here.")
        await server.say("B", "Ann", "小忆 remembers me: I like tea.")
        await server.replied()  # by now everything before it was heard
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0
    async with remembering(tmp_path) as memory:
        await memory.run_jobs()
        kept = (await memory.bind(TENANT, ANN, group_id=GROUP).messages_list(role="user")).items
        assert {m.content for m in kept} == {"Nobody is spoken to here.", "@小忆 我住在杭州", "Nor here."}


# --- what is read


def test_a_message_is_read_as_people_read_it() -> None:
    def message(segments: Any) -> Message:
        rest = {"post_type": "message", "message_type": "private", "message_id": 1, "user_id": 2, "time": 3}
        return Message.model_validate({**rest, "self_id": 10000, "message": segments})

    called = message([{"type": "reply", "data": {"id": "7"}}, {"type": "at", "data": {"qq": "10000"}},
                      {"type": "text", "data": {"text": " hi "}}, {"type": "at", "data": {"qq": "9", "name": "Ann"}},
                      {"type": "image", "data": {"file": "x"}}])  # fmt: skip
    assert called.mentions_me
    assert called.text() == "hi @Ann [image]"
    assert called.text("小忆") == "@小忆 hi @Ann [image]"
    assert message("[CQ:at,qq=10000] 1 &lt; 2&#44; &#91;x&#93;").text() == "1 < 2, [x]"
    assert message("[CQ:at,qq=all]大家好").text("小忆") == "@all 大家好"


def test_the_script_people_watch_names_people_and_groups_that_exist() -> None:
    server = SimulatedServer()
    events = [server.event(*line) for line in SCRIPT]
    assert [Message.model_validate(event).text("小忆") for event in events] == [text for _, _, text in SCRIPT]
