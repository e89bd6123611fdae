"""Means of systems with their intervals, beside them the traffic-weighted ones and the standing.

Rows are JSON-able: a value that does not exist is None, never NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import metrics
from rerank.suite.evaluation import SystemEvaluation
from rerank.suite.intervals import Standing, intervals_of, macro_interval, standings, uneven
from rerank.suite.samples import Sample
from rerank.suite.suites import MACRO, SuiteSpec

Row = dict[str, Any]
NO_STANDING: Row = {"ranks": None, "beaten": None}


def results(
    suite: SuiteSpec, systems: Sequence[SystemEvaluation], measures: Sequence[str]
) -> list[Row]:
    """A row a task, system and measure, then over all tasks (MACRO) where there are several.

    Only rows of the primary measure have a standing: it is what orders the leaderboard.
    """
    by_task: dict[str, list[SystemEvaluation]] = {}
    for system in systems:
        by_task.setdefault(system.task, []).append(system)
    rows = [row for found in by_task.values() for row in _task_rows(found, measures, suite)]
    places = {task: [found] for task, found in by_task.items()}
    if len(by_task) > 1:
        places[MACRO] = list(by_task.values())
        by_model: dict[str, list[SystemEvaluation]] = {}
        for system in systems:
            by_model.setdefault(system.model, []).append(system)
        rows += [
            _macro_result(found, measure, suite)
            for found in by_model.values()
            for measure in measures
        ]
    standing = {place: _standings(found, suite) for place, found in places.items()}
    return [
        row
        | (
            standing[row["task"]].get(row["system"], NO_STANDING)
            if row["measure"] == suite.primary
            else NO_STANDING
        )
        for row in rows
    ]


def mean_of(values: np.ndarray) -> Row:
    """Mean over the defined values and how many they are."""
    kept = values[~np.isnan(values)]
    return {"mean": float(kept.mean()) if len(kept) else None, "n": len(kept)}


def interval_row(interval: metrics.Interval | None) -> Row | None:
    return None if interval is None else asdict(interval)


def _task_rows(
    systems: Sequence[SystemEvaluation], measures: Sequence[str], suite: SuiteSpec
) -> list[Row]:
    """Every system and measure of one task; their intervals are drawn at once."""
    pairs = [(system, measure) for system in systems for measure in measures]
    samples = [_sample(system.values(measure)) for system, measure in pairs]
    clusters, weights = systems[0].clusters(suite.clusters), systems[0].weights
    intervals = intervals_of(samples, suite, clusters=clusters)
    by_traffic = intervals
    if uneven(weights):
        by_traffic = intervals_of(samples, suite, clusters=clusters, weights=weights)
    return [
        {
            "task": system.task,
            "system": system.model,
            "measure": measure,
            **mean_of(sample.values),
            "interval": interval_row(interval),
            "weighted_mean": _number(metrics.weighted_mean(sample.values, weights)),
            "weighted_interval": interval_row(weighted),
            "failed_pairs": system.failed_pairs,
            "failed_queries": len(system.failed_queries),
        }
        for (system, measure), sample, interval, weighted in zip(
            pairs, samples, intervals, by_traffic, strict=True
        )
    ]


def _sample(values: np.ndarray) -> Sample:
    return Sample(values, ~np.isnan(values))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def _macro_result(systems: Sequence[SystemEvaluation], measure: str, suite: SuiteSpec) -> Row:
    parts = [defined(system, measure, suite) for system in systems]
    return {
        "task": MACRO,
        "system": systems[0].model,
        "measure": measure,
        **macro_row(parts, suite),
        "failed_pairs": sum(system.failed_pairs for system in systems),
        "failed_queries": sum(len(system.failed_queries) for system in systems),
    }


# values, weights and clusters of one task's queries, (n,) each
Part = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def defined(system: SystemEvaluation, measure: str, suite: SuiteSpec) -> Part:
    """A measure's values without NaN, with the weights and the clusters of the same queries."""
    values, clusters = system.values(measure), system.clusters(suite.clusters)
    kept = ~np.isnan(values)
    return values[kept], system.weights[kept], None if clusters is None else clusters[kept]


def macro_row(parts: Sequence[Part], suite: SuiteSpec) -> Row:
    """Mean over tasks with its interval, unweighted and by traffic; None where a task has none."""
    series, weights = [part[0] for part in parts], [part[1] for part in parts]
    clusters = [part[2] for part in parts if part[2] is not None] or None
    interval = macro_interval(series, suite, clusters)
    by_traffic = interval
    if any(map(uneven, weights)):
        by_traffic = macro_interval(series, suite, clusters, weights)
    weighted = [metrics.weighted_mean(*pair) for pair in zip(series, weights, strict=True)]
    return {
        "mean": metrics.macro_mean(series) if all(map(len, series)) else None,
        "n": sum(map(len, series)),
        "interval": interval_row(interval),
        "weighted_mean": _number(float(np.mean(weighted))),
        "weighted_interval": interval_row(by_traffic),
    }


def _standings(tasks: Sequence[Sequence[SystemEvaluation]], suite: SuiteSpec) -> dict[str, Row]:
    """Model -> its standing among the systems that all tasks have."""
    tables = [np.stack([s.values(suite.primary) for s in systems], axis=1) for systems in tasks]
    labels = [systems[0].clusters(suite.clusters) for systems in tasks]
    clusters = [found for found in labels if found is not None] or None
    found = standings(tables, suite, clusters)
    if found is None:
        return {}
    models = [system.model for system in tasks[0]]
    return {model: _standing_row(place) for model, place in zip(models, found, strict=True)}


def _standing_row(standing: Standing) -> Row:
    return {"ranks": [standing.best, standing.worst], "beaten": standing.beaten}
