"""The options of one task: every model at every depth, every cascade, with quality and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import metrics
from metrics.arrays import Floats
from rerank.efficiency.costs import Speed, costs_of, speeds_of
from rerank.efficiency.frontier import Option, Verdict, verdicts
from rerank.efficiency.sweeps import (
    Configuration,
    Lists,
    at_depth,
    cascade,
    first_stage,
    gap_levels,
    lists_of,
)
from rerank.errors import ConfigError
from rerank.records import ModelSpec
from rerank.runs import Run
from rerank.store import Store
from rerank.suite.evaluation import TaskView, check_alignment, conventions_of, view_task
from rerank.suite.suites import SuiteSpec

Record = dict[str, Any]


@dataclass(frozen=True)
class Grid:
    """What is swept, by which measure and cost. cascades: (small, large), None for all that make
    sense; gap_shares: shares of queries that a gap sends on to the large model."""

    depths: tuple[int, ...]
    tops: tuple[int, ...]
    cascades: tuple[tuple[str, str], ...] | None
    gap_shares: tuple[float, ...]
    cost: str
    speed: str
    measure: str
    price: float | None = None


@dataclass(frozen=True)
class Scores:
    """The replayed scores of a task's models, by name: (n_rows,) float64, NaN where one failed."""

    lists: Lists
    of: Mapping[str, Floats]


def task_frontier(
    store: Store, runs: Sequence[tuple[ModelSpec, Run]], suite: SuiteSpec, grid: Grid
) -> Record:
    """The frontier of one task, as JSON types, cheapest option first; no model is loaded.

    runs: every model's on this task. IncompleteRun where a run lacks scores; ConfigError where a
    model has no speed.
    """
    view = view_task(runs[0][1].task)
    speeds = speeds_of(store, runs, grid.speed)
    scores = Scores(
        lists_of(view.candidate_queries, view.ranks),
        {m.name: scores_of(run, view) for m, run in runs if m.adapter != "first_stage"},
    )
    found = configurations(scores, speeds, grid)
    costs = [costs_of(configuration, speeds, grid.price) for configuration in found]
    served = {model.name for model, _ in runs if model.adapter == "http"}
    notes = [
        f"{name} is served: its speed is its server's, network and rate limit included, and no "
        "pure compute as that of the others"
        for name in sorted(served)
    ]
    left_out = [c.name for c, cost in zip(found, costs, strict=True) if cost[grid.cost] is None]
    if left_out:
        notes.append(
            f"{len(left_out)} configurations have no {grid.cost} and are left out: "
            f"{', '.join(left_out[:4])}{' ...' if len(left_out) > 4 else ''}"
        )
    kept = [
        (configuration, cost)
        for configuration, cost in zip(found, costs, strict=True)
        if cost[grid.cost] is not None
    ]
    if not kept:
        raise ConfigError(f"no configuration of {view.task.name} has a {grid.cost}")
    evaluated = [evaluation(view, configuration, suite, grid.measure) for configuration, _ in kept]
    options = [
        Option(configuration.name, values, float(cost[grid.cost] or 0.0))
        for (configuration, cost), (_, values) in zip(kept, evaluated, strict=True)
    ]
    clusters = clusters_of(view, evaluated[0][0], suite.clusters)
    judged = verdicts(options, suite, clusters)
    rows = [
        row_of(verdict, configuration, cost) | {"served": bool(served & set(configuration.pairs))}
        for verdict, (configuration, cost) in zip(judged, kept, strict=True)
    ]
    return {
        "task": view.task.name,
        "title": str(view.task.manifest["about"]["title"]),
        "n": judged[0].n,
        "speeds": {name: _speed_record(speed) for name, speed in speeds.items()},
        "runs": {model.name: run.fingerprint for model, run in runs},
        "rows": sorted(rows, key=lambda row: (row["costs"][grid.cost], row["name"])),
        "notes": notes,
    }


