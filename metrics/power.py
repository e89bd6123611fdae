"""How small a delta an evaluation can see, from the spread of its own deltas (Student's t)."""

from __future__ import annotations

import math

import numpy as np

from metrics.arrays import Array
from metrics.errors import MetricError


def detectable_effect(deltas: Array, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest mean delta found with the given power: (t_(1-alpha/2) + t_power) s / sqrt(n).

    deltas: (n,) observed, NaN left out; s is their standard deviation, t the quantiles of Student
    with n - 1 degrees of freedom. Two-sided test at alpha.
    """
    n, spread = _spread(deltas)
    return _quantiles(n, alpha, power) * spread / math.sqrt(n)


def queries_needed(deltas: Array, *, effect: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Fewest queries with which a true mean delta of `effect` is found as `detectable_effect` says.

    Never fewer than a sign-flip test needs to fall below alpha: 2 / 2^n < alpha.
    """
    if not effect > 0:
        raise MetricError(f"effect {effect} is not above 0; give the delta that matters to you")
    _, spread = _spread(deltas)
    _check(alpha, power)
    n = max(2, math.floor(1 - math.log2(alpha)) + 1)
    while _quantiles(n, alpha, power) * spread > effect * math.sqrt(n):
        # t falls as n grows: its present value bounds what is needed from above
        n = max(n + 1, math.ceil(0.9 * (_quantiles(n, alpha, power) * spread / effect) ** 2))
    while n > 2 and _enough(n - 1, spread, effect, alpha, power):
        n -= 1
    return n


def _enough(n: int, spread: float, effect: float, alpha: float, power: float) -> bool:
    if 2.0 ** (1 - n) >= alpha:
        return False
    return _quantiles(n, alpha, power) * spread <= effect * math.sqrt(n)


def _spread(deltas: Array) -> tuple[int, float]:
    values = np.asarray(deltas, dtype=np.float64)
    values = values[~np.isnan(values)]
    if len(values) < 2:
        raise MetricError(f"{len(values)} deltas have no spread; compare on two queries or more")
    return len(values), float(np.std(values, ddof=1))


def _quantiles(n: int, alpha: float, power: float) -> float:
    _check(alpha, power)
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 1 - alpha / 2) + stdtrit(n - 1, power))


def _check(alpha: float, power: float) -> None:
    if not (0 < alpha < 1 and 0 < power < 1):
        raise MetricError(f"alpha={alpha} and power={power} must lie between 0 and 1")
