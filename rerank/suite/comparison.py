"""Compare: two systems on the same queries, query by query, with intervals, tests and slices.

Deltas are challenger minus baseline, over the queries where both systems scored every pair. Two
runs are only compared if they rest on the same candidates and judgments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import metrics
from rerank.errors import FrozenDataError
from rerank.runs import Run
from rerank.suite.evaluation import SystemEvaluation, conventions_of
from rerank.suite.intervals import intervals_of, uneven
from rerank.suite.samples import Sample
from rerank.suite.significance import Power, p_values, power_of, test_agrees
from rerank.suite.slices import Slice
from rerank.suite.suites import SuiteSpec


@dataclass(frozen=True)
class Difference:
    """The mean delta over some queries, and what says how much it means.

    sample: the deltas of the task's queries, and which of them count. p_value: of the suite's test;
    corrected_p: the same after correction for all tests of the suite. Both are None where nothing
    was tested, and until `with_p_values` and `correct` set them.
    """

    sample: Sample
    summary: metrics.PairedSummary
    interval: metrics.Interval | None
    power: Power | None
    p_value: float | None = None
    corrected_p: float | None = None
    agrees: bool = True  # the test points the way of the mean


@dataclass(frozen=True)
class SliceDelta:
    """A comparison restricted to one slice; a small one (below min_slice_n) is not tested."""

    slice: Slice
    difference: Difference
    small: bool


@dataclass(frozen=True)
class Comparison:
    """A challenger against the baseline for one measure on one task.

    deltas: (n,) float64 challenger minus baseline, aligned with query_ids, weights and clusters.
    unjudged_bounds: mean delta if unjudged documents were worst and best for it (see metrics); of
    the primary measure, where the systems rank different shares of unjudged documents, else None.
    """

    baseline: SystemEvaluation
    challenger: SystemEvaluation
    measure: str
    query_ids: tuple[str, ...]
    baseline_values: np.ndarray
    challenger_values: np.ndarray
    deltas: np.ndarray
    weights: np.ndarray
    clusters: np.ndarray | None
    left_out: int  # queries without a value, or with a pair that has no score, in either system
    whole: Difference
    weighted_delta: float | None  # by traffic
    weighted_interval: metrics.Interval | None
    unjudged_bounds: tuple[float, float] | None
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


@dataclass(frozen=True)
class _Pair:
    """What is compared: deltas of the whole task, and of every slice."""

    challenger: SystemEvaluation
    measure: str
    whole: Sample
    slices: dict[Slice, Sample]


def compare(
    baseline: SystemEvaluation,
    challengers: Sequence[SystemEvaluation],
    measures: Sequence[str],
    suite: SuiteSpec,
    *,
    sliced: Collection[str] = (),
) -> list[Comparison]:
    """Every challenger against the baseline in every measure, on one task; not yet tested.

    sliced: the measures whose slices are compared as well. Deltas of the same queries share their
    resamples, so the intervals of all are drawn at once.
    """
    pairs = [
        _pair(baseline, challenger, measure, suite.slices if measure in sliced else ())
        for challenger in challengers
        for measure in measures
    ]
    clusters, weights = baseline.clusters(suite.clusters), baseline.weights
    samples = [sample for pair in pairs for sample in (pair.whole, *pair.slices.values())]
    intervals = iter(intervals_of(samples, suite, clusters=clusters, deltas=True))
    weighted: list[metrics.Interval | None] = [None] * len(pairs)
    if uneven(weights):
        wholes = [pair.whole for pair in pairs]
        weighted = intervals_of(wholes, suite, clusters=clusters, weights=weights, deltas=True)
    found = []
    for pair, by_traffic in zip(pairs, weighted, strict=True):
        whole = _difference(pair.whole, next(intervals), clusters, suite)
        slices = tuple(
            SliceDelta(
                name,
                _difference(sample, next(intervals), clusters, suite),
                small=int(sample.inside.sum()) < suite.min_slice_n,
            )
            for name, sample in pair.slices.items()
        )
        interval = by_traffic if uneven(weights) else whole.interval
        bounds = _unjudged_bounds(baseline, pair, suite)
        found.append(_comparison(baseline, pair, whole, interval, bounds, slices, clusters))
    return found


def _unjudged_bounds(
    baseline: SystemEvaluation, pair: _Pair, suite: SuiteSpec
) -> tuple[float, float] | None:
    """Over the queries that are compared: one that failed has no documents to be judged."""
    kept = pair.whole.inside
    known = not metrics.parse_measure(pair.measure).innermost.metric.needs_subtopics
    if pair.measure != suite.primary or not kept.any() or not known:
        return None
    shares = [side.values("unjudged@10")[kept].mean() for side in (baseline, pair.challenger)]
    if shares[0] == shares[1]:
        return None
    ids = set(np.array(baseline.query_ids, dtype=object)[kept].tolist())
    judgments = baseline.view.judgments
    judged = _of_queries(judgments.query_ids, ids)
    low, high = metrics.unjudged_bounds(
        _scored(baseline, ids),
        _scored(pair.challenger, ids),
        replace(
            judgments,
            query_ids=judgments.query_ids[judged],
            doc_ids=judgments.doc_ids[judged],
            grades=judgments.grades[judged],
        ),
        pair.measure,
        conventions_of(suite),
    )
    return None if np.isnan(low) else (low, high)


def _scored(system: SystemEvaluation, ids: set[str]) -> metrics.Run:
    """The system's rows of these queries."""
    run = system.scored
    rows = _of_queries(run.query_ids, ids)
    return metrics.Run(
        query_ids=run.query_ids[rows],
        doc_ids=run.doc_ids[rows],
        scores=run.scores[rows],
        positions=None if run.positions is None else run.positions[rows],
    )


