"""`rerank replay SUITE`: score what is missing, shard by shard, with every model of the suite."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from jobs.config import Suite, load_cluster
from jobs.console import pair_progress, say
from jobs.freeze import frozen_tasks
from jobs.suite_arguments import add_suite_arguments, suite_of
from rerank.circumstances import describe_process
from rerank.devices import planned_placement
from rerank.errors import IncompleteRun
from rerank.frozen import FrozenTask
from rerank.ledger import Session
from rerank.models.adapters import ADAPTERS, model_identity, resolve_weights
from rerank.records import ModelSpec, Placement
from rerank.replay import FAILED, Outcome, ShardJob, WorkerSpec, run_inline
from rerank.runs import Run
from rerank.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    add_retry_argument(parser)


def add_retry_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="also take up again what failed for good: poisoned shards and pairs without a score",
    )


def run(arguments: argparse.Namespace) -> int:
    suite, store = suite_of(arguments)
    replay_models(suite, store, frozen_tasks(suite, store), retry_failed=arguments.retry_failed)
    return 0


def replay_models(
    suite: Suite, store: Store, tasks: list[FrozenTask], *, retry_failed: bool = False
) -> list[Run]:
    """Complete runs of all models over all tasks.

    Every model is tried before IncompleteRun says what is still missing.
    """
    runs: list[Run] = []
    problems: list[str] = []
    for model in suite.models:
        placed = runs_of(store, tasks, model)
        if retry_failed:
            for run_ in placed:
                run_.forget_failures()
        problems += _replay(suite, store, model, placed)
        runs += placed
    if problems:
        raise IncompleteRun("; ".join(problems))
    return runs


def runs_of(store: Store, tasks: list[FrozenTask], model: ModelSpec) -> list[Run]:
    """The runs of one model over the tasks, by identity; nothing is scored."""
    identity = model_identity(model, placement_of(model), resolve_weights(model))
    return [Run(store, task, model.name, identity) for task in tasks]


def placement_of(model: ModelSpec) -> Placement:
    return planned_placement(model, ADAPTERS[model.adapter].weightless)


def _replay(suite: Suite, store: Store, model: ModelSpec, runs: list[Run]) -> list[str]:
    """Do what is missing of one model; returns what is wrong afterwards, one phrase a run."""
    jobs = todo_of(runs)
    if not jobs:
        say(f"{model.name}: complete, nothing to score")
    else:
        for run_ in runs:
            run_.task.verify()
            write_run_record(run_)
        total = sum(job.shard.rows for job in jobs)
        with pair_progress(model.name, total) as progress:
            counted = {"committed": 0, "skipped": 0, "failed": 0}
            for outcome in _engine(suite, store, model, runs, jobs):
                counted[outcome.status] += 1
                progress.advance(outcome.rows)
                if outcome.status == FAILED:
                    say(f"{model.name}: shard {outcome.shard} failed: {outcome.message}")
            parts = [f"{count} {status}" for status, count in counted.items() if count]
            say(f"{model.name}: {total:,} pairs in {len(jobs)} shards: {', '.join(parts)}")
    return [phrase for run_ in runs if (phrase := _problem(suite, run_))]


def todo_of(runs: list[Run]) -> list[ShardJob]:
    """The missing shards of all tasks of one model, longest first."""
    jobs = [
        ShardJob(run_.key, run_.fingerprint, run_.task.folder, shard)
        for run_ in runs
        for shard in run_.todo()
    ]
    return sorted(jobs, key=lambda job: (-job.shard.characters, job.run_key, job.shard.number))


def write_run_record(run_: Run) -> None:
    """run.json: what identifies the run, and the circumstances of its first start."""
    key = f"{run_.key}/run.json"
    if not run_.store.exists(key):
        run_.store.write_json(
            key,
            {
                "task": run_.task.name,
                "task_fingerprint": run_.task.fingerprint,
                "model": run_.model,
                "fingerprint": run_.fingerprint,
                "identity": run_.identity,
                "circumstances": describe_process(),
            },
        )


def _engine(
    suite: Suite, store: Store, model: ModelSpec, runs: list[Run], jobs: list[ShardJob]
) -> Iterator[Outcome]:
    spec = suite.spec
    engine = spec.engine
    if engine == "auto":
        # a model without weights has nothing to fan out; starting Ray would be all the work
        engine = "inline" if ADAPTERS[model.adapter].weightless and not spec.cluster else "ray"
    worker = WorkerSpec(
        store_root=str(store.root),
        model=model,
        placement=placement_of(model),
        revision=resolve_weights(model).revision,
        session=Session.new(engine),
        token_budget=spec.token_budget,
        max_deaths=spec.max_deaths,
    )
    if engine == "inline":
        return run_inline(jobs, worker)
    return _ray(suite, worker, jobs, lambda: todo_of(runs))


def _ray(
    suite: Suite, worker: WorkerSpec, jobs: list[ShardJob], todo: Callable[[], list[ShardJob]]
) -> Iterator[Outcome]:
    from cluster.fanout import Fanout, run_on_ray

    spec = suite.spec
    cluster = load_cluster(suite.root, spec.cluster) if spec.cluster else None
    fanout = Fanout(
        address=cluster.address if cluster else "",
        workers=spec.workers or (cluster.workers if cluster else None),
        num_cpus=spec.num_cpus,
        shard_timeout=spec.shard_timeout,
    )
    return run_on_ray(jobs, worker, fanout, todo)


def _problem(suite: Suite, run_: Run) -> str:
    """What keeps a run from counting as done: missing shards, or too many pairs without score."""
    receipts = run_.receipts()
    try:
        run_.require_complete(receipts)
    except IncompleteRun as error:
        return str(error)
    run_.record_recipe(receipts)
    failed = sum(receipt["failed"] for receipt in receipts.values())
    if failed > suite.spec.max_failed_pairs:
        return (
            f"run {run_.model} on {run_.task.name} ({run_.fingerprint}) has {failed} pairs without "
            f"a score (max_failed_pairs is {suite.spec.max_failed_pairs}); everything else is "
            "scored; --retry-failed tries them again"
        )
    return ""
