"""`rerank jobs SUITE cluster=NAME`: the jobs of a suite, by the cluster, the drivers, the store.

Where no cluster answers, the store alone is asked, and the table says so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping

from cluster.job_queue import PREFIX, attempts_of
from cluster.submission import Job, JobsApi, Unreachable
from jobs.clusters import ClusterSpec
from jobs.config import Suite
from jobs.console import say
from jobs.job_table import JobRow, job_rows, job_table, json_rows, latest_progress, run_facts
from jobs.submissions import Asked, submitted_models
from jobs.suite_arguments import add_suite_arguments
from rerank.store import json_bytes

EVERY = 10.0  # seconds between two tables of --watch
CLEAR = "\x1b[H\x1b[2J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    parser.add_argument("--json", action="store_true", help="the rows as JSON, errors in full")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=float,
        const=EVERY,
        metavar="SECONDS",
        help=f"again every SECONDS (default {EVERY:g}) until no job is active",
    )
    parser.epilog = "exit code: 0 everything is complete, 1 something is missing"


def run(arguments: argparse.Namespace) -> int:
    suite, cluster, asked = submitted_models(arguments)
    while True:
        jobs = jobs_of(cluster)
        rows = [row for one in asked for row in _rows(suite, one, jobs)]
        _show(arguments, rows, jobs is not None)
        active = any(job.active for one in asked for job in _attempts(one, jobs).values())
        if arguments.watch is None or not active:
            return int(not all(row.complete for row in rows))
        time.sleep(max(arguments.watch, 0.1))


def jobs_of(cluster: ClusterSpec) -> Mapping[str, Job] | None:
    """The cluster's jobs; None, and a word about it, where it does not answer."""
    try:
        return JobsApi(cluster.dashboard).jobs(PREFIX)
    except Unreachable as error:
        print(f"from storage alone: {error}", file=sys.stderr)
        return None


def _attempts(asked: Asked, jobs: Mapping[str, Job] | None) -> dict[int, Job]:
    return attempts_of(asked.family, jobs or {})


def latest_job(asked: Asked, jobs: Mapping[str, Job] | None) -> Job | None:
    """The last attempt at a model, if the cluster knows one."""
    attempts = _attempts(asked, jobs)
    return attempts[max(attempts)] if attempts else None


def _rows(suite: Suite, asked: Asked, jobs: Mapping[str, Job] | None) -> list[JobRow]:
    job = latest_job(asked, jobs)
    progress = latest_progress(asked.runs[0], suite.spec.name, job.id if job else "")
    facts = [run_facts(run) for run in asked.runs]
    return job_rows(facts, progress, job, answered=jobs is not None, now=time.time())


def _show(arguments: argparse.Namespace, rows: list[JobRow], answered: bool) -> None:
    if arguments.json:
        say(json_bytes(json_rows(rows)).decode().rstrip())
        return
    clear = CLEAR if arguments.watch is not None and sys.stdout.isatty() else ""
    say(f"{clear}{job_table(rows)}")
