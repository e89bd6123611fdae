"""Evaluate: join, rank, measure; block by block, so memory does not grow with the collection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from metrics.arrays import Array, Booleans, Floats, Integers
from metrics.errors import MetricError
from metrics.joining import Pairs, join
from metrics.measures import Measure, parse_measure
from metrics.ordering import Block, Judged, Ranking, perfect, ranked_blocks
from metrics.parameters import Value
from metrics.records import Conventions, Evaluation, Judgments, Run

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
    for name, measure in asked.items():
        if run.positions is None and measure.metric.needs_positions and measure.cutoff:
            raise MetricError(
                f"{name} counts by stage-1 rank; give Run.positions, or ask for {measure.name}"
            )
    pairs = join(run, judgments, conventions)
    relevant = _has_relevant(pairs, conventions.rel)
    counted = relevant if conventions.no_relevant == "skip" else np.ones_like(relevant)
    kept = np.flatnonzero(counted)
    values = {name: np.zeros(len(pairs.query_ids)) for name in asked}
    shares = np.zeros(len(pairs.query_ids))
    straddling = dict.fromkeys(_cutoffs(asked.values()), 0)
    for block in ranked_blocks(pairs, kept, conventions.tie):
        for name, column in measure_block(block, asked, conventions).items():
            values[name][block.members] = column
        shares[block.members] = block.tied.sum(axis=1) / np.maximum(block.ranking.lengths, 1)
        for k in straddling:
            straddling[k] += int(np.count_nonzero(block.straddles(k)))
    documents = pairs.lengths[kept]
    tied = float(np.rint(shares[kept] * documents).sum())
    return Evaluation(
        query_ids=_named(pairs, counted),
        values={name: column[kept] for name, column in values.items()},
        missing=pairs.missing,
        unjudged_queries=pairs.unjudged_queries,
        no_relevant=_named(pairs, ~relevant),
        tie_rate=tied / max(1, int(documents.sum())),
        ties_at_cutoff=straddling,
        bad_scores=int(np.count_nonzero(np.isnan(pairs.scores))),
        tied_share=shares[kept],
    )


def measure_block(
    block: Block, measures: dict[str, Measure], conventions: Conventions
) -> dict[str, Floats]:
    """Values of every measure for one block of ranked queries: name -> (n_members,) float64."""
    wraps = any(measure.of for measure in measures.values())
    best = perfect(block.ranking) if wraps else None
    columns = {}
    for name, measure in measures.items():
        value = _wrapped(measure, block.ranking, best, block.judged, conventions)
        if conventions.no_relevant != "zero":
            value = np.where(_undefined(measure, block.judged, conventions), np.nan, value)
        columns[name] = value
    return columns


def _wrapped(
    measure: Measure, ranking: Ranking, best: Ranking | None, judged: Judged, how: Conventions
) -> Floats:
    """The measure's value; of oracle the value on the best order, of headroom the difference."""
    if measure.of is None or best is None:
        return _value(measure, ranking, judged, how)
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


def _has_relevant(pairs: Pairs, rel: int) -> Booleans:
    query: Integers = np.repeat(np.arange(len(pairs.query_ids)), pairs.judged_lengths)
    relevant = np.bincount(query[pairs.judged_grades >= rel], minlength=len(pairs.query_ids))
    has: Booleans = relevant > 0
    return has


def _named(pairs: Pairs, which: Array) -> tuple[str, ...]:
    return tuple(pairs.query_ids[at] for at in np.flatnonzero(which))


def _cutoffs(measures: Iterable[Measure]) -> list[int]:
    """Cutoffs by evaluated rank, ascending; those of the candidate set are by stage-1 rank."""
    inner = [measure.innermost for measure in measures]
    return sorted({m.cutoff for m in inner if m.cutoff and not m.metric.needs_positions})
