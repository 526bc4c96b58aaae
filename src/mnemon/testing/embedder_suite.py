"""What every embedder must do, as tests: subclass `EmbedderContract` and give it an `embedder`."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from mnemon.contracts.entries import EmbeddingVector
from mnemon.contracts.ports import Embedder

TEXTS = (
    "My sister moved to Lisbon last spring.",
    "我妹妹去年春天搬到了里斯本。",
    "Peanuts make me ill.",
    "I bought 两张 train tickets for 星期五.",
    "ok",
    "😀 !!! ...",
    "Straße, naïve café, ﬁne",
    "医生建议他每天早上散步半个小时。",
    "the the the the the",
    "A somewhat longer sentence, which speaks about nothing in particular and then, after a while, ends.",
    "tab\tand\nnew line",
    "Peanuts make me ill!",
)


def _same(left: EmbeddingVector, right: EmbeddingVector) -> bool:
    return left.dense_vector.tobytes() == right.dense_vector.tobytes()


class EmbedderContract:
    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError("a contract test says how its embedder is made")

    async def test_vectors_have_length_one_and_the_right_dimension(self, embedder: Embedder) -> None:
        vectors = await embedder.embed_texts(TEXTS)
        assert len(vectors) == len(TEXTS)
        for vector in vectors:
            assert vector.dense_vector.dtype == np.float32
            assert vector.dense_vector.shape == (embedder.dimension,)
            assert abs(float(np.linalg.norm(vector.dense_vector)) - 1) < 1e-5
            assert vector.model == embedder.model

    async def test_the_model_has_a_name_that_stays(self, embedder: Embedder) -> None:
        before = embedder.model
        await embedder.embed_texts(["x"])
        assert before
        assert embedder.model == before
        assert isinstance(embedder.semantic, bool)

    async def test_order_is_kept(self, embedder: Embedder) -> None:
        forwards = await embedder.embed_texts(TEXTS)
        backwards = await embedder.embed_texts(TEXTS[::-1])
        assert all(_same(a, b) for a, b in zip(forwards, backwards[::-1], strict=True))

    async def test_nothing_gives_nothing(self, embedder: Embedder) -> None:
        assert await embedder.embed_texts([]) == []

    @pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b", "\x00", "\ud800"])
    async def test_texts_without_words_have_a_vector_too(self, embedder: Embedder, text: str) -> None:
        (vector,) = await embedder.embed_texts([text])
        assert np.isfinite(vector.dense_vector).all()
        assert abs(float(np.linalg.norm(vector.dense_vector)) - 1) < 1e-5

    @pytest.mark.parametrize("text", ["word " * 5000, "字" * 5000, "x" * 20_000])
    async def test_long_texts(self, embedder: Embedder, text: str) -> None:
        (vector,) = await embedder.embed_texts([text])
        assert abs(float(np.linalg.norm(vector.dense_vector)) - 1) < 1e-5

    async def test_equal_texts_have_equal_vectors(self, embedder: Embedder) -> None:
        vectors = await embedder.embed_texts([TEXTS[0], TEXTS[1], TEXTS[0], TEXTS[1], TEXTS[0]])
        assert _same(vectors[0], vectors[2])
        assert _same(vectors[0], vectors[4])
        assert _same(vectors[1], vectors[3])
        assert not _same(vectors[0], vectors[1])

    async def test_the_same_again(self, embedder: Embedder) -> None:
        first = await embedder.embed_texts(TEXTS, "query")
        second = await embedder.embed_texts(TEXTS, "query")
        assert all(_same(a, b) for a, b in zip(first, second, strict=True))

    async def test_a_vector_does_not_depend_on_its_neighbours(self, embedder: Embedder) -> None:
        together = await embedder.embed_texts([*TEXTS, *(text.upper() for text in TEXTS)])
        for place, text in enumerate(TEXTS):
            (alone,) = await embedder.embed_texts([text])
            assert _same(alone, together[place]), text

    async def test_many_calls_at_once(self, embedder: Embedder) -> None:
        expected = await embedder.embed_texts(TEXTS)
        rounds = await asyncio.gather(*(embedder.embed_texts(TEXTS[n:]) for n in range(len(TEXTS))))
        for n, vectors in enumerate(rounds):
            assert all(_same(a, b) for a, b in zip(vectors, expected[n:], strict=True))

    async def test_the_same_words_are_closer_than_others(self, embedder: Embedder) -> None:
        asked, same, other = await embedder.embed_texts(["Peanuts make me ill", "Peanuts make me ill!", TEXTS[0]])
        assert asked.dense_vector @ same.dense_vector > asked.dense_vector @ other.dense_vector

    async def test_closing_twice(self, embedder: Embedder) -> None:
        await embedder.embed_texts(["x"])
        await embedder.close()
        await embedder.close()
