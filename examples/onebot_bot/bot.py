"""The bot: what is said to it, what it remembers of that, its reply, and what becomes of the turn in its memory."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from mnemon import AsyncMemory
from mnemon.contracts.chats import ChatContext, Said
from mnemon.contracts.errors import MnemonError
from mnemon.surfaces.tools import ChatTurn, call_tool_async

from .brains import Brain, Heard, Thought
from .onebot import ActionFailed, Message, OneBot

_log = logging.getLogger(__name__)
_BATCH = 50  # what people said among themselves is kept after this many messages at the latest
_SEEN = 10_000
_PATIENCE_S = 3.0  # a bot without its memory still answers


class Bot:
    """Speaks when it is spoken to, and remembers each chat by itself."""

    def __init__(
        self, onebot: OneBot, memory: AsyncMemory, brain: Brain, name: str = "", timezone: str = "Asia/Shanghai"
    ) -> None:
        self._onebot, self._memory, self._brain, self._name = onebot, memory, brain, name
        self._zone = ZoneInfo(timezone)
        self._batches: defaultdict[str, list[Message]] = defaultdict(list)
        self._in_order: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turns: set[asyncio.Task[None]] = set()
        self._seen: dict[tuple[str, str, int], None] = {}
        self._names: dict[str, str] = {}

    async def run(self) -> None:
        """Until `OneBot.stop`; turns under way are finished first. Chats do not wait for each other."""
        async for message in self._onebot:
            if message.user_id != message.self_id and self._is_new(message):
                batch = self._batches[message.chat]
                batch.append(message)
                addressed = await self._addressed(message)
                if addressed or len(batch) >= _BATCH:
                    self._begin(self._batches.pop(message.chat), addressed)
        for batch in self._batches.values():
            self._begin(batch, addressed=False)
        await self.idle()

    async def idle(self) -> None:
        """Every turn begun so far is over, and what it told the memory is safe."""
        while self._turns:
            await asyncio.wait(self._turns)

    def _is_new(self, message: Message) -> bool:
        """After a reconnect the same message may come again."""
        known = (message.chat, message.message_id, message.time)
        if known in self._seen:
            return False
        self._seen[known] = None
        if len(self._seen) > _SEEN:
            del self._seen[next(iter(self._seen))]
        return True

    async def _addressed(self, message: Message) -> bool:
        name = await self._own_name()
        return not message.group or message.mentions_me or bool(name and name.lower() in message.text().lower())

    def _begin(self, batch: list[Message], addressed: bool) -> None:
        task = asyncio.create_task(self._turn(batch, addressed))
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)

    async def _turn(self, batch: list[Message], addressed: bool) -> None:
        """Remember, think, reply, end. The reply comes before anything is written."""
        message, thought, sent = batch[-1], Thought(), False
        async with self._in_order[message.chat]:
            turn = await self._chat_turn(batch)
            try:
                if addressed:
                    context = await self._context(turn, message)
                    thought = await self._brain.think(Heard(message.text(), turn, context, self._memory))
                if thought.reply:
                    await self._onebot.reply(message, thought.reply)
                    sent = True
            except Exception:  # noqa: BLE001  a brain is somebody else's code, and one bad turn must not end the bot
                _log.exception("no reply to message %s", message.message_id)
            await self._end(replace(turn, message_sent=sent), thought)

    async def _context(self, turn: ChatTurn, message: Message) -> ChatContext:
        """What this chat may know that bears on the message."""
        memory = self._memory.cognitive(turn.tenant_id, turn.user_id, turn.group_id)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await memory.context(message.text() or message.sender_name)
        except (MnemonError, TimeoutError) as error:
            _log.warning("answering without memory: %s", error)
            return ChatContext("", 0)

    async def _end(self, turn: ChatTurn, thought: Thought) -> None:
        """Durable when it returns; the historian makes memories of it in the background. With `force` the words are
        kept even where nothing was done about them and nothing was learnt."""
        done = thought.action_summary if turn.message_sent else ""
        told = {"action_summary": done, "new_info": thought.new_info, "force": True}
        try:
            result = await call_tool_async(self._memory, turn, "end", told)
            _log.info("ended %s: %s", result["event_id"], result["status"])
        except (MnemonError, OSError):
            _log.exception("%s is not remembered", turn.request_id)

    async def _chat_turn(self, batch: list[Message]) -> ChatTurn:
        message, name = batch[-1], await self._own_name()
        return ChatTurn(
            tenant_id=f"onebot-{message.self_id}",  # another account, another memory
            user_id=message.user_id,
            request_id=f"{message.time}-{message.message_id}",
            group_id=message.group,
            sender_id=message.user_id,
            sender_name=message.sender_name,
            group_name=await self._group_name(message.group),
            bot_name=name,
            messages=[self._said(m, name) for m in batch],
            timestamp=self._when(message),
            timezone=self._zone.key,
        )

    def _said(self, message: Message, my_name: str) -> Said:
        return Said(
            message_id=message.message_id,
            text=message.text(my_name),
            sender_id=message.user_id,
            sender_name=message.sender_name,
            time=self._when(message),
        )

    def _when(self, message: Message) -> str:
        return datetime.fromtimestamp(message.time, self._zone).isoformat()

    async def _own_name(self) -> str:
        return self._name or await self._ask("me", "nickname", "get_login_info")

    async def _group_name(self, group: str | None) -> str:
        return await self._ask(group, "group_name", "get_group_info", group_id=int(group)) if group else ""

    async def _ask(self, whose: str, field: str, action: str, **params: Any) -> str:
        """A name, asked for once; empty where nobody tells."""
        if whose not in self._names:
            try:
                self._names[whose] = str((await self._onebot.call(action, **params))[field])
            except ConnectionError:
                return ""
            except (ActionFailed, TimeoutError, KeyError, TypeError) as unknown:
                _log.warning("%s: %s", action, unknown)
                self._names[whose] = ""
        return self._names[whose]
