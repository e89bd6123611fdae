"""Runs of files against the first of them: paired deltas, interval, corrected p, and what is owed
to unjudged documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import metrics
from metrics.unjudged import unjudged_bounds
from rerank.run_scoring import ScoredRun

SEED, SAMPLES = 17, 10_000
APART = 0.05  # difference of unjudged@k from which a delta's bounds are worth a sentence


@dataclass(frozen=True)
class RunComparison:
    """One measure of one run against the baseline; deltas are challenger minus baseline.

    p_value: paired randomisation; corrected: Holm over all runs and measures compared at once.
    unjudged_bounds: the mean delta if unjudged documents were worst or best for the challenger;
    None where the measure looks at no cutoff.
    """

    baseline: str
    challenger: str
    measure: str
    summary: metrics.PairedSummary
    interval: metrics.Interval | None
    p_value: float
    corrected: float
    tests: int
    unjudged_bounds: tuple[float, float] | None
    warnings: tuple[str, ...]

    HEADER: ClassVar[tuple[str, ...]] = (
        "delta", "measure", "mean", "95% interval", "up/tied/down", "n", "p", "Holm",
    )  # fmt: skip

    def cells(self) -> list[str]:
        """The row under HEADER."""
        found = self.summary
        return [
            f"{self.challenger} - {self.baseline}",
            self.measure,
            f"{found.mean:+.4f}" if found.n else "—",
            f"[{self.interval.low:+.4f}, {self.interval.high:+.4f}]" if self.interval else "—",
            f"{found.improved}/{found.tied}/{found.regressed}",
            str(found.n),
            _p(self.p_value),
            _p(self.corrected),
        ]

    def as_json(self) -> dict[str, Any]:
        """Strict JSON: values that do not exist are null."""
        found, interval = self.summary, self.interval
        return {
            "baseline": self.baseline,
            "measure": self.measure,
            "n": found.n,
            "left_out": found.left_out,
            "mean_delta": _finite(found.mean),
            "interval": None
            if interval is None
            else {"low": interval.low, "high": interval.high, "kind": interval.kind,
                  "degenerate": interval.degenerate},
            "improved": found.improved,
            "tied": found.tied,
            "regressed": found.regressed,
            "effect_size": _finite(found.effect_size),
            "p_value": _finite(self.p_value),
            "p_holm": _finite(self.corrected),
            "tests": self.tests,
            "unjudged_bounds": None if self.unjudged_bounds is None else list(self.unjudged_bounds),
            "warnings": list(self.warnings),
        }  # fmt: skip


def compare_runs(scored: Sequence[ScoredRun], measures: Sequence[str]) -> list[RunComparison]:
    """Every run after the first against the first, for every measure; Holm over all of them."""
    if len(scored) < 2:
        return []
    baseline, challengers = scored[0], scored[1:]
    pairs = [(challenger, name) for challenger in challengers for name in measures]
    aligned = [_aligned(baseline, challenger, name) for challenger, name in pairs]
    p_values = np.array(
        [
            metrics.randomization_test(b - a, samples=SAMPLES, rng=np.random.default_rng(SEED))
            if len(a)
            else math.nan
            for a, b in aligned
        ]
    )
    corrected = metrics.holm(p_values)
    return [
        _comparison(baseline, challenger, name, a, b, float(p_values[at]), float(corrected[at]),
                    int(np.count_nonzero(~np.isnan(p_values))))
        for at, ((challenger, name), (a, b)) in enumerate(zip(pairs, aligned, strict=True))
    ]  # fmt: skip


def _aligned(
    baseline: ScoredRun, challenger: ScoredRun, measure: str
) -> tuple[np.ndarray, np.ndarray]:
    """Values of the queries that both count, NaN where one of them has none."""
    theirs = dict(
        zip(challenger.evaluation.query_ids, challenger.evaluation.values[measure], strict=True)
    )
    ours = zip(baseline.evaluation.query_ids, baseline.evaluation.values[measure], strict=True)
    rows = [(value, theirs[query]) for query, value in ours if query in theirs]
    columns = np.array(rows, np.float64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _comparison(
    baseline: ScoredRun,
    challenger: ScoredRun,
    measure: str,
    a: np.ndarray,
    b: np.ndarray,
    p_value: float,
    corrected: float,
    tests: int,
) -> RunComparison:
    summary = metrics.paired_deltas(a, b)
    bounds = _bounds(baseline, challenger, measure)
    return RunComparison(
        baseline=str(baseline.run.path),
        challenger=str(challenger.run.path),
        measure=measure,
        summary=summary,
        interval=metrics.bootstrap_interval(
            b - a, samples=SAMPLES, rng=np.random.default_rng(SEED), deltas=True
        ),
        p_value=p_value,
        corrected=corrected,
        tests=tests,
        unjudged_bounds=bounds,
        warnings=_warnings(baseline, challenger, measure, summary, bounds),
    )


def _bounds(baseline: ScoredRun, challenger: ScoredRun, measure: str) -> tuple[float, float] | None:
    inner = metrics.parse_measure(measure).innermost
    if inner.cutoff is None or not inner.metric.needs_relevant or inner.metric.needs_positions:
        return None
    low, high = unjudged_bounds(
        baseline.listed, challenger.listed, challenger.judgments, measure, challenger.how
    )
    return low, high


def _warnings(
    baseline: ScoredRun,
    challenger: ScoredRun,
    measure: str,
    summary: metrics.PairedSummary,
    bounds: tuple[float, float] | None,
) -> tuple[str, ...]:
    """A delta whose sign unjudged documents could turn says so."""
    if bounds is None or not summary.n or not bounds[0] <= 0 <= bounds[1] or summary.mean == 0:
        return ()
    cutoff = metrics.parse_measure(measure).innermost.cutoff
    shares = [
        metrics.evaluate(item.listed, item.judgments, [f"unjudged@{cutoff}"], item.how).mean(
            f"unjudged@{cutoff}"
        )
        for item in (baseline, challenger)
    ]
    if abs(shares[1] - shares[0]) <= APART:
        return ()
    return (
        f"{measure} of {challenger.run.path} depends on unjudged documents: {shares[1]:.0%} of its "
        f"first {cutoff} ranks against {shares[0]:.0%}; the delta {summary.mean:+.4f} could lie "
        f"from {bounds[0]:+.4f} to {bounds[1]:+.4f}: judge them (rerank pool)",
    )


def _p(value: float) -> str:
    if math.isnan(value):
        return "—"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
