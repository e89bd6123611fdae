"""Oracles: scipy.stats, exhaustive enumeration, formulas written out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

import metrics
from metrics import (
    MetricError,
    bootstrap_interval,
    bootstrap_intervals,
    bootstrap_macro,
    bootstrap_means,
    corrected,
    detectable_effect,
    kendall_tau,
    macro_mean,
    paired_deltas,
    probability_better,
    queries_needed,
    randomization_test,
    rank_biased_overlap,
    rank_intervals,
    resampling,
    sign_test,
    t_test,
    weighted_mean,
    wilcoxon_test,
    wilson_interval,
)

NAN = float("nan")
VALUES = np.random.default_rng(3).beta(0.5, 0.7, size=80)


def rng() -> np.random.Generator:
    return np.random.default_rng(17)


@pytest.mark.parametrize(("ours", "theirs"), [("percentile", "percentile"), ("bca", "BCa")])
def test_intervals_are_scipys(ours: str, theirs: str) -> None:
    """scipy.stats.bootstrap on other draws: equal within the noise of 40,000 resamples."""
    found = bootstrap_interval(VALUES, samples=40_000, rng=rng(), method=ours)
    expected = stats.bootstrap(
        (VALUES,), np.mean, n_resamples=40_000, method=theirs, rng=np.random.default_rng(1)
    ).confidence_interval
    assert found is not None
    assert (found.kind, found.degenerate) == (ours, False)
    assert [found.low, found.high] == pytest.approx([expected.low, expected.high], abs=2e-3)


def test_bca_corrects_the_skew_as_scipy_does() -> None:
    """A skewed sample, where BCa differs from the percentiles by more than the noise."""
    skewed = np.random.default_rng(5).exponential(size=25) ** 2
    plain = bootstrap_interval(skewed, samples=40_000, rng=rng())
    found = bootstrap_interval(skewed, samples=40_000, rng=rng(), method="bca")
    expected = stats.bootstrap(
        (skewed,), np.mean, n_resamples=40_000, method="BCa", rng=np.random.default_rng(1)
    ).confidence_interval
    assert found is not None
    assert plain is not None
    assert found.high == pytest.approx(expected.high, rel=0.03)
    assert found.high > plain.high * 1.04


def test_resampled_means_are_exact_and_blind_to_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means equal those of the drawn indices to 1e-11, and to the bit in any block size."""
    matrix = np.random.default_rng(0).normal(size=(50, 3))
    whole = bootstrap_means(matrix, samples=200, rng=rng())
    drawn = rng().integers(0, 50, size=(200, 50), dtype=np.int32)
    np.testing.assert_allclose(whole, matrix[drawn].mean(axis=1), rtol=0, atol=1e-11)
    monkeypatch.setattr(resampling, "CELLS", 50 * 16)
    monkeypatch.setattr(resampling, "TILE", 50 * 3)
    assert bootstrap_means(matrix, samples=200, rng=rng()).tobytes() == whole.tobytes()
    one = np.concatenate(
        [bootstrap_means(matrix[:, [j]], samples=200, rng=rng()) for j in range(3)], 1
    )
    np.testing.assert_allclose(one, whole, rtol=0, atol=1e-11)


def test_sums_on_the_grid_do_not_depend_on_order() -> None:
    """Any order of addition gives the same bits, so no number of threads can move them."""
    values = np.random.default_rng(0).normal(size=(10_000, 1)) * 1e-3
    whole, step = resampling.to_grid(values, len(values))
    shuffles = [np.random.default_rng(seed).permutation(whole[:, 0]) for seed in range(5)]
    assert len({float(np.cumsum(column)[-1]) for column in shuffles}) == 1
    np.testing.assert_allclose(whole * step, values, rtol=0, atol=1e-11 * np.abs(values).max())


def test_weights_are_repetitions() -> None:
    """A query of weight 3 counts as much as three equal queries; weight 0 not at all."""
    values, weights = np.array([0.0, 1.0, 0.5]), np.array([3.0, 1.0, 0.0])
    assert weighted_mean(values, weights) == 1 / 4
    means = bootstrap_means(values[:, None], samples=500, rng=rng(), weights=weights)[:, 0]
    drawn = rng().integers(0, 3, size=(500, 3), dtype=np.int32)
    total = weights[drawn].sum(axis=1)
    expected = np.divide(
        (values * weights)[drawn].sum(axis=1), total, out=np.full(500, NAN), where=total > 0
    )
    np.testing.assert_allclose(means, expected, atol=1e-11)


