"""Compare: two systems on the same queries, query by query, with an interval and slices.

Deltas are challenger minus baseline, over the queries where both systems scored every pair. Two
runs are only compared if they rest on the same candidates and judgments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import metrics
from rerank.errors import FrozenDataError
from rerank.evaluation import SystemEvaluation
from rerank.runs import Run
from rerank.slices import Slice
from rerank.suites import SuiteSpec


@dataclass(frozen=True)
class SliceDelta:
    """A comparison restricted to one slice."""

    slice: Slice
    summary: metrics.PairedSummary
    interval: metrics.Interval | None


@dataclass(frozen=True)
class Comparison:
    """A challenger against the baseline for one measure on one task.

    deltas: (n,) float64 challenger minus baseline, aligned with query_ids.
    """

    baseline: SystemEvaluation
    challenger: SystemEvaluation
    measure: str
    query_ids: tuple[str, ...]
    baseline_values: np.ndarray
    challenger_values: np.ndarray
    deltas: np.ndarray
    weights: np.ndarray
    left_out: int  # queries without a value, or with a pair that has no score, in either system
    summary: metrics.PairedSummary
    interval: metrics.Interval | None
    slices: tuple[SliceDelta, ...]


def check_comparable(first: Run, second: Run) -> None:
    """FrozenDataError where two runs rest on other candidates or judgments; says which digest."""
    mine, other = first.task.manifest["identity"], second.task.manifest["identity"]
    if first.task.fingerprint == second.task.fingerprint:
        return
    parts = {
        "candidates": (mine["candidates"], other["candidates"]),
        "queries": (mine["queries"], other["queries"]),
        "judgments": (mine["judgments"], other["judgments"]),
        "recipe": (mine["recipe"], other["recipe"]),
    }
    differing = [name for name, (left, right) in parts.items() if left != right]
    injected = [
        run.task.manifest["identity"]["recipe"]["spec"]["inject_gold"] for run in (first, second)
    ]
    why = " (one has gold injected, the other has not)" if injected[0] != injected[1] else ""
    raise FrozenDataError(
        f"{first.model} on {first.task.name} ({first.task.fingerprint}) and {second.model} on "
        f"{second.task.name} ({second.task.fingerprint}) differ in {', '.join(differing)}{why}; "
        "only runs over the same frozen task can be compared: replay both over one"
    )


def compare(
    baseline: SystemEvaluation,
    challenger: SystemEvaluation,
    measure: str,
    suite: SuiteSpec,
    *,
    with_slices: bool = True,
) -> Comparison:
    """Paired deltas of one measure, their bootstrap interval, and the same for every slice."""
    check_comparable(baseline.run, challenger.run)
    ours, theirs = baseline.values(measure), challenger.values(measure)
    kept = baseline.valid & challenger.valid & ~np.isnan(ours) & ~np.isnan(theirs)
    members = challenger.slices(suite.slices) if with_slices else {}
    return Comparison(
        baseline=baseline,
        challenger=challenger,
        measure=measure,
        query_ids=tuple(np.array(baseline.query_ids, dtype=object)[kept].tolist()),
        baseline_values=ours[kept],
        challenger_values=theirs[kept],
        deltas=(theirs - ours)[kept],
        weights=baseline.weights[kept],
        left_out=int((~kept).sum()),
        summary=metrics.paired_deltas(ours[kept], theirs[kept]),
        interval=interval_of((theirs - ours)[kept], suite, deltas=True),
        slices=tuple(
            SliceDelta(
                slice=name,
                summary=metrics.paired_deltas(ours[kept & inside], theirs[kept & inside]),
                interval=interval_of((theirs - ours)[kept & inside], suite, deltas=True),
            )
            for name, inside in members.items()
            if (kept & inside).any()
        ),
    )


def interval_of(
    values: np.ndarray, suite: SuiteSpec, *, deltas: bool = False
) -> metrics.Interval | None:
    """Seeded bootstrap interval of a mean; None for fewer than two values.

    Every call starts from the suite's seed, so the same queries meet the same resamples.
    """
    if len(values) < 2:
        return None
    return metrics.bootstrap_interval(
        values,
        samples=suite.samples,
        confidence=suite.confidence,
        rng=np.random.default_rng(suite.seed),
        deltas=deltas,
    )


def macro_interval(deltas: Sequence[np.ndarray], suite: SuiteSpec) -> metrics.Interval | None:
    """Interval of the mean over tasks, queries resampled within each task."""
    if any(len(values) < 2 for values in deltas):
        return None
    return metrics.bootstrap_macro(
        list(deltas),
        samples=suite.samples,
        confidence=suite.confidence,
        rng=np.random.default_rng(suite.seed),
    )
