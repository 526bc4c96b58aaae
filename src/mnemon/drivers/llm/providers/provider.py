"""What the providers share: one request at a time, tried again while that can help, answered with a JSON object."""

from __future__ import annotations

import asyncio
import json
import random
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

from httpx2 import URL, AsyncClient, Request, Timeout
from pydantic import SecretStr
from pydantic_ai.direct import model_request
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, create_async_httpx2_client
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from mnemon.contracts.errors import BadAnswer, InvalidArgument, ModelFailed
from mnemon.contracts.models import ChatMessage, Completion
from mnemon.contracts.scope import Scope
from mnemon.drivers.llm.providers.failures import Failure, failure
from mnemon.drivers.llm.providers.json_object import only_object
from mnemon.drivers.llm.providers.one_prompt import OnePrompt
from mnemon.drivers.llm.providers.quiet import quietly

# Three ways to ask for an object: a schema the service enforces, its JSON mode, and plain words.
_Way = Literal["schema", "json", "words"]
_WAYS: tuple[_Way, ...] = ("schema", "json", "words")
_ASK = (
    "Answer with one JSON object that fits this JSON schema, and with nothing else.\n"
    "只输出一个符合以下 JSON Schema 的 JSON 对象，不要输出其他任何内容。\n\n{schema}"
)
# What the vendors' libraries add on their own is not sent: facts about this machine, headers from the environment.
_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    }
)
_NO_KEY = "none"
_LONGEST_CONNECT_S = 5.0


class ProviderLLM(OnePrompt):
    """`timeout_s` is for one try. A service that asks to wait longer than `longest_wait_s` is given up at once.

    The key is put on each request as it leaves for `base_url`; no object of a vendor's library ever holds it."""

    provider: ClassVar[str]
    default_url: ClassVar[str]

    def __init__(
        self,
        model: str,
        api_key: str = "",
        base_url: str = "",
        timeout_s: float = 60.0,
        *,
        attempts: int = 3,
        backoff_s: float = 0.5,
        longest_wait_s: float = 30.0,
    ) -> None:
        self._url = _checked(base_url or self.default_url)
        self._name = model
        self._key = SecretStr(api_key)
        self._timeout_s = timeout_s
        self._attempts = max(attempts, 1)
        self._backoff_s = backoff_s
        self._longest_wait_s = longest_wait_s
        self._way: _Way | None = None
        self._open: tuple[asyncio.AbstractEventLoop, AsyncClient, Model] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._name!r}, host={self._url.host!r})"

    @property
    def model(self) -> str:
        return self._name

    @abstractmethod
    def credential(self, key: str) -> tuple[str, str]:
        """The header that carries the key."""

    @abstractmethod
    def connect(self, http: AsyncClient, base_url: str, key: str) -> Model:
        """The vendor's model; `key` only fills a place that must not be empty."""

    def twin(self) -> Self:
        twin = type(self)(
            self._name,
            self._key.get_secret_value(),
            str(self._url),
            self._timeout_s,
            attempts=self._attempts,
            backoff_s=self._backoff_s,
            longest_wait_s=self._longest_wait_s,
        )
        twin._way = self._way
        return twin

    async def complete(
        self, messages: Sequence[ChatMessage], schema: dict[str, Any], scope: Scope | None = None
    ) -> Completion:
        model = self._connected()
        said = _said(messages)
        failed = Failure("not asked")
        for way in self._ways(model):
            answer, tries = await self._persist(model, said, _parameters(way, schema))
            if isinstance(answer, ModelResponse):
                self._way = way
                return self._completion(answer)
            failed = answer
            if not failed.form_refused:
                break
        raise self._failed(failed, tries)

    async def close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            await opened[1].aclose()

    def _connected(self) -> Model:
        loop = asyncio.get_running_loop()
        if self._open is None or self._open[0] is not loop:
            connect = min(self._timeout_s, _LONGEST_CONNECT_S)
            http = create_async_httpx2_client(timeout=Timeout(self._timeout_s, connect=connect, pool=None))
            http.event_hooks["request"].append(self._sign)
            self._open = (loop, http, self.connect(http, str(self._url), _NO_KEY))
        return self._open[2]

    async def _sign(self, request: Request) -> None:
        for name in set(request.headers) - _HEADERS:
            del request.headers[name]
        key = self._key.get_secret_value()
        if key and (request.url.scheme, request.url.netloc) == (self._url.scheme, self._url.netloc):
            name, value = self.credential(key)
            request.headers[name] = value

    def _ways(self, model: Model) -> tuple[_Way, ...]:
        """Those the model is known for, best first, from the one that worked before."""
        known = {
            "schema": model.profile.get("supports_json_schema_output", False),
            "json": model.profile.get("supports_json_object_output", False),
            "words": True,
        }
        ways = tuple(way for way in _WAYS if known[way])
        return ways[ways.index(self._way) :] if self._way else ways

    async def _persist(
        self, model: Model, said: list[ModelMessage], parameters: ModelRequestParameters
    ) -> tuple[ModelResponse | Failure, int]:
        """An answer, or why there is none after how many tries."""
        attempt = 0
        while True:
            attempt += 1
            answer = await self._try(model, said, parameters)
            wait = None if isinstance(answer, ModelResponse) else self._wait(answer, attempt)
            if wait is None:
                return answer, attempt
            await asyncio.sleep(wait)

    def _wait(self, failure: Failure, attempt: int) -> float | None:
        """How long until the next try; None when there shall be none."""
        if not failure.passing or attempt >= self._attempts or self._too_long(failure):
            return None
        if failure.wait_s is not None:
            return failure.wait_s
        full: float = min(self._backoff_s * 2 ** (attempt - 1), self._longest_wait_s)
        return full * random.uniform(0.5, 1.0)

    def _too_long(self, failure: Failure) -> bool:
        return failure.wait_s is not None and failure.wait_s > self._longest_wait_s

    async def _try(
        self, model: Model, said: list[ModelMessage], parameters: ModelRequestParameters
    ) -> ModelResponse | Failure:
        settings = ModelSettings(max_retries=0, request_timeout=self._timeout_s)
        try:
            with quietly():
                return await model_request(
                    model, said, model_settings=settings, model_request_parameters=parameters, instrument=False
                )
        except Exception as error:  # noqa: BLE001 - whatever a library raises may hold the request, so none gets out
            return failure(error, self._key.get_secret_value())

    def _failed(self, failure: Failure, tries: int) -> ModelFailed:
        waiting = f"; it asks to wait {failure.wait_s:g} s" if self._too_long(failure) else ""
        return ModelFailed(
            f"{self.provider}:{self._name} at {self._url.host} did not answer: {failure}{waiting}",
            provider=self.provider,
            model=self._name,
            http_status=failure.status,
            reason=failure.reason,
            attempts=tries,
        )

    def _completion(self, answer: ModelResponse) -> Completion:
        text = answer.text or ""
        usage = answer.usage
        data = only_object(text)
        if data is None:
            raise BadAnswer(
                f"{self.provider}:{self._name} {_complaint(answer.finish_reason, text)}",
                provider=self.provider,
                model=self._name,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
            )
        return Completion(data, usage.input_tokens, usage.output_tokens, answer.model_name or self._name)


