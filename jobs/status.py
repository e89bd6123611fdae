"""`rerank status SUITE`: what is frozen, complete, missing, and the command that finishes it."""

from __future__ import annotations

import argparse

from jobs.config import Suite
from jobs.console import say
from jobs.replay import runs_of
from jobs.suite_arguments import add_suite_arguments, suite_of
from rerank.errors import ConfigError
from rerank.freezing import spec_identity
from rerank.frozen import FrozenTask, current_frozen
from rerank.runs import Run, abbreviate
from rerank.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 where everything is complete, 1 where something is missing."""
    suite, store = suite_of(arguments)
    command = " ".join(["rerank run", arguments.suite, *arguments.overrides])
    say(f"store {store.root}")
    missing = False
    for spec in suite.tasks:
        try:
            task = current_frozen(store, spec.name, spec_identity(spec))
        except ConfigError as error:
            say(f"{spec.name}: {error}")
            missing = True
            continue
        say(frozen_line(task))
        missing |= _models(suite, store, task, command)
    page = f"reports/{suite.spec.name}/report.html"
    say(f"report: {store.where(page) if store.exists(page) else 'not written'}")
    if missing:
        say(f"finish it with: {command}")
    return int(missing)


def frozen_line(task: FrozenTask) -> str:
    counts = task.counts
    return (
        f"{task.name}: frozen as {task.fingerprint}, {counts['queries']:,} queries, "
        f"{counts['pairs']:,} pairs, {len(task.shards)} shards"
    )


def _models(suite: Suite, store: Store, task: FrozenTask, command: str) -> bool:
    missing = False
    for model in suite.models:
        (placed,) = runs_of(store, [task], model)
        line, complete = run_line(placed, suite.spec.max_failed_pairs)
        say(f"  {line}")
        if placed.all_poisoned():
            say(f"    take up the failed shards again with: {command} --retry-failed")
        missing |= not complete
    return missing


def run_line(run_: Run, max_failed_pairs: int) -> tuple[str, bool]:
    """One line on a run, and whether it is complete."""
    receipts = run_.receipts()
    absent = [shard for shard in run_.task.shards if shard.number not in receipts]
    failed = sum(receipt["failed"] for receipt in receipts.values())
    name = f"{run_.model} ({run_.fingerprint})"
    done = f"{len(receipts)}/{len(run_.task.shards)} shards"
    if not absent:
        extra = f", {failed} pairs without a score" if failed else ""
        return f"{name}: complete, {done}{extra}", failed <= max_failed_pairs
    failures = run_.failures()
    reasons = {failures[shard.number]["message"] for shard in absent if shard.number in failures}
    why = f"; failed: {'; '.join(sorted(reasons))}" if reasons else ""
    return f"{name}: {done}, missing {abbreviate([s.number for s in absent])}{why}", False
