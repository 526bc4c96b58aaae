"""Any service that speaks OpenAI's `/embeddings`: in batches, tried again while that can help, answers checked."""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import time
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

import httpx
import numpy as np

from mnemon.contracts.entries import EmbeddingVector, Vector
from mnemon.contracts.errors import EmbedderFailed, InvalidArgument
from mnemon.contracts.ports import Purpose

_WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_SHOWN_OF_AN_ANSWER = 300


class _TryAgain(Exception):
    """What went wrong this time, and how long the service asked to wait."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_s = wait_s


class _Secret:
    """A key that does not show itself when its holder is printed."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled")

    def reveal(self) -> str:
        return self._value


class OpenAIEmbedder:
    """`dimension` is found out with the first answer when it is not given; `shorten` asks the service for it.

    `query_prefix` and `document_prefix` are for models that want to be told what a text is. A text longer than
    `longest_chars` is cut, an empty one is sent as a blank, because services refuse both.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        dimension: int | None = None,
        shorten: bool = False,
        query_prefix: str = "",
        document_prefix: str = "",
        batch_texts: int = 128,
        batch_chars: int = 100_000,
        longest_chars: int = 24_000,
        concurrency: int = 4,
        timeout_s: float = 30.0,
        total_timeout_s: float = 120.0,
        attempts: int = 6,
        backoff_s: float = 0.5,
        backoff_cap_s: float = 20.0,
    ) -> None:
        url = httpx.URL(base_url)
        if url.userinfo:
            raise InvalidArgument("give the key as `api_key`, not within the URL", field="base_url")
        if url.scheme not in ("http", "https") or not url.host:
            raise InvalidArgument("the embeddings URL must start with http:// or https://", field="base_url")
        if shorten and dimension is None:
            raise InvalidArgument("`shorten` needs a `dimension`", field="dimension")
        self._url = url.copy_with(path=url.path.rstrip("/") + "/embeddings")
        self._name = model
        self._key = _Secret(api_key) if api_key else None
        self._dimension = dimension
        self._shorten = shorten
        self._prefix: dict[str, str] = {"query": query_prefix, "document": document_prefix}
        self._batch_texts = max(batch_texts, 1)
        self._batch_chars = batch_chars
        self._longest_chars = longest_chars
        self._gate = asyncio.Semaphore(concurrency)
        self._timeout_s = timeout_s
        self._total_timeout_s = total_timeout_s
        self._attempts = max(attempts, 1)
        self._backoff_s = backoff_s
        self._backoff_cap_s = backoff_cap_s
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"OpenAIEmbedder(host={self._url.host!r}, model={self._name!r})"

    @property
    def model(self) -> str:
        parts = ["openai", self._name]
        if self._shorten:
            parts.append(str(self._dimension))
        if any(self._prefix.values()):
            told = "\0".join((self._prefix["query"], self._prefix["document"]))
            parts.append(f"prefix-{hashlib.sha256(told.encode()).hexdigest()[:8]}")
        return "/".join(parts)

    @property
    def dimension(self) -> int:
        if self._dimension is None:
            raise EmbedderFailed("the dimension is not known before the first answer; give it, or call `discover`")
        return self._dimension

    @property
    def semantic(self) -> bool:
        return True

    async def discover(self) -> int:
        """Ask once, so that the dimension is known."""
        if self._dimension is None:
            await self.embed_texts(["dimension"])
        return self.dimension

    async def embed_texts(self, texts: Sequence[str], purpose: Purpose = "document") -> list[EmbeddingVector]:
        prefix = self._prefix[purpose]
        # A lone surrogate cannot be sent.
        plain = [text.encode("utf-8", "replace").decode() for text in texts]
        ready = [(prefix + text)[: self._longest_chars] or " " for text in plain]
        tasks = [asyncio.ensure_future(self._embed_batch(batch)) for batch in self._batches(ready)]
        try:
            answers = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return [EmbeddingVector(dense_vector=vector, model=self.model) for batch in answers for vector in batch]

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        chars = 0
        for text in texts:
            if batch and (len(batch) == self._batch_texts or chars + len(text) > self._batch_chars):
                yield batch
                batch, chars = [], 0
            batch.append(text)
            chars += len(text)
        if batch:
            yield batch

    async def _embed_batch(self, texts: list[str]) -> list[Vector]:
        async with self._gate:
            give_up = time.monotonic() + self._total_timeout_s
            reason = ""
            for attempt in range(1, self._attempts + 1):
                try:
                    async with asyncio.timeout(give_up - time.monotonic()):
                        return await self._ask(texts)
                except TimeoutError:
                    reason = "no answer in time"
                    break
                except _TryAgain as trouble:
                    reason = trouble.reason
                    wait = self._wait(attempt, trouble.wait_s)
                if attempt == self._attempts or time.monotonic() + wait >= give_up:
                    break
                await asyncio.sleep(wait)
            raise EmbedderFailed(f"the embedding service failed: {reason}", attempts=attempt, host=self._url.host)

    def _wait(self, attempt: int, asked_for: float | None) -> float:
        if asked_for is not None:
            return asked_for
        full: float = min(self._backoff_s * 2 ** (attempt - 1), self._backoff_cap_s)
        return full * random.uniform(0.5, 1.0)

    async def _ask(self, texts: list[str]) -> list[Vector]:
        body: dict[str, Any] = {"model": self._name, "input": texts, "encoding_format": "float"}
        if self._shorten:
            body["dimensions"] = self._dimension
        try:
            answer = await self._connected().post(self._url, json=body)
        except httpx.TimeoutException:
            raise _TryAgain("no answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # Not chained: the exception holds the request, and the request holds the key.
            raise _TryAgain(self._scrub(f"{type(error).__name__}: {error}")) from None
        if answer.status_code in _WORTH_ANOTHER_TRY:
            raise _TryAgain(f"HTTP {answer.status_code} {self._told(answer)}", _retry_after(answer))
        if answer.status_code != 200:
            raise EmbedderFailed(
                f"the embedding service refused: HTTP {answer.status_code} {self._told(answer)}",
                http_status=answer.status_code,
                host=self._url.host,
            )
        try:
            data = answer.json()
        except ValueError:
            raise _TryAgain("the answer is not JSON") from None
        return self._check(data, len(texts))

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            headers = {"Authorization": f"Bearer {self._key.reveal()}"} if self._key else {}
            self._client = httpx.AsyncClient(headers=headers, timeout=self._timeout_s)
        return self._client

    def _told(self, answer: httpx.Response) -> str:
        return self._scrub(answer.text)[:_SHOWN_OF_AN_ANSWER].strip()

    def _scrub(self, text: str) -> str:
        """Some services quote the key they refuse."""
        return text.replace(self._key.reveal(), repr(self._key)) if self._key else text

    def _check(self, data: Any, count: int) -> list[Vector]:
        items = data.get("data") if isinstance(data, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise EmbedderFailed("the answer holds no list of embeddings", host=self._url.host)
        if len(items) != count:
            raise EmbedderFailed(f"{count} texts were sent and {len(items)} embeddings came back", host=self._url.host)
        places = [item.get("index", place) for place, item in enumerate(items)]
        if sorted(places, key=str) != sorted(range(count), key=str):
            raise EmbedderFailed("the embeddings are not numbered as the texts were", host=self._url.host)
        vectors: list[Vector] = [np.empty(0, np.float32)] * count
        for place, item in zip(places, items, strict=True):
            vectors[place] = self._vector(item.get("embedding"))
        return vectors

    def _vector(self, numbers: Any) -> Vector:
        try:
            vector = np.asarray(numbers, dtype=np.float64)
        except (TypeError, ValueError):
            raise EmbedderFailed("an embedding is not a list of numbers", host=self._url.host) from None
        if vector.ndim != 1 or not vector.size:
            raise EmbedderFailed("an embedding is not a list of numbers", host=self._url.host)
        if self._dimension is None:
            self._dimension = vector.size
        if vector.size != self._dimension:
            raise EmbedderFailed(
                f"an embedding has {vector.size} dimensions instead of {self._dimension}", host=self._url.host
            )
        length = math.hypot(*vector)
        if not math.isfinite(length) or length == 0.0:
            raise EmbedderFailed("an embedding is zero or not a number", host=self._url.host)
        return (vector / length).astype(np.float32)


def _retry_after(answer: httpx.Response) -> float | None:
    """Seconds, or a date."""
    value = answer.headers.get("Retry-After", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = moment.timestamp() - time.time()
    return max(seconds, 0.0) if math.isfinite(seconds) else None
