"""Draws of queries with replacement, shared by many series, summed without rounding.

Sums are exact, hence the same in any order: on any number of threads, in any block size. Values are
rounded once to a grid so fine (about 1e-12 of the largest) and so coarse that every sum of n of
them is a whole number of grid steps below 2^53, which float64 holds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from metrics.arrays import Array, Floats

DRAWS = 1 << 22  # indices drawn at once: bounds memory (32 MiB), not results


def to_grid(values: Array, terms: int) -> tuple[Floats, Floats]:
    """Whole numbers and the step they count: values (n, m) ~ whole * step, step (m,) float64.

    terms: how many values (repetitions included) a sum may have and still be exact.
    """
    column = np.asarray(values, dtype=np.float64)
    largest = np.abs(column).max(axis=0, initial=np.finfo(np.float64).tiny)
    _, exponent = np.frexp(largest)  # largest < 2^exponent
    step: Floats = np.ldexp(1.0, exponent - (52 - int(terms).bit_length()))
    return np.rint(column / step), step


def draw_counts(n: int, samples: int, rng: np.random.Generator) -> Iterator[Floats]:
    """How often each of n units is drawn, in blocks of resamples: (block, n) float64 each."""
    block = max(1, min(samples, DRAWS // max(n, 1)))
    for start in range(0, samples, block):
        rows = min(block, samples - start)
        drawn = rng.integers(0, n, size=(rows, n), dtype=np.int32)
        cells = drawn + (np.arange(rows, dtype=np.int64) * n)[:, None]
        yield np.bincount(cells.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def resampled_sums(columns: Floats, samples: int, rng: np.random.Generator) -> Floats:
    """Sum of every column over each resample of its rows: (n, m) -> (samples, m) float64."""
    whole, step = to_grid(columns, len(columns))
    sums = [counts @ whole for counts in draw_counts(len(columns), samples, rng)]
    return np.concatenate(sums) * step