def test_clusters_are_drawn_whole() -> None:
    """Two clusters of equal values: a mean is one of three mixtures, and never in between."""
    values, clusters = np.array([0.0, 0.0, 1.0, 1.0]), np.array(["a", "a", "b", "b"])
    means = bootstrap_means(values[:, None], samples=300, rng=rng(), clusters=clusters)
    assert set(means[:, 0].tolist()) == {0.0, 0.5, 1.0}
    assert bootstrap_interval(values[:2], rng=rng(), clusters=clusters[:2]) is None


def test_missing_values_leave_their_own_series() -> None:
    """NaN in one series does not move the other."""
    matrix = np.array([[0.0, 1.0], [1.0, NAN], [0.5, 0.0]])
    means = bootstrap_means(matrix, samples=100, rng=rng())
    full = bootstrap_means(matrix[:, [0]], samples=100, rng=rng())
    np.testing.assert_allclose(means[:, 0], full[:, 0], atol=1e-12)
    assert np.nanmin(means[:, 1]) == 0.0
    assert np.nanmax(means[:, 1]) == 1.0


def test_no_interval_where_there_is_none() -> None:
    """Fewer than two values: None. Equal values: flagged; only proportions get Wilson."""
    assert bootstrap_interval(np.array([0.3, NAN]), rng=rng()) is None
    flat = bootstrap_interval(np.full(9, 0.25), rng=rng())
    assert flat is not None
    assert (flat.low, flat.high, flat.kind, flat.degenerate) == (0.25, 0.25, "percentile", True)
    same = bootstrap_interval(np.zeros(9), rng=rng(), deltas=True)
    assert same is not None
    assert (same.low, same.high, same.kind, same.degenerate) == (0.0, 0.0, "percentile", True)
    none = bootstrap_interval(np.zeros(9), rng=rng())
    assert none is not None
    assert (none.low, none.kind, none.high > 0.2) == (0.0, "wilson", True)


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (3, 10), (10, 10), (1, 1000)])
def test_wilson_is_scipys(successes: int, n: int) -> None:
    """scipy.stats.binomtest(...).proportion_ci(method="wilson")."""
    expected = stats.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    found = wilson_interval(successes, n)
    assert [found.low, found.high] == pytest.approx([expected.low, expected.high], abs=1e-12)


def test_macro_interval_resamples_within_tasks() -> None:
    """Variance of the mean of means = sum of s_t^2 / n_t / T^2, a normal interval at this size."""
    tasks = [np.random.default_rng(seed).normal(seed, 1, size=300) for seed in range(3)]
    found = bootstrap_macro(tasks, samples=20_000, rng=rng())
    half = 1.96 * np.sqrt(sum(np.var(task) / 300 for task in tasks)) / 3
    assert found is not None
    centre = macro_mean(tasks)
    assert [found.low, found.high] == pytest.approx([centre - half, centre + half], abs=5e-3)
    assert bootstrap_macro([np.zeros(1), np.zeros(9)], rng=rng()) is None
    flat = bootstrap_macro([np.zeros(4), np.ones(3)], rng=rng())
    assert flat is not None
    assert flat.degenerate


