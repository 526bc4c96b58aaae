"""OneBot v11 over a forward WebSocket: messages in, actions out, on a connection that comes back by itself."""

from __future__ import annotations

import asyncio
import html
import json
import logging
import random
import re
from contextlib import suppress
from itertools import count
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

_log = logging.getLogger(__name__)
_CODE = re.compile(r"(\[CQ:[^\]]+\])")
_MAX_FRAME = 16 << 20  # pictures may come along as base64


class ActionFailed(Exception):
    """The other side refused an action."""


class Refused(Exception):
    """The other side does not let us in: trying again would not help."""


def _segments(message: object) -> object:
    """An array of segments; or, as some are set up, one string with codes in it: `[CQ:at,qq=10001]你好`."""
    return [_decoded(part) for part in _CODE.split(message) if part] if isinstance(message, str) else message


def _decoded(part: str) -> dict[str, Any]:
    if not _CODE.fullmatch(part):
        return {"type": "text", "data": {"text": html.unescape(part)}}
    kind, *pairs = part[len("[CQ:") : -1].split(",")
    return {"type": kind, "data": {key: html.unescape(value) for key, _, value in (p.partition("=") for p in pairs)}}


class _Received(BaseModel):
    """Ids are numbers on the wire and names to us."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)


class Segment(_Received):
    type: str
    data: dict[str, Any] | None = None

    def get(self, key: str) -> str:
        """As text that can be written down: half an emoji cannot."""
        return str((self.data or {}).get(key) or "").encode(errors="replace").decode()


Id = Annotated[str, Field(pattern=r"^-?\d+$")]


class Message(_Received):
    """What somebody said in a group or privately. `time` is in seconds since 1970."""

    post_type: Literal["message"]
    message_type: Literal["group", "private"]
    message_id: str
    self_id: Id
    user_id: Id
    group_id: Id | None = None
    time: int = Field(ge=0, lt=1 << 33)
    sender: dict[str, Any] = {}
    segments: Annotated[tuple[Segment, ...], BeforeValidator(_segments)] = Field(alias="message")

    @model_validator(mode="after")
    def _names_its_group(self) -> Self:
        if self.message_type == "group" and not self.group_id:
            raise ValueError("a message to a group must say which")
        return self

    @property
    def group(self) -> str | None:
        """None in a private chat, also where the two met in a group."""
        return self.group_id if self.message_type == "group" else None

    @property
    def chat(self) -> str:
        return f"{self.self_id} {self.message_type} {self.group or self.user_id}"

    @property
    def sender_name(self) -> str:
        """What they are called in this group, else anywhere."""
        return str(self.sender.get("card") or self.sender.get("nickname") or self.user_id)

    @property
    def mentions_me(self) -> bool:
        return any(s.type == "at" and s.get("qq") == self.self_id for s in self.segments)

    def text(self, my_name: str = "") -> str:
        """As people read it. Without `my_name` it is left out that the bot was called."""
        said = "".join(self._read(segment, my_name) for segment in self.segments)
        return re.sub(" {2,}", " ", said).strip()

    def _read(self, segment: Segment, my_name: str) -> str:
        match segment.type:
            case "text":
                return segment.get("text")
            case "at":
                who = segment.get("qq")
                name = my_name if who == self.self_id else segment.get("name") or who
                return f"@{name} " if name else ""
            case "reply":
                return ""
            case other:
                return f"[{other}]"


class OneBot:
    """`async with OneBot(url) as onebot: async for message in onebot: …`, and `await onebot.call(action, …)` at any
    time. A lost connection is made again, after pauses that grow from the first to the second of `backoff_s`."""

    def __init__(
        self, url: str, token: str = "", timeout_s: float = 10.0, backoff_s: tuple[float, float] = (0.5, 30.0)
    ) -> None:
        self._url, self._timeout_s, self._backoff_s = url, timeout_s, backoff_s
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._socket: ClientConnection | None = None
        self._connected = asyncio.Event()
        self._received: asyncio.Queue[Message | Exception] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[dict[str, Any] | None]] = {}
        self._echoes = count(1)

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        received = await self._received.get()
        if isinstance(received, Exception):
            raise received
        return received

    def stop(self) -> None:
        """No further messages; actions still work."""
        self._received.put_nowait(StopAsyncIteration())

    async def call(self, action: str, **params: Any) -> Any:
        """What the action brings. Waits for a connection; `ConnectionError` where it was lost on the way, so that
        nobody knows whether the action was carried out."""
        echo = str(next(self._echoes))
        answer = self._answers[echo] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connected.wait()
                assert self._socket is not None
                await self._socket.send(json.dumps({"action": action, "params": params, "echo": echo}))
                response = await answer
        except ConnectionClosed:
            response = None
        finally:
            del self._answers[echo]
        if response is None:
            raise ConnectionError(f"the connection was lost during {action}")
        if response.get("status") == "failed" or response.get("retcode") not in (0, 1):
            raise ActionFailed(f"{action}: {response.get('retcode')} {response.get('message') or ''}")
        return response.get("data")

    async def reply(self, message: Message, text: str) -> None:
        """Says it again where the connection went away before it was acknowledged: better twice than never."""
        words = {"type": "text", "data": {"text": text}}
        while True:
            try:
                if message.group is None:
                    await self.call("send_private_msg", user_id=int(message.user_id), message=[words])
                else:
                    quoted = {"type": "reply", "data": {"id": message.message_id}}
                    await self.call("send_group_msg", group_id=int(message.group), message=[quoted, words])
                return
            except ConnectionError as lost:
                _log.warning("%s; said again", lost)

    async def _read(self) -> None:
        pause, longest = self._backoff_s
        while True:
            try:
                async with connect(self._url, additional_headers=self._headers, max_size=_MAX_FRAME) as self._socket:
                    _log.info("connected to %s", self._url)
                    self._connected.set()
                    pause = self._backoff_s[0]
                    async for frame in self._socket:
                        self._take(frame)
            except (OSError, WebSocketException) as lost:
                if isinstance(lost, InvalidStatus) and lost.response.status_code in (401, 403):
                    return self._received.put_nowait(Refused(f"{self._url}: {lost}; is the access token right?"))
                _log.warning("%s: %s", self._url, lost)
            finally:
                self._connected.clear()
                for answer in self._answers.values():
                    if not answer.done():
                        answer.set_result(None)
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # not every bot at once
            pause = min(2 * pause, longest)

    def _take(self, frame: str | bytes) -> None:
        """An answer to its call, a message to the queue; what is neither, or broken, does no harm."""
        try:
            told = json.loads(frame)
            if "echo" in told and "post_type" not in told:
                if (answer := self._answers.get(str(told["echo"]))) and not answer.done():
                    answer.set_result(told)
            elif told["post_type"] == "message":
                self._received.put_nowait(Message.model_validate(told))
        except (ValueError, TypeError, KeyError, RecursionError) as broken:
            _log.warning("left out a broken frame of %d characters (%s)", len(frame), type(broken).__name__)
