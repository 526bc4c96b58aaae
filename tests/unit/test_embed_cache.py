"""The cache around an embedder: what it saves, keeps, lets go and forgets."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mnemon.contracts.entries import EmbeddingVector
from mnemon.contracts.errors import EmbedderFailed
from mnemon.contracts.ports import Purpose
from mnemon.drivers.embed.cache import CachedEmbedder
from mnemon.drivers.embed.hash import HashEmbedder


class Counting(HashEmbedder):
    def __init__(self, model: str = "counting") -> None:
        self.model = model
        self.asked: list[str] = []
        self.closed = 0

    async def embed_texts(self, texts: Sequence[str], purpose: Purpose = "document") -> list[EmbeddingVector]:
        self.asked += texts
        return await super().embed_texts(texts, purpose)

    async def close(self) -> None:
        self.closed += 1


async def test_a_text_is_embedded_once(tmp_path: Path) -> None:
    inner = Counting()
    cache = CachedEmbedder(inner, tmp_path / "c.db")
    fresh = await cache.embed_texts(["a", "b", "a"])
    assert inner.asked == ["a", "b"]
    again = await cache.embed_texts(["b", "c", "a"])
    assert inner.asked == ["a", "b", "c"]
    assert (cache.hits, cache.misses) == (2, 4)
    assert again[0].dense_vector.tobytes() == fresh[1].dense_vector.tobytes()
    assert again[2].dense_vector.tobytes() == fresh[0].dense_vector.tobytes()
    assert again[0].model == inner.model
    assert again[0].dense_vector.flags.writeable
    await cache.close()
    assert inner.closed == 1


async def test_it_is_still_there_after_reopening_and_only_for_its_model(tmp_path: Path) -> None:
    for model, asked in (("one", ["a"]), ("one", []), ("two", ["a"])):
        inner = Counting(model)
        cache = CachedEmbedder(inner, tmp_path / "c.db")
        await cache.embed_texts(["a"])
        await cache.close()
        assert inner.asked == asked


async def test_purposes_are_kept_apart_where_they_matter(tmp_path: Path) -> None:
    inner = Counting()
    apart = CachedEmbedder(inner)
    await apart.embed_texts(["a"], "query")
    await apart.embed_texts(["a"], "document")
    assert inner.asked == ["a", "a"]
    await apart.close()
    alike = CachedEmbedder(inner, purpose_matters=False)
    await alike.embed_texts(["b"], "query")
    await alike.embed_texts(["b"], "document")
    assert inner.asked == ["a", "a", "b"]
    await alike.close()


async def test_it_stays_below_its_size_and_keeps_what_was_used_last() -> None:
    inner = Counting()
    row = inner.dimension * 4 + 100
    cache = CachedEmbedder(inner, max_bytes=200 * row)
    for n in range(400):
        await cache.embed_texts([f"text {n}", "a favourite"])
    assert inner.asked.count("a favourite") < 8
    asked = len(inner.asked)
    await cache.embed_texts([f"text {n}" for n in range(390, 400)])
    assert len(inner.asked) == asked
    await cache.embed_texts([f"text {n}" for n in range(10)])
    assert len(inner.asked) == asked + 10
    await cache.close()


async def test_forgetting(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    first, second = CachedEmbedder(Counting("one"), path), CachedEmbedder(Counting("two"), path)
    await first.embed_texts(["a secret"])
    await first.embed_texts(["kept"])
    await second.embed_texts(["a secret"], "query")
    assert await first.forget(["a secret", "never seen"]) == 2
    assert await first.forget(["a secret"]) == 0
    await second.embed_texts(["a secret"])
    await first.embed_texts(["kept"])
    assert second.misses == 2
    assert first.hits == 1
    await first.close()
    await second.close()


async def test_erased_vectors_leave_no_bytes(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    cache = CachedEmbedder(HashEmbedder(), path)
    vectors = await cache.embed_texts(["a secret", "kept"])
    await cache.forget(["a secret"])
    await cache.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert vectors[0].dense_vector.tobytes() not in stored
    assert vectors[1].dense_vector.tobytes() in stored


async def test_nothing_of_what_is_forgotten_stays_while_others_have_the_file_open(tmp_path: Path) -> None:
    """Neither a piece of a vector nor the hash of a text, in whatever file, for whatever purpose it was made."""
    path = tmp_path / "c.db"
    one, two = CachedEmbedder(Counting(), path), CachedEmbedder(Counting("other"), path)
    secrets = {f"秘密 {n}": b"" for n in range(40)}
    for n, text in enumerate(secrets):
        made = await (one, two)[n % 2].embed_texts([text, f"kept {n}"], ("document", "query")[n % 3 == 0])
        secrets[text] = made[0].dense_vector.tobytes()
        await one.forget(list(secrets)[:n:7])
    await one.forget(list(secrets))
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for text, vector in secrets.items():
        assert hashlib.sha256(text.encode()).digest() not in stored
        pieces = (vector[at : at + 32] for at in range(0, len(vector), 32))
        assert not any(piece in stored for piece in pieces if any(piece))
    await two.embed_texts([f"kept {n}" for n in range(1, 40, 2) if n % 3], "document")
    assert two.misses == 40, "what is kept is still there"
    await one.close()
    await two.close()


async def test_a_spoiled_file_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_bytes(b"this is no database, and long enough to be read as one" * 50)
    cache = CachedEmbedder(HashEmbedder(), tmp_path / "c.db")
    assert len(await cache.embed_texts(["a"])) == 1
    await cache.close()


async def test_a_failing_embedder_leaves_nothing_behind() -> None:
    class Failing(HashEmbedder):
        async def embed_texts(self, texts: Sequence[str], purpose: Purpose = "document") -> list[EmbeddingVector]:
            raise EmbedderFailed("down")

    cache = CachedEmbedder(Failing())
    for _ in range(2):
        with pytest.raises(EmbedderFailed):
            await cache.embed_texts(["a"])
    assert cache.hits == 0
    await cache.close()


async def test_what_has_a_sparse_part_is_passed_on() -> None:
    class Sparse(Counting):
        async def embed_texts(self, texts: Sequence[str], purpose: Purpose = "document") -> list[EmbeddingVector]:
            self.asked += texts
            return [EmbeddingVector(np.ones(1, np.float32), {3: 0.5}, self.model) for _ in texts]

    inner = Sparse()
    cache = CachedEmbedder(inner)
    for _ in range(2):
        (vector,) = await cache.embed_texts(["a"])
        assert vector.sparse_vector == {3: 0.5}
    assert inner.asked == ["a", "a"]
    await cache.close()


async def test_several_processes_share_one_file(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from mnemon.drivers.embed.cache import CachedEmbedder\n"
        "from mnemon.drivers.embed.hash import HashEmbedder\n"
        "async def main():\n"
        "    cache = CachedEmbedder(HashEmbedder(), sys.argv[1])\n"
        "    for n in range(60):\n"
        "        await cache.embed_texts([f'text {n}', f'own {sys.argv[2]} {n}'])\n"
        "    await cache.close()\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "c.db"
    children = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(path), str(n), stderr=subprocess.PIPE)
        for n in range(3)
    ]
    for child in children:
        _, errors = await child.communicate()
        assert child.returncode == 0, errors.decode()
    cache = CachedEmbedder(HashEmbedder(), path)
    await cache.embed_texts([f"text {n}" for n in range(60)] + [f"own {m} {n}" for m in range(3) for n in range(60)])
    assert cache.misses == 0
    await cache.close()
