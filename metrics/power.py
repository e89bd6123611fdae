"""How small a delta an evaluation can see, from the spread of its own deltas (normal theory)."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from metrics.arrays import Array
from metrics.errors import MetricError


def detectable_effect(deltas: Array, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest mean delta found with the given power: (z_(1-alpha/2) + z_power) s / sqrt(n).

    deltas: (n,) observed, NaN left out; s is their standard deviation. Two-sided test at alpha.
    """
    n, spread = _spread(deltas)
    return _z(alpha, power) * spread / math.sqrt(n)


def queries_needed(deltas: Array, *, effect: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Queries for a true mean delta of `effect` to be found: ((z + z) s / effect)^2, rounded up."""
    if not effect > 0:
        raise MetricError(f"effect {effect} is not above 0; give the delta that matters to you")
    _, spread = _spread(deltas)
    return max(2, math.ceil((_z(alpha, power) * spread / effect) ** 2))


def _spread(deltas: Array) -> tuple[int, float]:
    values = np.asarray(deltas, dtype=np.float64)
    values = values[~np.isnan(values)]
    if len(values) < 2:
        raise MetricError(f"{len(values)} deltas have no spread; compare on two queries or more")
    return len(values), float(np.std(values, ddof=1))


def _z(alpha: float, power: float) -> float:
    if not (0 < alpha < 1 and 0 < power < 1):
        raise MetricError(f"alpha={alpha} and power={power} must lie between 0 and 1")
    return NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(power)
