"""The frontier of quality and cost: which configurations are worth their price, and which are not.

A configuration is dominated by one that costs no more and is no worse, and in one of both better.
What is left costs more and has a higher mean; it counts as better only where the interval of the
paired difference to the best cheaper one lies above 0, else it is not distinguishable from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

import metrics
from rerank.suite.intervals import intervals_of
from rerank.suite.samples import Sample
from rerank.suite.suites import SuiteSpec

FRONTIER, DOMINATED = "frontier", "dominated"
INDISTINCT = "not distinguishable"


@dataclass(frozen=True)
class Option:
    """A configuration to choose: (n,) values of the same n queries as all others, and its cost."""

    name: str
    values: np.ndarray
    cost: float


@dataclass(frozen=True)
class Verdict:
    """An option's standing.

    by: who dominates it, or from whom it cannot be told apart; delta: mean of its values less
    those of `by`, with the interval of the paired difference.
    """

    option: Option
    mean: float
    n: int
    interval: metrics.Interval | None
    status: str = FRONTIER
    by: str | None = None
    delta: float | None = None
    delta_interval: metrics.Interval | None = field(default=None)


def verdicts(
    options: Sequence[Option], suite: SuiteSpec, clusters: np.ndarray | None = None
) -> list[Verdict]:
    """One verdict an option, in their order; queries without a value in any of them are left out.

    The suite says how intervals are made. clusters: (n,) labels of queries that are drawn whole.
    """
    if not options:
        return []
    table = np.stack([option.values for option in options], axis=1)
    kept = ~np.isnan(table).any(axis=1)
    samples = [Sample(option.values, kept) for option in options]
    intervals = intervals_of(samples, suite, clusters=clusters)
    means = table[kept].mean(axis=0) if kept.any() else np.full(len(options), np.nan)
    found = [
        Verdict(option, float(mean), int(kept.sum()), interval)
        for option, mean, interval in zip(options, means, intervals, strict=True)
    ]
    found = [_dominated(verdict, found) for verdict in found]
    named = {verdict.option.name: verdict for verdict in found}
    for verdict in _walk([v for v in found if v.status == FRONTIER], kept, suite, clusters):
        named[verdict.option.name] = verdict
    return [_compared(named[v.option.name], named, kept, suite, clusters) for v in found]


def _dominated(verdict: Verdict, others: Sequence[Verdict]) -> Verdict:
    """Marked with the best of those that dominate it, of equal ones the cheapest."""
    by = [other for other in others if _dominates(other, verdict)]
    if not by:
        return verdict
    best = max(by, key=lambda other: (other.mean, -other.option.cost))
    return replace(verdict, status=DOMINATED, by=best.option.name)


def _dominates(other: Verdict, verdict: Verdict) -> bool:
    cost, own = other.option.cost, verdict.option.cost
    as_good = cost <= own and other.mean >= verdict.mean
    return as_good and (cost < own or other.mean > verdict.mean)


def _walk(
    left: Sequence[Verdict], kept: np.ndarray, suite: SuiteSpec, clusters: np.ndarray | None
) -> list[Verdict]:
    """From the cheapest on: better than the last that was kept, or not distinguishable from it."""
    found: list[Verdict] = []
    last: Verdict | None = None
    for verdict in sorted(left, key=lambda v: (v.option.cost, v.mean)):
        if last is not None and not _above(verdict, last, kept, suite, clusters):
            found.append(replace(verdict, status=INDISTINCT, by=last.option.name))
            continue
        last = verdict
        found.append(verdict)
    return found


def _above(
    verdict: Verdict,
    last: Verdict,
    kept: np.ndarray,
    suite: SuiteSpec,
    clusters: np.ndarray | None,
) -> bool:
    interval = _difference(verdict, last, kept, suite, clusters)[1]
    return interval is not None and not interval.degenerate and interval.low > 0


def _difference(
    verdict: Verdict,
    other: Verdict,
    kept: np.ndarray,
    suite: SuiteSpec,
    clusters: np.ndarray | None,
) -> tuple[float, metrics.Interval | None]:
    deltas = verdict.option.values - other.option.values
    (interval,) = intervals_of([Sample(deltas, kept)], suite, clusters=clusters, deltas=True)
    return float(deltas[kept].mean()) if kept.any() else math.nan, interval


def _compared(
    verdict: Verdict,
    named: dict[str, Verdict],
    kept: np.ndarray,
    suite: SuiteSpec,
    clusters: np.ndarray | None,
) -> Verdict:
    if verdict.by is None:
        return verdict
    delta, interval = _difference(verdict, named[verdict.by], kept, suite, clusters)
    return replace(verdict, delta=delta, delta_interval=interval)
