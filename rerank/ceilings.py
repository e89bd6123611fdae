"""What stage 1 allows, from its own list: a run that drops candidates cannot lower it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import metrics
from metrics.arrays import Floats, Integers
from metrics.records import mean_of_defined
from rerank.duplicate_texts import Merged
from rerank.files.run_files import RunFile, places


def stage_1_ranks(candidates: RunFile) -> Integers:
    """Ranks of the first stage: as written, else the order of its scores, else of its rows."""
    if candidates.ranks is not None:
        return candidates.ranks
    if not candidates.scored:
        return places(candidates.query_ids)
    best_first = np.argsort(-candidates.scores, kind="stable")
    ranks = np.empty(len(best_first), np.int64)
    ranks[best_first] = places(candidates.query_ids[best_first])
    return ranks


def first_stage(candidates: RunFile) -> metrics.Run:
    """The first stage as a run: better ranks have higher scores."""
    ranks = stage_1_ranks(candidates)
    scores = -ranks.astype(np.float64)
    return metrics.Run(candidates.query_ids, candidates.doc_ids, scores, ranks)


def with_ceiling(
    evaluation: metrics.Evaluation,
    stage_1: Merged,
    measures: Sequence[str],
    how: metrics.Conventions,
) -> metrics.Evaluation:
    """The evaluation with candidate measures, oracle and headroom taken from all candidates.

    evaluation: of `measured_beside` the measures. stage_1: the first stage as a run.
    """
    ceilings = {
        name: _ceiling_of(measure)
        for name, measure in ((name, metrics.parse_measure(name)) for name in measures)
        if measure.metric.needs_positions or measure.of is not None
    }
    if not ceilings:
        return evaluation
    best = metrics.evaluate(
        stage_1.run, stage_1.judgments, list(ceilings.values()), replace(how, queries="qrels")
    )
    at = {query: row for row, query in enumerate(best.query_ids)}
    rows = [at[query] for query in evaluation.query_ids]
    found: dict[str, Floats] = {
        name: best.values[ceiling][rows] for name, ceiling in ceilings.items()
    }
    for name in ceilings:
        measure = metrics.parse_measure(name)
        if measure.name == "headroom":
            found[name] = found[name] - evaluation.values[str(measure.of)]
    means = {name: mean_of_defined(column) for name, column in found.items()}
    return replace(
        evaluation,
        values={**evaluation.values, **found},
        tie_range={**evaluation.tie_range, **{name: (m, m) for name, m in means.items()}},
        unreachable=best.unreachable,
    )


def measured_beside(measures: Sequence[str]) -> list[str]:
    """The measures, and those that a headroom is the distance to."""
    wrapped = [metrics.parse_measure(name) for name in measures]
    inner = [str(measure.of) for measure in wrapped if measure.name == "headroom"]
    return list(dict.fromkeys([*measures, *inner]))


def _ceiling_of(measure: metrics.Measure) -> str:
    return f"oracle({measure.of})" if measure.of is not None else str(measure)
