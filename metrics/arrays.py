"""Names for the arrays that travel through this package, and the one order of summation."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]
Objects: TypeAlias = NDArray[np.object_]
Array: TypeAlias = NDArray[Any]


def sum_in_order(terms: Array) -> Floats:
    """Sum over the last axis from left to right: (..., n) -> (...) float64.

    `ndarray.sum` groups its terms by the length of the axis, so padding a list could move its last
    bit; strictly left to right (as trec_eval adds) a query's value does not depend on its batch.
    """
    width = terms.shape[-1]
    if not 0 < width * width <= terms.size:  # more columns than rows
        sums: Floats = np.cumsum(terms, axis=-1, dtype=np.float64)[..., -1]
        return sums
    total: Floats = terms[..., 0].astype(np.float64)
    for column in range(1, width):  # the same additions in the same order, without partial sums
        total += terms[..., column]
    return total


def ratio(numerator: Array, denominator: Array) -> Floats:
    """numerator / denominator, 0 where the denominator is 0: (...) float64."""
    top = np.asarray(numerator, dtype=np.float64)
    bottom = np.asarray(denominator, dtype=np.float64)
    quotient: Floats = np.divide(
        top, bottom, out=np.zeros(np.broadcast(top, bottom).shape), where=bottom > 0
    )
    return quotient


def present_columns(lengths: Integers, width: int) -> Booleans:
    """Which cells of a padded array hold a value: (n,) lengths -> (n, width) bool."""
    present: Booleans = np.arange(width) < lengths[:, None]
    return present


def padded(values: Array, present: Booleans, fill: object) -> Array:
    """Flat ragged rows as one padded array: (sum of lengths,) -> the shape of `present`."""
    if len(values) == present.size:
        return values.reshape(present.shape)
    cells = np.full(present.shape, fill, dtype=values.dtype)
    cells[present] = values
    return cells


def taken(values: Array, columns: Integers) -> Array:
    """values[i, columns[i, j]] for every cell: (n, width, ...), (n, m) -> (n, m, ...).

    `np.take_along_axis` by flat numbers, which is four times as fast.
    """
    cells = columns + np.arange(len(columns))[:, None] * values.shape[1]
    flat = values.reshape(-1, *values.shape[2:])
    found: Array = np.take(flat, cells, axis=0)
    return found


def ragged_rows(starts: Integers, lengths: Integers) -> Integers:
    """Flat indices of the ragged rows that begin at `starts`: (n,), (n,) -> (sum of lengths,)."""
    ends = np.cumsum(lengths)
    shift: Integers = np.repeat(starts - (ends - lengths), lengths)
    return shift + np.arange(len(shift))
