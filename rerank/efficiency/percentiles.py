"""Percentiles of latencies with bootstrap intervals that allow for waiting lines.

Requests that wait in one line are slow together, so single ones must not be drawn as if they were
independent: whole stretches of neighbours are (moving blocks, Kuensch 1989).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LEVELS = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
SAMPLES = 1_000
CELLS = 1 << 22  # drawn values at once: bounds memory


def percentiles(values: Sequence[float], *, samples: int = SAMPLES, seed: int = 17) -> Any:
    """Level -> {"value", "low", "high"} of (n,) values in the order of their requests.

    95 % percentile intervals over resamples of blocks of about sqrt(n) neighbours; low is None
    for fewer than two values, high for so few that all may lie below the level (0.025 of chance).
    {} for none.
    """
    column = np.asarray(values, dtype=np.float64)
    if not len(column):
        return {}
    tails = np.array(list(LEVELS.values()))
    found = np.quantile(column, tails)
    low = high = np.full(len(tails), np.nan)
    if len(column) > 1:
        drawn = _resampled(column, tails, samples, np.random.default_rng(seed))
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    # a resample has no value above the largest: of too few values no upper end is known
    high = np.where(tails ** len(column) > 0.025, np.nan, high)
    return {
        name: {"value": value, "low": _known(start), "high": _known(end)}
        for name, value, start, end in zip(
            LEVELS, found.tolist(), low.tolist(), high.tolist(), strict=True
        )
    }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _resampled(
    column: np.ndarray, tails: np.ndarray, samples: int, rng: np.random.Generator
) -> np.ndarray:
    """(samples, levels) quantiles of resamples of moving blocks."""
    n = len(column)
    width = max(1, round(n**0.5))
    blocks = -(-n // width)
    rows = max(1, CELLS // n)
    parts = []
    for start in range(0, samples, rows):
        count = min(rows, samples - start)
        begins = rng.integers(0, n - width + 1, size=(count, blocks, 1))
        places = (begins + np.arange(width)).reshape(count, -1)[:, :n]
        parts.append(np.quantile(column[places], tails, axis=1).T)
    return np.concatenate(parts)
