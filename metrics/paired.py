"""Two systems on the same queries: the deltas, summed up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrics.arrays import Array, Floats, Integers
from metrics.errors import MetricError


@dataclass(frozen=True)
class PairedSummary:
    """Distribution of per-query deltas b - a; all NaN but the counts where n = 0.

    improved, tied, regressed: queries with delta > 0, exactly 0, < 0; no tolerance, since equal
        rankings give equal values to the last bit.
    effect_size: mean / standard deviation of the deltas (Cohen's d_z); NaN where they differ by no
        more than rounding.
    left_out: queries without a value in one of the systems.
    """

    n: int
    mean: float
    median: float
    p05: float
    p25: float
    p75: float
    p95: float
    improved: int
    tied: int
    regressed: int
    effect_size: float
    left_out: int


def paired_deltas(a: Array, b: Array) -> PairedSummary:
    """Summary of b - a: baseline a, challenger b, (n,) each, aligned by query; NaN left out."""
    before, after = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if before.shape != after.shape or before.ndim != 1:
        raise MetricError(
            f"paired values have shapes {before.shape} and {after.shape}; align both by query first"
        )
    deltas = after - before
    deltas = deltas[~np.isnan(deltas)]
    n = len(deltas)
    spread = 0.0 if equal_but_for_rounding(deltas) else float(np.std(deltas, ddof=1))
    mean = float(np.mean(deltas)) if n else float("nan")
    quantiles = np.quantile(deltas, [0.05, 0.25, 0.5, 0.75, 0.95]) if n else np.full(5, np.nan)
    p05, p25, median, p75, p95 = map(float, quantiles)
    return PairedSummary(
        n=n,
        mean=mean,
        median=median,
        p05=p05,
        p25=p25,
        p75=p75,
        p95=p95,
        improved=int(np.count_nonzero(deltas > 0)),
        tied=int(np.count_nonzero(deltas == 0)),
        regressed=int(np.count_nonzero(deltas < 0)),
        effect_size=mean / spread if spread > 0 else float("nan"),
        left_out=len(before) - n,
    )


def equal_but_for_rounding(deltas: Floats) -> bool:
    """Whether (n,) deltas have no spread: one or none, or 0.5 - 0.4 beside 0.3 - 0.2."""
    if len(deltas) < 2:
        return True
    largest = np.abs(deltas).max()
    if not np.isfinite(largest):
        return False
    return bool(np.ptp(deltas) <= 8 * np.finfo(np.float64).eps * max(1.0, largest))


def in_order_of_appearance(labels: Array) -> Integers:
    """Number of each label, from 0 in the order of their first rows: (n,) -> (n,) int64.

    One query a cluster is then drawn exactly as queries are.
    """
    _, first, member = np.unique(labels, return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    numbers: Integers = place[member]
    return numbers


def cluster_deltas(deltas: Array, clusters: Array) -> Floats:
    """Deltas of whole clusters, for tests that need independent ones: (n, m) -> (k, m) float64.

    clusters: (n,) labels. Sums over the k clusters in order of appearance, times k / n of the
    series, so that their mean is the mean over queries. NaN where a cluster has no value.
    """
    matrix, labels = np.asarray(deltas, np.float64), np.asarray(clusters)
    if matrix.ndim != 2 or labels.shape != (len(matrix),):
        raise MetricError(
            f"deltas have shape {matrix.shape}, clusters {labels.shape}; pass one label a query"
        )
    member = in_order_of_appearance(labels)
    known = range(int(member.max(initial=-1)) + 1)
    defined = ~np.isnan(matrix)
    sums, counts = np.zeros((2, len(known), matrix.shape[1]))
    np.add.at(sums, member, np.where(defined, matrix, 0.0))
    np.add.at(counts, member, defined)
    scale = np.count_nonzero(counts, axis=0) / np.maximum(counts.sum(axis=0), 1)
    scaled: Floats = np.where(counts > 0, sums * scale, np.nan)
    return scaled
