"""P-values of paired deltas, and their correction for many comparisons.

Every test is two-sided, takes the deltas b - a of (n,) queries, leaves NaN out, and never returns
0: a p-value below the smallest normal float64 is returned as that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metrics.arrays import Array, Floats, Integers
from metrics.errors import MetricError
from metrics.resampling import DRAWS, to_grid

EXACT_UP_TO = 16  # non-zero deltas: 2^16 sign flips are all tried
_SMALLEST = float(np.finfo(np.float64).tiny)


def randomization_test(deltas: Array, *, samples: int = 10_000, rng: np.random.Generator) -> float:
    """Paired randomisation: how often random signs give a |sum| as large (Fisher 1935).

    Exact over all sign flips up to 16 non-zero deltas (zeros have no sign); beyond that
    (hits + 1) / (samples + 1) over random flips (Phipson and Smyth 2010). Sums that differ by no
    more than rounding (n grid steps, see `resampling`) count as equal, as 0.1 + 0.2 and 0.3.
    """
    moved = _defined(deltas)
    moved = moved[moved != 0]
    if not len(moved):
        return 1.0
    whole = to_grid(moved[:, None], len(moved))[0][:, 0]
    observed = abs(whole.sum()) - len(whole)
    if len(moved) <= EXACT_UP_TO:
        flips = np.arange(1 << len(moved))[:, None] >> np.arange(len(moved)) & 1
        return float(np.mean(np.abs((1.0 - 2.0 * flips) @ whole) >= observed))
    return (_hits(whole, observed, samples, rng) + 1) / (samples + 1)


def t_test(deltas: Array) -> float:
    """Student's paired t: mean / (s / sqrt(n)) on n - 1 degrees of freedom.

    1 where all deltas are 0; NaN where the test is undefined (n < 2, or equal deltas).
    """
    kept = _defined(deltas)
    if len(kept) and not np.any(kept):
        return 1.0
    if len(kept) < 2 or np.all(kept == kept[0]):
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


def _hits(whole: Floats, observed: float, samples: int, rng: np.random.Generator) -> int:
    """Random sign flips whose |sum| reaches the observed one."""
    block = max(1, DRAWS // len(whole))
    hits = 0
    for start in range(0, samples, block):
        shape = min(block, samples - start), len(whole)
        signs = rng.integers(0, 2, size=shape, dtype=np.int8) * 2.0 - 1.0
        hits += int(np.count_nonzero(np.abs(signs @ whole) >= observed))
    return hits


def _corrected(p_values: Array, adjust: Callable[[Floats], Floats]) -> Floats:
    values: Floats = np.asarray(p_values, dtype=np.float64)
    tests: Integers = np.flatnonzero(~np.isnan(values))
    if np.any((values[tests] < 0) | (values[tests] > 1)):
        raise MetricError("p-values must lie between 0 and 1; pass them uncorrected")
    order = tests[np.argsort(values[tests], kind="stable")]
    result = np.full(values.shape, np.nan)
    result[order] = np.minimum(adjust(values[order]), 1.0)
    return result


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
