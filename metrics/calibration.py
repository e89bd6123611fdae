"""How far scores in [0, 1] are from probabilities of relevance, and maps that bring them there.

A map here rises with the score, so it leaves every ranking, and every ranking measure, as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrics.arrays import Array, Booleans, Floats, Integers
from metrics.errors import MetricError

STEPS = 200  # Newton steps; a dozen are usual


@dataclass(frozen=True)
class Reliability:
    """What a reliability diagram shows, a bin of equal width an entry.

    count: (bins,) int64 pairs. confidence, rate: (bins,) float64 mean probability and share of
    relevant pairs, NaN in empty bins.
    """

    count: Integers
    confidence: Floats
    rate: Floats


@dataclass(frozen=True)
class LogisticMap:
    """p = 1 / (1 + exp(-(slope s + offset))), slope > 0: (n,) scores -> (n,) probabilities.

    Rank by the scores themselves: far out, different scores have the same float64 probability.
    """

    slope: float
    offset: float = 0.0

    @property
    def temperature(self) -> float:
        return 1.0 / self.slope

    def probabilities(self, scores: Array) -> Floats:
        return _sigmoid(self.slope * np.asarray(scores, np.float64) + self.offset)


def reliability(probabilities: Array, labels: Array, *, bins: int = 10) -> Reliability:
    """Pairs by probability: (n,) in [0, 1], (n,) 0 or 1. A bin holds its upper edge, the first 0.

    Guo et al. 2017, section 2: bin m of M is ((m - 1) / M, m / M].
    """
    p, relevant = _checked(probabilities, labels)
    if bins < 1:
        raise MetricError(f"{bins} bins hold nothing; 10 are usual")
    member = np.searchsorted(np.arange(1, bins) / bins, p, side="left")
    count = np.bincount(member, minlength=bins)
    with np.errstate(invalid="ignore"):  # 0 / 0: an empty bin
        confidence = np.bincount(member, weights=p, minlength=bins) / count
        rate = np.bincount(member, weights=relevant, minlength=bins) / count
    return Reliability(count, confidence, rate)


def expected_calibration_error(probabilities: Array, labels: Array, *, bins: int = 10) -> float:
    """ECE = sum over bins of n_b / n |rate_b - confidence_b|, equal widths (Naeini et al. 2015)."""
    found = reliability(probabilities, labels, bins=bins)
    filled = found.count > 0
    gaps = np.abs(found.rate - found.confidence)[filled]
    return float(np.sum(found.count[filled] * gaps) / found.count.sum())


def brier_score(probabilities: Array, labels: Array) -> float:
    """Mean of (p - y)^2 (Brier 1950): (n,), (n,) -> float."""
    p, relevant = _checked(probabilities, labels)
    return float(np.mean((p - relevant) ** 2))


def negative_log_likelihood(probabilities: Array, labels: Array) -> float:
    """Mean of -log of the probability given to what is true, in nats: (n,), (n,) -> float.

    Infinite where a pair was given probability 0 of its label; nothing is clipped.
    """
    p, relevant = _checked(probabilities, labels)
    with np.errstate(divide="ignore"):  # log 0: certain, and wrong
        losses = np.where(relevant, -np.log(p), -np.log1p(-p))
    return float(np.mean(losses))


def logits(probabilities: Array) -> Floats:
    """log(p / (1 - p)): (n,) in (0, 1) -> (n,) float64. MetricError for 0 and 1."""
    p = np.asarray(probabilities, np.float64)
    inside = (p > 0) & (p < 1)
    if not inside.all():
        raise MetricError(
            f"{np.count_nonzero(~inside)} probabilities are exactly 0 or 1, which have no logit; "
            "map the raw scores instead"
        )
    found: Floats = np.log(p) - np.log1p(-p)
    return found


def fit_temperature(scores: Array, labels: Array) -> LogisticMap:
    """Maximum likelihood over the slope alone (Guo et al. 2017): (n,) logits, (n,) 0 or 1.

    MetricError where the likelihood has no maximum at a positive, finite slope.
    """
    s, relevant = _fittable(scores, labels)
    signed = np.where(relevant, s, -s)
    if np.all(signed >= 0):
        raise MetricError(
            "every score is on the side of its label, so no temperature is likeliest; fit on more "
            "pairs"
        )
    return _likeliest(s[:, None], relevant)


def fit_platt(scores: Array, labels: Array) -> LogisticMap:
    """Maximum likelihood over slope and offset (Platt 1999, without his prior): (n,), (n,).

    scores: any finite scores, no logits needed. MetricError as in `fit_temperature`.
    """
    s, relevant = _fittable(scores, labels)
    if relevant.all() or not relevant.any():
        raise MetricError("all labels are the same, so no map is likeliest; fit on more pairs")
    if s[relevant].min() >= s[~relevant].max():
        raise MetricError(
            "one score parts all relevant pairs from all others, so no map is likeliest; fit on "
            "more pairs"
        )
    return _likeliest(np.column_stack([s, np.ones(len(s))]), relevant)


def _likeliest(features: Floats, relevant: Booleans) -> LogisticMap:
    """Newton's method with halved steps on the (convex) mean negative log-likelihood."""
    scale = np.abs(features).max(axis=0)
    scale[scale == 0] = 1.0
    x = features / scale
    weights = np.zeros(x.shape[1])
    loss = _loss(x @ weights, relevant)
    for _ in range(STEPS):
        p = _sigmoid(x @ weights)
        gradient = x.T @ (p - relevant) / len(x)
        curvature = (x * (p * (1 - p))[:, None]).T @ x / len(x)
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        size = 1.0
        while size > 1e-12 and _loss(x @ (weights - size * step), relevant) > loss:
            size /= 2
        weights = weights - size * step
        loss = _loss(x @ weights, relevant)
        if np.abs(size * step).max() <= 1e-12 * max(1.0, np.abs(weights).max()):
            break
    slope, *rest = (weights / scale).tolist()
    if not slope > 0:
        raise MetricError(
            "scores do not rise with relevance, so no map that keeps the ranking is likeliest; "
            "check that labels and scores belong together"
        )
    return LogisticMap(slope, *rest)