def test_macro_interval_with_traffic_and_clusters() -> None:
    """One task of weighted queries, one of clusters: as their own resampled means, averaged."""
    generator = np.random.default_rng(2)
    tasks = [generator.random(30), np.append(generator.random(40), NAN)]
    weights = [generator.random(30), np.ones(41)]
    clusters = [np.arange(30), np.append(np.arange(40) // 4, 99)]
    found = bootstrap_macro(tasks, samples=500, rng=rng(), weights=weights, clusters=clusters)
    shared = rng()
    first = bootstrap_means(tasks[0][:, None], samples=500, rng=shared, weights=weights[0])
    second = bootstrap_means(
        tasks[1][:40, None], samples=500, rng=shared, clusters=clusters[1][:40]
    )
    expected = np.quantile((first + second) / 2, [0.025, 0.975])
    assert found is not None
    assert [found.low, found.high] == pytest.approx(expected, abs=1e-12)
    one_cluster = [np.arange(30), np.zeros(41)]
    assert bootstrap_macro(tasks, rng=rng(), clusters=one_cluster) is None


def test_intervals_of_many_series_are_those_of_each() -> None:
    """Same rows, same resamples; a failed value, a flat series and an empty one beside them."""
    matrix = np.random.default_rng(4).beta(2, 2, size=(40, 5))
    matrix[3, 1] = NAN
    matrix[:, 2] = 1.0
    matrix[1:, 3] = NAN
    for method in ("percentile", "bca", "expanded"):
        found = bootstrap_intervals(matrix, samples=800, rng=rng(), method=method)
        for at in (0, 4):
            assert found[at] == bootstrap_interval(
                matrix[:, at], samples=800, rng=rng(), method=method
            )
        assert found[2] == wilson_interval(40, 40)
        assert found[3] is None
        means = bootstrap_means(matrix[:, [1]], samples=800, rng=rng())[:, 0]
        assert found[1] is not None
        if method == "percentile":
            assert [found[1].low, found[1].high] == np.quantile(means, [0.025, 0.975]).tolist()
        assert found[1].low < np.nanmean(matrix[:, 1]) < found[1].high


def test_expanded_intervals_are_students() -> None:
    """For normal values the width is Student's t interval's, n = 15; the plain one is narrower."""
    values = np.random.default_rng(8).normal(size=15)
    plain = bootstrap_interval(values, samples=200_000, rng=rng(), deltas=True)
    found = bootstrap_interval(values, samples=200_000, rng=rng(), method="expanded")
    t = stats.t.interval(0.95, 14, loc=values.mean(), scale=stats.sem(values))
    assert found is not None
    assert plain is not None
    assert found.high - found.low == pytest.approx(t[1] - t[0], rel=0.03)
    assert plain.high - plain.low < 0.9 * (t[1] - t[0])


def test_clusters_of_equal_means_are_degenerate() -> None:
    """Values differ, but whole clusters do not: every resample has the same mean."""
    found = bootstrap_interval(
        np.array([0.0, 1.0, 1.0, 0.0]), rng=rng(), clusters=np.array(["a", "a", "b", "b"])
    )
    assert found is not None
    assert (found.low, found.high, found.degenerate) == (0.5, 0.5, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "normal"}, "choose percentile, bca, expanded"),
        ({"samples": 0}, "0 resamples"),
        ({"confidence": 95}, "not between 0 and 1"),
        ({"clusters": ["a"]}, "1 cluster labels for 3 queries"),
        ({"values": np.array([0.0, 1.0, np.inf])}, "must be finite"),
    ],
)
def test_wrong_questions_are_refused(change: dict, message: str) -> None:
    """One sentence each."""
    words = {"values": np.array([0.0, 1.0, 0.5]), "rng": rng(), **change}
    with pytest.raises(MetricError, match=message):
        bootstrap_interval(words.pop("values"), **words)


def test_paired_summary_by_hand() -> None:
    """Deltas 0.5, 0, -0.25, 0.25 and one query without a value."""
    a = np.array([0.0, 0.5, 0.5, 0.25, NAN])
    found = paired_deltas(a, np.array([0.5, 0.5, 0.25, 0.5, 1.0]))
    assert (found.n, found.left_out) == (4, 1)
    assert (found.improved, found.tied, found.regressed) == (2, 1, 1)
    assert (found.mean, found.median, found.p25, found.p75) == (0.125, 0.125, -0.0625, 0.3125)
    spread = np.sqrt((0.375**2 + 0.125**2 + 0.375**2 + 0.125**2) / 3)
    assert found.effect_size == pytest.approx(0.125 / spread)
    empty = paired_deltas(np.array([]), np.array([]))
    assert (empty.n, np.isnan(empty.mean), np.isnan(empty.effect_size)) == (0, True, True)
    with pytest.raises(MetricError, match="align"):
        paired_deltas(np.zeros(2), np.zeros(3))


