"""Tests of paired deltas as a suite states them: by query, or by cluster of queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import metrics
from metrics.paired import equal_but_for_rounding
from rerank.suite.samples import Sample, groups_of
from rerank.suite.suites import SuiteSpec


@dataclass(frozen=True)
class Power:
    """What the deltas' own spread says of the evaluation's size, at the suite's alpha.

    detectable: smallest mean delta that is found with 80 % power on these queries;
    queries_needed: queries for the suite's `effect` to be found with that power.
    """

    detectable: float
    queries_needed: int


def p_values(
    samples: Sequence[Sample], clusters: np.ndarray | None, suite: SuiteSpec, tests: int
) -> list[float]:
    """Uncorrected two-sided p-values of the suite's test; NaN where it is undefined.

    Samples of the same queries share their sign flips; every group starts from the suite's seed.
    clusters: (n,) labels of the task's queries, or None. tests: how many the suite makes in all.
    """
    found = [float("nan")] * len(samples)
    for group in groups_of(samples):
        if not len(group.values):
            continue
        labels = None if clusters is None else clusters[group.inside]
        values = metrics.paired_tests(
            independent_units(group.values, labels),
            suite.test,
            samples=metrics.flips_needed(suite.samples, tests, suite.alpha),
            rng=np.random.default_rng(suite.seed),
        )
        for at, value in zip(group.at, values.tolist(), strict=True):
            found[at] = value
    return found


def independent_units(deltas: np.ndarray, clusters: np.ndarray | None) -> np.ndarray:
    """What counts as one observation: (n, m) deltas -> the same, or (n_clusters, m)."""
    return deltas if clusters is None else metrics.cluster_deltas(deltas, clusters)


def power_of(deltas: np.ndarray, clusters: np.ndarray | None, suite: SuiteSpec) -> Power | None:
    """None for fewer than two units, or where all are equal: no spread is known. deltas: (n,)."""
    units = independent_units(deltas[:, None], clusters)[:, 0]
    if equal_but_for_rounding(units):
        return None
    needed = metrics.queries_needed(units, effect=suite.effect, alpha=suite.alpha)
    return Power(
        detectable=metrics.detectable_effect(units, alpha=suite.alpha),
        queries_needed=math.ceil(needed * len(deltas) / len(units)),
    )


def test_agrees(deltas: np.ndarray, clusters: np.ndarray | None, suite: SuiteSpec) -> bool:
    """Whether the suite's test points the way of the mean: a sign test may not. deltas: (n,)."""
    units = independent_units(deltas[:, None], clusters)[:, 0]
    way = metrics.test_direction(units, suite.test)
    return not len(deltas) or way * float(np.mean(deltas)) >= 0


def p_words(p: float) -> str:
    """`p = 0.012`, and never p = 0."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