def configurations(scores: Scores, speeds: Mapping[str, Speed], grid: Grid) -> list[Configuration]:
    """Stage 1, every model at every depth and whole, every cascade."""
    lists = scores.lists
    longest = int(lists.per_query(np.ones(len(lists.ranks), bool)).max(initial=0))
    depths = [*(depth for depth in grid.depths if depth < longest), None]
    found = [first_stage(lists)]
    found += [
        at_depth(lists, name, values, depth)
        for name, values in scores.of.items()
        for depth in depths
    ]
    for small, large in pairs_of(speeds) if grid.cascades is None else grid.cascades:
        pair = (small, scores.of[small]), (large, scores.of[large])
        levels: list[float | None] = [None, *gap_levels(lists, scores.of[small], grid.gap_shares)]
        found += [
            cascade(lists, *pair, top=top, gap=gap)
            for top in grid.tops
            if top < longest
            for gap in levels
        ]
    return found


def pairs_of(speeds: Mapping[str, Speed]) -> list[tuple[str, str]]:
    """(small, large): every slower model after every faster one."""
    rates = {name: speed.pairs_per_second for name, speed in speeds.items()}
    return [(fast, slow) for fast in rates for slow in rates if rates[fast] > rates[slow]]


def scores_of(run: Run, view: TaskView) -> Floats:
    """The run's scores of the view's candidate rows; IncompleteRun where some are missing."""
    table = run.scores()
    ids = [np.array(table[name].to_pylist(), dtype=object) for name in ("query_id", "doc_id")]
    check_alignment(run, view, ids[0], ids[1])
    return np.asarray(table["score"].to_numpy(zero_copy_only=False), dtype=np.float64)


def evaluation(
    view: TaskView, configuration: Configuration, suite: SuiteSpec, measure: str
) -> tuple[tuple[str, ...], Floats]:
    """(query ids, values of the measure); as an evaluation of a run: a query of which no pair has
    a score is missing, and worth what the suite says."""
    scored = set(view.candidate_queries[~np.isnan(configuration.scores)].tolist())
    kept = np.array([query in scored for query in view.candidate_queries], dtype=bool)
    found = metrics.evaluate(
        metrics.Run(
            query_ids=view.candidate_queries[kept],
            doc_ids=view.candidate_docs[kept],
            scores=configuration.scores[kept],
            positions=view.ranks[kept],
        ),
        view.judgments,
        [measure],
        conventions_of(suite),
    )
    return found.query_ids, np.asarray(found.values[measure], dtype=np.float64)


def clusters_of(view: TaskView, query_ids: Sequence[str], attribute: str) -> np.ndarray | None:
    """Each query's value of the attribute, None for no attribute. ConfigError: one has none."""
    if not attribute:
        return None
    stated = view.attributes
    missing = [query for query in query_ids if attribute not in stated[query]]
    if missing:
        raise ConfigError(
            f"task '{view.task.name}': query '{missing[0]}' has no attribute '{attribute}', by "
            "which `clusters` groups queries; add it, or leave clusters out"
        )
    return np.array([stated[query][attribute] for query in query_ids], dtype=object)


def row_of(
    verdict: Verdict, configuration: Configuration, costs: Mapping[str, float | None]
) -> Record:
    """An option with its verdict, as JSON types."""
    return {
        "name": verdict.option.name,
        "models": list(configuration.pairs),
        "settings": dict(configuration.settings),
        "mean": None if np.isnan(verdict.mean) else verdict.mean,
        "n": verdict.n,
        "interval": None if verdict.interval is None else asdict(verdict.interval),
        "costs": dict(costs),
        "status": verdict.status,
        "by": verdict.by,
        "delta": verdict.delta,
        "delta_interval": (
            None if verdict.delta_interval is None else asdict(verdict.delta_interval)
        ),
    }


def _speed_record(speed: Speed) -> Record:
    return {
        "pairs_per_second": speed.pairs_per_second,
        "kind": speed.kind,
        "source": speed.source,
        "gpus": speed.gpus,
    }
