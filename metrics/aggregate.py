"""Means over queries and tasks. NaN = undefined: left out, never counted as 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics.arrays import Array
from metrics.errors import MetricError


def weighted_mean(values: Array, weights: Array) -> float:
    """sum(w v) / sum(w) over the defined values: (n,), (n,) -> float; NaN where nothing is left.

    weights: traffic of each query, not negative.
    """
    values, weights = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    check_weights(weights, len(values))
    defined = ~np.isnan(values)
    total = float(weights[defined].sum())
    return float((values * weights)[defined].sum()) / total if total > 0 else float("nan")


def macro_mean(values: Sequence[Array]) -> float:
    """Mean over tasks of each task's mean over its queries, so that big tasks do not drown small.

    values: one (n_queries,) array a task. A task without a defined value has no mean: MetricError.
    """
    means = []
    for task, column in enumerate(values):
        defined = np.asarray(column, np.float64)
        defined = defined[~np.isnan(defined)]
        if not defined.size:
            raise MetricError(f"task {task} has no defined value; leave it out of the macro mean")
        means.append(float(defined.mean()))
    return float(np.mean(means)) if means else float("nan")


def check_weights(weights: Array, n: int) -> None:
    """MetricError unless there is one finite weight >= 0 for each of n values."""
    if weights.shape != (n,):
        raise MetricError(f"weights have shape {weights.shape}, values ({n},); pass one a value")
    if not np.all(np.isfinite(weights) & (weights >= 0)):
        raise MetricError("weights must be finite and not negative; correct them in the task")
