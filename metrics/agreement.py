"""How alike two rankings of the same query are, whatever is relevant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics.arrays import Array
from metrics.errors import MetricError


def kendall_tau(a: Array, b: Array) -> float:
    """Kendall's tau-b of two systems' scores of the same n items: (n,), (n,) -> float.

    Ties count in neither direction (Kendall 1945); NaN where a system scores all items alike.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise MetricError(f"scores have shapes {first.shape} and {second.shape}; align by item")
    if np.isnan(first).any() or np.isnan(second).any():
        raise MetricError("scores hold NaN; leave these items out of both systems")
    from scipy import stats  # 0.6 s to import, so only where it is used

    return float(stats.kendalltau(first, second).statistic) if len(first) > 1 else float("nan")


def rank_biased_overlap(a: Sequence[str], b: Sequence[str], *, p: float = 0.9) -> float:
    """RBO of two rankings without ties, extrapolated to any depth (Webber et al. 2010, eq. 32).

    (1-p)/p (sum_{d<=l} X_d/d p^d + sum_{s<d<=l} X_s (d-s)/(s d) p^d) + ((X_l - X_s)/l + X_s/s) p^l

    s, l = length of the shorter and the longer list, X_d = items in common in the first d ranks.
    The same list twice is 1, lists with nothing in common 0.
    """
    if not 0 < p < 1:
        raise MetricError(f"p={p} is not between 0 and 1; 0.9 looks at about the first 10 ranks")
    if len(set(a)) < len(a) or len(set(b)) < len(b):
        raise MetricError("a ranking names a document twice; remove the duplicate")
    shorter, longer = sorted((a, b), key=len)
    s, depth = len(shorter), len(longer)
    if s == 0:
        return float("nan") if depth == 0 else 0.0
    ranks = np.arange(1, depth + 1)
    common = _common(shorter, longer)
    beyond = np.where(ranks > s, common[s - 1] * (ranks - s) / (s * ranks), 0.0)
    seen = float(np.sum((common / ranks + beyond) * p**ranks)) * (1 - p) / p
    last = (common[-1] - common[s - 1]) / depth + common[s - 1] / s
    return seen + float(last) * p**depth


def _common(shorter: Sequence[str], longer: Sequence[str]) -> Array:
    """Items in common in the first d ranks of both, d = 1 .. len(longer): (len(longer),) int64."""
    place = {item: rank for rank, item in enumerate(shorter)}
    meeting = [max(rank, place[item]) for rank, item in enumerate(longer) if item in place]
    met: Array = np.cumsum(np.bincount(np.array(meeting, np.int64), minlength=len(longer)))
    return met