def _of_queries(query_ids: Iterable[str], ids: set[str]) -> np.ndarray:
    return np.array([query_id in ids for query_id in query_ids], dtype=bool)


def _pair(
    baseline: SystemEvaluation,
    challenger: SystemEvaluation,
    measure: str,
    attributes: Sequence[str],
) -> _Pair:
    check_comparable(baseline.run, challenger.run)
    deltas = challenger.values(measure) - baseline.values(measure)
    kept = baseline.valid & challenger.valid & ~np.isnan(deltas)
    slices = {
        name: Sample(deltas, kept & inside)
        for name, inside in challenger.slices(attributes).items()
        if (kept & inside).any()
    }
    return _Pair(challenger, measure, Sample(deltas, kept), slices)


def _difference(
    sample: Sample,
    interval: metrics.Interval | None,
    clusters: np.ndarray | None,
    suite: SuiteSpec,
) -> Difference:
    deltas, labels = sample.kept, None if clusters is None else clusters[sample.inside]
    return Difference(
        sample=sample,
        summary=metrics.paired_deltas(np.zeros(len(deltas)), deltas),
        interval=interval,
        power=power_of(deltas, labels, suite),
        agrees=test_agrees(deltas, labels, suite),
    )


def _comparison(
    baseline: SystemEvaluation,
    pair: _Pair,
    whole: Difference,
    weighted_interval: metrics.Interval | None,
    unjudged_bounds: tuple[float, float] | None,
    slices: tuple[SliceDelta, ...],
    clusters: np.ndarray | None,
) -> Comparison:
    challenger, kept = pair.challenger, pair.whole.inside
    deltas, weights = pair.whole.kept, baseline.weights[kept]
    weighted = metrics.weighted_mean(deltas, weights)
    return Comparison(
        baseline=baseline,
        challenger=challenger,
        measure=pair.measure,
        query_ids=tuple(np.array(baseline.query_ids, dtype=object)[kept].tolist()),
        baseline_values=baseline.values(pair.measure)[kept],
        challenger_values=challenger.values(pair.measure)[kept],
        deltas=deltas,
        weights=weights,
        clusters=None if clusters is None else clusters[kept],
        left_out=int((~kept).sum()),
        whole=whole,
        weighted_delta=None if np.isnan(weighted) else weighted,
        weighted_interval=weighted_interval,
        unjudged_bounds=unjudged_bounds,
        slices=slices,
    )


def with_p_values(comparisons: Sequence[Comparison], suite: SuiteSpec) -> list[Comparison]:
    """The comparisons tested, and every slice of theirs that is not small; not yet corrected."""
    entries = [(item, entry) for item in comparisons for entry in _tested(item)]
    found = np.full(len(entries), np.nan)
    for task in dict.fromkeys(item.challenger.task for item in comparisons):
        at = [place for place, (item, _) in enumerate(entries) if item.challenger.task == task]
        samples = [entries[place][1].sample for place in at]
        clusters = entries[at[0]][0].baseline.clusters(suite.clusters)
        found[at] = p_values(samples, clusters, suite, tests=len(entries))
    values = map(_number, found.tolist())
    return _refilled(comparisons, lambda entry: replace(entry, p_value=next(values)))


def correct(comparisons: Sequence[Comparison], suite: SuiteSpec) -> list[Comparison]:
    """The tested comparisons with p-values corrected for all of them together.

    Challengers x measures x slices are tests; the baseline is compared with nothing and is none.
    """
    entries = [entry for item in comparisons for entry in _tested(item)]
    raw = [np.nan if entry.p_value is None else entry.p_value for entry in entries]
    found = metrics.corrected(np.array(raw, dtype=np.float64), suite.correction)
    values = map(_number, found.tolist())
    return _refilled(comparisons, lambda entry: replace(entry, corrected_p=next(values)))


def _refilled(
    comparisons: Sequence[Comparison], fill: Callable[[Difference], Difference]
) -> list[Comparison]:
    """The comparisons with `fill` applied to what is tested, in the order of `_tested`."""
    return [
        replace(
            item,
            whole=fill(item.whole),
            slices=tuple(
                part if part.small else replace(part, difference=fill(part.difference))
                for part in item.slices
            ),
        )
        for item in comparisons
    ]


def _tested(item: Comparison) -> list[Difference]:
    """The whole task's difference, then those of the slices that are not small."""
    return [item.whole, *(part.difference for part in item.slices if not part.small)]


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def number_of_tests(comparisons: Sequence[Comparison]) -> int:
    """Tests that the correction counts: those with a p-value."""
    found = [entry for item in comparisons for entry in _tested(item)]
    return sum(entry.p_value is not None for entry in found)
