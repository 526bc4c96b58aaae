"""The embedder over HTTP, against a real server that misbehaves."""

from __future__ import annotations

import logging
import pickle
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from mnemon.contracts.errors import EmbedderFailed, InvalidArgument
from mnemon.drivers.embed.openai import OpenAIEmbedder
from mnemon.testing.embedding_server import DIMENSION, EmbeddingServer, embedding_server, numbers

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


@pytest.fixture
async def embedder(server: EmbeddingServer) -> AsyncIterator[OpenAIEmbedder]:
    made = make(server)
    yield made
    await made.close()


def make(server: EmbeddingServer, **options: Any) -> OpenAIEmbedder:
    settings: dict[str, Any] = {"backoff_s": 0.01, "timeout_s": 5, "total_timeout_s": 10, "attempts": 4}
    return OpenAIEmbedder(server.url, "m1", KEY, **(settings | options))


def unit(text: str) -> np.ndarray:
    vector = np.array(numbers(text))
    return vector / np.linalg.norm(vector)


async def test_vectors_come_back_normalised_and_the_dimension_is_found_out(
    embedder: OpenAIEmbedder, server: EmbeddingServer
) -> None:
    with pytest.raises(EmbedderFailed, match="not known"):
        _ = embedder.dimension
    (vector,) = await embedder.embed_texts(["hello"])
    assert embedder.dimension == DIMENSION
    assert vector.dense_vector == pytest.approx(unit("hello"), abs=1e-6)
    assert server.keys == [f"Bearer {KEY}"]
    assert server.requests[0]["model"] == "m1"
    assert "dimensions" not in server.requests[0]


async def test_batches_are_bounded_by_count_and_by_characters(server: EmbeddingServer) -> None:
    embedder = make(server, batch_texts=3, batch_chars=20, concurrency=1)
    texts = ["a", "b", "c", "d", "x" * 15, "y" * 15, "z" * 50]
    vectors = await embedder.embed_texts(texts)
    assert [request["input"] for request in server.requests] == [texts[:3], texts[3:5], texts[5:6], texts[6:]]
    for text, vector in zip(texts, vectors, strict=True):
        assert vector.dense_vector == pytest.approx(unit(text), abs=1e-6)
    await embedder.close()


