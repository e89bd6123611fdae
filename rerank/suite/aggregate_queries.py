"""Tables of a task's queries as the leaderboard app reads them: texts, values, shared resamples.

All have the order of the task's queries, so that columns of two systems are compared by place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import metrics
from rerank.suite.evaluation import SystemEvaluation, TaskView
from rerank.suite.slices import Members, parts_of, slice_members
from rerank.suite.suites import SuiteSpec

OWN_SLICES = frozenset({"truncated", "tied"})  # that each system makes for itself
RESAMPLES = 2000  # kept of every task's bootstrap, for means over any choice of tasks

_TEXT, _REAL, _WHOLE = pa.string(), pa.float64(), pa.int64()


def queries_table(view: TaskView, suite: SuiteSpec) -> pa.Table:
    """One row an evaluated query: text, slices, and what stage 1 left of its judgments.

    slices: `attribute=value` of the suite's slices but those that a system makes (truncated, tied);
    gold_rank: 0 where no relevant document is a candidate; shard: where its candidates lie.
    """
    ids = view.query_ids.tolist()
    members = shared_slices(view, suite)
    slices: list[list[str]] = [[] for _ in ids]
    for (attribute, value), inside in members.items():
        for index in np.flatnonzero(inside).tolist():
            slices[index].append(f"{attribute}={value}")
    places, candidates = _places(view)
    return pa.table(
        {
            "query_id": pa.array(ids, _TEXT),
            "query": pa.array([view.texts[query] for query in ids], pa.large_string()),
            "weight": view.weights,
            "slices": pa.array(slices, pa.list_(_TEXT)),
            "candidates": pa.array([candidates.get(query, 0) for query in ids], _WHOLE),
            "relevant": view.properties["relevant"],
            "gold_rank": view.properties["gold_rank"],
            "shard": pa.array([places.get(query) for query in ids], _WHOLE),
        }
    )


def shared_slices(view: TaskView, suite: SuiteSpec) -> Members:
    """Members of the suite's slices but those that each system makes for itself: OWN_SLICES."""
    asked = [name for name in suite.slices if not OWN_SLICES & set(parts_of(name))]
    return slice_members(view.query_ids.tolist(), view.stated, asked, view.properties)


def _places(view: TaskView) -> tuple[dict[str, int], dict[str, int]]:
    """Query id -> number of its shard, and how many candidates it has."""
    rows = np.repeat(
        [shard.number for shard in view.task.shards], [shard.rows for shard in view.task.shards]
    )
    names, first, counts = np.unique(
        view.candidate_queries.astype(object), return_index=True, return_counts=True
    )
    places = dict(zip(names.tolist(), rows[first].tolist(), strict=True)) if len(names) else {}
    return places, dict(zip(names.tolist(), counts.tolist(), strict=True))


def values_table(system: SystemEvaluation) -> pa.Table:
    """One row a query: its value of every measure, and did the model fail, cut or tie on it."""
    cut = [query in system.truncated_queries for query in system.query_ids]
    columns: dict[str, Any] = {
        "query_id": pa.array(system.query_ids, _TEXT),
        "failed": pa.array(~system.valid, pa.bool_()),
        "truncated": pa.array(cut, pa.bool_()),
        "tied_share": np.asarray(system.evaluation.tied_share, np.float64),
    }
    for name in system.evaluation.values:
        columns[f"m:{name}"] = pa.array(system.values(name), _REAL, from_pandas=True)
    return pa.table(columns)


def resamples_table(systems: Sequence[SystemEvaluation], suite: SuiteSpec) -> pa.Table | None:
    """Means of the primary measure in the same resamples for all systems of one task.

    A column a system, a row a resample (float32). None where fewer than two queries have a value
    in every system: then nothing can be resampled.
    """
    table = np.stack([system.values(suite.primary) for system in systems], axis=1)
    kept = ~np.isnan(table).any(axis=1)
    labels = systems[0].clusters(suite.clusters)
    clusters = None if labels is None else labels[kept]
    if int(kept.sum() if clusters is None else len(np.unique(clusters))) < 2:
        return None
    means = metrics.bootstrap_means(
        table[kept],
        samples=min(suite.samples, RESAMPLES),
        rng=np.random.default_rng(suite.seed),
        clusters=clusters,
    )
    return pa.table(
        {system.model: means[:, at].astype(np.float32) for at, system in enumerate(systems)}
    )
