"""An embedder without a model: words and pieces of words, hashed. It matches spelling, NOT meaning."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence

import numpy as np

from mnemon.contracts.entries import EmbeddingVector, Vector
from mnemon.contracts.ports import Purpose
from mnemon.logic.text import fold, pieces

WARNING = (
    "embed:hash is NOT semantic: it finds texts that share words or letters with the question, never texts that mean "
    "the same in other words or another language. Use embed:local or an embeddings URL for real recall."
)

DIMENSION = 256
_NOTHING = {"nothing": 1.0}
# In 256 dimensions the words of more than a few pages fill every one of them, and tell nothing apart.
_LONGEST_CHARS = 20_000


class HashEmbedder:
    """Signed feature hashing into 256 dimensions. `WARNING` says what not to expect of it."""

    model = "hash/words+grams-256-1"
    dimension = DIMENSION
    semantic = False
    warning = WARNING

    async def embed_texts(self, texts: Sequence[str], purpose: Purpose = "document") -> list[EmbeddingVector]:
        return [EmbeddingVector(dense_vector=_vector(text), model=self.model) for text in texts]

    async def close(self) -> None:
        return None


def _features(text: str) -> Iterator[tuple[str, float]]:
    """Whole words weigh most; parts of them let forms of one word meet. Chinese: characters, and pairs of them."""
    for run, word in pieces(fold(text[:_LONGEST_CHARS])):
        if run:
            yield from ((f"c:{char}", 0.5) for char in run)
            yield from ((f"p:{run[i : i + 2]}", 1.0) for i in range(len(run) - 1))
        else:
            yield f"w:{word}", 1.0
            padded = f"^{word}$"
            share = 1 / math.sqrt(len(padded))
            yield from ((f"g:{padded[i : i + 3]}", share) for i in range(len(padded) - 2))


def _vector(text: str) -> Vector:
    weights: dict[str, float] = {}
    for feature, weight in _features(text):
        weights[feature] = weights.get(feature, 0.0) + weight
    vector = _sum(weights)
    length = math.hypot(*vector)
    if length < 1e-9:  # no words at all, or words that cancel each other out
        vector = _sum(_NOTHING)
        length = math.hypot(*vector)
    return (vector / length).astype(np.float32)


def _sum(weights: dict[str, float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    vector = np.zeros(DIMENSION, np.float64)
    for feature, weight in weights.items():
        number = int.from_bytes(hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest(), "big")
        # A word said ten times counts more than once, but not ten times.
        vector[number % DIMENSION] += math.copysign(math.sqrt(weight), 1 if number >> 63 else -1)
    return vector
