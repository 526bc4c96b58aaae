"""A simulated OneBot v11 server: two groups and private chats, for the tests and for people who want to try the bot."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

BOT, BOT_NAME = 10000, "小忆"
GROUPS = {"A": (7001, "徒步群"), "B": (7002, "Book club")}
PEOPLE = {"林岚": 1001, "Ann": 1002}

# Where, who, what: played for people who watch. "A" and "B" are groups, "" is a private chat.
SCRIPT = (
    ("A", "Ann", "Anyone up for a hike on Saturday?"),
    ("A", "林岚", "@小忆 我昨天搬到杭州西湖区了，我现在住在杭州西湖区。"),
    ("A", "Ann", "@小忆 I am allergic to peanuts."),
    ("", "林岚", "我的生日是五月三号。"),
    ("A", "林岚", "@小忆 我现在住在哪里？"),
    ("A", "Ann", "@小忆 What am I allergic to?"),
    ("B", "林岚", "@小忆 我现在住在哪里？"),
    ("", "林岚", "我现在住在哪里？"),
    ("", "林岚", "我的生日是哪天？"),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """What the bot said, and where: `chat` is the name of a group or of a person."""

    chat: str
    text: str
    reply_to: str


@dataclass(slots=True)
class SimulatedServer:
    """`async with SimulatedServer() as server:` listens on `server.url`. People speak with `say`, `replied` waits for
    the bot; `raw` and `drop` are what goes wrong between them."""

    token: str = ""
    port: int = 0
    now: float = 0.0
    first_id: int = 1
    sent: list[Sent] = field(default_factory=list)
    actions: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0
    swallow: int = 0
    _server: Server | None = None
    _bot: ServerConnection | None = None
    _here: asyncio.Event = field(default_factory=asyncio.Event)
    _replies: asyncio.Queue[Sent] = field(default_factory=asyncio.Queue)
    _ids: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self._ids = count(self.first_id)

    async def __aenter__(self) -> Self:
        self._server = await serve(self._serve, "127.0.0.1", self.port, process_request=self._let_in)
        self.port = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def say(self, chat: str, who: str, text: str) -> str:
        """In a group by its letter, privately in "". `@小忆` calls the bot. Its message id."""
        event = self.event(chat, who, text)
        await self.raw(json.dumps(event, ensure_ascii=False))
        return str(event["message_id"])

    def event(self, chat: str, who: str, text: str) -> dict[str, Any]:
        before, called, after = text.partition(f"@{BOT_NAME}")
        segments = [_text(before)] if before else []
        if called:
            segments += [{"type": "at", "data": {"qq": str(BOT)}}, _text(after)]
        sender = {"user_id": PEOPLE[who], "nickname": who, "card": ""}
        event = {"post_type": "message", "message_id": next(self._ids), "self_id": BOT, "user_id": PEOPLE[who]}
        event |= {"time": int(self.now or time.time()), "message": segments, "raw_message": text, "sender": sender}
        if not chat:
            return {**event, "message_type": "private", "sub_type": "friend"}
        return {**event, "message_type": "group", "sub_type": "normal", "group_id": GROUPS[chat][0]}

    async def replied(self, timeout_s: float = 20.0) -> Sent:
        """The next thing the bot says."""
        async with asyncio.timeout(timeout_s):
            return await self._replies.get()

    async def raw(self, frame: str | bytes, timeout_s: float = 20.0) -> None:
        """Any frame, to the bot once it is here."""
        async with asyncio.timeout(timeout_s):
            await self._here.wait()
            assert self._bot is not None
            await self._bot.send(frame)

    async def drop(self) -> None:
        """The connection is gone without a word."""
        if self._bot is not None:
            self._here.clear()
            self._bot.transport.abort()
            await self._bot.wait_closed()

    def _let_in(self, connection: ServerConnection, request: Request) -> Response | None:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            given = "Authorization" in request.headers
            return connection.respond(HTTPStatus.FORBIDDEN if given else HTTPStatus.UNAUTHORIZED, "wrong token\n")
        return None

    async def _serve(self, bot: ServerConnection) -> None:
        self._bot = bot
        self.connections += 1
        meta = {"post_type": "meta_event", "self_id": BOT, "time": int(time.time())}
        await bot.send(json.dumps({**meta, "meta_event_type": "lifecycle", "sub_type": "connect"}))
        beat = {"status": {"online": True, "good": True}, "interval": 5000}
        await bot.send(json.dumps({**meta, "meta_event_type": "heartbeat", **beat}))
        self._here.set()
        try:
            async for frame in bot:
                await self._act(bot, json.loads(frame))
        except ConnectionClosed:
            pass
        finally:
            if self._bot is bot:
                self._here.clear()

    async def _act(self, bot: ServerConnection, asked: dict[str, Any]) -> None:
        self.actions.append(asked)
        action, params = asked["action"], asked.get("params", {})
        if action.startswith("send_") and self.swallow:  # gone with the connection, unheard
            self.swallow -= 1
            return await self.drop()
        data, retcode = self._done(action, params)
        answer = {"status": "failed" if retcode else "ok", "retcode": retcode, "data": data, "echo": asked.get("echo")}
        return await bot.send(json.dumps(answer, ensure_ascii=False))

    def _done(self, action: str, params: dict[str, Any]) -> tuple[Any, int]:
        groups = {number: (letter, name) for letter, (number, name) in GROUPS.items()}
        people = {number: name for name, number in PEOPLE.items()}
        match action:
            case "get_login_info":
                return {"user_id": BOT, "nickname": BOT_NAME}, 0
            case "get_group_info" if params.get("group_id") in groups:
                return {"group_id": params["group_id"], "group_name": groups[params["group_id"]][1]}, 0
            case "send_group_msg" if params.get("group_id") in groups:
                return self._keep(groups[params["group_id"]][0], params["message"]), 0
            case "send_private_msg" if params.get("user_id") in people:
                return self._keep(people[params["user_id"]], params["message"]), 0
            case "get_login_info" | "get_group_info" | "send_group_msg" | "send_private_msg":
                return None, 1400
            case _:
                return None, 1404

    def _keep(self, chat: str, segments: Sequence[dict[str, Any]]) -> dict[str, Any]:
        text = "".join(s["data"]["text"] for s in segments if s["type"] == "text")
        sent = Sent(chat, text, "".join(s["data"]["id"] for s in segments if s["type"] == "reply"))
        self.sent.append(sent)
        self._replies.put_nowait(sent)
        return {"message_id": next(self._ids)}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "data": {"text": text}}


async def _watch(server: SimulatedServer) -> None:
    while True:
        sent = await server.replied(timeout_s=float("inf"))
        print(f"[{sent.chat}] {BOT_NAME}: {sent.text}", flush=True)


async def _main(port: int) -> None:
    async with SimulatedServer(port=port) as server:
        print(f"listening on {server.url}; start the bot: python -m examples.onebot_bot", flush=True)
        watching = asyncio.create_task(_watch(server))
        for chat, who, text in SCRIPT:
            print(f"[{chat or 'private'}] {who}: {text}", flush=True)
            await server.say(chat, who, text)
            await asyncio.sleep(1.5)  # people do not type faster
        print("now you are 林岚: “a text” and “b text” speak in the groups, anything else privately; end with Ctrl-D")
        while line := await asyncio.to_thread(sys.stdin.readline):
            letter, _, text = line.strip().partition(" ")
            chat = letter.upper() if letter.upper() in GROUPS and text else ""
            await server.say(chat, "林岚", f"@{BOT_NAME} {text}" if chat else line.strip())
        watching.cancel()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 3001))
