"""What a bot says and learns: a protocol of one method, and a brain that asks a model."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from mnemon import AsyncMemory
from mnemon.contracts.chats import ChatContext
from mnemon.contracts.errors import MnemonError
from mnemon.surfaces.tools import ChatTurn, Language, call_tool_async, prompt_text, tool_definitions


@dataclass(frozen=True, slots=True)
class Heard:
    """What somebody said to the bot, and what is remembered that may matter."""

    text: str
    turn: ChatTurn
    context: ChatContext
    memory: AsyncMemory

    @property
    def language(self) -> Language:
        return "zh" if re.search(r"[\u4e00-\u9fff]", self.text) else "en"


@dataclass(frozen=True, slots=True)
class Thought:
    """A reply, and what `end` is told: what was done, and at most one thing that was learnt."""

    reply: str = ""
    action_summary: str = ""
    new_info: str = ""


class Brain(Protocol):
    async def think(self, heard: Heard) -> Thought: ...


class ModelBrain:
    """Any model behind an OpenAI-compatible `/chat/completions`, with Mnemon's own tools and prompt. `client` knows
    the address and the key."""

    def __init__(self, client: httpx.AsyncClient, model: str, persona: str = "", rounds: int = 6) -> None:
        self._client, self._model, self._persona, self._rounds = client, model, persona, rounds

    async def think(self, heard: Heard) -> Thought:
        system = "\n\n".join(part for part in (self._persona, prompt_text(heard.language), heard.context.text) if part)
        said = f"{heard.turn.sender_name} ({heard.turn.sender_id}): {heard.text}"
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": said}]
        reply, end = "", dict[str, Any]()
        for _ in range(self._rounds):
            answer = await self._ask(messages, tool_definitions("openai", heard.language))
            messages.append(answer)
            reply = answer.get("content") or reply
            calls = answer.get("tool_calls") or []
            for call in calls:
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                if name == "end":  # the bot's to carry out, once the reply is on its way
                    end, result = json.loads(arguments), {"status": "queued"}
                else:
                    result = await self._look_up(heard, name, arguments)
                told = json.dumps(result, ensure_ascii=False)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": told})
            if not calls or (end and reply):
                break
        return Thought(reply, str(end.get("action_summary") or ""), str(end.get("new_info") or ""))

    async def _ask(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        asked = {"model": self._model, "messages": messages, "tools": tools}
        response = (await self._client.post("chat/completions", json=asked)).raise_for_status()
        answer: dict[str, Any] = response.json()["choices"][0]["message"]
        return answer

    @staticmethod
    async def _look_up(heard: Heard, name: str, arguments: str) -> dict[str, Any]:
        try:
            return await call_tool_async(heard.memory, heard.turn, name, arguments)
        except MnemonError as error:  # a model mends what it is told about
            return error.envelope()
