"""Bootstrap intervals as a suite states them, and what the same resamples say about an order.

Every call starts from the suite's seed, so the same queries meet the same resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import metrics
from rerank.suite.samples import Sample, groups_of
from rerank.suite.suites import SuiteSpec


@dataclass(frozen=True)
class Standing:
    """Where one system stands among others: best and worst plausible rank, 1-based.

    beaten: share of the resamples in which the system with the highest mean is above this one
    (ties half); None for that system itself.
    """

    best: int
    worst: int
    beaten: float | None


def intervals_of(
    samples: Sequence[Sample],
    suite: SuiteSpec,
    *,
    clusters: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    deltas: bool = False,
) -> list[metrics.Interval | None]:
    """Interval of each sample's (weighted) mean; None for fewer than two queries or clusters.

    Samples of the same queries share their resamples, drawn once. clusters, weights: (n,) of the
    task's queries.
    """
    found: list[metrics.Interval | None] = [None] * len(samples)
    for group in groups_of(samples):
        if len(group.values) < 2:
            continue
        intervals = metrics.bootstrap_intervals(
            group.values,
            samples=suite.samples,
            confidence=suite.confidence,
            rng=np.random.default_rng(suite.seed),
            method=suite.interval,
            deltas=deltas,
            clusters=None if clusters is None else clusters[group.inside],
            weights=None if weights is None else weights[group.inside],
        )
        for at, interval in zip(group.at, intervals, strict=True):
            found[at] = interval
    return found


def uneven(weights: np.ndarray) -> bool:
    """Do the weights say anything that a plain mean does not?"""
    return bool(len(weights)) and bool(np.ptp(weights) > 0)


def macro_interval(
    series: Sequence[np.ndarray],
    suite: SuiteSpec,
    clusters: Sequence[np.ndarray] | None = None,
    weights: Sequence[np.ndarray] | None = None,
) -> metrics.Interval | None:
    """Percentile interval of the mean over tasks, queries (or clusters) resampled within each task.

    None where a task has fewer than two. series, clusters, weights: one (n_t,) array a task.
    """
    return metrics.bootstrap_macro(
        series,
        samples=suite.samples,
        confidence=suite.confidence,
        rng=np.random.default_rng(suite.seed),
        clusters=clusters,
        weights=weights,
    )


def standings(
    tables: Sequence[np.ndarray],
    suite: SuiteSpec,
    clusters: Sequence[np.ndarray] | None = None,
) -> list[Standing] | None:
    """Standing of each of m systems by their mean over tasks (of one task: its mean).

    tables: one (n_t, m) array a task; queries without a value in one of the systems are left out.
    Each task is resampled on its own and counts the same, however many queries it has. None where
    a task has fewer than two queries (or clusters) left.
    """
    rng = np.random.default_rng(suite.seed)
    means, observed = np.zeros(()), np.zeros(())
    for task, table in enumerate(tables):
        kept = ~np.isnan(table).any(axis=1)
        labels = None if clusters is None else clusters[task][kept]
        if len(table[kept] if labels is None else np.unique(labels)) < 2:
            return None
        means = means + metrics.bootstrap_means(
            table[kept], samples=suite.samples, rng=rng, clusters=labels
        )
        observed = observed + table[kept].mean(axis=0)
    if not means.ndim:
        return None
    ranks = metrics.rank_intervals(means, confidence=suite.confidence)
    above = metrics.probability_better(means)
    leader = int(np.argmax(observed))
    return [
        Standing(
            best=int(best),
            worst=int(worst),
            beaten=None if system == leader else float(above[leader, system]),
        )
        for system, (best, worst) in enumerate(ranks)
    ]
