"""What a row is worth does not depend on its place, its neighbours, or what multiplies it: on any processor."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mnemon.drivers.embed.local import weights
from mnemon.drivers.index.sqlite import ranking
from mnemon.drivers.index.sqlite.segment import Segment, build
from mnemon.logic.exact import direction, row_sums, units

# Old and new kernels of the same library, none of which a processor of our days lacks.
KERNELS = {
    "x86_64": ("Prescott", "Nehalem", "Haswell"),
    "aarch64": ("ARMV8", "THUNDERX2T99", "NEOVERSEN1"),
}.get(platform.machine(), ("",))
WIDTH = 384
ROWS = units(np.random.default_rng(7).standard_normal((330, WIDTH)).astype(np.float32)).astype(np.float16)
QUESTIONS = np.random.default_rng(8).standard_normal((3, WIDTH)).astype(np.float32) * np.float32(0.3)


def segment(order: list[int]) -> Segment:
    vectors = [ROWS[n].tobytes() for n in order]
    return build(order, [f"e{n:03}" for n in order], [b""] * len(order), vectors, WIDTH)


def layouts() -> dict[str, list[Segment]]:
    """The same rows in one piece, backwards, shuffled, cut where kernels cut, one by one, and not aligned."""
    every = list(range(len(ROWS)))
    shuffled = np.random.default_rng(9).permutation(every).tolist()
    cuts = [0, 1, 4, 9, 40, 41, 300, 329, 330]
    askew = segment(every)
    room = np.empty(askew.matrix.size + 1, dtype=askew.matrix.dtype)[1:].reshape(askew.matrix.shape)
    room[:] = askew.matrix
    askew.matrix = room
    return {
        "whole": [segment(every)],
        "backwards": [segment(every[::-1])],
        "shuffled": [segment(shuffled)],
        "cut": [segment(shuffled[a:b]) for a, b in pairwise(cuts)],
        "alone": [segment([n]) for n in every],
        "askew": [askew],
    }


def told(segments: list[Segment], question: np.ndarray, limit: int = len(ROWS)) -> list[tuple[float, str]]:
    """All hits, in pages of `limit`."""
    scores = ranking.by_vector(segments, direction(question))
    after: tuple[float, str] | None = None
    hits: list[tuple[float, str]] = []
    while page := ranking.best(segments, scores, limit, after, None):
        hits += [(score, id_) for score, id_, _, _ in page]
        after = hits[-1]
    return hits


def everything() -> list[list[tuple[float, str]]]:
    made = layouts()
    found = [told(made["whole"], question) for question in QUESTIONS]
    for name, segments in made.items():
        for question, expected in zip(QUESTIONS, found, strict=True):
            assert told(segments, question) == expected, name
            assert told(segments, question, 120) == expected, f"{name}, page by page"
    return found


def test_hits_scores_and_pages_are_the_same_wherever_rows_stand() -> None:
    for question, found in zip(QUESTIONS, everything(), strict=True):
        whole = [Fraction(float(x)) for x in question]
        length = float(sum(x * x for x in whole)) ** 0.5
        for score, id_ in found[::30]:
            row = [Fraction(float(x)) for x in ROWS[int(id_[1:])]]
            cosine = float(sum(a * b for a, b in zip(row, whole, strict=True))) / length
            assert abs(score - cosine) < 1.6e-6, "told to six decimals, from 22 bits of the question"


def test_a_row_is_worth_the_same_in_the_middle_of_a_tie() -> None:
    """A hundred times one row, among the rest: none of its copies is a hair better than another."""
    order = [*range(300), *[5] * 100, *range(300, 330)]
    vectors = [ROWS[n].tobytes() for n in order]
    made = build(list(range(430)), [f"{n:03}" for n in range(430)], [b""] * 430, vectors, WIDTH)
    hits = told([made], ROWS[5].astype(np.float32), 33)
    assert [id_ for _, id_ in hits[:101]] == sorted(["005", *(f"{n}" for n in range(300, 400))])
    assert len({score for score, _ in hits[:101]}) == 1


def test_sums_and_lengths_depend_on_the_row_alone() -> None:
    rows = np.random.default_rng(3).standard_normal((64, 23))
    together = row_sums(rows.copy())
    assert together.tolist() == [row_sums(row[None].copy())[0] for row in rows]
    assert np.allclose(together, rows.sum(axis=1))
    matrix = rows.astype(np.float32)
    assert np.array_equal(units(matrix), np.concatenate([units(row[None]) for row in matrix]))
    assert units(np.zeros((1, 4), np.float32)).tolist() == [[0, 0, 0, 0]]
    nothing = direction(np.zeros(4, np.float32))
    assert (nothing.whole.tolist(), nothing.length) == ([0, 0, 0, 0], 1.0)


def with_kernel(kernel: str, program: str) -> str:
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(__file__).parent)
    assert done.returncode == 0, f"{kernel}: {done.stderr}"
    return done.stdout


def test_every_kernel_tells_the_same() -> None:
    here = repr(everything())
    for kernel in KERNELS:
        assert with_kernel(kernel, "import test_exact; print(end=repr(test_exact.everything()))") == here, kernel


_ENCODE = """
import asyncio, numpy as np
from mnemon.drivers.embed.local import LocalEmbedder
words = "我 对 花生 过敏 the late train to Chengdu leaves at nine on 周五 with my sister and her dog".split()
texts = [" ".join((words * 6)[n % 7 : n % 7 + n]) for n in (1, 2, 3, 5, 8, 8, 8, 13, 13, 21, 21)]
async def main():
    embedder = LocalEmbedder()
    together = await embedder.embed_texts(texts)
    for text, one in zip(texts, together):
        (alone,) = await embedder.embed_texts([text])
        assert np.array_equal(alone.dense_vector, one.dense_vector), text
asyncio.run(main())
"""


@pytest.mark.local_model
@pytest.mark.skipif(importlib.util.find_spec(weights.PACKAGE) is None, reason="the weights are not installed")
@pytest.mark.parametrize("kernel", KERNELS[-2:])
def test_a_vector_depends_on_its_text_alone_with_every_kernel(kernel: str) -> None:
    with_kernel(kernel, _ENCODE)
