"""Intervals of means over queries, by resampling queries (Efron and Tibshirani 1993).

Every resample serves all series at once, so pairs stay pairs. The result depends on the values, the
samples and the generator alone, not on threads or block sizes (see `resampling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from metrics.aggregate import check_weights
from metrics.arrays import Array, Floats
from metrics.errors import MetricError
from metrics.resampling import resampled_sums

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Interval:
    """low, high: bounds. kind: percentile, bca or wilson.

    degenerate: all values were equal, so resampling says nothing and the width must not be read as
    certainty.
    """

    low: float
    high: float
    kind: str
    degenerate: bool


@dataclass(frozen=True)
class _Units:
    """What is drawn: queries, or clusters of them.

    sums: (n_units, m) float64. weights: (n_units, m), or (n_units, 1) where all series share them.
    """

    sums: Floats
    weights: Floats

    def means(self) -> Floats:
        return _quotient(self.sums.sum(axis=0), self.weights.sum(axis=0))

    def without_each(self) -> Floats:
        """Means with one unit left out (jackknife): (n_units, m) float64."""
        return _quotient(self.sums.sum(axis=0) - self.sums, self.weights.sum(axis=0) - self.weights)

    def resampled(self, samples: int, rng: np.random.Generator) -> Floats:
        columns = self.sums.shape[1]
        sums = resampled_sums(np.hstack([self.sums, self.weights]), samples, rng)
        return _quotient(sums[:, :columns], sums[:, columns:])


def bootstrap_means(
    values: Array,
    *,
    samples: int = 10_000,
    rng: np.random.Generator,
    weights: Array | None = None,
    clusters: Array | None = None,
) -> Floats:
    """Means of m series over the same resamples of n queries: (n, m) -> (samples, m) float64.

    NaN values are left out of their own series. weights: (n,) traffic. clusters: (n,) labels;
    whole clusters are drawn instead of queries. NaN where a resample holds no value of a series.
    """
    return _units(np.asarray(values, np.float64), weights, clusters).resampled(samples, rng)


def bootstrap_interval(
    values: Array,
    *,
    samples: int = 10_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
    weights: Array | None = None,
    clusters: Array | None = None,
    method: str = "percentile",
    deltas: bool = False,
) -> Interval | None:
    """Interval of the (weighted) mean of (n,) values; None for fewer than two queries or clusters.

    method: percentile, or bca (bias-corrected and accelerated, Efron 1987). NaN is left out first.
    Equal values are flagged as degenerate; if they are all 0 or all 1 the Wilson interval of a
    proportion is given, unless `deltas` says that they are differences.
    """
    _check(confidence, method)
    column = np.asarray(values, np.float64)
    defined = ~np.isnan(column)
    kept = column[defined]
    units = _units(
        kept[:, None],
        None if weights is None else np.asarray(weights)[defined],
        None if clusters is None else np.asarray(clusters)[defined],
    )
    if len(units.sums) < 2 or not units.weights.sum() > 0:
        return None
    if np.all(kept == kept[0]):
        return _degenerate(kept, len(units.sums), confidence, deltas)
    means = units.resampled(samples, rng)[:, 0]
    tails = _tails(confidence) if method == "percentile" else _bca_tails(means, units, confidence)
    low, high = np.nanquantile(means, tails)
    return Interval(float(low), float(high), method, degenerate=False)


def bootstrap_macro(
    values: Sequence[Array],
    *,
    samples: int = 10_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Interval | None:
    """Percentile interval of the mean over tasks, queries resampled within each task.

    values: one (n_t,) array a task; NaN is left out. None where a task has fewer than two values.
    """
    _check(confidence, "percentile")
    columns = [np.asarray(column, np.float64) for column in values]
    columns = [column[~np.isnan(column)] for column in columns]
    if not columns or any(len(column) < 2 for column in columns):
        return None
    means = np.zeros(samples)
    for column in columns:
        means += bootstrap_means(column[:, None], samples=samples, rng=rng)[:, 0]
    low, high = np.quantile(means / len(columns), _tails(confidence))
    equal = all(np.all(column == column[0]) for column in columns)
    return Interval(float(low), float(high), "percentile", degenerate=equal)


def wilson_interval(successes: float, n: int, *, confidence: float = 0.95) -> Interval:
    """Score interval of a proportion (Wilson 1927); never of width 0.

    (p + z^2/2n +- z sqrt(p (1-p)/n + z^2/4n^2)) / (1 + z^2/n), p = successes / n.
    """
    _check(confidence, "percentile")
    if n < 1 or not 0 <= successes <= n:
        raise MetricError(f"{successes} successes of {n}: a proportion needs 0 <= successes <= n")
    p, z = successes / n, _NORMAL.inv_cdf((1 + confidence) / 2)
    centre = p + z * z / (2 * n)
    half = z * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)))
    low, high = (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)
    low, high = 0.0 if successes == 0 else low, 1.0 if successes == n else high
    return Interval(low, high, "wilson", degenerate=successes in (0, n))


def _units(values: Floats, weights: Array | None, clusters: Array | None) -> _Units:
    """Sums and weights of what is drawn: a row a query, or a row a cluster."""
    n = len(values)
    weight = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    check_weights(weight, n)
    undefined = np.isnan(values)
    counted = np.where(undefined, 0.0, weight[:, None]) if undefined.any() else weight[:, None]
    sums = np.where(undefined, 0.0, values) * weight[:, None]
    if clusters is None:
        return _Units(sums, counted)
    if len(clusters) != n:
        raise MetricError(f"{len(clusters)} cluster labels for {n} queries; pass one a query")
    labels, member = np.unique(np.asarray(clusters), return_inverse=True)
    grouped = _Units(*(np.zeros((len(labels), part.shape[1])) for part in (sums, counted)))
    np.add.at(grouped.sums, member, sums)
    np.add.at(grouped.weights, member, counted)
    return grouped


def _quotient(sums: Floats, weights: Floats) -> Floats:
    weights = np.broadcast_to(weights, sums.shape)
    means: Floats = np.divide(sums, weights, out=np.full(sums.shape, np.nan), where=weights > 0)
    return means


def _degenerate(values: Floats, n: int, confidence: float, deltas: bool) -> Interval:
    value = float(values[0])
    if value in (0.0, 1.0) and not deltas:
        return wilson_interval(value * n, n, confidence=confidence)
    return Interval(value, value, "percentile", degenerate=True)


def _tails(confidence: float) -> tuple[float, float]:
    return (1 - confidence) / 2, (1 + confidence) / 2


def _bca_tails(means: Floats, units: _Units, confidence: float) -> tuple[float, float]:
    """Percentiles after correction for bias z0 and acceleration a (Efron 1987).

    z0 = Phi^-1(share of resampled means below the observed one, ties half);
    a = sum d^3 / (6 (sum d^2)^1.5), d = mean of the leave-one-out means minus each of them.
    """
    observed = units.means()[0]
    below = (np.mean(means < observed) + np.mean(means <= observed)) / 2
    resolution = 0.5 / len(means)  # all resamples on one side: as far out as they can tell
    bias = _NORMAL.inv_cdf(float(np.clip(below, resolution, 1 - resolution)))
    left_out = units.without_each()[:, 0]
    d = np.nanmean(left_out) - left_out[~np.isnan(left_out)]
    acceleration = float(np.sum(d**3) / (6 * np.sum(d**2) ** 1.5)) if np.any(d) else 0.0
    shifted = (bias + _NORMAL.inv_cdf(tail) for tail in _tails(confidence))
    low, high = (_NORMAL.cdf(bias + z / (1 - acceleration * z)) for z in shifted)
    return low, high


def _check(confidence: float, method: str) -> None:
    if not 0 < confidence < 1:
        raise MetricError(f"confidence {confidence} is not between 0 and 1; 0.95 is usual")
    if method not in ("percentile", "bca"):
        raise MetricError(f"unknown interval method {method!r}; choose percentile or bca")
