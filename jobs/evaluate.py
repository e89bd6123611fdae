"""`rerank evaluate SUITE`: values per query (Parquet) and means, from complete runs alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from jobs.config import Suite
from jobs.console import say
from jobs.freeze import frozen_tasks
from jobs.replay import runs_of
from jobs.results import imported_blocks
from jobs.suite_arguments import add_suite_arguments, suite_of
from jobs.tables import leaderboard
from rerank.frozen import FrozenTask
from rerank.store import Store
from rerank.suite.aggregates import write_aggregates
from rerank.suite.evaluation import SystemEvaluation, evaluate_run, query_metrics_table, view_task
from rerank.suite.findings import Findings, find


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    parser.add_argument(
        "--complete-only",
        action="store_true",
        help="leave out the models whose runs are not complete, and name them: what a running "
        "suite has so far, for the leaderboard app",
    )


def run(arguments: argparse.Namespace) -> int:
    """0; 1 where --complete-only left a model out."""
    suite, store = suite_of(arguments)
    tasks = frozen_tasks(suite, store)
    waiting = incomplete_models(suite, store, tasks) if arguments.complete_only else []
    findings = findings_of(suite, store, tasks, waiting)
    say(leaderboard(findings, suite.models))
    if waiting:
        say(f"left out, since their runs are not complete: {', '.join(waiting)}")
    return int(bool(waiting))


def incomplete_models(suite: Suite, store: Store, tasks: list[FrozenTask]) -> list[str]:
    """Models with a run that lacks shards; never the baseline, which all are compared with."""
    return [
        model.name
        for model in suite.models
        if model.name != suite.spec.baseline
        and any(run_.missing() for run_ in runs_of(store, tasks, model))
    ]


def findings_of(
    suite: Suite, store: Store, tasks: list[FrozenTask], waiting: Sequence[str] = ()
) -> Findings:
    """Evaluate every model on every task; writes query_metrics.parquet and what the leaderboard
    app reads, returns the findings.

    waiting: models that are left out. Raises IncompleteRun where a run lacks shards: no mean is
    made of part of a run.
    """

    models = [model for model in suite.models if model.name not in waiting]
    systems: list[SystemEvaluation] = []
    for task in tasks:
        view = view_task(task)
        for model in models:
            (placed,) = runs_of(store, [task], model)
            systems.append(evaluate_run(placed, view, suite.spec))
    key = f"evaluations/{suite.spec.name}/query_metrics.parquet"
    store.write_table(key, query_metrics_table(systems))
    findings = find(suite.spec, systems)
    write_aggregates(store, findings, models, imported_blocks(suite), waiting)
    return findings
