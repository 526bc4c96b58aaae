"""Some rows of one audience, in memory, ready to be scanned: a matrix of vectors and an inverted list of terms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mnemon.contracts.entries import Entry
from mnemon.logic import lexical
from mnemon.logic.exact import Direction, Numbers
from mnemon.logic.lexical import AllOf, AnyOf, Leaf, Query
from mnemon.logic.text import PAIR_BIT

Mask = NDArray[np.bool_]

_EXACT_ROWS = 256
"""So few rows are kept as float64, twice the size: one exact product then costs less than a rough one and a second
look at the best."""
_ROUNDING = 2.0**-24
"""Of one step in float32, relative to a sum of products of two vectors of length one."""


@dataclass(slots=True)
class Segment:
    """`rows` are row numbers of the database; everything else is by position in it."""

    rows: NDArray[np.int64]
    ids: list[str]
    matrix: NDArray[np.float32 | np.float64]
    is_exact: bool  # float64, in which products with a question need no rounding
    dense_at: NDArray[np.int64] | None  # positions of the rows that have a vector; None: all of them
    grams: NDArray[np.uint64]  # sorted, each once
    starts: NDArray[np.int64]
    posted: NDArray[np.int32]  # positions, by gram
    weights: NDArray[np.float32]
    numbers: NDArray[np.uint64]  # the terms of every row, one row after the other
    ends: NDArray[np.int64]  # where each row's terms end
    entries: dict[int, Entry] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        arrays = (self.rows, self.matrix, self.grams, self.starts, self.posted, self.weights, self.numbers, self.ends)
        return sum(a.nbytes for a in arrays) + 120 * self.count + 1500 * len(self.entries)

    # --- vectors

    def cosines(self, question: Direction) -> Numbers:
        """For every position, `doubt` more or less; -inf where there is no vector."""
        found: Numbers = self.matrix.dot(question.whole if self.is_exact else question.whole.astype(np.float32))
        found = found / question.length
        if self.dense_at is None:
            return found
        scores = np.full(self.count, -np.inf)
        scores[self.dense_at] = found
        return scores

    @property
    def doubt(self) -> float:
        """Rounded at every step, in any order; a little to spare for lengths that are not quite one."""
        return 0.0 if self.is_exact else 1.01 * (self.matrix.shape[1] + 2) * _ROUNDING

    def exact_cosines(self, question: Direction, at: NDArray[np.int64]) -> Numbers:
        """At positions that have a vector, whatever other positions there are."""
        rows = at if self.dense_at is None else self.dense_at.searchsorted(at)
        cosines: Numbers = self.matrix[rows].astype(np.float64).dot(question.whole) / question.length
        return cosines

    # --- words

    def posting(self, gram: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        at = int(self.grams.searchsorted(np.uint64(gram)))
        if at == len(self.grams) or int(self.grams[at]) != gram:
            return self.posted[:0], self.weights[:0]
        lo, hi = self.starts[at], self.starts[at + 1]
        return self.posted[lo:hi], self.weights[lo:hi]

    def matching(self, query: Query) -> Mask:
        match query:
            case Leaf(numbers, strict):
                return self._sequence(query) if strict and len(numbers) > 1 else self._any(query.grams)
            case AllOf(parts):
                every: Mask = np.logical_and.reduce([self.matching(p) for p in parts])
                return every
            case AnyOf(parts, without):
                found: Mask = np.logical_or.reduce([self.matching(p) for p in parts])
                for part in without:
                    found &= ~self.matching(part)
                return found

    def _any(self, grams: list[int]) -> Mask:
        mask = np.zeros(self.count, dtype=np.bool_)
        for gram in grams:
            mask[self.posting(gram)[0]] = True
        return mask

    def _sequence(self, leaf: Leaf) -> Mask:
        """Rows in which the leaf's terms stand one after the other."""
        mask = np.zeros(self.count, dtype=np.bool_)
        length = len(leaf.numbers)
        room = max(0, len(self.numbers) - length + 1)
        at = np.flatnonzero(self.numbers[:room] == np.uint64(leaf.numbers[0]))
        for step, number in enumerate(leaf.numbers[1:], 1):
            at = at[self.numbers[at + step] == np.uint64(number)]
        begins, finishes = (self.ends.searchsorted(at + shift, side="right") for shift in (0, length - 1))
        mask[begins[begins == finishes]] = True
        return mask


def build(rows: list[int], ids: list[str], terms: list[bytes], vectors: list[bytes | None], dimension: int) -> Segment:
    """A segment from what the database holds: terms as 64-bit numbers, vectors as 16-bit floats."""
    present = [i for i, v in enumerate(vectors) if v is not None]
    packed = b"".join(v for v in vectors if v is not None)
    stored = np.frombuffer(packed, dtype=np.float16).reshape(-1, dimension)
    is_exact = len(stored) <= _EXACT_ROWS
    matrix: NDArray[np.float32 | np.float64] = stored.astype(np.float64) if is_exact else stored.astype(np.float32)
    dense_at = None if len(present) == len(rows) else np.array(present, dtype=np.int64)
    numbers = np.frombuffer(b"".join(terms), dtype=np.uint64)
    sizes = np.fromiter((len(t) // 8 for t in terms), dtype=np.int64, count=len(terms))
    inverted = _invert(numbers, sizes)
    return Segment(
        np.array(rows, dtype=np.int64), ids, matrix, is_exact, dense_at, *inverted, numbers, np.cumsum(sizes)
    )


def _invert(
    numbers: NDArray[np.uint64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """For every gram the rows that hold it and its BM25 weight there."""
    owner = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    character = (numbers > 0) & (numbers < PAIR_BIT)
    side_by_side = character[:-1] & character[1:] & (owner[:-1] == owner[1:]) if len(numbers) else character
    pairs = np.uint64(PAIR_BIT) | (numbers[:-1][side_by_side] << np.uint64(21)) | numbers[1:][side_by_side]
    real = numbers > 0
    lengths = np.bincount(owner[real], minlength=len(sizes))
    grams = np.concatenate([numbers[real], pairs])
    owners = np.concatenate([owner[real], owner[:-1][side_by_side]])
    order = np.argsort(grams, kind="stable")  # pairs and single terms never share a number: owners stay in order
    grams, owners = grams[order], owners[order]
    fresh = np.ones(len(grams), dtype=np.bool_)
    fresh[1:] = (grams[1:] != grams[:-1]) | (owners[1:] != owners[:-1])
    at = np.flatnonzero(fresh)
    counts = np.diff(np.append(at, len(grams))).astype(np.float64)  # to the last bit what `lexical.weight` says
    grams, posted = grams[at], owners[at].astype(np.int32)
    norm = lexical.K1 * (1 - lexical.B + lexical.B * lengths[posted] / lexical.REFERENCE_LENGTH)
    weights = (counts * (lexical.K1 + 1) / (counts + norm)).astype(np.float32)
    begins = np.ones(len(grams), dtype=np.bool_)
    begins[1:] = grams[1:] != grams[:-1]
    starts = np.flatnonzero(begins)
    return grams[starts], np.append(starts, len(grams)), posted, weights