def _loss(z: Floats, relevant: Booleans) -> float:
    return float(np.mean(np.logaddexp(0.0, np.where(relevant, -z, z))))


def _sigmoid(z: Floats) -> Floats:
    small = np.exp(-np.abs(z))  # never overflows
    found: Floats = np.where(z >= 0, 1.0, small) / (1.0 + small)
    return found


def _fittable(scores: Array, labels: Array) -> tuple[Floats, Booleans]:
    s = np.asarray(scores, np.float64)
    if not np.isfinite(s).all():
        raise MetricError("scores must be finite; leave out pairs without a score")
    return s, _labels(labels, s)


def _checked(probabilities: Array, labels: Array) -> tuple[Floats, Booleans]:
    p = np.asarray(probabilities, np.float64)
    wrong = np.flatnonzero(~((p >= 0) & (p <= 1)))
    if len(wrong):
        raise MetricError(
            f"score {p[wrong[0]]:g} (row {wrong[0] + 1}) is not between 0 and 1; map raw scores to "
            "probabilities first",
            wrong.tolist(),
        )
    return p, _labels(labels, p)


def _labels(labels: Array, scores: Floats) -> Booleans:
    found = np.asarray(labels)
    if scores.ndim != 1 or found.shape != scores.shape or not len(scores):
        raise MetricError(
            f"scores have shape {scores.shape}, labels {found.shape}; pass one label a score"
        )
    if not np.isin(found, (0, 1)).all():
        raise MetricError("labels must be 0 or 1; choose the grade from which a pair is relevant")
    relevant: Booleans = found.astype(bool)
    return relevant
