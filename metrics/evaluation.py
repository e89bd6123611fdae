"""Evaluate: join, rank, measure; block by block, so memory does not grow with the collection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from metrics.arrays import Array, Booleans, Floats, Integers
from metrics.blocks import each_block
from metrics.errors import MetricError
from metrics.graded import falls, gains_of
from metrics.joining import Pairs, join
from metrics.measures import Measure, parse_measure
from metrics.ordering import Block, blocks_of, ranked, settled_by_grade
from metrics.parameters import Value
from metrics.rankings import Judged, Ranking, perfect
from metrics.records import Conventions, Evaluation, Judgments, Run, mean_of_defined

_DEFAULTS = Conventions()


def evaluate(
    run: Run,
    judgments: Judgments,
    measures: Sequence[str],
    conventions: Conventions = _DEFAULTS,
) -> Evaluation:
    """Values per query of every measure, under one set of conventions.

    A judged query of which the run has nothing is worth 0 in every measure (its RBP_residual is
    1: all is unseen). What is missing, left out or tied is counted beside the values. MetricError
    where the input has no honest number.
    """
    asked = {name: parse_measure(name) for name in measures}
    _check_input(asked, run, judgments)
    pairs = join(
        run,
        judgments,
        conventions,
        by_subtopic=any(measure.metric.needs_subtopics for measure in asked.values()),
        by_position=conventions.tie == "input"
        or any(measure.metric.needs_positions for measure in asked.values()),
    )
    n = len(pairs.query_ids)
    relevant = _any_relevant(pairs, conventions.rel)
    counted = relevant if conventions.no_relevant == "skip" else np.ones_like(relevant)
    kept = np.flatnonzero(counted)
    cutoffs = _cutoffs(asked.values(), conventions.depth)
    values, lowest, highest = ({name: np.zeros(n) for name in asked} for _ in range(3))
    shares, documents, reached = np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool)
    straddling = np.zeros(len(cutoffs), np.int64)
    blocks = list(blocks_of(pairs, kept))
    for found in each_block(
        lambda members: _of_block(ranked(pairs, members, conventions), asked, conventions), blocks
    ):
        for table, columns in ((values, found.values), (lowest, found.low), (highest, found.high)):
            for name, column in columns.items():
                table[name][found.members] = column
        documents[found.members], shares[found.members] = found.documents, found.tied_share
        reached[found.members] = found.reached
        straddling += found.straddling
    return Evaluation(
        query_ids=_named(pairs, counted),
        values={name: column[kept] for name, column in values.items()},
        missing=pairs.missing,
        unjudged_queries=pairs.unjudged_queries,
        no_relevant=_named(pairs, ~relevant),
        tie_rate=float(np.rint(shares * documents).sum()) / max(1.0, float(documents.sum())),
        ties_at_cutoff=dict(zip(cutoffs, straddling.tolist(), strict=True)),
        bad_scores=int(np.count_nonzero(pairs.query[np.isnan(pairs.scores)] >= 0)),
        tied_share=shares[kept],
        unreachable=_named(pairs, relevant & ~reached),
        tie_range={
            name: (mean_of_defined(lowest[name][kept]), mean_of_defined(highest[name][kept]))
            for name in asked
        },
    )


@dataclass(frozen=True)
class _Found:
    """What one block gives; every array is (n_members,), straddling one a cutoff."""

    members: Integers
    values: dict[str, Floats]
    low: dict[str, Floats]
    high: dict[str, Floats]
    documents: Integers
    reached: Booleans
    tied_share: Floats
    straddling: Integers


def _of_block(block: Block, asked: dict[str, Measure], how: Conventions) -> _Found:
    columns = measure_block(block.ranking, block.judged, asked, how)
    low = high = columns
    if block.settled.any():
        ends = _extremes(block, asked, how)
        low, high = (
            {name: _replaced(columns[name], block.settled, end(*ends[name])) for name in asked}
            for end in (np.minimum, np.maximum)
        )
    cutoffs = _cutoffs(asked.values(), how.depth)
    cut = [block.cut if k == how.depth else block.straddles(k) for k in cutoffs]
    lengths = block.ranking.lengths
    return _Found(
        members=block.members,
        values=columns,
        low=low,
        high=high,
        documents=lengths,
        reached=np.any(block.whole.ranking.grades >= how.rel, axis=1),
        tied_share=block.tied.sum(axis=1) / np.maximum(lengths, 1),
        straddling=np.array([np.count_nonzero(queries) for queries in cut], np.int64),
    )


def _replaced(column: Floats, which: Booleans, values: Floats) -> Floats:
    changed = column.copy()
    changed[which] = values
    return changed


def measure_block(
    ranking: Ranking, judged: Judged, measures: dict[str, Measure], conventions: Conventions
) -> dict[str, Floats]:
    """Values of every measure for some ranked queries: name -> (n_members,) float64."""
    wraps = any(measure.of for measure in measures.values())
    best = perfect(ranking) if wraps else None
    columns = {}
    for name, measure in measures.items():
        value = _wrapped(measure, ranking, best, judged, conventions)
        if conventions.no_relevant != "zero":
            value = np.where(_undefined(measure, judged, conventions), np.nan, value)
        columns[name] = value
    return columns


def _extremes(
    block: Block, measures: dict[str, Measure], how: Conventions
) -> dict[str, tuple[Floats, Floats]]:
    """Values with ties lowest and highest grade first: name -> two (n_settled,) float64."""
    columns = measure_block(*settled_by_grade(block, how), measures, how)
    return {name: (values[: len(values) // 2], values[len(values) // 2 :])
            for name, values in columns.items()}  # fmt: skip


def _wrapped(
    measure: Measure, ranking: Ranking, best: Ranking | None, judged: Judged, how: Conventions
) -> Floats:
    """The measure's value; of oracle the value on the best order, of headroom the difference."""
    if measure.of is None or best is None:
        return _value(measure, ranking, judged, how)
    gain = measure.of.resolved(_defaults(how)).get("gain", "linear")
    if falls(gain):
        best = perfect(ranking, gains_of(ranking.grades, gain))
    ceiling = _value(measure.of, best, judged, how)
    return (
        ceiling if measure.name == "oracle" else ceiling - _value(measure.of, ranking, judged, how)
    )


