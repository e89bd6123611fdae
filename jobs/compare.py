"""`rerank compare SUITE`: deltas, slices, gate and its verdict file; exit 1 names what failed."""

from __future__ import annotations

import argparse

from jobs.console import say
from jobs.evaluate import findings_of
from jobs.freeze import frozen_tasks
from jobs.suite_arguments import add_suite_arguments, suite_of
from jobs.tables import deltas, gate, slice_deltas
from rerank.errors import ConfigError
from rerank.frozen import open_frozen
from rerank.runs import Run
from rerank.store import Store, store_and_key
from rerank.suite.comparison import check_comparable
from rerank.suite.findings import Findings, verdict_record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    parser.add_argument(
        "--runs",
        nargs=2,
        metavar="TASK/MODEL/FINGERPRINT",
        help="only check whether two runs of the store may be compared: same candidates, same "
        "judgments",
    )
    parser.add_argument(
        "--verdict",
        metavar="FILE",
        help="write the gate's verdict (JSON) to FILE; default: "
        "STORE/evaluations/SUITE/verdict.json",
    )


def run(arguments: argparse.Namespace) -> int:
    suite, store = suite_of(arguments)
    if arguments.runs:
        first, second = (stored_run(store, name) for name in arguments.runs)
        check_comparable(first, second)
        say(
            f"{arguments.runs[0]} and {arguments.runs[1]} rest on the same candidates and judgments"
        )
        return 0
    findings = findings_of(suite, store, frozen_tasks(suite, store))
    verdict = write_verdict(store, findings, arguments.verdict)
    say(deltas(findings))
    say(slice_deltas(findings))
    say(gate(findings))
    say(f"verdict: {verdict}")
    return 1 if findings.passed is False else 0


def write_verdict(store: Store, findings: Findings, elsewhere: str | None) -> str:
    """The gate's verdict as strict JSON, in the store or in the file that was asked for."""
    if elsewhere is None:
        where, key = store, f"evaluations/{findings.suite.name}/verdict.json"
    else:
        where, key = store_and_key(elsewhere)
    where.write_json(key, verdict_record(findings))
    return where.where(key)


def stored_run(store: Store, name: str) -> Run:
    """The run of that name in the store; ConfigError where there is none."""
    key = f"runs/{name.strip('/')}"
    if name.count("/") != 2 or not store.exists(f"{key}/run.json"):
        raise ConfigError(f"no run '{name}' in {store.root}; `rerank status` lists the runs")
    record = store.read_json(f"{key}/run.json")
    task = open_frozen(store, record["task"], record["task_fingerprint"])
    return Run(store, task, record["model"], record["identity"])
