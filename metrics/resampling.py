"""Draws of queries with replacement, shared by many series, summed without rounding.

Sums are exact, hence the same in any order: on any number of threads, in any block size. Values are
rounded once to a grid so fine (about 1e-12 of the largest) and so coarse that every sum of n of
them is a whole number of grid steps below 2^53, which float64 holds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from metrics.arrays import Array, Floats
from metrics.errors import MetricError

CELLS = 1 << 23  # cells of a block of resamples: bounds memory (64 MiB), not results
TILE = 1 << 16  # draws counted at once: they and their counts stay in the cache


def to_grid(values: Array, terms: int) -> tuple[Floats, Floats]:
    """Whole numbers and the step they count: values (n, m) ~ whole * step, step (m,) float64.

    terms: how many values (repetitions included) a sum may have and still be exact. MetricError
    where a value is infinite: its sums mean nothing.
    """
    column = np.asarray(values, dtype=np.float64)
    if not np.isfinite(column).all():
        raise MetricError("values to resample must be finite; leave out queries without a number")
    largest = np.abs(column).max(axis=0, initial=np.finfo(np.float64).tiny)
    _, exponent = np.frexp(largest)  # largest < 2^exponent
    step: Floats = np.ldexp(1.0, exponent - (52 - int(terms).bit_length()))
    return np.rint(column / step), step


def draw_counts(n: int, samples: int, rng: np.random.Generator) -> Iterator[Floats]:
    """How often each of n units is drawn, in blocks of resamples: (block, n) float64 each.

    A block is only valid until the next one: both lie in the same memory.
    """
    counts = np.empty((max(1, min(samples, CELLS // max(n, 1))), n))
    rows = max(1, TILE // max(n, 1))
    begins = (np.arange(rows, dtype=np.int64) * n)[:, None]
    for start in range(0, samples, len(counts)):
        block = counts[: samples - start]
        for at in range(0, len(block), rows):
            tile = block[at : at + rows]
            cells = rng.integers(0, n, size=tile.shape, dtype=np.int32) + begins[: len(tile)]
            tile[:] = np.bincount(cells.ravel(), minlength=tile.size).reshape(tile.shape)
        yield block


def draw_signs(n: int, samples: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Which of n signs are kept (1) or flipped (0), a fair bit each: (block, n) float64 blocks."""
    words = -(-n // 64)
    rows = max(1, CELLS // max(n, 1))
    for start in range(0, samples, rows):
        shape = min(rows, samples - start), words
        drawn = rng.integers(0, 1 << 64, size=shape, dtype=np.uint64)
        drawn = drawn.astype("<u8", copy=False)  # the same bits on any machine
        yield np.unpackbits(drawn.view(np.uint8), axis=1, count=n).astype(np.float64)


def resampled_sums(columns: Floats, samples: int, rng: np.random.Generator) -> Floats:
    """Sum of every column over each resample of its rows: (n, m) -> (samples, m) float64."""
    whole, step = to_grid(columns, len(columns))
    sums = np.empty((samples, whole.shape[1]))
    at = 0
    for counts in draw_counts(len(whole), samples, rng):
        np.matmul(counts, whole, out=sums[at : at + len(counts)])
        at += len(counts)
    sums *= step
    return sums


def plain_sums(columns: Floats) -> Floats:
    """Sum of every column, rounded as `resampled_sums` rounds, so that equal sums compare equal."""
    whole, step = to_grid(columns, len(columns))
    sums: Floats = whole.sum(axis=0) * step
    return sums