def _value(measure: Measure, ranking: Ranking, judged: Judged, how: Conventions) -> Floats:
    function = measure.metric.function
    assert function is not None, "oracle and headroom wrap a measure"
    return function(ranking, judged, k=measure.cutoff, **measure.resolved(_defaults(how)))


def _undefined(measure: Measure, judged: Judged, how: Conventions) -> Booleans:
    """Queries without a document that the measure could reward: (n_members,) bool."""
    inner = measure.innermost
    if not inner.metric.needs_relevant:
        return np.zeros(len(judged.grades), dtype=bool)
    level = inner.resolved(_defaults(how)).get("rel")
    without: Booleans = judged.count(np.nextafter(0, 1) if level is None else level) == 0
    return without


def _defaults(how: Conventions) -> dict[str, Value]:
    return {"rel": how.rel, "gain": "linear" if how.gains == "float" else how.gains}


def _any_relevant(pairs: Pairs, rel: int) -> Booleans:
    """Queries that have a judgment of at least rel: (n_queries,) bool."""
    relevant = np.zeros(len(pairs.query_ids), dtype=bool)
    relevant[pairs.judged_query[pairs.judged_grades >= rel]] = True
    return relevant


def _named(pairs: Pairs, which: Array) -> tuple[str, ...]:
    return tuple(compress(pairs.query_ids, which.tolist()))


def _cutoffs(measures: Iterable[Measure], depth: int | None) -> list[int]:
    """Cutoffs by evaluated rank, ascending; those of the candidate set are by stage-1 rank."""
    inner = [measure.innermost for measure in measures]
    cutoffs = {m.cutoff for m in inner if m.cutoff and not m.metric.needs_positions}
    return sorted(cutoffs | ({depth} if depth else set()))


def _check_input(asked: dict[str, Measure], run: Run, judgments: Judgments) -> None:
    """MetricError where a measure needs a column that is not there."""
    for name, measure in asked.items():
        if run.positions is None and measure.metric.needs_positions and measure.cutoff:
            raise MetricError(
                f"{name} counts by stage-1 rank; give Run.positions, or ask for {measure.name}"
            )
        if judgments.subtopics is None and measure.metric.needs_subtopics:
            raise MetricError(
                f"{name} needs judgments per subtopic, and these have none; give "
                "Judgments.subtopics (the second column of TREC diversity qrels)"
            )
