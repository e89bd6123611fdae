"""P-values and corrections at scale.

Oracles: statsmodels (corrections), the uniform distribution (p-values under the null), exhaustive
flips, and the same computation one series at a time and on other numbers of threads.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from metrics import (
    CORRECTIONS,
    TESTS,
    MetricError,
    cluster_deltas,
    corrected,
    paired_deltas,
    paired_tests,
    randomization_test,
    randomization_tests,
    t_test,
)
from metrics.resampling import draw_signs

NAN = float("nan")
STATSMODELS = {"holm": "holm", "bonferroni": "bonferroni", "bh": "fdr_bh"}
SERIES = 4_000  # simulated evaluations of each kind


def rng(seed: int = 17) -> np.random.Generator:
    return np.random.default_rng(seed)


@settings(max_examples=20, deadline=None)  # multipletests collects garbage on each call
@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.05, 1.0]), min_size=1, max_size=30))
def test_corrections_are_statsmodels(p_values: list[float]) -> None:
    """multipletests on unsorted p-values with ties, zeros and ones."""
    for ours, theirs in STATSMODELS.items():
        expected = multipletests(p_values, method=theirs)[1]
        np.testing.assert_allclose(corrected(np.array(p_values), ours), expected, atol=1e-14)


def test_a_test_that_was_not_made_is_not_counted() -> None:
    """NaN stays NaN, and the others are corrected as if it were absent."""
    p_values = np.array([0.012, NAN, 0.3, 0.02])
    for name in CORRECTIONS:
        found = corrected(p_values, name)
        assert np.isnan(found[1])
        np.testing.assert_array_equal(found[[0, 2, 3]], corrected(p_values[[0, 2, 3]], name))


def null_deltas(n: int, ties: float) -> np.ndarray:
    """(n, SERIES) deltas of two systems that are alike: symmetric about 0, a share of them tied."""
    generator = rng(n)
    sizes = generator.beta(1, 3, size=(n, SERIES)) * generator.choice([-1, 1], size=(n, SERIES))
    return np.where(generator.random((n, SERIES)) < ties, 0.0, sizes)


@pytest.mark.parametrize("n", [40, 200])
@pytest.mark.parametrize("test", ["randomization", "t", "wilcoxon"])
def test_p_values_are_uniform_where_nothing_differs(test: str, n: int) -> None:
    """Kolmogorov and Smirnov on 4,000 simulated evaluations without ties: no departure at 0.001."""
    found = paired_tests(null_deltas(n, ties=0.0), test, samples=4_000, rng=rng())
    assert stats.kstest(found, "uniform").pvalue > 0.001
    assert np.mean(found <= 0.05) == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / SERIES))


@pytest.mark.parametrize(
    ("test", "n"),
    [(test, n) for test in TESTS for n in (50, 200)] + [("randomization", 10), ("sign", 10)],
)
def test_half_tied_deltas_do_not_raise_false_alarms(test: str, n: int) -> None:
    """P(p <= a) <= a for discrete p-values, within four standard errors of the simulation.

    With 10 queries of which half are tied only the exact tests hold their level.
    """
    found = paired_tests(null_deltas(n, ties=0.5), test, samples=2_000, rng=rng())
    for level in (0.01, 0.05, 0.1, 0.5):
        noise = 4 * np.sqrt(level * (1 - level) / SERIES)
        assert np.mean(found <= level) <= level + noise, level


def test_a_difference_is_found() -> None:
    """The other side: with a true delta of 3 standard errors most p-values are below 0.05."""
    shifted = null_deltas(100, ties=0.0)[:, :500] + 0.09
    for test in TESTS:
        found = paired_tests(shifted, test, samples=1_000, rng=rng())
        assert np.mean(found <= 0.05) > 0.5, test


def test_many_series_share_their_signs() -> None:
    """Each series as if alone on the same rows; few non-zero deltas are enumerated beside them."""
    deltas = rng().normal(0.1, 1, size=(60, 3))
    deltas[17:, 1] = 0.0
    deltas[5, 2] = NAN
    deltas[:, 2] *= 1e6  # another grid
    together = randomization_tests(deltas, samples=2_000, rng=rng())
    assert together[0] == randomization_test(deltas[:, 0], samples=2_000, rng=rng())
    few = deltas[:17, 1]
    sums = [abs(np.dot(signs, few)) for signs in product([-1, 1], repeat=17)]
    assert together[1] == pytest.approx(np.mean(np.array(sums) >= abs(few.sum())), abs=0.05)
    alone = randomization_test(np.nan_to_num(deltas[:, 2]), samples=2_000, rng=rng())
    assert together[2] == pytest.approx(alone, abs=0.05)
    exact = randomization_tests(deltas[:16], samples=10, rng=rng())
    sums = [abs(np.dot(signs, deltas[:16, 0])) for signs in product([-1, 1], repeat=16)]
    assert exact[0] == np.mean(np.array(sums) >= abs(deltas[:16, 0].sum()) - 1e-12)
    assert randomization_tests(np.full((3, 1), NAN), rng=rng()).tolist() == [1.0]


def test_signs_are_fair_bits() -> None:
    """Half of them are kept, in each place and together, and blocks do not matter."""
    signs = np.concatenate(list(draw_signs(130, 4_000, rng())))
    assert set(np.unique(signs)) == {0.0, 1.0}
    assert np.abs(signs.mean(axis=0) - 0.5).max() < 4.5 * 0.5 / np.sqrt(4_000)
    correlation = np.corrcoef(signs.T) - np.eye(130)
    assert np.abs(correlation).max() < 5.5 / np.sqrt(4_000)


def test_numbers_do_not_depend_on_threads() -> None:
    """The same bytes with one thread and with four, in processes of their own."""
    code = (
        "import numpy as np, hashlib, metrics\n"
        "values = np.random.default_rng(0).beta(0.5, 0.7, size=(3000, 40))\n"
        "means = metrics.bootstrap_means(values, samples=500, rng=np.random.default_rng(1))\n"
        "deltas = values[:, 1:] - values[:, :1]\n"
        "p = metrics.randomization_tests(deltas, samples=500, rng=np.random.default_rng(1))\n"
        "print(hashlib.sha256(means.tobytes() + p.tobytes()).hexdigest())\n"
    )
    digests = set()
    for threads in ("1", "4"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        command = [sys.executable, "-c", code]
        answer = subprocess.run(command, env=environment, capture_output=True, check=True)
        digests.add(answer.stdout)
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 2 * hashlib.sha256().digest_size


def test_clusters_become_single_deltas() -> None:
    """Sums of clusters, scaled so that their mean is the mean over queries; NaN left out."""
    deltas = np.array([[1.0, NAN], [2.0, 0.5], [-1.0, NAN], [0.5, 1.0]])
    found = cluster_deltas(deltas, np.array(["b", "a", "b", "a"]))
    np.testing.assert_allclose(found, [[0.0, NAN], [2.5 / 2, 1.5 / 2]])
    np.testing.assert_allclose(np.nanmean(found, axis=0), np.nanmean(deltas, axis=0))
    with pytest.raises(MetricError, match="one label a query"):
        cluster_deltas(deltas, np.array(["a"]))


def test_correlated_queries_raise_false_alarms_unless_clustered() -> None:
    """20 clusters of 10 queries that move together: by query too many, by cluster at the level."""
    generator = rng(3)
    shared = np.repeat(generator.normal(size=(20, 1_000)), 10, axis=0)
    deltas = shared + generator.normal(size=(200, 1_000))
    labels = np.repeat(np.arange(20), 10)
    by_query = np.mean(paired_tests(deltas, "t", rng=rng()) <= 0.05)
    units = cluster_deltas(deltas, labels)
    by_cluster = np.mean(paired_tests(units, samples=1_000, rng=rng()) <= 0.05)
    assert by_query > 0.2
    assert by_cluster == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 1_000))


def test_equal_deltas_have_no_spread() -> None:
    """0.5 - 0.4 and 0.3 - 0.2 differ in the last bits only: no t, no effect size."""
    base = np.array([0.4, 0.2, 0.7, 0.1])
    after = base + 0.1
    assert len(set((after - base).tolist())) > 1
    assert np.isnan(t_test(after - base))
    assert np.isnan(paired_deltas(base, after).effect_size)
    assert paired_deltas(base, after + [0, 0, 0, 1e-9]).effect_size > 1e7


def test_unknown_tests_are_named() -> None:
    """The sentence lists the known ones."""
    with pytest.raises(MetricError, match="choose randomization, t, wilcoxon, sign"):
        paired_tests(np.zeros((3, 1)), "anova", rng=rng())
