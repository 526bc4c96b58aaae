"""Sums that come out the same wherever their terms stand: in which row, in which order, on which processor.

A library for linear algebra adds up a row in an order of its own that depends on the row's place in the matrix, on the
rows beside it and on the processor, and rounds after every step. Nothing here leaves it a choice: either no step needs
rounding, or the order is written down."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.contracts.entries import Vector

Numbers = NDArray[np.float64]

_EXACT_BITS = 53  # whole numbers up to 2**53 are float64 without rounding
_FINEST = 23  # and up to 2**24 float32


class Direction(NamedTuple):
    """A question as a row of whole numbers, and the length of that row.

    Products with numbers that are stored as 16-bit floats and have a length of one are whole multiples of 2**-24, and
    so is every sum of them; the numbers are small enough for all of these to be exact in float64."""

    whole: Numbers
    length: float


def direction(vector: Vector) -> Direction:
    """Some 22 bits of each number: as many as leave the square of the length exact."""
    largest = float(np.abs(vector).max())
    if not largest:
        return Direction(np.zeros(len(vector)), 1.0)
    bits = min(_FINEST, (_EXACT_BITS - len(vector).bit_length()) // 2)
    scale = math.ldexp(1.0, bits - math.frexp(largest)[1])
    whole: Numbers = np.multiply(vector, scale, dtype=np.float64)
    np.rint(whole, out=whole)
    return Direction(whole, math.sqrt(float(whole.dot(whole))))


def units(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Every row with length one, so that a product is a cosine; one of length zero is like nothing."""
    length = np.sqrt(row_sums(np.square(matrix, dtype=np.float64))).astype(np.float32)
    length[length == 0] = 1
    found: NDArray[np.float32] = matrix / length[:, None]
    return found


def row_sums(terms: Numbers) -> Numbers:
    """The sum of each row, by folding rows in half: `terms` is used up."""
    width = terms.shape[1]
    while width > 1:
        half = (width + 1) // 2
        terms[:, : width - half] += terms[:, half:width]
        width = half
    return terms[:, 0] if width else np.zeros(len(terms))
