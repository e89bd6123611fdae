"""P-values of paired deltas, and their correction for many comparisons.

Every test is two-sided, takes the deltas b - a of (n,) queries, leaves NaN out, and never returns
0: a p-value below the smallest normal float64 is returned as that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from metrics.arrays import Array, Floats, Integers
from metrics.errors import MetricError
from metrics.paired import equal_but_for_rounding
from metrics.resampling import draw_signs, to_grid

FINENESS = 10  # flips for each p-value that a correction asks for: how fine alpha / tests is told
EXACT_UP_TO = 16  # non-zero deltas: 2^16 sign flips are all tried
_SMALLEST = float(np.finfo(np.float64).tiny)


def randomization_test(deltas: Array, *, samples: int = 10_000, rng: np.random.Generator) -> float:
    """Paired randomisation: how often random signs give a |sum| as large (Fisher 1935).

    Exact over all sign flips up to 16 non-zero deltas (zeros have no sign); beyond that
    (hits + 1) / (samples + 1) over random flips (Phipson and Smyth 2010). Sums that differ by no
    more than rounding (n grid steps, see `resampling`) count as equal, as 0.1 + 0.2 and 0.3.
    """
    return float(randomization_tests(_defined(deltas)[:, None], samples=samples, rng=rng)[0])


def randomization_tests(
    deltas: Array, *, samples: int = 10_000, rng: np.random.Generator
) -> Floats:
    """`randomization_test` of m series under the same random signs: (n, m) -> (m,) float64."""
    matrix = np.nan_to_num(np.asarray(deltas, np.float64), nan=0.0)  # no value: no sign either
    moved = matrix[np.any(matrix != 0, axis=1)]
    non_zero = np.count_nonzero(moved, axis=0)
    p_values = np.ones(matrix.shape[1])
    for at in np.flatnonzero((non_zero > 0) & (non_zero <= EXACT_UP_TO)):
        p_values[at] = _exact(moved[moved[:, at] != 0, at])
    many = np.flatnonzero(non_zero > EXACT_UP_TO)
    if len(many):
        p_values[many] = (_hits(moved[:, many], samples, rng) + 1) / (samples + 1)
    return p_values


def t_test(deltas: Array) -> float:
    """Student's paired t: mean / (s / sqrt(n)) on n - 1 degrees of freedom.

    1 where all deltas are 0; NaN where the test is undefined (n < 2, or deltas that differ by no
    more than rounding).
    """
    kept = _defined(deltas)
    if len(kept) and not np.any(kept):
        return 1.0
    if len(kept) < 2 or equal_but_for_rounding(kept):
        return float("nan")
    from scipy import stats  # 0.6 s to import, so only where it is used

    return _never_zero(stats.ttest_1samp(kept, 0.0).pvalue)


def wilcoxon_test(deltas: Array) -> float:
    """Wilcoxon signed ranks, zeros left out (scipy zero_method="wilcox"; exact for small n)."""
    kept = _defined(deltas)
    if not np.any(kept):
        return 1.0
    from scipy import stats

    return _never_zero(stats.wilcoxon(kept, zero_method="wilcox").pvalue)


def sign_test(deltas: Array) -> float:
    """Binomial test of improved against regressed queries; ties left out. Exact."""
    kept = _defined(deltas)
    improved, regressed = int(np.count_nonzero(kept > 0)), int(np.count_nonzero(kept < 0))
    if improved + regressed == 0:
        return 1.0
    from scipy import stats

    return _never_zero(stats.binomtest(improved, improved + regressed, 0.5).pvalue)


def test_direction(deltas: Array, test: str) -> int:
    """Which way the test's statistic points, 1 up or -1 down, 0 for neither: (n,) deltas.

    A sign or signed-rank test may point against the mean: many small losses, a few large gains.
    """
    kept = _defined(deltas)
    if test == "sign":
        return int(np.sign(np.count_nonzero(kept > 0) - np.count_nonzero(kept < 0)))
    if test == "wilcoxon":
        from scipy import stats

        moved = kept[kept != 0]
        return int(np.sign(np.sign(moved) @ stats.rankdata(np.abs(moved)))) if len(moved) else 0
    return int(np.sign(kept.mean())) if len(kept) else 0


def flips_needed(samples: int, tests: int, alpha: float) -> int:
    """Sign flips of a randomisation test beside `tests` in all: `samples`, or more where needed.

    The smallest p-value of B flips is 1 / (B + 1). Corrected for many tests it could not be below
    alpha with the usual 10,000, however clear a difference is.
    """
    return max(samples, math.ceil(FINENESS * tests / alpha))


def bonferroni(p_values: Array) -> Floats:
    """min(1, m p): (m,) -> (m,) float64. NaN is no test: it stays NaN and is not counted.

    m counts challengers x measures x slices; the baseline is compared with nothing and is none.
    """
    return _corrected(p_values, lambda ordered: ordered * len(ordered))


def holm(p_values: Array) -> Floats:
    """Step-down: max over j <= i of (m - j + 1) p_(j), at most 1 (Holm 1979). As `bonferroni`."""
    return _corrected(
        p_values,
        lambda ordered: np.maximum.accumulate(ordered * np.arange(len(ordered), 0, -1)),
    )


def benjamini_hochberg(p_values: Array) -> Floats:
    """Step-up: min over j >= i of m p_(j) / j (Benjamini and Hochberg 1995), the false discovery
    rate instead of the chance of any error. As `bonferroni`."""
    return _corrected(
        p_values,
        lambda ordered: np.minimum.accumulate(
            (ordered * len(ordered) / np.arange(1, len(ordered) + 1))[::-1]
        )[::-1],
    )


def corrected(p_values: Array, correction: str = "holm") -> Floats:
    """P-values under the named correction; MetricError lists the known ones."""
    if correction not in CORRECTIONS:
        raise MetricError(f"unknown correction {correction!r}; choose {', '.join(CORRECTIONS)}")
    return CORRECTIONS[correction](p_values)


def _exact(moved: Floats) -> float:
    """Share of all 2^n sign flips whose |sum| reaches the observed one."""
    whole = to_grid(moved[:, None], len(moved))[0][:, 0]
    flips = np.arange(1 << len(moved))[:, None] >> np.arange(len(moved)) & 1
    return float(np.mean(np.abs((1.0 - 2.0 * flips) @ whole) >= abs(whole.sum()) - len(whole)))


def _hits(moved: Floats, samples: int, rng: np.random.Generator) -> Integers:
    """Random sign flips of each series whose |sum| reaches the observed one: (n, m) -> (m,)."""
    whole = to_grid(moved, 2 * len(moved))[0]
    total = whole.sum(axis=0)
    observed = np.abs(total) - np.count_nonzero(whole, axis=0)
    hits = np.zeros(whole.shape[1], dtype=np.int64)
    for kept in draw_signs(len(whole), samples, rng):
        hits += np.count_nonzero(np.abs(2 * (kept @ whole) - total) >= observed, axis=0)
    return hits


def paired_tests(
    deltas: Array,
    test: str = "randomization",
    *,
    samples: int = 10_000,
    rng: np.random.Generator,
) -> Floats:
    """P-values under the named test of m series of deltas: (n, m) -> (m,) float64.

    NaN where the test is undefined. MetricError lists the known tests. The tests take queries as
    independent; where clusters of them are, pass `paired.cluster_deltas`.
    """
    if test not in TESTS:
        raise MetricError(f"unknown test {test!r}; choose {', '.join(TESTS)}")
    return TESTS[test](deltas, samples, rng)


def _corrected(p_values: Array, adjust: Callable[[Floats], Floats]) -> Floats:
    values: Floats = np.asarray(p_values, dtype=np.float64)
    tests: Integers = np.flatnonzero(~np.isnan(values))
    if np.any((values[tests] < 0) | (values[tests] > 1)):
        raise MetricError("p-values must lie between 0 and 1; pass them uncorrected")
    order = tests[np.argsort(values[tests], kind="stable")]
    result = np.full(values.shape, np.nan)
    result[order] = np.minimum(adjust(values[order]), 1.0)
    return result


def _each(test: Callable[[Array], float], deltas: Array) -> Floats:
    return np.array([test(column) for column in np.asarray(deltas, np.float64).T])


def _defined(deltas: Array) -> Floats:
    values: Floats = np.asarray(deltas, dtype=np.float64)
    if values.ndim != 1:
        raise MetricError(f"deltas have shape {values.shape}; pass one series at a time")
    return values[~np.isnan(values)]


def _never_zero(p_value: Any) -> float:
    return max(float(p_value), _SMALLEST)


CORRECTIONS: dict[str, Callable[[Array], Floats]] = {
    "holm": holm,
    "bonferroni": bonferroni,
    "bh": benjamini_hochberg,
    "none": lambda p_values: _corrected(p_values, lambda ordered: ordered),
}

# name -> two-sided p-values of (n, m) deltas, one a series; samples and rng for those that draw
TESTS: dict[str, Callable[[Array, int, np.random.Generator], Floats]] = {
    "randomization": lambda deltas, samples, rng: randomization_tests(
        deltas, samples=samples, rng=rng
    ),
    "t": lambda deltas, samples, rng: _each(t_test, deltas),
    "wilcoxon": lambda deltas, samples, rng: _each(wilcoxon_test, deltas),
    "sign": lambda deltas, samples, rng: _each(sign_test, deltas),
}