def _checked(base_url: str) -> URL:
    url = URL(base_url)
    if url.userinfo:
        raise InvalidArgument("give the key as `api_key`, not within the URL", field="llm.base_url")
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidArgument("base_url must start with http:// or https://", field="llm.base_url")
    return url


def _said(messages: Sequence[ChatMessage]) -> list[ModelMessage]:
    said: list[ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            said.append(ModelResponse(parts=[TextPart(message.text)]))
            continue
        part = SystemPromptPart(message.text) if message.role == "system" else UserPromptPart(message.text)
        if said and isinstance(said[-1], ModelRequest):
            said[-1] = ModelRequest(parts=[*said[-1].parts, part])
        else:
            said.append(ModelRequest(parts=[part]))
    return said


def _parameters(way: _Way, schema: dict[str, Any]) -> ModelRequestParameters:
    wanted = OutputObjectDefinition(json_schema=schema, name="answer")
    match way:
        case "schema":
            return ModelRequestParameters(output_mode="native", output_object=wanted)
        case "json":
            return ModelRequestParameters(output_mode="prompted", output_object=wanted, prompted_output_template=_ASK)
        case "words":
            asked = _ASK.format(schema=json.dumps(schema, ensure_ascii=False))
            return ModelRequestParameters(instruction_parts=[InstructionPart(content=asked)])


def _complaint(finish_reason: str | None, text: str) -> str:
    if finish_reason == "length":
        return "was cut off at its token limit"
    if finish_reason == "content_filter":
        return "refused to answer"
    return "answered, but not with one JSON object" if text.strip() else "said nothing"
