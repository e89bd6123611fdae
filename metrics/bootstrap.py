"""Intervals of means over queries, by resampling queries (Efron and Tibshirani 1993).

Every resample serves all series at once, so pairs stay pairs. The result depends on the values, the
samples and the generator alone, not on threads or block sizes (see `resampling`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from metrics.aggregate import check_weights
from metrics.arrays import Array, Booleans, Floats
from metrics.errors import MetricError
from metrics.paired import equal_but_for_rounding, in_order_of_appearance
from metrics.resampling import plain_sums, resampled_sums

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Interval:
    """low, high: bounds. kind: percentile, bca, expanded or wilson.

    degenerate: all values, or the means of all resamples, were equal, so resampling says nothing
    and the width must not be read as certainty.
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

    def of(self, series: Sequence[int]) -> _Units:
        """The same units with some of the series."""
        columns = list(series)
        shared = self.weights.shape[1] == 1
        return _Units(self.sums[:, columns], self.weights if shared else self.weights[:, columns])

    def means(self) -> Floats:
        return _quotient(plain_sums(self.sums), plain_sums(self.weights))

    def unit_means(self, series: int) -> Floats:
        """Mean of every unit that can be drawn, one with positive weight, in one series: (k,)."""
        weights = np.broadcast_to(self.weights, self.sums.shape)[:, series]
        drawn = weights > 0
        means: Floats = self.sums[drawn, series] / weights[drawn]
        return means

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
    return _units(_matrix(values), weights, clusters).resampled(samples, rng)


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

    As `bootstrap_intervals` of one series, but queries without a value (NaN) are never drawn.
    """
    column = np.asarray(values, np.float64)
    defined = ~np.isnan(column)
    (found,) = bootstrap_intervals(
        column[defined][:, None],
        samples=samples,
        confidence=confidence,
        rng=rng,
        weights=_kept("weights", weights, defined),
        clusters=_kept("cluster labels", clusters, defined),
        method=method,
        deltas=deltas,
    )
    return found


def bootstrap_intervals(
    values: Array,
    *,
    samples: int = 10_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
    weights: Array | None = None,
    clusters: Array | None = None,
    method: str = "percentile",
    deltas: bool = False,
) -> list[Interval | None]:
    """Interval of the (weighted) mean of each of m series over the same resamples: (n, m) values.

    method: percentile; bca (bias-corrected and accelerated, Efron 1987), for skewed values but not
    for few deltas with many ties; expanded (percentiles widened for few queries, Hesterberg 2015),
    nearest to its confidence below 200 queries (tests/metrics/test_coverage.py). None for a series
    with values in fewer than two queries, or clusters, of positive weight. A series of equal values
    is flagged as degenerate; if they are all 0 or all 1 the Wilson interval of a proportion is
    given, unless `deltas` says that they are differences. weights, clusters, NaN: as
    `bootstrap_means`.
    """
    _check(confidence, method, samples)
    matrix = _matrix(values)
    units = _units(matrix, weights, clusters)
    found: list[Interval | None] = [None] * matrix.shape[1]
    drawn: list[int] = []
    counts = np.broadcast_to((units.weights > 0).sum(axis=0), len(found))
    for at in np.flatnonzero(counts >= 2).tolist():
        drawable = units.unit_means(at)
        if equal_but_for_rounding(drawable):
            found[at] = _degenerate(float(drawable[0]), int(counts[at]), confidence, deltas)
        else:
            drawn.append(at)
    means = units.of(drawn).resampled(samples, rng) if drawn else np.empty((samples, 0))
    for at, column in zip(drawn, means.T, strict=True):
        tails = METHODS[method](column, units.of([at]), confidence)
        low, high = map(float, np.nanquantile(column, tails))
        found[at] = Interval(low, high, method, degenerate=_no_width(low, high))
    return found


def bootstrap_macro(
    values: Sequence[Array],
    *,
    samples: int = 10_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
    weights: Sequence[Array] | None = None,
    clusters: Sequence[Array] | None = None,
) -> Interval | None:
    """Percentile interval of the mean over tasks, queries resampled within each task.

    values: one (n_t,) array a task; NaN is left out. weights, clusters: one (n_t,) array a task,
    traffic within the task and labels of what is drawn whole. None where a task has fewer than two
    queries, or clusters, of positive weight.
    """
    _check(confidence, "percentile", samples)
    tasks = []
    for task, column in enumerate(values):
        defined = ~np.isnan(np.asarray(column, np.float64))
        parts = (
            None if given is None else np.asarray(given[task]) for given in (weights, clusters)
        )
        kept = (None if part is None else part[defined] for part in parts)
        tasks.append(_units(_matrix(np.asarray(column)[defined][:, None]), *kept))
    if not tasks or any(np.count_nonzero(units.weights > 0) < 2 for units in tasks):
        return None
    means = np.zeros(samples)
    for units in tasks:
        means += units.resampled(samples, rng)[:, 0]
    low, high = np.nanquantile(means / len(tasks), _tails(confidence))
    return Interval(float(low), float(high), "percentile", degenerate=_no_width(low, high))


def _no_width(low: float, high: float) -> bool:
    return equal_but_for_rounding(np.array([low, high]))


def wilson_interval(successes: float, n: int, *, confidence: float = 0.95) -> Interval:
    """Score interval of a proportion (Wilson 1927); never of width 0.

    (p + z^2/2n +- z sqrt(p (1-p)/n + z^2/4n^2)) / (1 + z^2/n), p = successes / n.
    """
    _check(confidence)
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
    member = in_order_of_appearance(np.asarray(clusters))
    labels = range(int(member.max(initial=-1)) + 1)
    grouped = _Units(*(np.zeros((len(labels), part.shape[1])) for part in (sums, counted)))
    np.add.at(grouped.sums, member, sums)
    np.add.at(grouped.weights, member, counted)
    return grouped


def _kept(name: str, column: Array | None, defined: Booleans) -> Array | None:
    """The rows of queries with a value."""
    if column is None:
        return None
    rows = np.asarray(column)
    if rows.shape != defined.shape:
        raise MetricError(f"{len(rows)} {name} for {len(defined)} queries; pass one a query")
    return rows[defined]


def _quotient(sums: Floats, weights: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # 0 / 0: nothing is left to take a mean of
        means: Floats = sums / weights
    return means


def _matrix(values: Array) -> Floats:
    matrix: Floats = np.asarray(values, np.float64)
    if matrix.ndim != 2:
        raise MetricError(f"values have shape {matrix.shape}; pass (queries, series)")
    return matrix


def _degenerate(value: float, n: int, confidence: float, deltas: bool) -> Interval:
    if value in (0.0, 1.0) and not deltas:
        return wilson_interval(value * n, n, confidence=confidence)
    return Interval(value, value, "percentile", degenerate=True)


def _tails(confidence: float) -> tuple[float, float]:
    return (1 - confidence) / 2, (1 + confidence) / 2


def _bca_tails(means: Floats, series: _Units, confidence: float) -> tuple[float, float]:
    """Percentiles after correction for bias z0 and acceleration a (Efron 1987).

    z0 = Phi^-1(share of resampled means below the observed one, ties half);
    a = sum d^3 / (6 (sum d^2)^1.5), d = mean of the leave-one-out means minus each of them.
    """
    observed, left_out = series.means()[0], series.without_each()[:, 0]
    below = (np.mean(means < observed) + np.mean(means <= observed)) / 2
    resolution = 0.5 / len(means)  # all resamples on one side: as far out as they can tell
    bias = _NORMAL.inv_cdf(float(np.clip(below, resolution, 1 - resolution)))
    d = np.nanmean(left_out) - left_out[~np.isnan(left_out)]
    acceleration = float(np.sum(d**3) / (6 * np.sum(d**2) ** 1.5)) if np.any(d) else 0.0
    shifted = (bias + _NORMAL.inv_cdf(tail) for tail in _tails(confidence))
    low, high = (_NORMAL.cdf(bias + z / (1 - acceleration * z)) for z in shifted)
    return low, high


def _expanded_tails(means: Floats, series: _Units, confidence: float) -> tuple[float, float]:
    """Percentiles of an interval wider by sqrt(n / (n - 1)) t_(n-1) / z (Hesterberg 2015).

    A bootstrap's spread divides by n, not n - 1, and its tails are a normal's, not Student's: both
    make the plain interval too narrow, at 20 queries by a tenth.
    """
    from scipy.special import stdtrit  # light, but only where it is used

    n = int(np.count_nonzero(series.weights > 0))
    t = float(stdtrit(n - 1, (1 + confidence) / 2))
    tail = _NORMAL.cdf(-t * (n / (n - 1)) ** 0.5)
    return tail, 1 - tail


def _check(confidence: float, method: str = "percentile", samples: int = 1) -> None:
    if not 0 < confidence < 1:
        raise MetricError(f"confidence {confidence} is not between 0 and 1; 0.95 is usual")
    if method not in METHODS:
        raise MetricError(f"unknown interval method {method!r}; choose {', '.join(METHODS)}")
    if samples < 1:
        raise MetricError(f"{samples} resamples say nothing; 10,000 are usual")


# name -> (means of the resamples, the series, confidence) -> the two quantiles that bound it
METHODS: dict[str, Callable[[Floats, _Units, float], tuple[float, float]]] = {
    "percentile": lambda means, series, confidence: _tails(confidence),
    "bca": _bca_tails,
    "expanded": _expanded_tails,
}
