"""`rerank run SUITE`: the main job, whatever of it is missing; ends with table and report."""

from __future__ import annotations

import argparse

from jobs.compare import write_verdict
from jobs.console import say
from jobs.evaluate import findings_of
from jobs.freeze import freeze_tasks
from jobs.replay import add_retry_argument, command_of, finishing, replay_models
from jobs.report import write_report
from jobs.results import imported_blocks
from jobs.suite_arguments import add_suite_arguments, suite_of
from jobs.tables import deltas, gate, leaderboard


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    add_retry_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    suite, store = suite_of(arguments)
    imported_blocks(suite)  # wrong files are told before anything is spent
    with finishing(command_of(arguments)):
        tasks = freeze_tasks(suite, store)
        replay_models(suite, store, tasks, retry_failed=arguments.retry_failed)
    findings = findings_of(suite, store, tasks)
    verdict = write_verdict(store, findings, None)
    page = write_report(suite, store, findings)
    say("")
    say(leaderboard(findings, suite.models))
    say(deltas(findings))
    say(gate(findings))
    say(f"verdict: {verdict}")
    say(f"report: {page}")
    return 1 if findings.passed is False else 0
