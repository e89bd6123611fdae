"""`rerank export SUITE`: the suite's scores as TREC runs and its judgments as TREC qrels.

For trec_eval, pytrec_eval, ir_measures or ranx: scores with 17 significant digits, so that the
other tool sees exactly what was measured here.
"""

from __future__ import annotations

import argparse

from jobs.console import say
from jobs.freeze import frozen_tasks
from jobs.replay import runs_of
from jobs.suite_arguments import add_suite_arguments, suite_of
from rerank.formats import Judgment, write_qrels, write_run
from rerank.frozen import FrozenTask
from rerank.runs import Run
from rerank.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    parser.add_argument(
        "--to", default="", metavar="FOLDER", help="default: exports/SUITE in the store"
    )


def run(arguments: argparse.Namespace) -> int:
    suite, store = suite_of(arguments)
    target = Store(arguments.to or store.path(f"exports/{suite.spec.name}"))
    for task in frozen_tasks(suite, store):
        target.write(f"{task.name}/qrels.trec", qrels_of(task))
        for model in suite.models:
            (placed,) = runs_of(store, [task], model)
            target.write(f"{task.name}/{model.name}.run", run_of(placed))
        folder = target.path(task.name)
        say(f"{task.name}: qrels.trec and {len(suite.models)} runs in {folder}")
    return 0


def qrels_of(task: FrozenTask) -> bytes:
    rows = task.judgments.to_pylist()
    return write_qrels([Judgment(row["query_id"], row["doc_id"], row["grade"]) for row in rows])


def run_of(placed: Run) -> bytes:
    """A TREC run, best first in each query, ties by document id descending.

    A pair without a score has no line: an evaluator then has it behind all others.
    """
    rows = [row for row in placed.scores().to_pylist() if row["score"] is not None]
    rows.sort(key=lambda row: row["doc_id"].encode("utf-8"), reverse=True)
    rows.sort(key=lambda row: (row["query_id"].encode("utf-8"), -row["score"]))
    lines: list[tuple[str, str, int, float]] = []
    for row in rows:
        first = not lines or lines[-1][0] != row["query_id"]
        rank = 1 if first else lines[-1][2] + 1
        lines.append((row["query_id"], row["doc_id"], rank, row["score"]))
    return write_run(lines, placed.model)
