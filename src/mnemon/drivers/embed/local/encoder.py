"""The transformer itself, in plain numpy: token numbers in, one vector of length one out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.drivers.embed.local.weights import Tensors

Array = NDArray[np.float32]

LAYERS = 6
HEADS = 12
WIDTH = 384
HEAD_WIDTH = WIDTH // HEADS
LONGEST = 256
"""Tokens the model was trained to read; the rest of a longer text is not seen."""

_ROWS_AT_ONCE = 256
_GELU_ROWS = 16
_SAFE_SCORE = np.float32(80)
_EPSILON = np.float32(1e-12)

# Abramowitz & Stegun 7.1.26: erf to 1.5e-7, about what float32 holds.
_P = np.float32(0.3275911)
_A = tuple(np.float32(a) for a in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
_SQRT_HALF = np.float32(0.5**0.5)
_HALF = np.float32(0.5)
_ONE = np.float32(1)


class _Dense(NamedTuple):
    weight: Array
    bias: Array

    def __call__(self, rows: Array) -> Array:
        out = rows @ self.weight
        out += self.bias
        return out


class _Norm(NamedTuple):
    weight: Array
    bias: Array

    def __call__(self, rows: Array) -> Array:
        """In place."""
        rows -= rows.mean(axis=-1, keepdims=True)
        spread = np.einsum("ij,ij->i", rows, rows)
        spread /= np.float32(WIDTH)
        spread += _EPSILON
        rows /= np.sqrt(spread)[:, None]
        rows *= self.weight
        rows += self.bias
        return rows


class _Layer(NamedTuple):
    qkv: _Dense
    out: _Dense
    attention_norm: _Norm
    up: _Dense
    down: _Dense
    output_norm: _Norm


class Encoder:
    """A vector depends on its text alone, to the last bit.

    Texts are never padded. Texts of one length share matrix products only where the linear algebra library has shown
    that a row of a product does not depend on the rows beside it; elsewhere every text is computed alone.
    """

    def __init__(self, tensors: Tensors) -> None:
        self._words = tensors["embeddings.word_embeddings.weight"]
        # Every text is one segment, so its type is added to the positions once.
        types = tensors["embeddings.token_type_embeddings.weight"]
        self._positions = tensors["embeddings.position_embeddings.weight"][:LONGEST] + types[0]
        self._norm = _norm(tensors, "embeddings")
        self._layers = [_layer(tensors, f"encoder.layer.{n}") for n in range(LAYERS)]
        self.shares_products = all(_rows_stand_alone(dense) for dense in self._layers[0] if isinstance(dense, _Dense))

    def encode(self, texts: Sequence[Sequence[int]]) -> list[Array]:
        """Vectors in the order of the texts, each text a list of token numbers."""
        by_length: dict[int, list[int]] = {}
        for place, tokens in enumerate(texts):
            by_length.setdefault(len(tokens), []).append(place)
        vectors: list[Array] = [self._positions[0]] * len(texts)
        for length, places in by_length.items():
            size = max(_ROWS_AT_ONCE // length, 1) if self.shares_products else 1
            for start in range(0, len(places), size):
                block = places[start : start + size]
                computed = self._forward([texts[place] for place in block])
                for place, vector in zip(block, computed, strict=True):
                    vectors[place] = vector.copy()
        return vectors

    def _forward(self, block: Sequence[Sequence[int]]) -> Array:
        tokens = np.array(block, dtype=np.int64)
        texts, length = tokens.shape
        rows = (self._words[tokens] + self._positions[:length]).reshape(texts * length, WIDTH)
        self._norm(rows)
        for layer in self._layers:
            mixed = layer.out(_attend(layer.qkv(rows), texts, length))
            mixed += rows
            layer.attention_norm(mixed)
            rows = layer.down(_gelu(layer.up(mixed)))
            rows += mixed
            layer.output_norm(rows)
        pooled: Array = rows.reshape(texts, length, WIDTH).mean(axis=1)
        pooled /= np.sqrt(np.einsum("ij,ij->i", pooled, pooled))[:, None]
        return pooled


def _attend(qkv: Array, texts: int, length: int) -> Array:
    query, key, value = qkv.reshape(texts, length, 3, HEADS, HEAD_WIDTH).transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-1, -2)
    # exp() of a score this large would not fit; it never happens with real text, so the usual pass over all rows to
    # subtract their maximum is saved. The choice is made for each text by itself.
    for each in scores:
        if max(each.max(), -each.min()) > _SAFE_SCORE:
            each -= each.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    mixed: Array = scores @ value
    mixed /= scores.sum(axis=-1, keepdims=True)
    return mixed.transpose(0, 2, 1, 3).reshape(texts * length, WIDTH)


def _gelu(rows: Array) -> Array:
    """x·Φ(x) in place, as max(x, 0) - |x|·erfc(|x|/√2)/2; a few rows at a time so that they stay in the cache."""
    size = np.empty((_GELU_ROWS, rows.shape[1]), np.float32)
    t, tail = np.empty_like(size), np.empty_like(size)
    for start in range(0, len(rows), _GELU_ROWS):
        x = rows[start : start + _GELU_ROWS]
        z, t_, y = size[: len(x)], t[: len(x)], tail[: len(x)]
        np.abs(x, out=z)
        np.maximum(x, 0, out=x)
        np.multiply(z, _P * _SQRT_HALF, out=t_)
        t_ += _ONE
        np.reciprocal(t_, out=t_)
        np.multiply(t_, _A[0], out=y)
        for a in _A[1:]:
            y += a
            y *= t_
        np.multiply(z, z, out=t_)
        t_ *= -_HALF
        np.exp(t_, out=t_)
        y *= t_
        y *= z
        y *= _HALF
        x -= y
    return rows


def _layer(tensors: Tensors, at: str) -> _Layer:
    query, key, value = (_dense(tensors, f"{at}.attention.self.{name}") for name in ("query", "key", "value"))
    scale = np.float32(HEAD_WIDTH**-0.5)
    qkv = _Dense(
        np.concatenate([query.weight * scale, key.weight, value.weight], axis=1),
        np.concatenate([query.bias * scale, key.bias, value.bias]),
    )
    return _Layer(
        qkv=qkv,
        out=_dense(tensors, f"{at}.attention.output.dense"),
        attention_norm=_norm(tensors, f"{at}.attention.output"),
        up=_dense(tensors, f"{at}.intermediate.dense"),
        down=_dense(tensors, f"{at}.output.dense"),
        output_norm=_norm(tensors, f"{at}.output"),
    )


def _dense(tensors: Tensors, at: str) -> _Dense:
    return _Dense(np.ascontiguousarray(tensors[f"{at}.weight"].T), tensors[f"{at}.bias"])


def _norm(tensors: Tensors, at: str) -> _Norm:
    return _Norm(tensors[f"{at}.LayerNorm.weight"], tensors[f"{at}.LayerNorm.bias"])


def _rows_stand_alone(dense: _Dense) -> bool:
    """Whether products of a few rows come out the same, bit for bit, when they are computed with others."""
    inputs = len(dense.weight)
    rows = np.sin(np.arange(96 * inputs, dtype=np.float32)).reshape(96, inputs)
    together = rows @ dense.weight
    return all(
        np.array_equal(rows[start : start + length] @ dense.weight, together[start : start + length])
        for start, length in ((0, 3), (3, 8), (11, 13), (24, 20), (44, 33), (77, 19))
    )
