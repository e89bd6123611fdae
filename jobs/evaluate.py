"""`rerank evaluate SUITE`: values per query (Parquet) and means, from complete runs alone."""

from __future__ import annotations

import argparse

from jobs.config import Suite
from jobs.console import say
from jobs.freeze import frozen_tasks
from jobs.replay import runs_of
from jobs.suite_arguments import add_suite_arguments, suite_of
from jobs.tables import leaderboard
from rerank.frozen import FrozenTask
from rerank.store import Store
from rerank.suite.evaluation import SystemEvaluation, evaluate_run, query_metrics_table, view_task
from rerank.suite.findings import Findings, find


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    suite, store = suite_of(arguments)
    findings = findings_of(suite, store, frozen_tasks(suite, store))
    say(leaderboard(findings, suite.models))
    return 0


def findings_of(suite: Suite, store: Store, tasks: list[FrozenTask]) -> Findings:
    """Evaluate every model on every task; writes query_metrics.parquet, returns the findings.

    Raises IncompleteRun where a run lacks shards: no mean is made of part of a run.
    """
    systems: list[SystemEvaluation] = []
    for task in tasks:
        view = view_task(task)
        for model in suite.models:
            (placed,) = runs_of(store, [task], model)
            systems.append(evaluate_run(placed, view, suite.spec))
    key = f"evaluations/{suite.spec.name}/query_metrics.parquet"
    store.write_table(key, query_metrics_table(systems))
    return find(suite.spec, systems)
