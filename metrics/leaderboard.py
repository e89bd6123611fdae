"""What resampling says about an order of systems; every resample ranks all of them at once."""

from __future__ import annotations

import numpy as np

from metrics.arrays import Array, Floats, Integers
from metrics.errors import MetricError


def rank_intervals(means: Array, *, confidence: float = 0.95) -> Integers:
    """Best and worst plausible rank of each system ("1-3"): (samples, m) -> (m, 2) int64, 1-based.

    means: from `bootstrap_means`, higher is better. Systems that tie in a resample share the
    better rank at the low end and the worse one at the high end.
    """
    columns = _means(means)
    above, level = np.zeros((2, *columns.shape), dtype=np.int32)
    for other in columns.T:  # one system at a time: a hundred would need samples x 100 x 100 cells
        above += other[:, None] > columns
        level += other[:, None] == columns
    tail = (1 - confidence) / 2
    best = np.quantile(above + 1, tail, axis=0, method="inverted_cdf")
    worst = np.quantile(above + level, 1 - tail, axis=0, method="inverted_cdf")
    intervals: Integers = np.stack([best, worst], axis=1).astype(np.int64)
    return intervals


def probability_better(means: Array) -> Floats:
    """Share of resamples in which system i beats j, ties half: (samples, m) -> (m, m) float64.

    A bootstrap proportion, no posterior; 0 and 1 mean "in none, in all of the resamples".
    """
    columns = _means(means)
    wins = [
        (columns > column[:, None]).mean(axis=0) + (columns == column[:, None]).mean(axis=0) / 2
        for column in columns.T
    ]
    shares: Floats = np.stack(wins, axis=1)
    return shares


def _means(means: Array) -> Floats:
    columns: Floats = np.asarray(means, dtype=np.float64)
    if columns.ndim != 2 or np.isnan(columns).any():
        raise MetricError("means must be (samples, systems) without NaN; use common queries only")
    return columns
