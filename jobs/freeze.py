"""`rerank freeze SUITE`: every task of the suite becomes frozen candidates, once."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from jobs.config import Suite
from jobs.console import say
from jobs.suite_arguments import add_suite_arguments, suite_of
from jobs.tokenising import tokenise_of
from rerank.freezing import freeze, spec_identity
from rerank.frozen import FrozenTask, current_frozen
from rerank.frozen_facts import frozen_facts
from rerank.reporting.freeze_report import render_freeze_report
from rerank.store import Store, json_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    suite, store = suite_of(arguments)
    freeze_tasks(suite, store)
    return 0


def freeze_tasks(
    suite: Suite, store: Store, progress: Callable[[str], None] = say
) -> list[FrozenTask]:
    """The suite's frozen tasks, frozen now where the store does not hold them."""
    frozen = []
    for spec in suite.tasks:
        task = freeze(spec, store, progress, tokenise_of(suite))
        counts = task.counts
        progress(
            f"{task.name}: {counts['queries']:,} queries, {counts['pairs']:,} candidate pairs, "
            f"{len(task.shards)} shards, fingerprint {task.fingerprint}"
        )
        progress(f"{task.name}: what it holds: {write_freeze_report(store, task)}")
        frozen.append(task)
    return frozen


def write_freeze_report(store: Store, task: FrozenTask) -> str:
    """freeze_report.html and .json beside the manifest, once; the address of the page.

    They are no part of the task's identity: nothing reads them back.
    """
    page = f"{task.folder}/freeze_report.html"
    if not store.exists(page):
        facts = frozen_facts(task)
        store.write(f"{task.folder}/freeze_report.json", json_bytes(facts))
        store.write(page, render_freeze_report(facts).encode("utf-8"))
    return store.where(page)


def frozen_tasks(suite: Suite, store: Store) -> list[FrozenTask]:
    """The suite's frozen tasks from the store alone; ConfigError where one is not frozen."""
    return [current_frozen(store, spec.name, spec_identity(spec)) for spec in suite.tasks]