@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_randomisation_is_exact_for_few_queries(n: int) -> None:
    """All 2^n sign flips, enumerated; 0.1 + 0.2 counts as equal to 0.3."""
    deltas = np.random.default_rng(n).choice([-0.2, -0.1, 0.0, 0.1, 0.2, 0.3], size=n)
    tenths = np.rint(deltas * 10)
    sums = [abs(np.dot(signs, tenths)) for signs in product([-1, 1], repeat=n)]
    expected = np.mean(np.array(sums) >= abs(tenths.sum()))
    assert randomization_test(deltas, rng=rng()) == pytest.approx(expected, abs=1e-12)


def test_randomisation_of_many_queries_is_scipys() -> None:
    """scipy.stats.permutation_test (samples) within Monte Carlo noise; never 0."""
    deltas = np.random.default_rng(1).normal(0.15, 1, size=100)
    expected = stats.permutation_test(
        (deltas, np.zeros(100)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        rng=np.random.default_rng(2),
        vectorized=True,
    ).pvalue
    assert randomization_test(deltas, samples=20_000, rng=rng()) == pytest.approx(
        expected, abs=0.02
    )
    assert randomization_test(np.ones(50), samples=999, rng=rng()) == 1 / 1000
    assert randomization_test(np.zeros(50), rng=rng()) == 1.0


def test_classical_tests_are_scipys() -> None:
    """t, Wilcoxon and sign test on the same deltas, NaN left out."""
    deltas = np.append(np.random.default_rng(1).normal(0.3, 1, size=40), [NAN, 0.0])
    kept = deltas[~np.isnan(deltas)]
    assert t_test(deltas) == stats.ttest_rel(kept, np.zeros(41)).pvalue
    assert wilcoxon_test(deltas) == stats.wilcoxon(kept, zero_method="wilcox").pvalue
    assert sign_test(deltas) == stats.binomtest(int((kept > 0).sum()), 40).pvalue
    for test in (t_test, wilcoxon_test, sign_test):
        assert test(np.zeros(5)) == 1.0
    assert np.isnan(t_test(np.ones(5)))
    assert t_test(np.r_[np.full(500, 1.0), 1.0 + 1e-9]) > 0.0


def test_bh_is_scipys() -> None:
    """scipy.stats.false_discovery_control on unsorted p-values."""
    p_values = np.random.default_rng(0).uniform(size=30) ** 2
    expected = stats.false_discovery_control(p_values, method="bh")
    np.testing.assert_allclose(corrected(p_values, "bh"), expected, atol=1e-15)
    with pytest.raises(MetricError, match="choose holm"):
        corrected(p_values, "sidak")
    with pytest.raises(MetricError, match="between 0 and 1"):
        corrected(np.array([1.2]))


def test_power_turns_around() -> None:
    """(t_.975 + t_.8) s / sqrt(n) with scipy's t; with that effect, n queries are needed."""
    deltas = np.random.default_rng(0).normal(size=200)
    spread = float(np.std(deltas, ddof=1))

    def seen(n: int) -> float:
        return float(stats.t.ppf(0.975, n - 1) + stats.t.ppf(0.8, n - 1)) * spread / n**0.5

    effect = detectable_effect(deltas)
    assert effect == pytest.approx(seen(200), rel=1e-9)
    assert queries_needed(deltas, effect=effect * (1 + 1e-9)) == 200
    for wanted in (effect / 2, effect / 7, effect * 4):
        n = queries_needed(deltas, effect=wanted)
        assert seen(n) <= wanted < seen(n - 1)
    # a sign flip of five queries cannot be below 0.05, however large the effect is
    assert queries_needed(deltas, effect=100.0) == 6
    assert queries_needed(deltas, effect=100.0, alpha=0.001) == 11


def test_the_detectable_effect_is_found_as_often_as_said() -> None:
    """Oracle: the noncentral t of scipy: 80 % within 2.5 points from 10 deltas on."""
    for n in (10, 20, 200):
        deltas = np.random.default_rng(n).normal(size=n)
        shift = detectable_effect(deltas) * n**0.5 / float(np.std(deltas, ddof=1))
        critical = stats.t.ppf(0.975, n - 1)
        power = 1 - stats.nct.cdf(critical, n - 1, shift) + stats.nct.cdf(-critical, n - 1, shift)
        assert power == pytest.approx(0.8, abs=0.025)


def test_what_cannot_be_drawn_does_not_hide_a_degenerate_interval() -> None:
    """Equal values with weight beside others without; clusters of unequal size with equal means."""
    values = np.array([0.25] * 5 + [0.9, 0.1])
    weights = np.array([2.0] * 5 + [0.0, 0.0])
    found = bootstrap_interval(values, rng=rng(), weights=weights)
    assert found is not None
    assert (found.low, found.high, found.degenerate) == (0.25, 0.25, True)
    uneven = np.array([0.1, 0.2, 0.15, 0.05, 0.25, 0.15])
    clusters = np.array(["a", "a", "b", "c", "c", "c"])
    found = bootstrap_interval(uneven, rng=rng(), clusters=clusters, deltas=True)
    assert found is not None
    assert found.degenerate


def test_one_query_a_cluster_is_no_cluster() -> None:
    """Whatever the labels are called, the interval is that of the queries."""
    plain = bootstrap_interval(VALUES, rng=rng())
    labels = np.array([f"c{number}" for number in range(len(VALUES))])[::-1]
    assert bootstrap_interval(VALUES, rng=rng(), clusters=labels) == plain


@pytest.mark.parametrize(
    ("test", "way"), [("sign", -1), ("wilcoxon", -1), ("t", 1), ("randomization", 1)]
)
def test_a_test_may_point_against_the_mean(test: str, way: int) -> None:
    """40 small losses and 8 large gains: sign and rank sum say loss, the mean says gain."""
    deltas = np.array([-0.012 - 1e-6 * at for at in range(40)] + [0.7] * 8)
    assert metrics.test_direction(deltas, test) == way
    assert metrics.test_direction(-deltas, test) == -way
    assert metrics.test_direction(np.zeros(3), test) == 0


def test_leaderboard_of_separate_and_equal_systems() -> None:
    """A system that always wins has rank 1-1; two equal ones share 2-3."""
    means = np.column_stack([np.full(100, 0.9), np.full(100, 0.5), np.full(100, 0.5)])
    assert rank_intervals(means).tolist() == [[1, 1], [2, 3], [2, 3]]
    expected = [[0.5, 1.0, 1.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]
    assert probability_better(means).tolist() == expected


def test_rank_biased_overlap_by_hand() -> None:
    """Webber et al. 2010: 1 for equal lists, 0 for disjoint ones, eq. 32 in between."""
    assert rank_biased_overlap("abc", "abc", p=0.9) == pytest.approx(1.0)
    assert rank_biased_overlap("abc", "xyz") == 0.0
    p, overlap = 0.8, [0, 2, 2]  # "ab" against "bac": s = 2, l = 3
    summed = sum(x / d * p**d for d, x in enumerate(overlap, 1)) + 2 * (3 - 2) / (2 * 3) * p**3
    expected = (1 - p) / p * summed + ((2 - 2) / 3 + 2 / 2) * p**3
    assert rank_biased_overlap("ab", "bac", p=p) == pytest.approx(expected)
    assert rank_biased_overlap("bac", "ab", p=p) == pytest.approx(expected)


def test_kendall_by_counting_pairs() -> None:
    """(concordant - discordant) / pairs: 1 2 3 4 against 1 2 4 3 is (5 - 1) / 6."""
    assert kendall_tau(np.arange(4), np.array([1, 2, 4, 3])) == pytest.approx(4 / 6)


def test_means_over_tasks() -> None:
    """A small task counts as much as a big one; NaN is no 0."""
    assert macro_mean([np.array([1.0, NAN]), np.array([0.0, 0.0, 0.0])]) == 0.5
    assert np.isnan(weighted_mean(np.array([NAN]), np.array([1.0])))
    with pytest.raises(MetricError, match="task 1"):
        macro_mean([np.ones(2), np.array([NAN])])
    with pytest.raises(MetricError, match="not negative"):
        weighted_mean(np.ones(2), np.array([1.0, -1.0]))
