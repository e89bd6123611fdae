"""Oracles: numbers by hand, sklearn (brier_score_loss, log_loss, calibration_curve, and
LogisticRegression for the likeliest maps), and `evaluate` before and after a map."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from metrics import Judgments, MetricError, Run, evaluate
from metrics.calibration import (
    LogisticMap,
    brier_score,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
    logits,
    negative_log_likelihood,
    reliability,
)


def sample(n: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are too far out by 2.5 and shifted: labels drawn at sigmoid(0.4 s - 0.3)."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 3, size=n)
    return scores, rng.random(n) < 1 / (1 + np.exp(-(0.4 * scores - 0.3)))


def test_eight_pairs_by_hand() -> None:
    """Four at 0.9, half relevant; four at 0.1, one relevant: gaps 0.4 and 0.15."""
    p = np.array([0.9] * 4 + [0.1] * 4)
    labels = np.array([1, 1, 0, 0, 0, 0, 0, 1])
    assert expected_calibration_error(p, labels) == pytest.approx((4 * 0.4 + 4 * 0.15) / 8)
    assert brier_score(p, labels) == pytest.approx((2 * 0.01 + 3 * 0.81 + 3 * 0.01) / 8)
    log = np.log([0.9, 0.1])
    assert negative_log_likelihood(p, labels) == pytest.approx(-(5 * log[0] + 3 * log[1]) / 8)


def test_bins_hold_their_upper_edge() -> None:
    """0 and 0.1 in the first, 0.3 in the third (0.3 * 10 is above 3 in float64), 1 in the last."""
    p = np.array([0.0, 0.1, 0.1000001, 0.3, 0.9, 1.0])
    found = reliability(p, np.array([0, 0, 1, 1, 1, 1]))
    assert found.count.tolist() == [2, 1, 1, 0, 0, 0, 0, 0, 1, 1]
    assert (found.confidence[0], found.rate[0]) == (0.05, 0.0)
    assert np.isnan(found.rate[3])
    assert expected_calibration_error(p, np.array([0, 0, 1, 1, 1, 1]), bins=1) == pytest.approx(
        abs(p.mean() - 4 / 6)
    )


def test_figures_are_sklearns() -> None:
    """Random probabilities: brier_score_loss, log_loss, and the points of calibration_curve."""
    rng = np.random.default_rng(1)
    p, labels = rng.random(500), rng.integers(0, 2, size=500)
    assert brier_score(p, labels) == pytest.approx(brier_score_loss(labels, p), abs=1e-14)
    assert negative_log_likelihood(p, labels) == pytest.approx(log_loss(labels, p), abs=1e-13)
    rate, confidence = calibration_curve(labels, p, n_bins=15)
    found = reliability(p, labels, bins=15)
    np.testing.assert_allclose(found.rate, rate, atol=1e-14)
    np.testing.assert_allclose(found.confidence, confidence, atol=1e-14)
    error = np.sum(found.count / 500 * np.abs(rate - confidence))
    assert expected_calibration_error(p, labels, bins=15) == pytest.approx(error, abs=1e-14)


def test_certain_and_wrong_is_infinite() -> None:
    """Nothing is clipped: sklearn's figure would depend on its epsilon."""
    assert negative_log_likelihood(np.array([1.0, 0.5]), np.array([0, 1])) == np.inf
    assert negative_log_likelihood(np.array([1.0, 0.0]), np.array([1, 0])) == 0.0


def test_maps_are_the_likeliest() -> None:
    """LogisticRegression without a penalty; Platt finds what the labels were drawn with."""
    scores, labels = sample(20_000)

    def loss(slope: float, offset: float = 0.0) -> float:
        return negative_log_likelihood(LogisticMap(slope, offset).probabilities(scores), labels)

    cold = fit_temperature(scores, labels)
    best = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(scores[:, None], labels)
    assert cold.slope == pytest.approx(best.coef_[0, 0], abs=1e-6)
    assert (cold.offset, cold.temperature) == (0.0, 1 / cold.slope)
    platt = fit_platt(scores, labels)
    best = LogisticRegression(C=np.inf, tol=1e-10).fit(scores[:, None], labels)
    expected = [best.coef_[0, 0], best.intercept_[0]]
    assert [platt.slope, platt.offset] == pytest.approx(expected, abs=1e-6)
    assert [platt.slope, platt.offset] == pytest.approx([0.4, -0.3], abs=0.05)
    assert loss(platt.slope, platt.offset) < loss(cold.slope) < loss(1.0)
    far = fit_platt(scores * 1e6 + 1e3, labels)  # scores of any size
    assert far.slope * 1e6 == pytest.approx(platt.slope, rel=1e-6)


@settings(max_examples=100, deadline=None)
@given(
    scores=st.lists(st.floats(-30, 30), min_size=2, max_size=20),
    slope=st.floats(0.05, 1.0),
    offset=st.floats(-3, 3),
)
def test_no_map_moves_a_ranking_measure(scores: list[float], slope: float, offset: float) -> None:
    """nDCG, RR and AP under a temperature or Platt map equal those of the raw scores."""
    values = np.round(np.array(scores), 6)  # closer scores than that may meet in float64
    ids = (
        np.full(len(scores), "q", object),
        np.array([f"d{at}" for at in range(len(scores))], object),
    )
    judgments = Judgments(*ids, np.arange(len(scores)) % 3 * 1.0)
    mapped = LogisticMap(slope, offset).probabilities(values)
    measures = ["nDCG@10", "RR", "AP"]
    if len(np.unique(mapped)) < len(np.unique(values)):
        mapped = slope * values + offset  # saturated: the ranking is by what was mapped
    before = evaluate(Run(*ids, values), judgments, measures)
    after = evaluate(Run(*ids, mapped), judgments, measures)
    for measure in measures:
        assert after.values[measure][0] == before.values[measure][0]


def test_a_map_that_does_not_exist_is_refused() -> None:
    """Parted labels, one class, scores that fall with relevance, probabilities of 0 and 1."""
    scores = np.array([-1.0, 0.5, 2.0, 3.0])
    with pytest.raises(MetricError, match="one score parts"):
        fit_platt(scores, np.array([0, 0, 1, 1]))
    with pytest.raises(MetricError, match="labels are the same"):
        fit_platt(scores, np.ones(4))
    with pytest.raises(MetricError, match="on the side of its label"):
        fit_temperature(scores, np.array([0, 1, 1, 1]))
    for fit in (fit_temperature, fit_platt):
        with pytest.raises(MetricError, match="do not rise with relevance"):
            fit(-scores, np.array([0, 1, 0, 1]))
    with pytest.raises(MetricError, match="2 probabilities are exactly 0 or 1"):
        logits(np.array([0.0, 0.5, 1.0]))
    with pytest.raises(MetricError, match=r"score 1.5 \(row 2\)"):
        brier_score(np.array([0.1, 1.5]), np.array([0, 1]))
    with pytest.raises(MetricError, match="labels must be 0 or 1"):
        brier_score(np.array([0.1, 0.5]), np.array([0, 2]))
    with pytest.raises(MetricError, match="one label a score"):
        brier_score(np.array([0.1, 0.5]), np.array([0]))