async def test_shuffled_answers_are_put_in_order(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    server.script = ["shuffled"]
    vectors = await embedder.embed_texts(["a", "b", "c"])
    for text, vector in zip("abc", vectors, strict=True):
        assert vector.dense_vector == pytest.approx(unit(text), abs=1e-6)


@pytest.mark.parametrize("trouble", ["429:0", "500", "badjson", "cut", "429:", "429:nonsense"])
async def test_passing_trouble_is_waited_out(embedder: OpenAIEmbedder, server: EmbeddingServer, trouble: str) -> None:
    server.script = [trouble, trouble]
    assert len(await embedder.embed_texts(["a", "b"])) == 2
    assert len(server.requests) == 3


async def test_retry_after_is_obeyed(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    server.script = ["429:0.3"]
    start = time.monotonic()
    await embedder.embed_texts(["a"])
    assert time.monotonic() - start >= 0.3


async def test_a_service_that_asks_for_too_long_a_wait_is_given_up_at_once(server: EmbeddingServer) -> None:
    embedder = make(server)
    server.script = ["429:3600"]
    start = time.monotonic()
    with pytest.raises(EmbedderFailed, match="HTTP 429"):
        await embedder.embed_texts(["a"])
    assert time.monotonic() - start < 600, "nobody waited for an hour"
    await embedder.close()


async def test_tries_are_bounded(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    server.script = ["500"] * 10
    with pytest.raises(EmbedderFailed, match="HTTP 500") as caught:
        await embedder.embed_texts(["a"])
    assert caught.value.attempts == 4
    assert len(server.requests) == 4


async def test_a_slow_answer_is_tried_again_and_the_whole_is_bounded(server: EmbeddingServer) -> None:
    embedder = make(server, timeout_s=0.2, attempts=3)
    server.script = ["slow:0.6"] * 3
    with pytest.raises(EmbedderFailed, match="in time"):
        await embedder.embed_texts(["a"])
    await embedder.close()
    patient = make(server, timeout_s=1.5, attempts=3, total_timeout_s=60)
    server.script = ["slow:2"]
    assert len(await patient.embed_texts(["a"])) == 1
    await patient.close()
    hurried = make(server, timeout_s=60, total_timeout_s=0.2)
    server.script = ["slow:1"]
    with pytest.raises(EmbedderFailed, match="in time"):
        await hurried.embed_texts(["a"])
    await hurried.close()


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("401", "HTTP 401"),
        ("short", "2 texts were sent and 1 embeddings"),
        ("double", "not numbered"),
        ("nolist", "no list"),
        ("nan", "not a number"),
        ("words", "not a list of numbers"),
        ("dimension", "17 dimensions instead of 16"),
    ],
)
async def test_wrong_answers_are_refused(
    embedder: OpenAIEmbedder, server: EmbeddingServer, mode: str, message: str
) -> None:
    server.script = [mode]
    with pytest.raises(EmbedderFailed, match=message):
        await embedder.embed_texts(["a", "b"])
    assert len(server.requests) == 1


async def test_a_dimension_that_is_given_is_checked_and_can_be_asked_for(server: EmbeddingServer) -> None:
    wrong = make(server, dimension=8)
    with pytest.raises(EmbedderFailed, match="16 dimensions instead of 8"):
        await wrong.embed_texts(["a"])
    await wrong.close()
    shorter = make(server, dimension=16, shorten=True)
    await shorter.embed_texts(["a"])
    assert server.requests[-1]["dimensions"] == 16
    assert shorter.model == "openai/m1/16"
    await shorter.close()


async def test_prefixes_tell_questions_from_documents(server: EmbeddingServer) -> None:
    embedder = make(server, query_prefix="query: ", document_prefix="passage: ")
    await embedder.embed_texts(["a"], "query")
    await embedder.embed_texts(["a"])
    assert [request["input"] for request in server.requests] == [["query: a"], ["passage: a"]]
    assert embedder.model.startswith("openai/m1/prefix-")
    await embedder.close()


async def test_nobody_listens() -> None:
    embedder = OpenAIEmbedder("http://127.0.0.1:9/v1", "m1", KEY, attempts=2, backoff_s=0.01)
    with pytest.raises(EmbedderFailed, match="ConnectError"):
        await embedder.embed_texts(["a"])
    await embedder.close()


def test_a_bad_url_is_refused() -> None:
    for url in ("http://user:pass@host/v1", "ftp://host", "host/v1"):
        with pytest.raises(InvalidArgument) as caught:
            OpenAIEmbedder(url, "m1", KEY)
        assert "pass" not in str(caught.value).replace("pass the", "")


@pytest.mark.parametrize("mode", ["401", "500", "429:3600", "cut", "short", "badjson", "nan"])
async def test_the_key_shows_up_nowhere(
    server: EmbeddingServer, mode: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    embedder = make(server)
    server.script = [mode] * 10
    with pytest.raises(EmbedderFailed) as caught:
        await embedder.embed_texts(["a", "b"])
    shown = [
        str(caught.value),
        repr(caught.value),
        str(caught.value.envelope()),
        "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()),
        repr(embedder),
        str(vars(embedder)),
        caplog.text,
        *capfd.readouterr(),
    ]
    assert caught.value.__cause__ is None
    await embedder.close()
    assert not any(KEY in text for text in shown)


def test_the_key_does_not_travel_with_a_pickle(server: EmbeddingServer) -> None:
    with pytest.raises((TypeError, AttributeError)):
        pickle.dumps(make(server))
